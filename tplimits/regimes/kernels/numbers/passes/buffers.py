"""Large arrays that are used again: fresh memory of the system costs more than what is computed in it."""

from __future__ import annotations

import math
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

#: bytes of the smallest array that is kept
_LARGE = 1 << 17
_FREE = threading.local()


def empty(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array with any content, one that was let go where there is one of this size."""
    size = math.prod(shape) * numpy.dtype(dtype).itemsize
    waiting = getattr(_FREE, "arrays", {}).get(size)
    if waiting:
        return waiting.pop().view(dtype).reshape(shape)
    return numpy.empty(shape, dtype)


def let_go(value: Labelled) -> None:
    """Keep the array of a value for later, where nothing else refers to the value, its array or the memory below."""
    array = value.array
    if not isinstance(array, numpy.ndarray):  # the parts of a law
        return
    base = array if array.base is None else array.base
    whole = isinstance(base, numpy.ndarray) and base.base is None and base.nbytes == array.nbytes >= _LARGE
    if not whole or not array.flags.c_contiguous or sys.getrefcount(value) > 3:
        return
    if sys.getrefcount(array) == 3 + (base is array) and (base is array or sys.getrefcount(base) == 3):
        if not hasattr(_FREE, "arrays"):
            _FREE.arrays = {}
        _FREE.arrays.setdefault(array.nbytes, []).append(base.reshape(-1).view(numpy.uint8))


def forget() -> None:
    """Give the memory back."""
    _FREE.arrays = {}
