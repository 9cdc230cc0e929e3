"""Draws of Gaussian scalars that see where exponentials of them have their means.

S = Z·root(C), with Z from scrambled Sobol points through the normal quantile.  Beside these stand draws shifted by C a,
a the slopes at which a function grows (`slopes`), in equal parts; each draw counts by

    p/q = 1/(c₀ + Σ_a c_a exp(a·S − a·C a/2)),        c the parts,

p the density of S and q that of all draws together (Veach & Guibas, SIGGRAPH 1995, the balance heuristic).  With
|F| ≤ P Σ exp(a·S) every draw counts by no more than Σ P exp(a·C a/2)/c_a: no mean rests on what no draw has met.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.roots import composed, spectrum
from tplimits.numbers.sobol import normal_points
from tplimits.regimes.depth.numbers.paths import REPLICATES

#: points of each scrambling: so many numbers at a single V, the fewest points in every step of paths
_POINTS, _NUMBERS, _MOST_POINTS = 512, 1 << 18, 1 << 13
#: what of covariances is rounding
_ROUNDING = 1e-12
#: dimensions of a Sobol sequence
_MOST = 21201
#: fewer draws at which a function is not 0 tell nothing of its mean
_FEWEST = 8
#: points of each slope
_EACH = 8
#: tail index of squares that draws do not settle: that of exp(2 x) for a standard normal x is 0.75
_HEAVIEST = 0.75


class Draws(NamedTuple):
    """Points (points, scalars), and how much each counts: 1 on average."""

    points: Array
    counts: Array | None = None


def draws(law: Array, steep: Array | None, replicate: int, quick: bool = False) -> Draws:
    """Draws of one scrambling, led into some slopes, (slopes, scalars); None and no slopes are the same."""
    leaders, place, ratio = _parallel(law)
    values, vectors = spectrum(law[numpy.ix_(leaders, leaders)])
    # the symmetric root, which moves smoothly with V where eigenvalues meet
    root = composed(numpy.sqrt(values.clip(0.0)), vectors)
    count = _count(len(leaders), quick)
    if steep is None or not len(steep):
        return Draws((_drawn(len(leaders), replicate, count) @ root)[:, place] * ratio)
    # as many again for every quarter, of which one is not led
    each = max(_EACH, 1 << (3 * count // len(steep)).bit_length() >> 1)
    plain = max(count, each)
    standard = _drawn(len(leaders), replicate, plain + each * len(steep))
    shifts = steep @ law
    moved = numpy.concatenate([numpy.zeros((plain, len(leaders))), numpy.repeat(shifts[:, leaders], each, axis=0)])
    points = (standard @ root + moved)[:, place] * ratio
    halves = numpy.einsum("ai,ai->a", shifts, steep) / 2
    with numpy.errstate(over="ignore"):
        against = plain + each * numpy.exp(points @ steep.T - halves).sum(axis=1)
    return Draws(points, len(points) / against)


def insist_on_seen(values: Array) -> None:
    """EvaluationError where squares of a function at draws, (points, …), have a tail that so many draws do not settle.

    Hill's estimate of the index of the tail by the largest hundredth, Ann. Statist. 3 (1975): 0 of what is bounded and
    reached, 1/α where P(f > t) ~ t^(−α).
    """
    with numpy.errstate(all="ignore"):
        largest = numpy.sort(values.reshape(len(values), -1) ** 2, axis=0)[-max(8, len(values) // 100) :]
        index = numpy.log(largest / largest[0]).mean(axis=0)
    # what is no number, or too large for one, is refused as that; what is 0 at nearly all draws has no index
    if (worst := float(index[numpy.isfinite(index)].max(initial=0.0))) > _HEAVIEST:
        raise EvaluationError(
            f"the mean square of a function of logits of order 1 rests on the few largest of {len(values)} draws (tail "
            f"index {worst:.2g}, at most {_HEAVIEST}), and draws cannot be led to where it is made: how the function "
            "grows is not known, or it grows in too many directions. Scale V or the logits down, or bound the function."
        )


def insist_on_met(values: Array) -> None:
    """EvaluationError where a function of logits is 0 at nearly all draws, (points, …), and may be large elsewhere."""
    met = int((values != 0).reshape(len(values), -1).any(axis=1).sum())
    if met < _FEWEST <= len(values):
        raise EvaluationError(
            f"a function of logits of order 1 is 0 at all but {met} of {len(values)} draws: what it is elsewhere is "
            "not seen. Scale V or the logits up, or take a function that more of them meet."
        )


def _count(dimension: int, quick: bool) -> int:
    if dimension > _MOST:
        raise EvaluationError(f"{dimension} scalars of order 1 are more than {_MOST}: take fewer tokens or heads.")
    return _POINTS if quick else max(_POINTS, min(_MOST_POINTS, 1 << (_NUMBERS // dimension).bit_length() >> 1))


def _parallel(law: Array) -> tuple[NDArray[numpy.intp], NDArray[numpy.intp], Array]:
    """Scalars of which no two are multiples of each other, and for each of all which one it is a multiple of, and how.

    Those of equal tokens are equal in networks, where a jump of their difference is not met: rounding would pass it.
    """
    size = numpy.sqrt(numpy.diag(law))
    # what is 0 is no multiple of anything but as 0 times it
    together = (numpy.abs(law) >= (1 - _ROUNDING) * numpy.outer(size, size)) & (size > 0)
    first = together.argmax(axis=1)
    leaders, place = numpy.unique(first, return_inverse=True)
    variances = numpy.diag(law)[first]
    ratio = law[numpy.arange(len(law)), first] / numpy.where(variances > 0, variances, 1.0)
    near = numpy.abs(numpy.abs(ratio) - 1) < _ROUNDING
    return leaders, place, numpy.where(near, numpy.sign(ratio), ratio)


def all_apart(law: Array) -> bool:
    """Whether no scalar is still, or a multiple of another: of those that are, differences are 0."""
    return bool(numpy.diag(law).all()) and len(_parallel(law)[0]) == len(law)


@lru_cache(maxsize=2 * REPLICATES)
def _drawn(dimension: int, replicate: int, points: int) -> Array:
    return normal_points(dimension, points, (dimension, replicate))
