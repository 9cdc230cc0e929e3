"""Where a function of one variable has kinks, jumps, poles and sharp turns, which are edges of panels."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.forms import factors, turns
from tplimits.numbers.in_digits import at_values
from tplimits.program.nodes import functions
from tplimits.program.nodes.crossings import between_waves, zeros
from tplimits.program.nodes.digits import in_digits
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.hidden_jumps import derivative
from tplimits.program.nodes.normal_means import singular
from tplimits.program.nodes.parity import parity
from tplimits.program.nodes.properties import WAVES
from tplimits.program.nodes.rules import REACH
from tplimits.program.nodes.running_errors import refuse_rounding, samples
from tplimits.program.parts import holds, remembered

#: how far zeros are searched at least, if nothing is said, and up to where by small steps; more places are too many
_LEAST_SEARCHED, _SEARCHED, _MOST_SEARCHED, _MOST = 16.0, 64.0, 4096.0, 4096
#: these steps
_STEP = 1 / 32
#: points at which rounding is bounded
_SEEN = 256
#: by how much rounding moves a double root of a polynomial off the real line, relative to it
_DOUBLE = 1e-6
#: distances of panels from a place where a function is infinite: panels four times as far on one side as on the other
#: integrate powers and logarithms to rounding; those of zero may be tiny, beside others they are lost in rounding
_GRADES, _NEAR = tuple(0.25**k for k in range(1, 201)), 16
#: the distance from a place without a number at which a function is asked whether it grows
_BESIDE = 2.0**-8
#: what two halvings of that distance have to change, the second beside the first, to show no derivative, no number
_DERIVATIVE, _LOGARITHM = 0.53, 0.9
#: of the mean over a panel that ends where a function is infinite: |x|^(−0.98) has ten times what its nodes see
UNSEEN = 10.0

#: a function turns sharply where its argument changes by its scale within this share of a panel
_SHARP = 1 / 8

#: where smooth functions are compared with what they are at −x, in so many digits: on several scales, nowhere special
_TURNED, _DIGITS = tuple(sympy.Rational(t, 997) for t in (89, 641, 1789, 6007)), 30


@dataclass(frozen=True)
class Kinked:
    """A function of one variable on arrays, and where its kinks and jumps are."""

    function: Expr
    variable: Symbol
    kinks: tuple[float, ...]
    #: those where a smooth function turns sharply, each with the distance on which it does
    turns: tuple[tuple[float, float], ...] = ()

    def __call__(self, x: Array) -> Array:
        with numpy.errstate(all="ignore"):
            found = evaluate(self.function, {self.variable: x})
        values = numpy.broadcast_to(numpy.asarray(found, dtype=numpy.float64), x.shape)
        lost = ~numpy.isfinite(values)
        if not lost.any():
            return values
        values = values.copy()  # log(1 + e^x) is a number wherever e^x overflows
        values[lost] = at_values(functions.elementary(self.function), self.variable, x[lost])
        return values

    def weighed(self, x: Array, weights: Array) -> Array:
        """The values, 0 where a weight is: all nodes of a panel without length may be at a pole."""
        return numpy.where(weights > 0, self(x), 0.0) if self.undefined else self(x)

    @cached_property
    def undefined(self) -> tuple[float, ...]:
        """The kinks where the function has no number: infinite, or 0/0."""
        return tuple(t for t in self.kinks if not numpy.isfinite(self(numpy.array(t))))

    @cached_property
    def infinite(self) -> tuple[float, ...]:
        """The kinks where the function is infinite, not only 0/0: halving the distance changes it by more and more."""
        return tuple(t for t in self.undefined if self._changes(t) > _LOGARITHM)

    def _changes(self, t: float) -> float:
        """By how much more the second halving of the distance from t changes the function than the first.

        A derivative: ½, a logarithm: 1, |x|^p: 2^(−p).
        """
        beside = numpy.array([[t + side * _BESIDE * 0.5**k for k in range(3)] for side in (1, -1)])
        first, second = abs(numpy.diff(self(beside), axis=1)).T
        with numpy.errstate(all="ignore"):
            return float(numpy.where(second > 0, second / first, 0.0).max())

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """The kinks, and panels that shrink towards places without a number or a derivative."""
        return self._graded(len(_GRADES))

    @cached_property
    def near(self) -> tuple[float, ...]:
        """The same, not as close: enough where they move from node to node."""
        return self._graded(_NEAR)

    def _graded(self, zero: int) -> tuple[float, ...]:
        # where 0/0 is smooth, as of (exp x − 1)/x, small panels would meet rounding alone
        rough = [t for t in self.undefined if self._changes(t) > _DERIVATIVE]
        steps = [(t, x) for t in rough for x in _GRADES[: _NEAR if t else zero]]
        # and panels that grow from the scale of a sharp turn to that of others
        steps += [(t, x) for t, width in self.turns for x in _growing(width, _panel(t))]
        return tuple(sorted({*self.kinks, *(t + side * x for t, x in steps for side in (1, -1))}))

    @cached_property
    def parity(self) -> int | None:
        """0 for an even function, 1 for an odd one, None for neither: means at small correlations would drown in the
        rounding of coefficients that are zero.
        """
        signs = [1, -1]
        # algebra of many kinks takes minutes, which numbers spare where they show that there is nothing to see
        for x in _TURNED:
            right, left = (in_digits(self.function, _DIGITS, {self.variable: t * x}) for t in (1, -1))
            if not (right.is_comparable and left.is_comparable):
                break
            signs = [sign for sign in signs if _equal(sign, right, left)]
            if not signs:
                return None
        found = parity(self.function, self.variable)
        return None if found is None else (1 - found) // 2


def _equal(sign: int, one: Expr, other: Expr) -> bool:
    apart, size = abs(one - sign * other), abs(one) + abs(other)
    return bool(apart <= sympy.Float(10) ** (4 - _DIGITS) * size)


def reach(variances: Array) -> float:
    """How far zeros are searched for: as far as the law of the largest variance goes, in powers of two."""
    far = REACH * math.sqrt(float(numpy.max(variances, initial=0.0)))
    return 2.0 ** math.ceil(math.log2(max(far, _LEAST_SEARCHED)))


@remembered(512)
def kinked(function: Expr, variable: Symbol, searched: float = _SEARCHED) -> Kinked:
    """The function with its kinks, those of lines and polynomials all, others searched for in |x| ≤ `searched`.

    Raises EvaluationError where they are too many to integrate between them.
    """
    found: set[float] = set()
    # exp(80x)·exp(−100x²) is a number wherever exp(80x) overflows
    function = function.replace(lambda e: e.is_Mul, _of_one_exponential)
    # poles are edges as well: a panel across one would sum both infinite sides
    for argument in functions.kinks(function) | {x.base if x.is_Pow else x for x in singular(function)}:
        found.update(_zeros(argument, variable, searched))
    if holds(function, *functions.JUMPS):
        x, weights = samples(1, _SEEN)
        refuse_rounding(function, {variable: searched / REACH * x[..., 0]}, weights, evaluate)
    turning = _turns(function, variable, searched)
    return Kinked(function, variable, tuple(sorted({*found, *turning})), tuple(turning.items()))


def _of_one_exponential(product: Expr) -> Expr:
    """A product with its exponentials as that of the sum of their arguments."""
    exponentials = [f for f in product.args if isinstance(f, sympy.exp)]
    if len(exponentials) < 2:
        return product
    rest = [f for f in product.args if f not in exponentials]
    return sympy.Mul(*rest, sympy.exp(sympy.Add(*(f.args[0] for f in exponentials))))


def _zeros(argument: Expr, variable: Symbol, searched: float) -> set[float]:
    """Where an argument is zero: anywhere if it is a line or a polynomial, else where it is searched."""
    if variable not in argument.free_symbols:
        return set()
    slope = derivative(argument, variable)
    if slope.is_number and slope != 0:
        return {float(-argument.xreplace({variable: sympy.S.Zero}) / slope)}
    if argument.is_polynomial(variable):
        return {*zeros(Kinked(argument, variable, ()), _line(_SEARCHED)), *_far_roots(argument, variable)}
    near = min(searched, _MOST_SEARCHED)
    line = _line(near)
    if near < searched:
        far = near * (searched / near) ** numpy.linspace(0.0, 1.0, line.size)[1:]
        line = numpy.concatenate([-far[::-1], line, far])
    waves = [Kinked(n.args[0], variable, ()) for n in argument.atoms(*WAVES)]
    found = set(zeros(Kinked(argument, variable, ()), between_waves(waves, line)))
    if len(found) > _MOST:
        raise EvaluationError(
            f"`{argument}` is zero at {len(found)} places, too many to integrate between them: scale the argument of "
            "its waves, or the inputs, down."
        )
    return found


def _line(searched: float) -> Array:
    return numpy.linspace(-searched, searched, int(2 * searched / _STEP) + 1)


def _far_roots(argument: Expr, variable: Symbol) -> set[float]:
    """Those of a polynomial beyond where zeros are searched, of a double one what rounding leaves of it."""
    found = numpy.roots([float(c) for c in sympy.Poly(argument, variable).all_coeffs()])
    real = found[(abs(found.imag) <= _DOUBLE * abs(found)) & (abs(found.real) > _SEARCHED)].real
    return set(real.tolist())


def _smooth_slope(expr: Expr, variable: Symbol) -> Expr:
    """The derivative between the jumps."""
    return derivative(expr, variable).replace(sympy.DiracDelta, lambda *_: sympy.S.Zero)


def _turns(function: Expr, variable: Symbol, searched: float) -> dict[float, float]:
    """Where a smooth function turns within a small part of a panel, and the distance on which it does."""
    bases = {n.base if n.is_Pow else n.args[0] for n in function.atoms(sympy.Pow, sympy.log) if not n.is_polynomial()}
    # a power or a logarithm turns where what it is of is as large again, others where their argument changes by 1
    places = [(a, k, 0.0) for a, k in turns([function])] + [(b, k, 1.0) for b in bases for k in factors(b)]
    # a peak is where its exponent is largest, which need not be 0 there
    places += [(a, k, 0.0) for a in {a for a, _, _ in places} for k in factors(_smooth_slope(a, variable))]
    found: dict[float, float] = {}
    for argument, place, relative in places:
        f = Kinked(argument, variable, ())
        for t in _zeros(place, variable, searched):
            if _is_rounded_away(place, variable, t):
                continue
            at = abs(float(f(numpy.array(t))))
            apart = abs(abs(f(t + numpy.array(_GRADES))) - at) > (at if relative else 1.0)
            width = _GRADES[min(int(apart.sum()), len(_GRADES) - 1)]
            # what is zero itself is a pole or a root there, a kink already
            if width < _SHARP * _panel(t) and (at or not relative):
                found[t] = min(width, found.get(t, math.inf))
    return found


def _is_rounded_away(place: Expr, variable: Symbol, t: float) -> bool:
    """Whether a zero lies on a stretch where doubles are 0 and the function is not: 1 − tanh(x)² beyond 19.

    The line that is searched may end within it.
    """
    f = Kinked(place, variable, ())
    beside = [x for x in (t - _STEP, t + _STEP) if float(f(numpy.array(x))) == 0]
    return len(beside) == 2 or any(in_digits(place, _DIGITS, {variable: sympy.Float(x)}) != 0 for x in beside)


def _panel(t: float) -> float:
    """The length of panels around a place on the scale of functions."""
    return max(0.5, abs(t) / 4)


def _growing(width: float, most: float) -> list[float]:
    """Distances from a scale up to another."""
    return [width * 4.0**k for k in range(math.ceil(math.log(most / width, 4)))]
