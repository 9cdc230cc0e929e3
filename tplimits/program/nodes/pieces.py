"""Functions of one variable with kinks and jumps, piece by piece between them.

Where heads with branches stand in each other, as in min(max(x, −1), 1), no expansion of a sum shows that they cancel:
which branch is taken depends on that of the head inside.  Between two neighbouring places where a branch changes the
function has no branches at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import sympy
from sympy import Expr, S, Symbol

from tplimits.program.nodes.branches import CONDITIONS, SIDES
from tplimits.program.parts import holds

#: more places than these are not looked at
_MOST = 32
#: where a function is looked at first, and what is more than rounding of values there
_SOMEWHERE, _APART = sympy.Rational(899, 353), 1e-9


def by_pieces(function: Expr, variable: Symbol) -> int | None:
    """1 for an even function, −1 for an odd one, also at its kinks and jumps; None where its pieces do not show it.

    >>> from tplimits.program.nodes.functions import maximum, minimum
    >>> x, c = sympy.symbols("x c", real=True)
    >>> by_pieces(minimum(maximum(x / c, -1), 1), x), by_pieces(maximum(x, -1), x)
    (-1, None)
    """
    function = _of_one_scale(function, variable)
    if _is_neither(function, variable):
        return None
    places = _places(function, variable)
    if places is None:
        return None
    ends = sorted({S.Zero, *map(abs, places)})
    inside = [*((a + b) / 2 for a, b in itertools.pairwise(ends)), ends[-1] + 1]
    here, there = ([_at(function, variable, sign * t) for t in inside] for sign in (1, -1))
    pairs = [(a, b.xreplace({variable: -variable})) for a, b in zip(here, there, strict=True)]
    pairs += [(function.subs(variable, t), function.subs(variable, -t)) for t in ends]
    for sign in (1, -1):
        if all(sympy.expand(a - sign * b) == 0 for a, b in pairs):
            return sign
    return None


def pieces(function: Expr, variable: Symbol) -> list[Expr] | None:
    """What a function is between its kinks and jumps, and its values there; None where its pieces are not known.

    >>> x = Symbol("x", real=True)
    >>> pieces(sympy.Abs(x) - x, x)
    [-2*x, 0, 0]
    """
    places = _places(function, variable)
    if places is None:
        return None
    edges = [-sympy.oo, *sorted(places), sympy.oo]
    inside = [_at(function, variable, _between(low, high)) for low, high in itertools.pairwise(edges)]
    return [*inside, *(function.subs(variable, place) for place in places)]


def _is_neither(function: Expr, variable: Symbol) -> bool:
    """Whether values at one place show that a function is neither even nor odd, which spares the pieces."""
    here, there = (function.subs(variable, t).evalf() for t in (_SOMEWHERE, -_SOMEWHERE))
    return (here - there).is_comparable and bool(min(abs(here - there), abs(here + there)) > _APART)


def _of_one_scale(function: Expr, variable: Symbol) -> Expr:
    """A function of x/c as one of x: whether it is odd does not ask for c."""
    products = (p for p in sympy.preorder_traversal(function) if p.is_Mul and variable in p.args)
    scale = next((p.as_independent(variable)[0] for p in products), S.One)
    return function if scale.is_number else function.xreplace({variable: variable / scale})


def _at(expr: Expr, variable: Symbol, place: Expr) -> Expr:
    """The expression without branches that a function is about a place."""
    if not holds(expr, *SIDES):
        return expr
    args = [_at(a, variable, place) for a in expr.args]
    if type(expr) not in SIDES:
        return expr.func(*args)
    # a condition that is zero all along a piece is not positive there
    above = CONDITIONS[type(expr)](*args).subs(variable, place)
    first, second = SIDES[type(expr)](*args)
    if isinstance(expr, sympy.sign) and above == 0:
        return S.Zero
    return first if above > 0 else second


def _places(function: Expr, variable: Symbol) -> list[Expr] | None:
    """Where branches change; None where a condition is no polynomial of fractions, or they are too many."""
    found: list[Expr] = []
    for head in _innermost_first(function):
        edges = [-sympy.oo, *sorted(found), sympy.oo]
        for low, high in itertools.pairwise(edges):
            inside = _between(low, high)
            condition = sympy.expand(CONDITIONS[type(head)](*(_at(a, variable, inside) for a in head.args)))
            if not condition.is_polynomial(variable) or condition.free_symbols - {variable}:
                return None
            if variable in condition.free_symbols:
                roots = _real_roots(sympy.Poly(condition, variable))
                if roots is None:
                    return None
                found += [r for r in roots if low < r < high]
        if len(found) > _MOST:
            return None
    return found


def _real_roots(polynomial: sympy.Poly) -> list[Expr] | None:
    """Its real roots; None where coefficients are no fractions, of which SymPy does not separate those of degree 2."""
    if polynomial.degree() == 1:
        return [-polynomial.nth(0) / polynomial.nth(1)]
    domain = polynomial.domain
    if not (domain.is_ZZ or domain.is_QQ or domain.is_RR):
        return None
    return [root for root, _ in polynomial.real_roots(multiple=False)]


def _innermost_first(expr: Expr) -> Iterator[Expr]:
    for argument in expr.args:
        yield from _innermost_first(argument)
    if type(expr) in SIDES:
        yield expr


def _between(low: Expr, high: Expr) -> Expr:
    if low.is_infinite:
        return S.Zero if high.is_infinite else high - 1
    return low + 1 if high.is_infinite else (low + high) / 2
