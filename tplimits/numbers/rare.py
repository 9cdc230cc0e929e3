"""How many points of a sample a mean rests on: none, or a handful, tell neither the mean nor its error.

    E relu(x1 + … + x5 − 12) = 1.6e-8: of 32 768 particles none has anything but 0, and so their spread is 0

What is 0 at all points is looked at on a wider law: what is 0 by identity is 0 there, too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError

#: fewer points than this tell no mean
FEW = 10
#: how many times wider the law is on which zeros are looked at again
WIDER = 3.0
#: an entry that makes a mean has this share of the largest
_SHARE = 1e-2

#: points that make each entry of an array
Counts = NDArray[numpy.int64]


def hits(values: Array) -> Counts:
    """How many entries along the last axis make their mean: 0 of zeros.

    >>> hits(numpy.array([[0.0, 0.0, 2.0], [1.0, -1.0, 1e-9], [0.0, 0.0, 0.0]])).tolist()
    [1, 2, 0]
    """
    sizes = abs(values)
    with numpy.errstate(invalid="ignore"):
        most = sizes.max(axis=-1, keepdims=True)
        return numpy.asarray(((sizes >= _SHARE * most) & (sizes > 0)).sum(axis=-1))


def hits_of_all(values: Array) -> Counts:
    """How many entries of a whole array make its mean, (1,); of what is alike at all points they all do."""
    return hits(numpy.broadcast_to(values, values.shape or (FEW,)).reshape(1, -1))


def refuse_rare(found: Mapping[str, Counts], wider: Mapping[str, Counts], points: int, few: int = FEW) -> None:
    """EvaluationError where fewer than a `few` of so many points make a mean; none may where none does elsewhere."""
    for name, counts in found.items():
        seen = numpy.where(counts > 0, counts, numpy.where(wider.get(name, 0), 0, few))
        if (least := int(seen.min(initial=few))) < few:
            raise EvaluationError(
                f"moment not established: of {points} particles {least or 'none'} make{'s' * (least == 1)} the mean "
                f"`{name}`, which is not 0: their spread says nothing of its error. Give more particles, or make the "
                "function less rare."
            )


def unseen(found: Mapping[str, Counts]) -> bool:
    """Whether some mean is 0 at all points."""
    return any((counts == 0).any() for counts in found.values())
