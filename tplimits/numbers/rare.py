"""How many points of a sample a mean rests on: none, or a handful, tell neither the mean nor its error.

    E relu(x1 + … + x5 − 12) = 1.6e-8: of 32 768 particles none has anything but 0, and so their spread is 0

What is 0 at all points is looked at on a wider law: what is 0 by identity is 0 there, too.  What is 0 at the outermost
nodes of a quadrature is looked at further out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy
import scipy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.number import SMALLEST

#: fewer points than this tell no mean
FEW = 10
#: how many times wider the law is on which zeros are looked at again
WIDER = 3.0
#: an entry that makes a mean has this share of the largest
_SHARE = 1e-2

#: where something is looked for beyond all nodes: from so many times as far, at so many times as far
_FARTHER = ((1.0, 1.5), (1.5, 3.0), (3.0, 100.0))

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


def beyond(f: Callable[[Array], Array], radius: float, rank: int) -> float:
    """What may lie further out than the outermost nodes, at a radius, where a function f is 0: tanh(relu(x − 20)).

    f takes nodes (1, count, rank).  What is that small may have no double: E step(x − 50) is 0 ± the smallest one.

    >>> bound = beyond(lambda u: (u[..., 0] ** 2 > 400) * 1.0, 13.0, 1)
    >>> 5.507e-89 < bound < 1e-80
    True
    """
    ways = numpy.array([w for w in itertools.product((0, 1, -1), repeat=rank) if any(w)], dtype=float)
    ways *= radius / numpy.linalg.norm(ways, axis=1, keepdims=True)
    unseen = 0.0
    for nearer, farther in _FARTHER:
        values = abs(f(farther * ways[None]))
        most = float(numpy.where(numpy.isfinite(values), values, 0.0).max())
        share = float(scipy.special.gammaincc(rank / 2, (nearer * radius) ** 2 / 2))
        unseen += max(SMALLEST, share * most) if most else 0.0
    return unseen
