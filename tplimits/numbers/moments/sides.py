"""Means of products of functions of different variables, as gates of two inputs are: E f(x) h(y) by `several`.

A function that does not separate into functions of one variable each still separates into one of the variables of
either input.  What an expansion leaves open, as kinks of nearly equal inputs do, is integrated law by law, or drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import sympy
from sympy import Expr, S, Symbol

from tplimits.arrays import Array, distinct_rows
from tplimits.law.hypotheses.bounds import may_vanish_below
from tplimits.law.hypotheses.read_where import may_lie_far_out
from tplimits.numbers.moments.determinants import full, refuse_indefinite
from tplimits.numbers.moments.several import ORDERS, mean_of_products, rows
from tplimits.program.nodes.functions import BENT
from tplimits.program.parts import addends, apart

#: more terms, or more ways to group the factors of one, are left as they are
_MOST_TERMS, _MOST_FACTORS = 64, 6
#: errors above this share of √(E f² E h²) are not left, of few laws above the first; draws have more than the last
_ROUNDED, _SETTLED, _HOPED = 1e-10, 1e-5, 1e-3
#: so many laws are worth a higher order, whose coefficients take a fifth of a second
_FINER = 32
#: what covariances differ by where inputs do not
_EQUAL = 8 * float(numpy.finfo(float).eps)
#: variables of which quadrature takes no time to speak of, curved kinks of more take a minute; so many laws, else draws
_QUICK, _FEW = 3, 4
_NAMES = sympy.symbols(f"x1:{max(ORDERS) + 1}", real=True)

#: the mean of a function of variables at covariances, with its error
Rule = Callable[[Expr, Sequence[Symbol], Array], tuple[Array, Array]]
#: a function of variables by `_NAMES`, and the places of these
Side = tuple[Expr, tuple[int, ...]]


@dataclass(frozen=True)
class Product:
    """A function, and each of its terms as products of two sides, in all ways to group its factors."""

    function: Expr
    variables: tuple[Symbol, ...]
    terms: tuple[tuple[tuple[Side, Side], ...], ...]


def sides(function: Expr, variables: Sequence[Symbol], moment: Callable[..., Any]) -> tuple[Product, ...]:
    """The function as a sum of products of functions of different variables; () where it is none.

    >>> x, y, z = sympy.symbols("x y z", real=True)
    >>> [product.terms for product in sides(sympy.tanh(x + sympy.tanh(y)) * sympy.tanh(z), (x, y, z), None)]
    [((((tanh(x1), (2,)), (tanh(x1 + tanh(x2)), (0, 1))),),)]
    >>> sides(sympy.tanh(x * y * z), (x, y, z), None)
    ()
    """
    if may_vanish_below(function) or may_lie_far_out(function):  # E f² may be infinite, or beyond all nodes
        return ()
    if function.has(*BENT):  # coefficients fall slowly, and what they leave open at many laws takes longer than draws
        return ()
    whole = tuple(_groupings(function, variables))
    terms = (whole,) if whole else tuple(tuple(_groupings(term, variables)) for term in addends(function))
    return (Product(function, tuple(variables), terms),) if all(terms) and len(terms) <= _MOST_TERMS else ()


def _groupings(term: Expr, variables: Sequence[Symbol]) -> Iterator[tuple[Side, Side]]:
    """A product as two functions of few variables each, as few as can be."""
    constant, factors = apart(term, lambda factor: factor.free_symbols & set(variables))
    if not 1 < len(factors) <= _MOST_FACTORS:
        return
    first, *others = factors
    found = []
    for many in range(len(others)):
        for more in itertools.combinations(others, many):
            those = tuple(a for a in others if a not in more)
            found.append((_side(constant, (first, *more), variables), _side(S.One, those, variables)))
    least = min(max(len(places) for _, places in both) for both in found)
    if least <= max(ORDERS):
        yield from (both for both in found if max(len(places) for _, places in both) == least)


def _side(factor: Expr, parts: Sequence[tuple[Expr, set[Symbol]]], variables: Sequence[Symbol]) -> Side:
    used = set().union(*(mine for _, mine in parts))
    places = tuple(i for i, v in enumerate(variables) if v in used)
    names = {variables[i]: _NAMES[k] for k, i in enumerate(places)} if len(places) <= len(_NAMES) else {}
    return sympy.Mul(factor, *(part for part, _ in parts)).xreplace(names), places


def mean_of_sides(
    known: Sequence[Product], covariances: Sequence[Array], size: int, few: Rule, many: Rule
) -> tuple[Array, Array]:
    """(value, error) at arrays (N,) of the upper triangle of the covariance of `size` variables.

    `few` is the rule for what is left of few laws, `many` that of many.
    """
    (product,) = known
    grams = full(covariances, size)
    refuse_indefinite(grams)
    found, open_ = numpy.zeros((4, len(grams))), numpy.arange(len(grams))
    for finer in (0, 1):
        found[:, open_] = _expanded(product, grams[open_], finer)
        value, error, norm, hope = found
        # kinks of variables that both sides share are not settled by any order
        open_ = numpy.flatnonzero((error > _SETTLED * norm) & (hope <= _HOPED * norm))
        if not 0 < len(open_) <= _FINER:
            break
    rounded = numpy.flatnonzero(error > _ROUNDED * norm)
    is_quick = size <= _QUICK and len(rounded) <= _FEW
    rule, open_ = (few, rounded) if is_quick else (many, numpy.flatnonzero(error > _SETTLED * norm))
    if len(open_):
        better, doubt = rule(product.function, product.variables, numpy.stack([c[open_] for c in covariances], axis=1))
        closer = doubt < error[open_]
        value[open_[closer]], error[open_[closer]] = better[closer], doubt[closer]
    return value, error


def _expanded(product: Product, grams: Array, finer: int) -> Array:
    """(values, errors, √(E f² E h²), hopes) by expansions."""
    found = numpy.zeros((4, len(grams)))
    for groupings in product.terms:
        # sides that know little of each other need few orders
        left, right = min(groupings, key=lambda both: _correlation(grams, both[0][1], both[1][1]))
        found += _of_term(left, right, grams, finer)
    return found


def _of_term(left: Side, right: Side, grams: Array, finer: int) -> Array:
    """The same of one term."""
    found, apart = numpy.zeros((4, len(grams))), numpy.ones(len(grams), dtype=bool)
    mine, cross, theirs = (grams[:, a][:, :, b] for a, b in ((left[1], left[1]), (left[1], right[1]), (right[1],) * 2))
    for sign, order in _one_to_one(len(left[1]), len(right[1])):
        there = sign * cross[:, :, order], theirs[:, order][:, :, order]
        far = numpy.maximum(*(abs(mine - law) for law in there)).max(axis=(1, 2))
        same = apart & (far <= _EQUAL * abs(mine).max(axis=(1, 2)))
        if same.any():  # one variable, the mean of a product of functions of it
            named = {_NAMES[k]: sign * _NAMES[i] for i, k in enumerate(order)}
            whole, place = _rows((left[0] * right[0].xreplace(named), left[1]), grams[same], finer)
            found[:, same] = numpy.array([[r.coefficients[0], r.error, r.norm, 0.0] for r in whole])[place].T
            apart &= ~same
    if apart.any():
        one, other = (_rows(side, grams[apart], finer) for side in (left, right))
        found[:, apart] = mean_of_products(one, other, cross[apart])
    return found


def _one_to_one(many: int, others: int) -> Iterator[tuple[int, list[int]]]:
    """The ways in which variables of one side may be those of the other, or opposite to them."""
    if many == others > 0:
        for sign, order in itertools.product((1, -1), itertools.permutations(range(many))):
            yield sign, list(order)


def _rows(side: Side, grams: Array, finer: int) -> Any:
    """Rows of all laws that one side has, and which of them each entry has."""
    function, places = side
    laws = grams[:, places][:, :, places].reshape(len(grams), -1)
    distinct, place = distinct_rows(laws)
    return [rows(function, _NAMES[: len(places)], tuple(map(float, law)), finer) for law in distinct], place


def _correlation(grams: Array, left: Sequence[int], right: Sequence[int]) -> float:
    """How much two sides know of each other, on average: the largest canonical correlation."""
    inverse = [numpy.linalg.pinv(grams[:, p][:, :, p], hermitian=True) for p in (left, right)]
    cross = grams[:, left][:, :, right]
    both = inverse[0] @ cross @ inverse[1] @ cross.mT
    return float(numpy.einsum("nii->n", both).mean())
