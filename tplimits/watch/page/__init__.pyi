from . import document as document
from . import film as film
