from . import feature_learning as feature_learning
from . import operator as operator
