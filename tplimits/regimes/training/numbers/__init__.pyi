from . import feature_learning as feature_learning
from . import moments as moments
from . import operator as operator
from . import operator_request as operator_request
from . import request as request
from . import scalars as scalars
