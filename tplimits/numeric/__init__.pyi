from . import covariance as covariance
from . import evaluation as evaluation
