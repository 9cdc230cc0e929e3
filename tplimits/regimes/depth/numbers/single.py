"""Means of weights that read one Gaussian scalar each, E f(S) and E f(S) h(S′), by quadrature in one or two variables.

Of elementwise functions of logits, as tanh(S), the law of two scalars is all that a drift needs: no draws.  S may be a
sum of what is Gaussian together, as (W h + Z h)/√2, or Σ_k c_k h_k over the tokens of a convolution, also with constant
arrays in front, as the slopes of heads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
from sympy import Add, Expr, Function, Mul, S, cancel

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry
from tplimits.program.nodes.evaluate import evaluate
from tplimits.regimes.depth.algebra.means import GaussianMean, U
from tplimits.regimes.depth.numbers.covariance import mean_function, within_bounds

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.derivation.scalars.limits import Weight

#: pairs of scalars beyond which draws cost less
_MOST_PAIRS = 1 << 16
#: errors of quadrature above this part of the largest value: draws tell their error
_SETTLED = 1e-9
#: pairs that have not settled beyond which draws cost less, and 1 − ρ² of those that are no pair
_MOST_NESTED, _SAME = 32, 1e-13
#: routes that take all pairs at once
_FAST = ("closed", "expansion", "panels")
#: deviations up to which a function counts, and how large it may be there
_FAR, _LARGE = 12, 1e6
#: the covariances of two averages at all of their indices, by the positions of the averages
Law = Callable[[int, int], Array]


class Term(NamedTuple):
    """A product of constant arrays and one Gaussian scalar, the average `source`, summed over bound indices.

    Indices are numbers: those below the number of axes of the weight are these axes, others are summed over.
    """

    source: int
    places: tuple[int, ...]
    arrays: tuple[tuple[int, tuple[int, ...]], ...] = ()


#: Σ coefficient · term
Linear = dict[Term, Expr]


@dataclass(frozen=True)
class Single:
    """A weight f(S), f a function of U, and S a sum of Gaussian scalars of mean zero."""

    program: Program
    function: Expr
    read: tuple[tuple[Term, Expr], ...]
    axes: int


class _SeveralError(Exception):
    """A function of more than one sum of scalars."""


def singles(weight: Weight) -> tuple[Single, ...] | None:
    """The weight as a sum of functions of one scalar each, as max(S, S′) = S + relu(S′ − S); None where it is none."""
    if (whole := _single(weight)) is not None:
        return (whole,)
    number, function = weight.function.as_coeff_Mul()
    terms = [_single(replace(weight, function=number * a)) for a in Add.make_args(function)]
    found = tuple(term for term in terms if term is not None)
    return found if len(found) == len(terms) else None


def _single(weight: Weight) -> Single | None:
    """The weight as a function of one scalar; None where it reads several."""
    found: list[Linear] = []
    try:
        function = _of_one(weight, weight.function, found)
    except _SeveralError:
        return None
    held = {i for linear in found for t in linear for i in (*t.places, *(j for _, at in t.arrays for j in at))}
    if not held.issuperset(range(len(weight.axes))):
        return None
    return Single(weight.program, function, tuple(found[0].items()), len(weight.axes))


def _of_one(weight: Weight, expr: Expr, found: list[Linear]) -> Expr:
    """An expression with its largest linear parts, multiples of the first of them, in terms of U."""
    if not expr.has(Entry, ArrayEntry, AxisSum):
        return expr
    linear = _linear(weight, expr, {})
    if linear is None:
        if isinstance(expr, (Entry, ArrayEntry, AxisSum)):
            raise _SeveralError
        # of a sum all linear terms are one part: h₁ + h₂ + tanh(h₁ + h₂)
        parts = [a for a in expr.args if expr.is_Add and _linear(weight, a, {}) is not None]
        whole = [Add(*parts), *(a for a in expr.args if a not in parts)] if parts else expr.args
        return expr.func(*(_of_one(weight, a, found) for a in whole))
    if not found:
        found.append(linear)
    ratios = {cancel(linear[t] / c) for t, c in found[0].items() if t in linear}
    if linear.keys() != found[0].keys() or len(ratios) > 1:
        raise _SeveralError
    return ratios.pop() * U


def _linear(weight: Weight, expr: Expr, bound: Mapping[Expr, int]) -> Linear | None:
    """A sum of multiples of scalars; None for what is no such sum, or vanishes."""
    if isinstance(expr, Entry):
        at = _numbered(weight, expr, bound)
        # V is no Gaussian scalar
        return None if at is None or expr.source == weight.program.state else {Term(expr.source, at): S.One}
    if isinstance(expr, AxisSum):
        return _linear(weight, expr.summand, {**bound, expr.bound: len(weight.axes) + len(bound)})
    if isinstance(expr, Add):
        total: Linear = {}
        for part in (_linear(weight, a, bound) for a in expr.args):
            if part is None:
                return None
            total |= {t: total.get(t, S.Zero) + c for t, c in part.items()}
        return total if all(c != 0 for c in total.values()) else None
    if not isinstance(expr, Mul):
        return None
    scalars = [a for a in expr.args if a.has(Entry, AxisSum)]
    arrays = [a for a in expr.args if a.has(ArrayEntry) and a not in scalars]
    found = _linear(weight, scalars[0], bound) if len(scalars) == 1 else None
    there = [_numbered(weight, a, bound) if isinstance(a, ArrayEntry) else None for a in arrays]
    if found is None or None in there:
        return None
    front = tuple((a.array, at) for a, at in zip(arrays, there, strict=True) if at is not None)
    number = Mul(*(a for a in expr.args if a not in scalars and a not in arrays))
    return {t._replace(arrays=tuple(sorted((*t.arrays, *front)))): number * c for t, c in found.items()}


def _numbered(weight: Weight, leaf: Expr, bound: Mapping[Expr, int]) -> tuple[int, ...] | None:
    """The indices of an entry as numbers; None where one is a look-up or a single member."""
    known = {**{a: k for k, a in enumerate(weight.axes)}, **bound}
    return tuple(known[i] for i in leaf.indices) if all(i in known for i in leaf.indices) else None


def mean(weights: Sequence[Single], law: Law, values: Mapping[Expr, float]) -> Array | None:
    """E of one or two weights at all of their indices, those of the first before those of the second.

    None where there are too many, or where quadrature does not settle.
    """
    laws = [_covariance(w, law, values) for w in weights]
    if len(weights) > 1:
        first, second = laws
        between = _covariance(weights[0], law, values, weights[1])
        laws = [first.reshape((*first.shape, *(1,) * second.ndim)), between, second]
    if max(c.size for c in laws) > _MOST_PAIRS:
        return None
    function = mean_function(GaussianMean(tuple(w.function for w in weights), (), 0), values)
    read = list(zip(weights, laws[::2], strict=True))
    if function.route not in _FAST or (function.route != "closed" and not all(_is_seen(w, v, values) for w, v in read)):
        return None
    # beside what is typical: means of odd functions are zero
    size = math.prod(_size(w, v, values, 1) for w, v in read)
    given = numpy.broadcast_arrays(*within_bounds(laws))
    try:
        value, error = replace(function, nested=False)(*given)
        most = _SETTLED * max(abs(value).max(initial=0.0), size)
        left = error > most
        # nested integrals take longer for each of many pairs than all draws; those of a scalar with itself are one
        if left.any() and _apart(*(c[left] for c in given)) <= _MOST_NESTED:
            value[left], error[left] = function(*(c[left] for c in given))
    except EvaluationError:
        return None
    return value if error.max(initial=0.0) <= most else None


def _apart(first: Array, both: Array | None = None, second: Array | None = None) -> int:
    """How many pairs of scalars are not one and the same."""
    if both is None or second is None:
        return 0
    rounding = _SAME * first * second
    return len(numpy.unique(numpy.stack([first, both, second])[:, first * second - both**2 > rounding], axis=1).T)


def _is_seen(one: Single, variances: Array, values: Mapping[Expr, float]) -> bool:
    """Whether quadrature settles soon: what grows as exponentials of S do, but for those in waves and exponentials."""
    parts = [a for f in one.function.atoms(Function) for a in f.args if a.has(U)]
    most = _LARGE if any(cancel(a.diff(U)).has(U) for a in parts) else math.inf
    return _size(one, variances, values, _FAR) < most


def _size(one: Single, variances: Array, values: Mapping[Expr, float], deviations: float) -> float:
    """How large a function is so many deviations away from 0."""
    at = deviations * numpy.sqrt(variances.max(initial=0.0))
    with numpy.errstate(all="ignore"):
        return float(numpy.abs(evaluate(one.function, {**values, U: numpy.array([-at, at])})).max())


def _covariance(one: Single, law: Law, values: Mapping[Expr, float], other: Single | None = None) -> Array:
    """The variance of a scalar at the axes of its weight, or its covariance with another at those of both."""
    second = one if other is None else other
    # the axes of one weight, those of the other, and what each of them sums over
    beyond, apart = (0 if other is None else one.axes), one.axes + second.axes
    kept = range(one.axes if other is None else apart)
    total: Any = 0.0
    for (t, a), (u, b) in itertools.product(one.read, second.read):
        here = [i if i < one.axes else i + apart for i in range(_indices(one))]
        there = [i + beyond if i < second.axes else i + apart + _indices(one) for i in range(_indices(second))]
        operands: list[Any] = [law(t.source, u.source), [*(here[i] for i in t.places), *(there[i] for i in u.places)]]
        for single_, term, at in ((one, t, here), (second, u, there)):
            for array, places in term.arrays:
                operands += [single_.program.arrays[array].values, [at[i] for i in places]]
        number = float(numpy.asarray(evaluate(a * b, dict(values))))
        # a term without an index is the same at all of them
        held = [i for i in kept if any(i in at for at in operands[1::2])]
        found = numpy.einsum(*operands, held)
        total = total + number * numpy.expand_dims(found, [k for k, i in enumerate(kept) if i not in held])
    return numpy.asarray(total)


def _indices(one: Single) -> int:
    """How many indices its terms have, with those that are summed over."""
    return max([one.axes, *(1 + i for t, _ in one.read for i in (*t.places, *(j for _, at in t.arrays for j in at)))])
