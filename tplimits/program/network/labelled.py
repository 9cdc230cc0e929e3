"""What a loss by name is given: targets, which inputs are trained on, weights."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError, shown
from tplimits.program.nodes.given import real_array
from tplimits.program.nodes.listed import array_of

Array = NDArray[numpy.float64]
Mask = NDArray[numpy.bool_]
#: different targets above which a squared loss is that of a regression, which has no accuracy
_MOST_CLASSES = 64


def numbers(given: Any) -> Array | None:
    """Real numbers, NaN among them; None for anything else."""
    try:
        found = array_of(given)
        return None if numpy.iscomplexobj(found) else numpy.array(found, dtype=numpy.float64)
    except Exception:  # conversion to arrays runs the code of users
        return None


def classes_of(targets: Array) -> Array:
    """The different targets that are known, (classes, entries); none where they are those of a regression.

    Classes are written in whole numbers, such as −1 and 1, 0 to 9 or a one among zeros, or in two numbers that are
    repeated, such as 0.9 and −0.1; any other real number is a value to be met, however few of them there are.
    """
    rows = targets.reshape(len(targets), -1)
    known = rows[numpy.isfinite(rows).all(axis=1)]
    entries = numpy.unique(known)
    written = (entries == numpy.round(entries)).all() or len(entries) == 2 < known.size
    found = numpy.unique(known, axis=0)
    return found if written and 2 <= len(found) <= _MOST_CLASSES else found[:0]


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, which is not changed any more."""
    array.setflags(write=False)
    return array


def weights_of(call: str, weights: Any, shape: tuple[int, ...]) -> Array:
    """One weight for each target; one for each input is that of all its targets."""
    if weights is None:
        return fixed(numpy.ones(shape))
    found = real_array(f"{call}(weights=…)", weights)
    if found.shape not in (shape, shape[:1]):
        raise EvaluationError(f"{call}(weights=…) has shape {found.shape}; give {shape}, one for each target.")
    if (found < 0).any():
        raise EvaluationError(f"{call}(weights=…) holds {found.min():g}; weights are not negative.")
    return fixed(numpy.array(numpy.broadcast_to(found.reshape(found.shape + (1,) * (len(shape) - found.ndim)), shape)))


def mask_of(call: str, train: Any, inputs: int) -> Mask:
    """Which inputs are trained on, from a mask or from their numbers."""
    if train is None:
        return fixed(numpy.ones(inputs, dtype=bool))
    try:
        given = array_of(train)
    except Exception:  # rows of different lengths, what has no end, and the code of users
        given = numpy.empty((0, 0))
    mask = numpy.zeros(inputs, dtype=bool)
    if given.dtype == bool and given.shape == (inputs,):
        mask |= given
    elif given.ndim == 1 and (given.dtype.kind in "iu" or not given.size) and _in_range(given, inputs):
        mask[given.astype(numpy.int64)] = True
    else:
        raise EvaluationError(
            f"{call}(train={shown(train, 60)}): give True or False for each of the {inputs} inputs, or some of their "
            "numbers."
        )
    if not mask.any():
        raise EvaluationError(f"{call}(train=…): the mask selects no input; there is nothing to train on.")
    return fixed(mask)


def _in_range(numbers: NDArray[Any], inputs: int) -> bool:
    return bool(((numbers >= -inputs) & (numbers < inputs)).all())
