"""Means of functions of several variables that are sums of products of at most two functions of linear forms.

    max(a, b) = b + relu(a − b)        min(a, b) = a − relu(a − b)        where(c, a, b) = b + (a − b) step(c)

E max(a, b) max(c, d) is four means of pairs of forms, each with a formula, instead of a quadrature over four variables.
Factors that are variables leave by parts (Stein's lemma), where the others are smooth:

    E a b g(c, d) = Cov(a, b) E g + Σ Cov(a, i) Cov(b, j) E ∂_i ∂_j g,   i, j among c, d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr, S, Symbol

from tplimits.arrays import Array
from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.bounds import may_vanish_below
from tplimits.numbers.forms import lower
from tplimits.numbers.moments.determinants import full, gram_determinant, refuse_indefinite
from tplimits.program.nodes.functions import maximum, minimum, relu, step, where
from tplimits.program.nodes.hidden_jumps import derivative
from tplimits.program.nodes.properties import is_entire
from tplimits.program.parts import addends

if TYPE_CHECKING:
    from tplimits.numbers.moments.function import MomentFunction

#: coefficients of a linear form
Row = tuple[float, ...]
#: forms whose covariances multiply the mean, pair by pair; the forms of the mean, and the function of them
Term = tuple[tuple[tuple[Row, Row], ...], tuple[Row, ...], Expr]
#: the same with the mean itself
Part = tuple[tuple[tuple[Row, Row], ...], tuple[Row, ...], "MomentFunction"]
_FORMS = sympy.symbols("ℓ1 ℓ2", real=True)
#: more terms than this are integrated as they are
_MOST_TERMS = 64
#: determinants below this share of the terms that they are computed from are rounding
_ROUNDED = 90 * float(numpy.finfo(float).eps)


def parts(
    function: Expr, variables: Sequence[Symbol], moment: Callable[[Expr, tuple[Symbol, ...]], MomentFunction]
) -> tuple[Part, ...]:
    """The function as a sum of functions of one or two forms that have a formula or an expansion; () where it is none.

    >>> from tplimits.numbers.moments.function import moment
    >>> a, b, c, d = sympy.symbols("a b c d", real=True)
    >>> len(parts(maximum(a, b) * maximum(c, d), (a, b, c, d), moment)), parts(a * sympy.tanh(b * c), (a, b, c), moment)
    (4, ())
    """
    if may_vanish_below(function):  # terms may be infinite where their sum is not
        return ()
    terms = list(islice(addends(_unfolded(function, set(variables))), _MOST_TERMS + 1))
    found: dict[tuple[tuple[tuple[Row, Row], ...], tuple[Row, ...]], Expr] = {}
    for term in terms if len(terms) <= _MOST_TERMS else ():
        read = _of_forms(term, variables)
        if read is None:
            return ()
        for weights, rows, body in read:
            found[weights, rows] = found.get((weights, rows), S.Zero) + body
    laws = {rows: _FORMS[: max(len(rows), 1)] for _, rows in found}
    if any(products(body, laws[rows]) is None for (_, rows), body in found.items()):
        return ()
    return tuple((weights, rows, moment(body, laws[rows])) for (weights, rows), body in found.items())


def _unfolded(expr: Expr, variables: set[Symbol]) -> Expr:
    """Maxima, minima and alternatives of several variables as sums."""
    if not expr.has(maximum, minimum, where):
        return expr
    args = [_unfolded(a, variables) for a in expr.args]
    if len(expr.free_symbols & variables) > 1 and isinstance(expr, (maximum, minimum, where)):
        if isinstance(expr, where):
            return args[2] + (args[1] - args[2]) * step(args[0])
        a, b = args
        return b + relu(a - b) if isinstance(expr, maximum) else a - relu(a - b)
    return expr.func(*args) if args else expr


def _of_forms(term: Expr, variables: Sequence[Symbol]) -> list[Term] | None:
    """The term as a function of forms, with factors left out by parts; None for more than two forms."""
    read = lower(term, variables, independent(variables))
    if read.locals:
        return None
    body, rows = read.body, dict[Row, Expr]()
    for symbol, form in read.forms:
        slopes = dict(form.slope)
        if any(not c.is_number for c in (*slopes.values(), form.constant)):
            return None
        row = tuple(float(slopes.get(v, 0)) for v in variables)
        body = body.xreplace({symbol: rows.setdefault(row, sympy.Dummy(real=True)) + form.constant})
    powers = {tuple(float(v == variable) for v in variables): power for variable, power in read.polynomial}
    apart = [row for row, power in powers.items() if power == 1 and row not in rows]
    whole = {*rows, *powers}
    outer = apart if len(whole) > len(_FORMS) and len(apart) <= len(_FORMS) else []
    for row in powers.keys() - set(outer):
        body *= rows.setdefault(row, sympy.Dummy(real=True)) ** powers[row]
    if len(rows) > len(_FORMS) or (outer and not is_entire(body, *rows.values())):
        return None
    ordered = tuple(sorted(rows))
    places = dict(zip(ordered, _FORMS, strict=False))
    body = body.xreplace({rows[row]: symbol for row, symbol in places.items()})
    return [(weights, ordered, found) for weights, found in _without(outer, body, places)]


def _without(outer: Sequence[Row], body: Expr, places: Mapping[Row, Symbol]) -> Iterator[tuple[Any, Expr]]:
    """Covariances and derivatives whose means add up to that of the forms `outer` times a function of others."""
    if not outer:
        yield (), body
        return
    first, *others = outer
    for other in others:
        rest = [row for row in others if row is not other]
        yield from (((*more, (first, other)), found) for more, found in _without(rest, body, places))
    for row, symbol in places.items():
        slope = derivative(body, symbol)
        yield from (((*more, (first, row)), found) for more, found in _without(others, slope, places))


def mean_of_parts(known: Sequence[Part], covariances: Sequence[Array], size: int) -> tuple[Array, Array]:
    """(value, error) at arrays (N,) of the upper triangle of the covariance of `size` variables."""
    grams = full(covariances, size)
    refuse_indefinite(grams)
    value, error = numpy.zeros(len(grams)), numpy.zeros(len(grams))
    for weights, rows, mean in known:
        found = _mean(numpy.array(rows).reshape(-1, size), mean, grams)
        factor = numpy.ones(len(grams))
        for a, b in weights:
            factor = factor * (numpy.array(a) @ grams @ numpy.array(b))
        value, error = value + factor * found[0], error + abs(factor) * found[1]
    return value, error


def _mean(rows: NDArray[numpy.float64], mean: MomentFunction, grams: Array) -> tuple[Array, Array]:
    if not len(rows):
        return mean(numpy.zeros(len(grams)))
    law = rows @ grams @ rows.T
    sizes = numpy.einsum("nii->ni", abs(rows) @ abs(grams) @ abs(rows).T)
    variances = numpy.einsum("nii->ni", law)
    variances = numpy.where(variances > _ROUNDED * sizes, variances, 0.0)
    if len(rows) == 1:
        value, error = mean(variances[:, 0])
    else:
        bound = numpy.sqrt(variances[:, 0] * variances[:, 1])
        cross = numpy.clip(law[:, 0, 1], -bound, bound)
        det = gram_determinant(variances[:, 0], cross, variances[:, 1])
        det = numpy.where(det > _ROUNDED * sizes[:, 0] * sizes[:, 1], det, 0.0)
        value, error = mean(variances[:, 0], cross, variances[:, 1], det=det)
    lost = numpy.where(variances > 0, sizes / numpy.where(variances > 0, variances, 1.0), 0.0).sum(axis=1)
    return value, error + _ROUNDED * lost * abs(value)


#: more terms than this are integrated as they are
_MOST_TERMS = 64


def products(function: Expr, variables: Sequence[Symbol]) -> tuple[tuple[Expr, Expr], ...] | None:
    """(f, h) with F = Σ f(g1) h(g2), None where F is no such sum; h = 1 for one variable."""
    if len(variables) == 1:
        return ((function, S.One),)
    # a product as it stands, before anything is multiplied out: one pair of functions instead of many
    together = _split(function, variables)
    if together is not None:
        return (together,)
    terms = list(addends(function))
    if len(terms) == 1 or len(terms) > _MOST_TERMS:
        return None
    collected: dict[Expr, Expr] = {}
    for term in terms:
        found = _split(term, variables)
        if found is None:
            return None
        collected[found[1]] = collected.get(found[1], S.Zero) + found[0]
    return tuple((collected[h], h) for h in sorted(collected, key=sympy.default_sort_key))


def _split(product: Expr, variables: Sequence[Symbol]) -> tuple[Expr, Expr] | None:
    sides: list[list[Expr]] = [[], []]
    for factor in sympy.Mul.make_args(product):
        mine = [i for i, v in enumerate(variables) if v in factor.free_symbols]
        # exp(x + y) = exp(x) exp(y)
        if len(mine) == 2 and isinstance(factor, sympy.exp) and factor.args[0].is_Add:
            parts = [sympy.exp(a) for a in factor.args[0].args]
            inner = _split(sympy.Mul(*parts, evaluate=False), variables)
            if inner is None:
                return None
            for side, part in zip(sides, inner, strict=True):
                side.append(part)
            continue
        if len(mine) == 2:
            return None
        sides[mine[0] if mine else 0].append(factor)
    return sympy.Mul(*sides[0]), sympy.Mul(*sides[1])
