from . import covariance as covariance
from . import simulation as simulation
from . import validity as validity
from . import weights as weights
