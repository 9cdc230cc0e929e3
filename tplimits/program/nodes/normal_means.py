"""The number of a mean over one standard normal variable, E f(g), and its error: every engine reads it here.

The line is cut where f has kinks, jumps and poles and where a smooth function turns; panels between the cuts are halved
until the Gauss–Legendre rule and its two halves agree.  Beside a pole or a logarithm at an exact place f is written in
the distance from it, so that no digits are lost there.  Where f overflows or lies far out an exponential is taken into
the law first,

    E e^(bg + cg²) f(g) = s e^(b²s²/2) E f(bs² + sg),   s = (1 − 2c)^(−1/2),

term by term.  A mean that is not known to nine digits of E|f| has no number: the reason is told.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy
import sympy
from sympy import Expr, S, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes import functions
from tplimits.program.nodes.crossings import between_waves, zeros
from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.properties import DEGREES, FADING, TURNING, WAVES
from tplimits.program.nodes.rules import (
    ENOUGH,
    NOT_SEEN,
    RADIUS,
    ROUNDING,
    Line,
    Mean,
    Unseen,
    density,
    settled,
    to_the_pole,
)

#: halvings of the distance from where a function turns
_SEEN = 34
#: places nearer to a pole than this are the pole; exponents that doubles hold
_SAME, _LARGE = 1e-9, 600.0
#: heads that are exactly 0 on one side, and not only too small for a double
_NOTHING_BELOW = tuple(head for head in FADING if head in DEGREES)
#: how far off a place is that is known to rounding, in units of it; half turns of a wave whose zeros are told
_MISPLACED, _TURNS = 1, 64
#: terms into which a function is taken apart
_TERMS = 64
#: an expression on arrays (`evaluate` of this package, which reads means from here)
Evaluate = Callable[[Expr, Mapping[Expr, Any]], Any]


def singular(expr: Expr) -> set[Expr]:
    """What stands under logarithms and under negative or broken powers, unless it is positive at sight."""
    return {base for base in _bases(expr) if base.free_symbols and not base.is_positive}


def _bases(expr: Expr) -> set[Expr]:
    found = {node.args[0] for node in expr.atoms(sympy.log)}
    return found | {n.base for n in expr.atoms(sympy.Pow) if not (n.exp.is_Integer and n.exp.is_positive)}


def normal_mean(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any], evaluate: Evaluate) -> Mean:
    """E f(g) for a standard normal g, the other symbols of f single numbers; EvaluationError where it has none."""
    why, ways = "", [_as_it_is, _tilted, _apart]
    if _overflows(integrand, variable, known, evaluate):
        ways = [_tilted, _apart, _as_it_is]
    for way in ways:
        try:
            found = way(integrand, variable, known, evaluate)
        except Unseen as reason:
            why = why or str(reason)
            continue
        # within its error of 0 it is 0: behind a quotient it would be a number made of rounding
        return Mean(0.0, found.error, found.size) if abs(found.value) <= found.error else found
    raise EvaluationError(f"the mean of `{integrand!s:.200}` over a standard normal {variable} {why}.")


def _overflows(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any], evaluate: Evaluate) -> bool:
    """Whether an exponential is too large for a double where the density is none."""
    found = _exponential(integrand, variable)
    if found is None:
        return integrand.has(sympy.exp, sympy.sinh, sympy.cosh) and any(
            _overflows(term, variable, known, evaluate) for term in _terms(integrand) if term != integrand
        )
    _, b, c = (float(evaluate(x, known)) for x in found[1])
    return abs(b) * RADIUS + max(c, 0.0) * RADIUS**2 > _LARGE


def _as_it_is(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any], evaluate: Evaluate) -> Mean:
    """By the panels of its charts."""

    nothing = [f for f in sympy.Mul.make_args(integrand) if isinstance(f, _NOTHING_BELOW)]

    def line(x: Array) -> Array:
        values = numpy.broadcast_to(evaluate(integrand, {**known, variable: x}), x.shape) * density(x)
        for factor in () if numpy.isfinite(values).all() else nothing:
            # exp(−50g) relu(g) is 0 also where the exponential is no double
            values = numpy.where(evaluate(factor, {**known, variable: x}) == 0, 0.0, values)
        return values

    poles = _poles(integrand, variable)
    ends = [float(pole) for pole in poles]
    bent, turning = _cuts(integrand, variable, known, evaluate)
    steps = 2.0 ** -numpy.arange(_SEEN)
    near = [x + side * steps for x in turning if x not in ends for side in (-1, 1)]
    cuts = numpy.unique(numpy.concatenate([numpy.arange(-RADIUS, RADIUS + 1.0), bent, turning, *near]))
    # a pole that is known is no second one beside it
    cuts = cuts[numpy.all([abs(cuts - end) > _SAME for end in ends], axis=0)] if ends else cuts
    cuts = numpy.unique(numpy.concatenate([cuts[abs(cuts) <= RADIUS], ends]))
    # half of the way to the next cut is seen from a pole
    reach = [float(numpy.min(abs(cuts[cuts != end] - end))) / 2 for end in ends]
    sides = [end + side * r for end, r in zip(ends, reach, strict=True) for side in (-1, 1)]
    edges = numpy.unique(numpy.concatenate([cuts, sides]))
    low, high = edges[:-1], edges[1:]
    away = ~(numpy.isin(low, ends) | numpy.isin(high, ends))
    with numpy.errstate(all="ignore"):
        found = settled(line, low[away], high[away])
        for pole, r in zip(poles, reach, strict=True):
            for side in (-1, 1):
                found += to_the_pole(_beside(integrand, variable, known, evaluate, pole, side), r)
        found += _misplaced(line, cuts[~numpy.isin(cuts, ends)])
    if not (math.isfinite(found.value) and found.error <= ENOUGH * found.size):
        raise Unseen(NOT_SEEN)
    return found


def _misplaced(line: Line, cuts: Array) -> Mean:
    """What a mean is off by for places that are known to rounding alone: at a pole |x|^(−½) has a 10⁻⁸th within it."""
    near = _MISPLACED * numpy.spacing(abs(cuts))
    error = sum(float((abs(line(cuts + side * near)) * near).sum()) for side in (-1, 1))
    return Mean(0.0, error, 0.0)


def _beside(
    integrand: Expr, variable: Symbol, known: Mapping[Expr, Any], evaluate: Evaluate, pole: Expr, side: int
) -> Line:
    """f times the density in the distance from a pole, on one side of it."""
    away = Symbol("away", positive=True)
    # SymPy takes (c + x) − c together: the distance itself stands under the power
    moved, at = integrand.xreplace({variable: pole + side * away}), float(pole)

    def line(x: Array) -> Array:
        return numpy.broadcast_to(evaluate(moved, {**known, away: x}), x.shape) * density(at + side * x)

    return line


def _tilted(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any], evaluate: Evaluate) -> Mean:
    """With an exponential of a polynomial of second degree in the law."""
    found = _exponential(integrand, variable)
    if found is None:
        raise Unseen(NOT_SEEN)
    rest, (constant, b, c) = found
    left = 1 - 2 * c
    spread = float(evaluate(left, known))
    if not spread > 0:
        raise EvaluationError(f"the mean of `{integrand!s:.200}` over a standard normal {variable} is infinite.")
    moved = rest.xreplace({variable: b / left + variable / sympy.sqrt(left)})
    # exactly, as far as it can be: the constant of a peak far out is as large and of the other sign
    power = float(evaluate(constant + b**2 / left / 2, known))
    if rest.has(variable):
        inside = _as_it_is(moved, variable, known, evaluate)
    else:
        one = float(evaluate(rest, known))
        inside = Mean(one, ROUNDING * abs(one), abs(one))
    if inside.size == 0:
        raise Unseen(f"lies further out than {RADIUS} standard deviations")
    try:
        factor = math.exp(power - math.log(spread) / 2)
    except OverflowError:
        factor = math.inf
    if not math.isfinite(factor * inside.size):
        raise EvaluationError(
            f"the mean of `{integrand!s:.200}` over a standard normal {variable} is too large for a double."
        )
    value, error, size = factor * inside.value, factor * inside.error, factor * inside.size
    return Mean(value, error + ROUNDING * abs(power) * size, size)


def _exponential(integrand: Expr, variable: Symbol) -> tuple[Expr, tuple[Expr, Expr, Expr]] | None:
    """The rest and (a, b, c) of a product with e^(a + bg + cg²); None where there is none."""
    factors = sympy.Mul.make_args(integrand)
    inside = [f for f in factors if isinstance(f, sympy.exp) and f.args[0].is_polynomial(variable)]
    power = sympy.Poly(sympy.Add(*(f.args[0] for f in inside)), variable)
    if not 0 < power.degree() <= 2:
        return None
    constant, b, c = (power.coeff_monomial(variable**k) for k in range(3))
    return sympy.Mul(*(f for f in factors if f not in inside)), (constant, b, c)


def _apart(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any], evaluate: Evaluate) -> Mean:
    """Term by term, hyperbolic functions through exponentials."""
    terms = _terms(integrand)
    if not 1 < len(terms) <= _TERMS:
        raise Unseen(NOT_SEEN)
    total = Mean(0.0, 0.0, 0.0)
    for term in terms:
        way = _as_it_is if _exponential(term, variable) is None else _tilted
        total += way(term, variable, known, evaluate)
    return total


def _terms(integrand: Expr) -> tuple[Expr, ...]:
    written = integrand.rewrite([sympy.sinh, sympy.cosh], sympy.exp)
    # by names: SymPy takes e^(−g) for a denominator, and multiplies it by what else is divided by
    names = {f: sympy.Dummy(positive=True) for f in written.atoms(sympy.exp)}
    back = {name: f for f, name in names.items()}
    return tuple(t.xreplace(back) for t in sympy.Add.make_args(sympy.expand(written.xreplace(names))))


def _poles(integrand: Expr, variable: Symbol) -> list[Expr]:
    """Exact places where something under a logarithm, a root or a fraction line is zero."""
    found = set()
    for base in singular(integrand):
        for part in _parts(base):
            if isinstance(part, WAVES):
                found.update(_zeros_of_a_wave(part, variable))
            elif (root := _zero(part, variable)) is not None:
                found.add(root)
    return sorted((x for x in found if abs(float(x)) < RADIUS), key=float)


def _zero(part: Expr, variable: Symbol) -> Expr | None:
    """Where an affine function is zero, if that is an exact number."""
    rate = part.diff(variable)
    root = -part.xreplace({variable: S.Zero}) / rate if rate.is_number and rate != 0 else None
    return root if root is not None and root.is_number and not root.has(sympy.Float) else None


def _zeros_of_a_wave(wave: Expr, variable: Symbol) -> list[Expr]:
    """Where the sine, cosine or tangent of an affine function is zero, if these are exact numbers and not too many."""
    argument, half = wave.args[0], sympy.Rational(isinstance(wave, sympy.cos), 2)
    first = _zero(argument, variable)
    rate = abs(float(argument.diff(variable))) if first is not None else math.inf
    if first is None or rate * RADIUS > _TURNS * math.pi:
        return []
    most = math.ceil(rate * (RADIUS + abs(float(first))) / math.pi) + 1
    slope = argument.diff(variable)
    return [first + (k + half) * sympy.pi / slope for k in range(-most, most + 1)]


def _parts(argument: Expr) -> Iterator[Expr]:
    """What an argument vanishes with: its factors, without their powers and absolute values."""
    for factor in sympy.Mul.make_args(sympy.factor_terms(argument)):
        base = factor.base if isinstance(factor, sympy.Pow) else factor
        if isinstance(base, sympy.Abs):
            yield from _parts(base.args[0])
        elif base.free_symbols:
            yield base


def _cuts(
    integrand: Expr, variable: Symbol, known: Mapping[Expr, Any], evaluate: Evaluate
) -> tuple[list[float], list[float]]:
    """Where the integrand has kinks and jumps, and where it turns or has poles or peaks: the panels are short there."""
    bases, turning = _bases(integrand), {node.args[0] for node in integrand.atoms(*TURNING)}
    line = numpy.linspace(-RADIUS, RADIUS, 32 * RADIUS + 1)

    def at(place: Expr, x: Array) -> Any:
        return evaluate(place, {**known, variable: x})

    def places(exprs: Iterable[Expr]) -> list[float]:
        found: list[float] = []
        for place in exprs:
            # a kink in the variable of a mean inside is smoothed away by it
            if variable in place.free_symbols and place.free_symbols <= {variable, *known}:
                waves = (functools.partial(at, n.args[0]) for n in place.atoms(*WAVES))
                found += zeros(functools.partial(at, place), between_waves(waves, line))
        return [x for x in found if math.isfinite(x)]

    # of a fraction and of an exponential a peak stands where they turn themselves
    smooth = (a for a in (*bases, *turning) if not a.has(*functions.BENT, sympy.DiracDelta, GaussMean))
    slopes = {d for a in smooth if (d := a.diff(variable)).has(variable)}
    with numpy.errstate(all="ignore"):
        bent = places({part for a in functions.kinks(integrand) for part in _parts(a)})
        return bent, places({part for a in (*bases, *turning) for part in _parts(a)} | slopes)
