"""How fast a smooth function of one variable leaves zero: 1 − cos t like t², exp(t) − 1 like t.

The order is the first derivative at 0 that does not vanish, for functions that are analytic there: F(t) = O(t^k) near
0 means that F(f)/f^k has no pole where f vanishes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import sympy
from sympy import Expr, Symbol

from tplimits.program.nodes.digits import value_of
from tplimits.program.nodes.properties import ENTIRE
from tplimits.program.parts import remembered

#: so many derivatives are looked at
_MOST = 6
#: digits to which a derivative is told from zero, and what then counts as zero
_DIGITS, _NOTHING = 30, 1e-20
#: the Taylor coefficients of a function, from order 0 on
Series = list[Expr]
#: the argument of a function whose derivatives are taken
INNER = sympy.Dummy("u", real=True)


@remembered(1 << 12)
def order_at_zero(expr: Expr, variable: Symbol) -> int | None:
    """The k with F(t) ~ c t^k at t = 0, c ≠ 0; None where F is not seen to be analytic, or k is too large."""
    if not expr.free_symbols <= {variable} or not is_analytic(expr, variable):
        return None
    derivative = expr
    for k in range(_MOST + 1):
        value = value_of(derivative.xreplace({variable: sympy.S.Zero}), _DIGITS)
        if value is None:
            return None
        if abs(value) > _NOTHING:
            return k
        derivative = derivative.diff(variable)
    return None


def order_whatever_else(expr: Expr, variable: Symbol) -> int | None:
    """A k with F(t) = O(t^k) at t = 0 for all values of the other symbols in it; None as in `order_at_zero`.

    >>> t, c = sympy.symbols("t c", real=True)
    >>> order_whatever_else(c * t - sympy.tanh(c * t), t)
    3
    """
    if expr.free_symbols <= {variable} or not is_analytic(expr, variable):
        return order_at_zero(expr, variable)
    coefficients = powers(expr, variable, _MOST)
    return next((k for k, c in enumerate(coefficients) if sympy.expand(c) != 0), None)


def is_analytic(expr: Expr, variable: Symbol) -> bool:
    """Whether an expression is seen to be analytic in a variable at zero, whatever else stands in it."""
    if not expr.has(variable) or expr.is_Symbol:
        return True
    # b^t is exp(t log b): only where b > 0, which is not asked here
    if isinstance(expr, sympy.Pow) and expr.exp.has(variable):
        return False
    whole = isinstance(expr, sympy.Pow) and expr.exp.is_Integer and expr.exp.is_positive
    if isinstance(expr, (sympy.log, sympy.Pow)) and not whole:
        # logarithms and roots are analytic about a positive value
        start = expr.args[0].xreplace({variable: sympy.S.Zero})
        return bool(start.is_positive) and is_analytic(expr.args[0], variable)
    known = expr.is_Add or expr.is_Mul or expr.is_Pow or isinstance(expr, ENTIRE)
    return known and all(is_analytic(a, variable) for a in expr.args)


def powers(expr: Expr, variable: Symbol, order: int) -> Series:
    """The Taylor coefficients at 0 of an analytic function, by products and compositions of series.

    Derivatives of products double with every order.

    >>> t, x = sympy.symbols("t x", real=True)
    >>> powers(sympy.exp(t * x) * (1 - t), t, 2)
    [1, x - 1, x**2/2 - x]
    """
    zeros = [sympy.S.Zero] * (order + 1)
    if not expr.has(variable):
        return [expr, *zeros[1:]]
    if expr == variable:
        return [sympy.S.Zero, sympy.S.One, *zeros][: order + 1]
    if expr.is_Add:
        return [sympy.Add(*parts) for parts in zip(*(powers(a, variable, order) for a in expr.args), strict=True)]
    if expr.is_Mul:
        return reduce(times, (powers(a, variable, order) for a in expr.args))
    if expr.is_Pow and expr.exp.is_Integer and expr.exp.is_positive:
        return reduce(times, [powers(expr.base, variable, order)] * int(expr.exp))
    inner = next(a for a in expr.args if a.has(variable))
    return composed(expr.xreplace({inner: INNER}), powers(inner, variable, order))


def composed(function: Expr, series: Series) -> Series:
    """The Taylor coefficients of a function of `INNER` at a series.

    >>> x = sympy.Symbol("x")
    >>> composed(1 / INNER, [sympy.S.One, x, sympy.S.Zero])
    [1, -x, x**2]
    """
    first, *rest = series
    outer = [f.xreplace({INNER: first}) for f in _derivatives(function, len(rest))]
    found = [sympy.S.Zero] * len(series)
    # f(u₀ + w) = f₀ + w (f₁ + w (f₂ + …))
    for c in reversed(outer):
        found = times([sympy.S.Zero, *rest], found)
        found = [c + found[0], *found[1:]]
    return found


def quotient_powers(
    above: Expr, below: Expr, variable: Symbol, order: int, shown: Callable[[Expr], Expr] = sympy.expand
) -> list[Expr] | None:
    """The Taylor coefficients at 0 of a quotient of analytic functions; None where its pole stays, or is none.

    `shown` writes a coefficient so that it is seen whether it is zero.

    >>> t, x = sympy.symbols("t x", real=True)
    >>> quotient_powers(sympy.exp(t * x) - 1, t, t, 2)
    [x, x**2/2, x**3/6]
    >>> quotient_powers(sympy.exp(t * x) - 1, t**2, t, 2)
    """
    down = [shown(c) for c in powers(below, variable, _MOST + order)]
    # order 0: the denominator does not vanish at all and nothing is to be continued
    first = next((k for k, c in enumerate(down) if c != 0), 0)
    if not first:
        return None
    up = [shown(c) for c in powers(above, variable, first + order)]
    # numerators must vanish to the whole order of the denominator for every value of the others, else the pole stays
    if any(c != 0 for c in up[:first]):
        return None
    found: list[Expr] = []
    # a leading coefficient in others may vanish at some of their values: it stays below, to be judged
    for k in range(order + 1):
        taken = sympy.Add(*(down[first + i] * found[k - i] for i in range(1, k + 1)))
        found.append((up[first + k] - taken) / down[first])
    return found


@remembered(1 << 8)
def _derivatives(function: Expr, order: int) -> tuple[Expr, ...]:
    """f⁽ᵏ⁾/k! of a function of `INNER`."""
    found = [function]
    for k in range(1, order + 1):
        # expanded, or tanh doubles with every order
        found.append(sympy.expand(found[-1].diff(INNER)) / k)
    return tuple(found)


def times(a: Series, b: Series) -> Series:
    """The product of two series, to the same order."""
    return [sympy.Add(*(a[j] * b[k - j] for j in range(k + 1))) for k in range(len(a))]
