"""Other forms of functions that are never negative: |f| without the modulus, 1 − cos u as a square."""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.parts import found, rebuilt

#: what touches zero as a square of what crosses it: (head, power, its coefficient beside 1), and the root of it by the
#: argument
_SQUARES: dict[tuple[type, int, int], Callable[[Expr], Expr]] = {
    (sympy.cos, 1, -1): lambda u: sympy.sqrt(2) * sympy.sin(u / 2),
    (sympy.cos, 1, 1): lambda u: sympy.sqrt(2) * sympy.cos(u / 2),
    (sympy.sin, 1, -1): lambda u: sympy.sqrt(2) * sympy.sin(u / 2 - sympy.pi / 4),
    (sympy.sin, 1, 1): lambda u: sympy.sqrt(2) * sympy.sin(u / 2 + sympy.pi / 4),
    (sympy.tanh, 2, -1): sympy.sech,
    (sympy.sin, 2, -1): sympy.cos,
    (sympy.cos, 2, -1): sympy.sin,
}


def as_square(expr: Expr) -> Expr:
    """1 − cos u and its like as the squares that they are; other functions as they are."""
    number, term = expr.as_coeff_Add()
    coefficient, factor = term.as_coeff_Mul()
    head, power = factor.as_base_exp() if not isinstance(factor, sympy.exp) else (factor, 1)
    root = _SQUARES.get((type(head), power, coefficient / number)) if number.is_positive else None
    return expr if root is None else number * root(head.args[0]) ** 2


def over_moduli(expr: Expr) -> Expr:
    """An expression with sign(u) for u/|u| and |u| for u²/|u|, which have no pole.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> over_moduli(y * (x + y) ** 2 / sympy.Abs(x + y)), over_moduli(x / sympy.Abs(x) ** 2)
    (y*Abs(x + y), 1/x)
    """
    if not any(p.exp.is_negative and isinstance(p.base, sympy.Abs) for p in found(expr, sympy.Pow)):
        return expr
    expr = rebuilt(expr, [over_moduli(a) for a in expr.args])
    powers = expr.as_powers_dict() if expr.is_Mul else {}
    for modulus, below in powers.items():
        u = modulus.args[0] if isinstance(modulus, sympy.Abs) else S.Zero
        above = powers.get(u, S.Zero)  # a look-up by [] would add to what is gone through
        if below.is_Integer and below.is_negative and above.is_Integer and above >= 1:
            left, rest = above + below, expr / u**above / modulus**below
            odd = sympy.Abs(u) / u if left else sympy.sign(u)
            return over_moduli(rest * u**left * (odd if below % 2 else 1))
    return expr


def with_single_abs(expr: Expr) -> Expr:
    """|x y| as |x||y|, and |f| as f where f is never negative."""
    swap: dict[Expr, Expr] = {}
    for node in found(expr, sympy.Abs):
        inner = node.args[0]
        # one expression for one function: otherwise a numerator |f| would not be seen to cancel a pole at f
        if bounds(inner)[0] >= 0:
            swap[node] = inner
        elif inner.is_Mul:
            swap[node] = sympy.Mul(*(sympy.Abs(f) for f in inner.args))
    return expr.xreplace(swap) if swap else expr
