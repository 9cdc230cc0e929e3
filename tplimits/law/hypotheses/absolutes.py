"""Other forms of functions that are never negative: |f| without the modulus, 1 − cos u as a square."""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.nodes.functions import BENT, relu, step
from tplimits.program.parts import found, holds, rebuilt

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
    """An expression with sign(u) for u/|u| and |u|/u, |u| for u²/|u|, step(u) for relu(u)/u, which have no pole.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> over_moduli(y * (x + y) ** 2 / sympy.Abs(x + y)), over_moduli(x / sympy.Abs(x) ** 2)
    (y*Abs(x + y), 1/x)
    >>> over_moduli(sympy.Abs(x) / x), over_moduli(y * relu(x) ** 2 / x)
    (sign(x), y*relu(x))
    >>> over_moduli(relu(x) / sympy.Abs(relu(x)))
    relu(x)/Abs(relu(x))
    """
    if not any(p.exp.is_negative for p in found(expr, sympy.Pow)) or not holds(expr, sympy.Abs, relu):
        return expr
    expr = rebuilt(expr, [over_moduli(a) for a in expr.args])
    powers = expr.as_powers_dict() if expr.is_Mul else {}
    for bent, power in powers.items():
        u = bent.args[0] if isinstance(bent, (sympy.Abs, relu)) else S.Zero
        other = powers.get(u, S.Zero)  # a look-up by [] would add to what is gone through
        # of what may be 0 for a share of neurons, as relu(x), the quotient is no number there
        if not (power.is_Integer and other.is_Integer and power * other < 0) or holds(u, *BENT):
            continue
        rest, whole = expr / u**other / bent**power, power + other
        if isinstance(bent, sympy.Abs) and (other.is_odd or power < 0):
            left = bent**whole if power.is_odd and whole.is_odd else u**whole
            return over_moduli(rest * left * (sympy.sign(u) if other.is_odd and power.is_odd else 1))
        if isinstance(bent, relu) and power > 0:
            return over_moduli(rest * (bent**whole if whole > 0 else step(u) * u**whole))
    return expr


def with_single_abs(expr: Expr) -> Expr:
    """|x y| as |x||y|, and |f| as f where f is never negative; |relu(x)| stays: relu(x)/|relu(x)| is no number at 0."""
    swap: dict[Expr, Expr] = {}
    for node in found(expr, sympy.Abs):
        inner = node.args[0]
        # one expression for one function: otherwise a numerator |f| would not be seen to cancel a pole at f
        low = bounds(inner)[0]
        if low > 0 or (low == 0 and not holds(inner, *BENT)):
            swap[node] = inner
        elif inner.is_Mul:
            swap[node] = sympy.Mul(*(sympy.Abs(f) for f in inner.args))
    return expr.xreplace(swap) if swap else expr
