from . import limit as limit
