from . import known as known
