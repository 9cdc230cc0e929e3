"""What a function of the sign of its argument reads: numbers, and arguments of the same sign that are simpler."""

from __future__ import annotations

from sympy import Expr, S


def sign_of(x: Expr) -> int | None:
    """The sign of a number, or None when x is not a number whose sign SymPy can tell."""
    if not x.is_number:  # asked first: SymPy's assumptions about a long sum can take minutes
        return None
    if x.is_zero:
        return 0
    if x.is_positive:
        return 1
    if x.is_negative:
        return -1
    return None


def switched(x: Expr, above: Expr, below: Expr) -> Expr | None:
    """`above` where the sign of x is known to be positive, `below` where it is known not to be, else None."""
    sign = sign_of(x)
    return None if sign is None else above if sign > 0 else below


def without_positive_factor(x: Expr) -> Expr:
    """x without its positive numeric factor: step(3 h) and step(h) are the same function."""
    factor, rest = x.as_coeff_Mul()
    if factor.is_positive and factor != 1:
        return rest
    if factor.is_negative and factor != -1:
        return -rest
    return x


def behind_jump(x: Expr, jumps: tuple[type, ...], through: tuple[type, ...]) -> tuple[Expr, bool] | None:
    """Of a jump from 0 to 1, scaled and shifted, the argument u of the jump and whether x > 0 says u > 0 or u ≤ 0.

    u keeps the head of `through` that the jump stands in.  None of anything else, and where the jump does not cross 0:
    x itself has values on either side alone, so that nothing is close to a jump of x but what is close to u = 0.
    """
    below, rest = x.as_coeff_Add()
    height, inner = rest.as_coeff_Mul()
    stopped = isinstance(inner, through)
    jump = inner.args[0] if stopped else inner
    if not isinstance(jump, jumps) or switched(below, S.true, S.false) == switched(below + height, S.true, S.false):
        return None
    u = jump.args[0]
    return (inner.func(u) if stopped else u), bool(below + height > 0)
