from . import checking as checking
from . import recorder as recorder
