from . import judged as judged
from . import recipe as recipe
