"""Means of weights that read one Gaussian scalar each, E f(S) and E f(S) h(S′), by quadrature in one or two variables.

Of elementwise functions of logits, as tanh(S), the law of two scalars is all that a drift needs: no draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, entries
from tplimits.program.nodes.evaluate import evaluate
from tplimits.regimes.depth.algebra.means import GaussianMean, U
from tplimits.regimes.depth.numbers.covariance import mean_function, within_bounds

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.scalars.order_one import Weight

#: pairs of scalars beyond which draws cost less
_MOST_PAIRS = 1 << 16
#: errors of quadrature above this part of the largest value: draws tell their error
_SETTLED = 1e-9
#: routes that take all pairs at once
_FAST = ("closed", "expansion", "panels")
#: deviations up to which a function counts, and how large it may be there
_FAR, _LARGE = 12, 1e6
#: the covariances of two averages at all of their indices, by the positions of the averages
Law = Callable[[int, int], Array]


@dataclass(frozen=True)
class Single:
    """A weight f(S), f a function of U and S the average `source` at places among the axes of the weight."""

    function: Expr
    source: int
    places: tuple[int, ...]


def single(weight: Weight) -> Single | None:
    """The weight as a function of one scalar; None where it reads several, or constant arrays."""
    read = entries(weight.function)
    if len(read) != 1 or weight.function.has(ArrayEntry, AxisSum) or set(read[0].indices) != set(weight.axes):
        return None
    if read[0].source == weight.program.state:  # a function of V
        return None
    places = tuple(weight.axes.index(i) for i in read[0].indices)
    return Single(weight.function.xreplace({read[0]: U}), read[0].source, places)


def mean(weights: Sequence[Single], law: Law, values: Mapping[Expr, float]) -> Array | None:
    """E of one or two weights at all of their indices, those of the first before those of the second.

    None where there are too many, or where quadrature does not settle.
    """
    laws = [_covariance(w, law) for w in weights]
    if len(weights) > 1:
        first, second = laws
        laws = [first.reshape(*first.shape, *(1,) * second.ndim), _covariance(weights[0], law, weights[1]), second]
    if max(c.size for c in laws) > _MOST_PAIRS:
        return None
    function = mean_function(GaussianMean(tuple(w.function for w in weights), (), 0), values)
    read = list(zip(weights, laws[::2], strict=True))
    far = max(_size(w, v, values, _FAR) for w, v in read)
    if function.route not in _FAST or (function.route != "closed" and not far < _LARGE):
        return None
    try:
        # what has not settled is drawn: nested integrals take longer for each of so many pairs than all draws
        value, error = replace(function, nested=False)(*within_bounds(laws))
    except EvaluationError:
        return None
    # beside what is typical: means of odd functions are zero
    size = math.prod(_size(w, v, values, 1) for w, v in read)
    return value if error.max(initial=0.0) <= _SETTLED * max(abs(value).max(initial=0.0), size) else None


def _size(one: Single, variances: Array, values: Mapping[Expr, float], deviations: float) -> float:
    """How large a function is so many deviations away from 0."""
    at = deviations * numpy.sqrt(variances.max(initial=0.0))
    with numpy.errstate(all="ignore"):
        return float(numpy.abs(evaluate(one.function, {**values, U: numpy.array([-at, at])})).max())


def _covariance(one: Single, law: Law, other: Single | None = None) -> Array:
    """The variance of a scalar at the axes of its weight, or its covariance with another at those of both."""
    beyond = 1 + max(one.places, default=-1)
    there = one.places if other is None else tuple(beyond + k for k in other.places)
    found: Any = law(one.source, one.source if other is None else other.source)
    held: Any = [*one.places, *there]
    kept: Any = sorted(set(held))
    return numpy.einsum(found, held, kept)
