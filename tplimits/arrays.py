"""The type of arrays of real numbers."""

import numpy
from numpy.typing import NDArray

Array = NDArray[numpy.float64]
