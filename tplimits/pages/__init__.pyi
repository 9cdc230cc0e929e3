from . import rendering as rendering
