from . import evaluation as evaluation
from . import folder as folder
from . import grams as grams
from . import mixture as mixture
from . import request as request
