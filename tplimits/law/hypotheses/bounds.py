"""Lower and upper bounds of expressions by interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.squares import squares
from tplimits.law.hypotheses.width_powers import by_what_they_multiply, range_of_powers
from tplimits.law.means import BoxMean
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import N, entries
from tplimits.program.nodes.functions import truncated
from tplimits.program.nodes.properties import POSITIVE, PROPERTIES, SIGNED, Symmetry, Trait, is_entire
from tplimits.program.nodes.scale import in_root
from tplimits.program.parts import found, longer, remembered

#: terms of a sum that is asked whether it is convex, and its variable
_FEW = 4
#: terms of a sum that is cut in two
_LONGEST = 12
#: nodes up to which a part of a body is written out
_LONG = 200
#: what is folded at one point, or nearly
_FOLDS = (sympy.Abs, functions.relu, functions.softplus)
#: what functions, their curvatures and the curvatures of these are written in: whatever stands inside of a curvature is
#: in its variable, so that no chain of them is longer than this
_ASKED = sympy.symbols("x:4", real=True, cls=sympy.Dummy)


def bounds(expr: Expr) -> tuple[Expr, Expr]:
    """Lower and upper bounds by interval arithmetic (infinite where nothing better is known).

    Signs are asked of their assumptions: `low.is_extended_negative` takes a thousandth of the time of −∞ < 0.
    """
    return (expr, expr) if expr.is_Rational else _bounds(expr)


def bounds_through(
    expr: Expr, bound: Callable[[Expr], tuple[Expr, Expr]], opened: Callable[[Expr], Expr]
) -> tuple[Expr, Expr]:
    """Bounds of a part of a body; maps that it reads are written out as long as they leave its sign open.

    1 − t has no sign, and with t = tanh² it is never negative.
    """
    low, high = bound(expr)
    while low.is_extended_negative and high.is_extended_positive:
        written = opened(expr)
        if written == expr or longer(written, _LONG):
            break
        expr, (low, high) = written, bound(written)
    return low, high


def never_negative(expr: Expr) -> bool:
    """Whether the lower bound says so."""
    return bool(bounds(expr)[0].is_extended_nonnegative)


@remembered(1 << 12)
def _times(low: Expr, high: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Of a product, by the corners."""
    # 0·∞ is 0 here: a factor that is 0 keeps the product 0 however large the other is; SymPy would say nan
    corners = {S.Zero if 0 in (p, q) else p * q for p in (low, high) for q in (x, y)}
    return min(corners), max(corners)


@remembered(1 << 14)
def _bounds(expr: Expr) -> tuple[Expr, Expr]:
    if expr.is_number:
        # as a decimal: comparing exact numbers with roots and π is what costs, and 20 digits tell their order
        value = expr.evalf(20)
        return (value, value) if value.is_extended_real else (-sympy.oo, sympy.oo)
    # constants and Gaussian variables alike: a sign is used only where it is assumed
    if expr.is_Symbol:
        return (S(int(expr == N)), sympy.oo) if expr.is_nonnegative else (-sympy.oo, sympy.oo)
    if isinstance(expr, sympy.Add):
        low, high = _of_folds(expr)
        for narrower in (_stationary, _of_squares, _apart):
            if low.is_extended_negative and high.is_extended_positive:
                low, high = narrower(expr, low, high)
        return low, high
    if isinstance(expr, sympy.Mul):
        low, high = S.One, S.One
        for least, most in _factors(expr.args):
            low, high = _times(low, high, least, most)
        return low, high
    if isinstance(expr, sympy.log):
        low, high = bounds(expr.args[0])
        return (sympy.log(low) if low > 0 else -sympy.oo), (sympy.log(high) if high > 0 else sympy.oo)
    if isinstance(expr, sympy.Pow) and expr.exp.is_Rational:
        low, high = bounds(expr.base)
        even = expr.exp.is_Integer and expr.exp % 2 == 0
        if even:
            low, high = _of_moduli(low, high)
        # a fractional power of what may be negative is not real: nothing is known of it but in this case
        if even or low.is_extended_nonnegative:
            if expr.exp > 0:
                return low**expr.exp, high**expr.exp
            return (S.Zero if high is S.Infinity else high**expr.exp), (sympy.oo if low == 0 else low**expr.exp)
        if expr.exp.is_Integer and expr.exp > 0:
            return low**expr.exp, high**expr.exp
        return -sympy.oo, sympy.oo
    if isinstance(expr, truncated):
        return -expr.args[1], expr.args[1]
    if type(expr) in PROPERTIES:
        return _of_head(expr, *bounds(expr.args[0]))
    if isinstance(expr, (functions.maximum, functions.minimum)) and expr.args[0] == -expr.args[1]:
        low, high = bounds(sympy.Abs(expr.args[0]))
        return (low, high) if isinstance(expr, functions.maximum) else (-high, -low)
    if isinstance(expr, (functions.maximum, functions.minimum, functions.where)):
        # one of the last two arguments: a condition stands before them
        lows, highs = zip(*map(bounds, expr.args[-2:]), strict=True)
        low = max(lows) if isinstance(expr, functions.maximum) else min(lows)
        return low, min(highs) if isinstance(expr, functions.minimum) else max(highs)
    # a mean lies between the bounds of what it is a mean of
    if isinstance(expr, BoxMean):
        return bounds(expr.integrand)
    return -sympy.oo, sympy.oo


def _of_head(expr: Expr, low: Expr, high: Expr) -> tuple[Expr, Expr]:
    """Of a function of an argument between two bounds: its values at these where it is monotone between them."""
    known = PROPERTIES[type(expr)]
    least, most = known.values
    if isinstance(expr, functions.gelu) and high <= 0:
        return least, S.Zero
    if known.symmetry is Symmetry.EVEN:
        low, high = _of_moduli(low, high)
    falls = Trait.FALLING in known.traits
    if not falls and (known.rises_from is None or low < known.rises_from):
        return least, most
    left = (most if falls else least) if low is S.NegativeInfinity else expr.func(low).evalf(20)
    right = (least if falls else most) if high is S.Infinity else expr.func(high).evalf(20)
    return (right, left) if falls else (left, right)


def _of_moduli(low: Expr, high: Expr) -> tuple[Expr, Expr]:
    """Of |x| for x between two bounds: 0 where they have two signs, else at the nearer end."""
    apart = low.is_extended_positive or high.is_extended_negative
    return (min(abs(low), abs(high)) if apart else S.Zero), max(abs(low), abs(high))


def _of_sum(expr: Expr) -> tuple[Expr, Expr]:
    terms = sympy.Add.make_args(expr)
    if N in found(expr, sympy.Symbol):  # 1/√n − 1/n by the powers of n together, apart they would have either sign
        parts = [_times(*range_of_powers(p), *bounds(rest)) for rest, p in by_what_they_multiply(terms).items()]
    else:
        parts = [bounds(a) for a in terms]
    return sympy.Add(*(p[0] for p in parts)), sympy.Add(*(p[1] for p in parts))


def _of_squares(expr: sympy.Add, low: Expr, high: Expr) -> tuple[Expr, Expr]:
    """The bounds of a sum; a quadratic polynomial without a saddle is least, or largest, where its squares vanish."""
    # √n is no generator of a ring to SymPy, which takes seconds for what it is asked of ε = n^(−1/q) at once
    polynomial, small, q = in_root(expr) if N in found(expr, sympy.Symbol) else (expr, S.Zero, 1)
    known = squares(polynomial, small)
    if known is None:
        return low, high
    width = {small: N ** -sympy.Rational(1, q)}
    (least, most), *signs = (bounds(part.xreplace(width)) for part in (known[1], *(d for d, _ in known[0])))
    if all(d.is_extended_nonnegative for d, _ in signs):
        return max(low, least), high
    return (low, min(high, most)) if all(d.is_extended_nonpositive for _, d in signs) else (low, high)


def _of_folds(expr: sympy.Add) -> tuple[Expr, Expr]:
    """Of a sum of multiples of x and of what is max(a x + b, 0) and, softplus, up to log 2 more; |x| is 2 x₊ − x."""
    low, high = _of_sum(expr)
    # kinks are looked at where the sign is open, which most sums of them leave no doubt of
    asked = _FOLDS if low.is_extended_negative and high.is_extended_positive else functions.softplus
    bends = any(isinstance(a.as_coeff_Mul()[1], asked) for a in expr.args)
    variables = (entries(expr) or expr.free_symbols) if bends else ()
    if len(variables) != 1:
        return low, high
    x = _ASKED[0]
    folds = [t.as_coeff_Mul() for t in expr.xreplace(dict.fromkeys(variables, x)).args]
    bent = [(d * (1 + isinstance(f, sympy.Abs)), f.args[0]) for d, f in folds if isinstance(f, _FOLDS)]
    straight = sympy.Add(*(d * f for d, f in folds if not isinstance(f, _FOLDS)))
    straight -= sympy.Add(*(d * f.args[0] for d, f in folds if isinstance(f, sympy.Abs)))
    # of what is moved by a scalar, an entry of data or a power of n there is no number
    lines = (straight, *(v for _, v in bent))
    if not all(part.is_number for g in lines for part in (g.diff(x), g.xreplace({x: S.Zero}))):
        return low, high
    # how fast it grows outward
    ends = [
        sign * straight.diff(x) + sympy.Add(*(d * sympy.Max(sign * v.diff(x), 0) for d, v in bent)) for sign in (1, -1)
    ]
    folded = straight + sympy.Add(*(d * sympy.Max(v, 0) for d, v in bent))
    places = [-v.xreplace({x: S.Zero}) / v.diff(x) for _, v in bent if v.diff(x) != 0]
    values = [folded.subs(x, place).evalf(20) for place in places]
    soft = [d for d, f in folds if isinstance(f, functions.softplus)]
    above, below = (sympy.log(2) * sympy.Add(*(d for d in soft if sign * d > 0)) for sign in (1, -1))
    if values and all(end <= 0 for end in ends):
        high = min(high, (max(values) + above).evalf(20))
    if values and all(end >= 0 for end in ends):
        low = max(low, (min(values) + below).evalf(20))
    return low, high


def _apart(expr: sympy.Add, low: Expr, high: Expr) -> tuple[Expr, Expr]:
    """The bounds of a sum; what reads the width alone apart from the rest, and polynomials from all else."""
    if len(expr.args) > _LONGEST:
        return low, high
    read = sorted(expr.free_symbols - {N}, key=str)
    for alone in (lambda t: not t.free_symbols - {N} and t.has(N), lambda t: t.is_polynomial(*entries(t), *read)):
        part = sympy.Add(*filter(alone, expr.args))
        if part not in (0, expr):
            lows, highs = zip(bounds(part), bounds(expr - part), strict=True)
            low, high = max(low, sympy.Add(*lows)), min(high, sympy.Add(*highs))
    return low, high


def _stationary(expr: sympy.Add, low: Expr, high: Expr) -> tuple[Expr, Expr]:
    """The bounds of a sum; a convex function of one variable is least where it is stationary: e^x − 1 − x ≥ 0."""
    variables = entries(expr) or expr.free_symbols
    if len(variables) != 1 or len(expr.args) > _FEW or _ASKED[-1] in variables:
        return low, high
    x = _ASKED[next((i + 1 for i, asked in enumerate(_ASKED) if asked in variables), 0)]
    function = expr.xreplace(dict.fromkeys(variables, x))
    slope = function.diff(x) if is_entire(function, x) else x + 1
    if slope.xreplace({x: S.Zero}) != 0:
        return low, high
    # that of e^x + e^(−x) − 2 − x² is never negative by its own; those of sin 2x − 2 sin x cos x go on for ever, and
    # those of t² − x², t being truncated, whose slope holds exp((t² − x²)/2)
    least, most = bounds(slope.diff(x))
    at = function.xreplace({x: S.Zero})
    return (at if least.is_extended_nonnegative else low), (at if most.is_extended_nonpositive else high)


def _factors(factors: tuple[Expr, ...]) -> Iterator[tuple[Expr, Expr]]:
    """Bounds of the factors of a product; of f·tanh(f), which is never negative, together, and of shares."""
    factors = tuple(factors)
    for divisor in factors:
        # what is a part of one share is a part of no other
        if divisor in factors and (share := _share(factors, divisor)):
            yield S.Zero, S.One
            factors = tuple(f for f in factors if f not in share)
    # apart the two factors would have either sign, and f·tanh(f) under a root would be refused
    pairs = {f: f.args[0] for f in factors if isinstance(f, SIGNED) and f.args[0] in factors}
    together = {*pairs, *pairs.values()}
    for f in factors:
        if f not in together:
            yield bounds(f)
    for f, argument in pairs.items():
        low, high = _times(*bounds(f), *bounds(argument))
        yield max(low, S.Zero), high


def _share(factors: tuple[Expr, ...], divisor: Expr) -> set[Expr] | None:
    """The factors of (p/(p + q + …))^k, p and all else never negative, as weights of a softmax are: 1 at most."""
    if not (isinstance(divisor, sympy.Pow) and divisor.base.is_Add and divisor.exp.is_negative):
        return None
    for term in divisor.base.args:
        own = set(sympy.Mul.make_args(term**-divisor.exp))
        if own <= set(factors) and all(map(never_negative, divisor.base.args)):
            return {divisor, *own}
    return None


def keeps_off(limit: Expr) -> bool:
    """Whether it is positive, and no entry of n is seen near zero, as of exp(h)."""
    if isinstance(limit, sympy.Add):
        # one summand that keeps off is enough if no other can take it away
        return all(map(never_negative, limit.args)) and any(map(keeps_off, limit.args))
    if isinstance(limit, sympy.Mul):
        return all(map(keeps_off, limit.args))
    if isinstance(limit, sympy.Pow):
        return keeps_off(limit.base)
    return bool(limit.is_positive) or isinstance(limit, POSITIVE)


def may_vanish_below(function: Expr) -> bool:
    """Whether something that may vanish is divided by, or stands in a logarithm."""
    divisors = [p.base for p in function.atoms(sympy.Pow) if p.exp.could_extract_minus_sign()]
    divisors += [logarithm.args[0] for logarithm in function.atoms(sympy.log)]
    return any(bounds(divisor)[0] <= 0 for divisor in divisors)
