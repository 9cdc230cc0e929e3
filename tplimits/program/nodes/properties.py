"""What each function of the language is like, a row a head: hypotheses and rules of every regime read this table.

Rows are about the first argument; where there are more, the others are constants.  What a row leaves open is not
known, and no rule builds on it.

>>> sympy.tanh in BOUNDED, functions.relu in BOUNDED
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Any

import sympy
from sympy import Expr, S

from tplimits.program.nodes import functions
from tplimits.program.nodes.functions import truncated


class Growth(Enum):
    """How |f(x)| grows: |f| ≤ C, like log |x|, like |x| on one side at least, or like an exponential."""

    BOUNDED = auto()
    LOGARITHMIC = auto()
    LINEAR = auto()
    EXPONENTIAL = auto()


class Symmetry(Enum):
    """f(−x) = −f(x), or f(−x) = f(x)."""

    ODD = auto()
    EVEN = auto()


class Trait(Flag):
    """What else may be known of f.

    ENTIRE: analytic on the whole line; CROSSING: c |x| ≤ |f(x)| ≤ C |x| near 0, with no other zero and no limit 0;
    BELOW: |f(x)| ≤ |x|; FADING: f is 0 or goes to 0 on one side, so that a product with what grows there may have
    moments; FALLING: f never rises.
    """

    NONE = 0
    ENTIRE = auto()
    CROSSING = auto()
    BELOW = auto()
    FADING = auto()
    FALLING = auto()


@dataclass(frozen=True)
class Properties:
    """What is known of a function f on the real line.

    `values` lie between the two, and the ends are taken or approached; f never falls beyond `rises_from`; f(c x) is
    c^`degree` f(x) for c > 0.
    """

    growth: Growth
    values: tuple[Expr, Expr] = (-sympy.oo, sympy.oo)
    symmetry: Symmetry | None = None
    rises_from: Expr | None = None
    traits: Trait = Trait.NONE
    degree: int | None = None


_BOUNDED, _LOGARITHMIC, _LINEAR, _EXPONENTIAL = Growth
_ODD, _EVEN = Symmetry
_ENTIRE, _CROSSING, _BELOW, _FADING, _FALLING = Trait
_EVERYWHERE, _ZERO, _ONE, _OO = S.NegativeInfinity, S.Zero, S.One, S.Infinity
_LINE, _ABOVE, _UNIT, _SIGNS, _ARC = (
    (-_OO, _OO),
    (_ZERO, _OO),
    (_ZERO, _ONE),
    (-_ONE, _ONE),
    (-sympy.pi / 2, sympy.pi / 2),
)
_MONOTONE = _ENTIRE | _CROSSING | _BELOW
_GELU = sympy.Rational(-17, 100)

#: by head; functions with poles or ends of their domain (log, tan, asin, acos, atanh) are in `law/hypotheses/pole`
PROPERTIES: dict[type[Any], Properties] = {
    sympy.tanh: Properties(_BOUNDED, _SIGNS, _ODD, _EVERYWHERE, _MONOTONE),
    sympy.erf: Properties(_BOUNDED, _SIGNS, _ODD, _EVERYWHERE, _ENTIRE | _CROSSING),
    sympy.erfc: Properties(_BOUNDED, (_ZERO, S(2)), None, None, _ENTIRE | _FADING | _FALLING),
    sympy.atan: Properties(_BOUNDED, _ARC, _ODD, _EVERYWHERE, _MONOTONE),
    sympy.asinh: Properties(_LOGARITHMIC, _LINE, _ODD, _EVERYWHERE, _MONOTONE),
    sympy.sin: Properties(_BOUNDED, _SIGNS, _ODD, None, _ENTIRE | _BELOW),
    sympy.cos: Properties(_BOUNDED, _SIGNS, _EVEN, None, _ENTIRE),
    sympy.exp: Properties(_EXPONENTIAL, _ABOVE, None, _EVERYWHERE, _ENTIRE | _FADING),
    sympy.sinh: Properties(_EXPONENTIAL, _LINE, _ODD, _EVERYWHERE, _ENTIRE | _CROSSING),
    sympy.cosh: Properties(_EXPONENTIAL, (_ONE, _OO), _EVEN, _ZERO, _ENTIRE),
    sympy.sech: Properties(_BOUNDED, _UNIT, _EVEN, None, _ENTIRE | _FADING),
    sympy.sign: Properties(_BOUNDED, _SIGNS, _ODD, _EVERYWHERE, degree=0),
    sympy.Abs: Properties(_LINEAR, _ABOVE, _EVEN, _ZERO, _CROSSING | _BELOW, degree=1),
    functions.step: Properties(_BOUNDED, _UNIT, None, _EVERYWHERE, _FADING, degree=0),
    functions.relu: Properties(_LINEAR, _ABOVE, None, _EVERYWHERE, _BELOW | _FADING, degree=1),
    # its slope is an argument: negative, it turns at 0; 0, it has zeros below
    functions.leaky_relu: Properties(_LINEAR, degree=1),
    functions.sigmoid: Properties(_BOUNDED, _UNIT, None, _EVERYWHERE, _ENTIRE | _FADING),
    functions.softplus: Properties(_LINEAR, _ABOVE, None, _EVERYWHERE, _ENTIRE | _FADING),
    functions.gelu: Properties(_LINEAR, (_GELU, _OO), None, _ZERO, _ENTIRE | _BELOW | _FADING),
    truncated: Properties(_BOUNDED, _LINE, _ODD, _EVERYWHERE, _MONOTONE),
}


def _having(holds: Callable[[Properties], bool]) -> tuple[Any, ...]:
    return tuple(head for head, known in PROPERTIES.items() if holds(known))


#: |f| ≤ C, and |f| ≤ C (1 + |x|) without a bound
BOUNDED = _having(lambda f: f.growth is _BOUNDED)
LINEAR = _having(lambda f: f.growth in (_LOGARITHMIC, _LINEAR))
#: no power bounds them
EXPONENTIAL = _having(lambda f: f.growth is _EXPONENTIAL)
#: analytic on the whole line
ENTIRE = _having(lambda f: _ENTIRE in f.traits)
#: periodic in their argument
WAVES = (sympy.sin, sympy.cos, sympy.tan)
#: constants, lines or without a scale but for where their argument is small; a peak is an exponential of −x²
TURNING = tuple(head for head in ENTIRE if head not in (*WAVES, truncated))
#: f(−x) = −f(x), and f(−x) = f(x); odd ones with the sign of their argument
ODD, EVEN = _having(lambda f: f.symmetry is _ODD), _having(lambda f: f.symmetry is _EVEN)
SIGNED = _having(lambda f: f.symmetry is _ODD and f.rises_from is _EVERYWHERE)
#: positive everywhere: an analytic function that is nowhere negative and fades, or stays above 1, does not vanish
POSITIVE = _having(lambda f: _ENTIRE in f.traits and f.values[0] >= 0)
#: strictly rising and falling, so that no value is taken at an end of their range
RISING = _having(lambda f: _ENTIRE in f.traits and f.rises_from is _EVERYWHERE)
FALLING = _having(lambda f: _ENTIRE | _FALLING in f.traits)
#: f(x) ~ c x at 0, and no power of x at infinity
SATURATING = _having(lambda f: f.symmetry is _ODD and _ENTIRE in f.traits and f.growth in (_BOUNDED, _LOGARITHMIC))
#: c |x| ≤ |f(x)| near 0, and |f(x)| ≥ c > 0 away from it; those of them with a slope there
CROSSING = _having(lambda f: _CROSSING in f.traits)
SMOOTHLY_CROSSING = _having(lambda f: _CROSSING | _ENTIRE in f.traits)
#: |f(x)| ≤ C |x| near 0
VANISHING = (*_having(lambda f: bool((_CROSSING | _BELOW) & f.traits)), functions.leaky_relu)
#: |f(x)| ≤ |x|
BELOW = _having(lambda f: _BELOW in f.traits)
#: f(c x) = c^d f(x) for c > 0, and d; those with d = 1, Lipschitz with a kink at 0
DEGREES = {head: f.degree for head, f in PROPERTIES.items() if f.degree is not None}
KINKED = tuple(head for head, degree in DEGREES.items() if degree == 1)
#: 0 on one side, or near it
FADING = _having(lambda f: _FADING in f.traits)


def is_entire(expr: Expr, *variables: Expr, beside: tuple[type, ...] = ()) -> bool:
    """Whether it is a sum of products and whole powers of analytic heads, or of heads `beside` these, in some variables
    and numbers alone; roots, poles and logarithms only of what is positive everywhere, as in x/√(1 + x²)."""
    natural = expr.is_Pow and expr.exp.is_Integer and expr.exp.is_positive
    if isinstance(expr, (sympy.log, sympy.Pow)) and not (natural or expr.is_number):
        numbers = isinstance(expr, sympy.log) or expr.exp.is_number
        return bool(numbers and expr.args[0].is_positive) and is_entire(expr.args[0], *variables, beside=beside)
    known = expr in variables or expr.is_number or isinstance(expr, (sympy.Add, sympy.Mul, sympy.Pow, *ENTIRE, *beside))
    return known and all(is_entire(a, *variables, beside=beside) for a in expr.args)
