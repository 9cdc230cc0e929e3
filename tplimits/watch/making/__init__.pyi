from . import asked as asked
from . import recorder as recorder
