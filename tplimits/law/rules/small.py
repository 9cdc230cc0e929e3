"""Smooth functions that a power of n brings out: √n tanh(x/√n) tends to x, √n (tanh(y + S/√n) − tanh y) to S sech² y.

    n^(p/2) F(y_α + n^(−1/2) x_α) = n^(p/2) Σ_{k ≤ p} F^(k)(y_α) (n^(−1/2) x_α)^k / k! + O(n^(−1/2) |x_α|^(p + 1))

for all neurons at once: x has moments, so that n^(−1/2) max |x_α| → 0 almost surely, and F is asked near y_α alone.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.moving_means import moving_mean
from tplimits.law.hypotheses.taylor import is_analytic
from tplimits.law.hypotheses.zero import vanishes
from tplimits.program.nodes.entries import N
from tplimits.program.nodes.scale import beside_power
from tplimits.program.parts import found

#: so many derivatives are taken
_MOST = 8


def in_powers_of_n(expr: Expr, order: int = 0, apart: tuple[type[Expr], ...] = ()) -> Expr | None:
    """The expression as a sum of powers of n to order n^(−order/2); None where functions are not seen to be analytic.

    None, too, where an argument tends to something with what is to stand `apart` in it.

    >>> from tplimits.program.nodes.entries import Entry
    >>> x = Entry(S.Zero, S.Zero)
    >>> in_powers_of_n(sympy.sqrt(N) * sympy.tanh(x / sympy.sqrt(N)), apart=(Entry,))
    Entry(0, 0)
    >>> in_powers_of_n(sympy.sqrt(N) * (sympy.exp(x + 1 / sympy.sqrt(N)) - sympy.exp(x)))
    exp(Entry(0, 0))
    """
    derivative, root, lead, q = beside_power(expr)
    held = (f for f in found(derivative, sympy.Function, sympy.Pow) if f.has(root))
    functions, most = [f for f in held if f.as_base_exp()[0] != root], lead + order * q // 2
    if not functions or not 0 <= most <= _MOST or not all(is_analytic(f, root) for f in functions):
        return None
    if apart and any(found(a.xreplace({root: S.Zero}), *apart) for f in functions for a in f.args):
        return None
    total = S.Zero
    for k in range(most + 1):
        here = sympy.expand(derivative.xreplace({root: S.Zero}), deep=False) / sympy.factorial(k)
        # differences that vanish by an identity between functions grow with no power of n
        if k >= lead or not vanishes(here):
            total += here * N ** sympy.Rational(lead - k, q)
        derivative = derivative.diff(root)
    return total


def led_in_powers_of_n(expr: Expr, order: int) -> Expr:
    """An analytic expression as a sum of powers of n, from the first that does not vanish to so many orders beyond it.

    >>> x = sympy.Symbol("x", real=True)
    >>> led_in_powers_of_n(sympy.sin(x / sympy.sqrt(N)) ** 2 + 1 / N, 0)
    (x**2 + 1)/n
    """
    found = (k for k in range(_MOST + 1) if (series := in_powers_of_n(expr, k)) is None or series != 0)
    series = in_powers_of_n(expr, next(found, _MOST) + order)
    return series or expr


def smoothed_out(expr: Expr, vectors: type[Expr], order: int) -> Expr:
    """An expression with what is such a sum written as one, to an order that no power of n beside it brings out."""
    if not expr.args or not expr.has(N):
        return expr
    series = in_powers_of_n(expr, order, (vectors,))
    return expr.func(*(smoothed_out(a, vectors, order) for a in expr.args)) if series is None else series


def refuse_unexpanded(
    where: str, expr: Expr, written: Callable[[Expr], Expr] = lambda expr: expr, unexpanded: Expr | None = None
) -> None:
    """NoLimitError where what a power of n multiplies tends to 0, `written` out, and it is not seen how fast.

    Means that depend on n are told as they stood, `unexpanded`.
    """
    if told := moving_mean(expr if unexpanded is None else unexpanded):
        raise NoLimitError(f"{where}: {told}")
    beside, root, power, _ = beside_power(expr)
    if power > 0 and vanishes(written(beside.xreplace({root: S.Zero}))):
        raise NoLimitError(
            f"{where}: what a positive power of n multiplies tends to 0, and it is not seen how fast (hypothesis: "
            "functions of vectors are expanded in 1/√n where they are analytic at the limits of scalars). Write the "
            "slope of the function times the scalar, or drop the positive power of n."
        )
