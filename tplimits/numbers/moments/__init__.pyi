from . import function as function
