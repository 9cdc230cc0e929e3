"""A function of one variable at a point where it may have a kink, a jump or a root: powers on either side.

f(s + y) = Σ_p (b_p + c_p sgn y) |y|^p, from the expansions of f(s + t) and f(s − t) in t > 0.  A kink or jump elsewhere
is crossed with a probability smaller than every power of n and leaves no trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy
from sympy import Dummy, Expr, Rational, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes.functions import elementary, step
from tplimits.regimes.depth.algebra.laurent import ARGUMENT, Series, laurent

#: the mean of both sides
MEAN = (Rational(0), False)
#: roots of higher order are not expanded
_ROOTS = 8


class AtPole(NoLimitError):
    """A function at a pole of it, or at another point where it has no powers at all, as log|y| and tanh(1/y) at 0."""


@dataclass(frozen=True)
class Expansion:
    """Coefficients of |y|^p sgn(y)^s by (p, s); `exact` where there are no others, and no kinks elsewhere.

    `off` is what the function is at y = 0 beside what the terms say, the mean of both sides: a step is 0 there.
    """

    terms: dict[tuple[Rational, bool], Expr]
    exact: bool
    off: Expr

    @property
    def bends(self) -> bool:
        """Whether it has no derivative at y = 0."""
        return self.off != 0 or any(p <= 1 and not is_smooth(p, sign) for p, sign in self.terms)


def is_smooth(power: Rational, sign: bool) -> bool:
    """Whether |y|^p sgn(y)^s is y^p."""
    return bool(power.is_Integer and power >= 0 and (power % 2 == 1) == sign)


def at_point(function: Expr, point: Expr, most: int, shown: Expr | None = None) -> Expansion:
    """The expansion of a function of `ARGUMENT` around a point up to |y|^most; messages call the function `shown`.

    NoLimitError at a pole, where there are no powers (logarithms), and where a constant decides the side of a kink.

    >>> from tplimits.program.nodes.functions import relu
    >>> at_point(relu(ARGUMENT) ** 2, S.Zero, 2).terms
    {(2, False): 1/2, (2, True): 1/2}
    >>> at_point(relu(ARGUMENT), S.One, 2).terms
    {(0, False): 1, (1, True): 1}
    """
    body, shown = elementary(function), told(function) if shown is None else shown
    powers = [p for p in body.atoms(sympy.Pow) if p.base.has(ARGUMENT) and p.exp.is_Rational]
    roots = math.lcm(*(int(p.exp.q) for p in powers))
    if roots > _ROOTS:
        raise NoLimitError(f"`{shown}` holds roots of order {roots}, which are not expanded.")
    # in τ = t^(1/roots) powers are whole on both sides
    right, left = (_side(body, shown, point, side, most * roots, roots) for side in (1, -1))
    found = {}
    for k in sorted({*right.terms, *left.terms}):
        r, l = right.terms.get(k, S.Zero), left.terms.get(k, S.Zero)  # noqa: E741
        for sign, value in ((False, (r + l) / 2), (True, (r - l) / 2)):
            settled = sympy.expand(value)
            # zero in disguise would make a smooth point a kink, and ask for a law that is not there
            if settled != 0 and sympy.simplify(settled) != 0:
                found[Rational(k, roots), sign] = settled
    alone = all(_is_power(jump.args[0].xreplace({ARGUMENT: point + ARGUMENT})) for jump in body.atoms(step))
    off = S.Zero
    if body.has(step):
        off = sympy.simplify(body.xreplace({ARGUMENT: point}) - found.get(MEAN, S.Zero))
    return Expansion(found, alone and right.cut is None and left.cut is None, off)


def _is_power(argument: Expr) -> bool:
    """Whether an argument of a jump is c·y^k, so that it jumps at y = 0 alone, or a constant."""
    if not argument.has(ARGUMENT):
        return True
    return bool(argument.is_polynomial(ARGUMENT)) and len(sympy.Poly(argument, ARGUMENT).terms()) == 1


def _side(body: Expr, shown: Expr, point: Expr, side: int, most: int, roots: int) -> Series:
    """f(point ± τ^roots) in powers of τ."""
    τ = Dummy("τ", positive=True)
    moved = body.xreplace({ARGUMENT: point + side * τ**roots})
    while moved.has(step):
        # steps inside of steps: the inner ones are decided first
        jump = min(moved.atoms(step), key=lambda j: len(j.atoms(step)))
        moved = moved.xreplace({jump: _value(jump.args[0], τ, shown)})
    found = laurent(moved, τ, most)
    if found is None:
        raise AtPole(
            f"`{shown}` has no expansion in powers of y around {point}, where its argument settles: a "
            "logarithm or a singular point of this kind is not covered."
        )
    if found.lowest is not None and found.lowest < 0:
        raise AtPole(
            f"`{shown}` has a pole at y = {point}, where its argument settles: what is left of y is all that keeps it "
            "off the pole, so that it has no series in y and is as random as y is. Add a positive number to what is "
            "divided by."
        )
    return found


def _value(argument: Expr, τ: Symbol, shown: Expr) -> Expr:
    """step(argument) for small τ > 0."""
    series = laurent(argument, τ, 12)
    if series is None:
        leading = argument
    elif series.lowest is None:
        return S.Zero
    else:
        leading = sympy.factor(series.terms[series.lowest])
    if leading.is_positive or leading.is_negative:
        return S.One if leading.is_positive else S.Zero
    if sympy.simplify(leading) == 0:
        return S.Zero
    unknown = ", ".join(f"`{s}`" for s in sorted(leading.free_symbols - {τ}, key=str)) or f"`{leading}`"
    raise NoLimitError(
        f"`{shown}` has a kink, and on which side of it its argument is depends on the sign of {unknown}, which is not "
        f"known; give {unknown} a number by .bind."
    )


def told(function: Expr) -> Expr:
    """The function as messages write it."""
    return function.xreplace({ARGUMENT: Symbol("y", real=True)})
