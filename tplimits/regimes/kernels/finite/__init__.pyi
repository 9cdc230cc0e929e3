from . import judged as judged
from . import orders as orders
