from . import coordinates as coordinates
from . import depth as depth
from . import kernels as kernels
from . import outputs as outputs
from . import recipe as recipe
from . import verdict as verdict
