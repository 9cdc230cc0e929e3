"""The types of arrays: of real numbers, and of anything."""

from typing import Any

import numpy
from numpy.typing import NDArray

Array = NDArray[numpy.float64]
AnyArray = NDArray[Any]
