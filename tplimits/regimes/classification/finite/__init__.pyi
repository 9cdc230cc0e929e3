from . import coordinates as coordinates
