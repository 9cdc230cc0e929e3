from . import chain as chain
from . import derived as derived
from . import finite as finite
from . import limit as limit
from . import run as run
