"""Functions that cancel beside a pole, by their power series there.

    P(t) = Σ_j c_j t^j   for |t| < δ,   P(t) as it is written elsewhere

(exp x − 1 − x)/x² tends to ½ as x → 0, but in doubles the numerator has an error of 1e-16 however small x is, which
the pole multiplies by x^(−2): quadrature that has nodes near it would add rounding alone.  So a quotient whose pole at
t = 0 is removable is continued by its series, over all terms of a sum together, as in the derivative of sin(z)/z.
Quotients of differences, (f(x) − f(y))/(x − y), have series whose coefficients are functions of y.
Where the pole is of more than t, as 1/(x² + y²) is, or stays, a numerator that vanishes with it is read off its own.

The coefficients are Cauchy's integrals on a circle in many digits, which also tell whether P is analytic inside of it
and whether the pole is removable: those of negative order vanish then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import mpmath
import sympy
from sympy import Expr, S, Symbol

from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.absolutes import as_square
from tplimits.law.hypotheses.quotients import over_one_denominator, poles_of
from tplimits.law.hypotheses.signs import variables_in
from tplimits.law.hypotheses.taylor import is_analytic, quotient_powers
from tplimits.law.hypotheses.vanishing import FORM, function_of, places, vanishing
from tplimits.program.language.constants import NUMERICAL
from tplimits.program.nodes import functions
from tplimits.program.nodes.functions import truncated
from tplimits.program.nodes.properties import ENTIRE
from tplimits.program.nodes.series import near
from tplimits.program.parts import holds, remembered

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

#: radii that are tried, and the share of one up to which the series is used
_RADII, _SHARE = tuple(2.0 * 0.5 ** (k / 2) for k in range(16)), 0.5
#: the order of series whose coefficients are functions, and where they end at most
_ORDER, _RADIUS = 6, sympy.Float(0.5)
#: points of a circle, coefficients that are kept, those of negative order that are asked, digits
_POINTS, _KEPT, _ASKED, _DIGITS = 128, 32, 8, 60
#: what counts as zero, and how much larger than in the middle a function may be on its circle to tell
_ZERO, _UNEVEN = mpmath.mpf(10) ** -30, 1e8
#: where a series is compared with its function, as a share of the radius, and how well 32 terms have to agree there
_WITHIN, _SERIES = mpmath.mpf("0.3"), mpmath.mpf(10) ** -15
#: analytic where they are finite, with values off the real line, and what has no elementary form in the language
_ANALYTIC = (
    *(head for head in ENTIRE if head is not truncated),
    sympy.log,
    sympy.tan,
    sympy.asin,
    sympy.acos,
    sympy.atanh,
)


def beside_poles(function: Expr, variables: Collection[Symbol]) -> Expr:
    """A function of variables alone with all that cancels beside its poles read off series there."""
    return of_differences(continued(function, independent(variables)), variables)


def continued(expr: Expr, gaussians: Randomness) -> Expr:
    """The same function with what cancels beside its poles read off its power series there."""
    if isinstance(expr, near) or not holds(expr, sympy.Pow, sympy.log):
        return expr
    if isinstance(expr, sympy.log) or (expr.is_Pow and not (expr.exp.is_Integer and expr.exp.is_positive)):
        # what only touches zero under a root, a logarithm or in a pole, and may be negative by its rounding
        base = as_square(expr.args[0])
        return expr.func(_numerator(base, variables_in(base, gaussians), gaussians), *expr.args[1:])
    if isinstance(expr, sympy.Mul):
        expr = _without_kinks(expr, gaussians)
    if isinstance(expr, (sympy.Add, sympy.Mul)):
        expr = _quotients(expr, gaussians)
    if isinstance(expr, sympy.Mul):
        zeros = _zeros([expr], gaussians)
        expr = sympy.Mul(*(_numerator(f, zeros, gaussians) for f in expr.args))
    parts = () if isinstance(expr, near) else expr.args
    swap = {part: other for part in parts if (other := continued(part, gaussians)) is not part}
    return expr.func(*(swap.get(part, part) for part in parts)) if swap else expr


def _without_kinks(product: Expr, gaussians: Randomness) -> Expr:
    """t step(t) for relu(t) and t sign(t) for |t| beside poles at t, which cancel: 0/0 is no number at a node."""
    swap: dict[Expr, Expr] = {}
    zeros = _zeros([product], gaussians) if holds(product, sympy.Abs, functions.relu) else []
    for factor in product.args if zeros else ():
        base, power = factor.as_base_exp()
        if isinstance(base, (sympy.Abs, functions.relu)) and power.is_Integer and power.is_positive:
            jump = sympy.sign if isinstance(base, sympy.Abs) else functions.step
            for t, sign in itertools.product(zeros, (1, -1)):
                if base.args[0] == sign * t:
                    swap[factor] = sympy.Mul(sign, t, jump(sign * t)) ** power
    return product.func(*(swap.get(f, f) for f in product.args)) if swap else product


def of_differences(expr: Expr, variables: Collection[Expr]) -> Expr:
    """The same with quotients of differences, (f(x) − f(y))/(x − y), read off their Taylor series where x = y."""
    cut = {node: sympy.Dummy(real=True) for node in expr.atoms(truncated) if node.args[0] in variables}
    if cut:  # entries of a truncated law are variables, too
        back = {name: node for node, name in cut.items()}
        return of_differences(expr.xreplace(cut), (*variables, *back)).xreplace(back)
    poles = dict.fromkeys(p.base for p in expr.atoms(sympy.Pow) if p.exp.is_Integer and p.exp.is_negative)
    for base in sorted(poles, key=sympy.default_sort_key):
        read = base.free_symbols
        if len(read) == 2 and read <= set(variables) and all(base.diff(v).is_number for v in read):
            expr = _of_difference(expr, base)
    return expr


def _of_difference(expr: Expr, argument: Expr) -> Expr:
    if isinstance(expr, near) or not expr.has(argument):
        return expr
    if isinstance(expr, (sympy.Add, sympy.Mul)) and expr.free_symbols <= argument.free_symbols:
        series = _taylor(expr, argument)
        if series is not None:
            return series
    mine = [f for f in expr.args if f.free_symbols <= argument.free_symbols] if expr.is_Mul else []
    if 0 < len(mine) < len(expr.args):
        others = (_of_difference(f, argument) for f in expr.args if f not in mine)
        return sympy.Mul(_of_difference(sympy.Mul(*mine), argument), *others)
    return expr.func(*(_of_difference(a, argument) for a in expr.args))


def _taylor(quotient: Expr, difference: Expr) -> Expr | None:
    """A function of two variables by its series in one of them where a difference vanishes; None where a pole stays."""
    variable = min(difference.free_symbols, key=str)
    slope, step = difference.diff(variable), sympy.Dummy(real=True)
    place = sympy.expand(variable - difference / slope)
    whole = over_one_denominator(quotient, difference.__eq__)
    poles = poles_of(sympy.Mul.make_args(whole), difference.__eq__)
    above = sympy.Mul(*(f for f in sympy.Mul.make_args(whole) if f not in poles)).xreplace({variable: place + step})
    if not poles or not is_analytic(above, step):
        return None
    below = sympy.Mul(*((slope * step) ** -pole.exp for pole in poles))
    coefficients = quotient_powers(above, below, step, _ORDER)
    return None if coefficients is None else near(variable - place, quotient, _RADIUS, *coefficients)


def _zeros(terms: Iterable[Expr], gaussians: Randomness) -> list[Expr]:
    """What vanishes in the denominators of some products."""
    poles = (f.base for t in terms for f in sympy.Mul.make_args(t) if f.is_Pow and f.exp.is_negative)
    found = (vanishing(base, gaussians) for base in dict.fromkeys(poles) if gaussians.of(base))
    return list(dict.fromkeys(f for zeros in found if zeros for f, _ in (*zeros.forms, *zeros.others)))


def _quotients(expr: Expr, gaussians: Randomness) -> Expr:
    """A sum with its removable poles continued, those of terms with the same other factors together."""
    terms = list(sympy.Add.make_args(expr))
    for t in places(expr, _zeros(terms, gaussians)):
        beside: dict[Expr, list[tuple[Expr, Expr]]] = {}
        for term in terms:
            factors = sympy.Mul.make_args(term)
            mine = [f for f in factors if function_of(f, t, gaussians) is not None]
            if any(f.is_Pow and f.exp.is_negative and _vanishes(function_of(f.base, t, gaussians)) for f in mine):
                number, rest = sympy.Mul(*(f for f in factors if f not in mine)).as_coeff_Mul()
                beside.setdefault(rest, []).append((term, number * sympy.Mul(*mine)))
        for rest, parts in beside.items():
            whole = sympy.Add(*(part for _, part in parts))
            series = _series(function_of(whole, t, gaussians))
            if series is not None:
                terms = [term for term in terms if all(term is not used for used, _ in parts)]
                terms.append(rest * near(t, whole, *series))
    return sympy.Add(*terms)


def _numerator(factor: Expr, zeros: Sequence[Expr], gaussians: Randomness) -> Expr:
    """A factor beside a pole that vanishes with it, if it is a sum, or a function of one, that cancels there."""
    base, power = factor.as_base_exp()
    if factor.is_Pow and power.is_Integer and power.is_positive:
        return _numerator(base, zeros, gaussians) ** power
    if isinstance(factor, near) or not holds(factor, sympy.Add):
        return factor
    for t in places(factor, zeros):
        alone = function_of(factor, t, gaussians)
        # doubles keep all digits of a multiple of t
        if alone is not None and (alone / FORM).has(FORM):
            series = _series(alone)
            if series is not None and not series[1]:
                return near(t, factor, *series)
    return factor


def _vanishes(function: Expr | None) -> bool:
    return function is not None and bool(sympy.expand(function.xreplace({FORM: S.Zero})).is_zero)


@remembered(1 << 10)
def _series(function: Expr | None) -> tuple[Expr, ...] | None:
    """(δ, c₀, c₁, …) of a function of `FORM`; None where it is not analytic at 0 once its pole is removed."""
    if function is None or function.free_symbols - {FORM}:
        return None
    written = functions.elementary(function)
    known = (sympy.Add, sympy.Mul, sympy.Pow, *_ANALYTIC)
    if not all(isinstance(node, known) for node in sympy.preorder_traversal(written) if node.args):
        return None
    value = sympy.lambdify(FORM, written, [NUMERICAL, "mpmath"])
    with mpmath.workdps(_DIGITS):
        for radius in map(mpmath.mpf, _RADII):
            found = _coefficients(value, radius)
            if found is not None:
                return tuple(map(sympy.Float, (_SHARE * float(radius), *map(float, found))))
    return None


@lru_cache(maxsize=1)
def _circle() -> list[mpmath.mpc]:
    with mpmath.workdps(_DIGITS):
        return [mpmath.expjpi(mpmath.mpf(2 * k) / _POINTS) for k in range(_POINTS)]


def _coefficients(value: Callable[[Any], Any], radius: mpmath.mpf) -> list[mpmath.mpf] | None:
    """c_j of a real function that is analytic within the radius but for a removable pole at 0; None for others."""
    circle, half = _circle(), _POINTS // 2
    try:
        upper = [mpmath.mpc(value(radius * w)) for w in circle[: half + 1]]
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        return None
    sizes = sorted(map(abs, upper))
    if not all(map(mpmath.isfinite, upper)) or sizes[-1] > _UNEVEN * sizes[half // 2]:
        return None
    nothing = _ZERO * sizes[-1]
    if max(abs(upper[0].imag), abs(upper[-1].imag)) > nothing:
        return None

    def scaled(j: int) -> mpmath.mpf:
        """c_j radius^j; the lower half of the circle has the complex conjugates."""
        turned = [(v * circle[-j * k % _POINTS]).real for k, v in enumerate(upper)]
        return (mpmath.fsum(turned) - (turned[0] + turned[-1]) / 2) / half

    if any(abs(scaled(-j)) > nothing for j in range(1, _ASKED)):
        return None
    found = [c / radius**j if abs(c) > nothing else mpmath.mpf(0) for j, c in enumerate(map(scaled, range(_KEPT)))]
    # poles inside of the circle may leave lower orders alone: of (1 + t²)^(−4) the first beyond |t| = 1 is t^(−8)
    inside = radius * _WITHIN
    return found if abs(mpmath.polyval(found[::-1], inside) - value(inside)) <= _SERIES * sizes[-1] else None
