from . import document as document
from . import film as film
from . import views as views
