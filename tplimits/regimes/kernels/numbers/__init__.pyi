from . import evaluation as evaluation
from . import mixture as mixture
from . import request as request
