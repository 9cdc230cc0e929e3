"""What rounding makes of a body in double precision, at points: an error bound beside every value.

    |fl(a + b) − (a + b)| ≤ ε_a + ε_b + u(|a| + |b|),   fl f(a) is between f(a − ε_a) and f(a + ε_a) but for u|f|

tanh(30x)² − 1 + 10⁻²⁰ is 0 ± 2·10⁻¹⁶ for all x > 0.6: a jump there is decided by rounding, and 10²⁰ times it is no
number.  Where a jump's argument is zero within its bound its sign is asked of many digits: relu(x) − x − relu(−x) is 0
and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from types import MappingProxyType
from typing import Any

import numpy
import sympy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.digits import in_digits
from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.functions import BENT, JUMPS
from tplimits.program.nodes.log_sums import in_doubles
from tplimits.program.nodes.rules import density
from tplimits.program.nodes.series import near
from tplimits.program.parts import holds

#: rounding of one operation, that of functions included
_UNIT = 2.0**-51
#: relative rounding of a sum over nodes of what does not cancel
_ROUNDED = 1e-13
#: how far out points lie; the part of a mean that may be left open as its error, and a mean that counts as small
_FAR, _PART, _SMALL = 8.0, 1e-6, 1e-6
#: points at which many digits are asked, the heaviest and others, how many of these, and inside of kinks and jumps
_ASKED, _DIGITS, _INSIDE = 6, 5, 400


#: an expression on arrays, as `evaluate` of this package gives it
Evaluate = Callable[[Expr, Mapping[Expr, Any]], Any]


class RunningErrors:
    """Values and bounds of their rounding; `known` are leaves at points of different weights, exact but for `off`."""

    def __init__(
        self,
        known: Mapping[Expr, Any],
        weights: Array,
        evaluate: Evaluate,
        off: Mapping[Expr, Any] = MappingProxyType({}),
    ) -> None:
        self.known, self.weights, self.evaluate, self.off = known, weights, evaluate, off
        #: the arguments of jumps whose sign rounding decides, and where
        self.undecided: dict[Expr, Any] = {}
        self._memo: dict[Expr, tuple[Any, Any]] = {}

    def of(self, expr: Expr) -> tuple[Any, Any]:
        """(value, bound) of an expression; a jump that rounding decides is not known but for its height."""
        if expr not in self._memo:
            with numpy.errstate(all="ignore"):
                self._memo[expr] = self._found(expr)
        return self._memo[expr]

    def _found(self, expr: Expr) -> tuple[Any, Any]:
        if expr not in self.known and (stable := in_doubles(expr)) is not expr:  # as its value is
            return self.of(stable)
        if expr in self.known or expr.is_number or isinstance(expr, (near, GaussMean)):
            value = self.evaluate(expr, self.known)
            exact = expr in self.known or expr.is_Integer
            return value, self.off.get(expr, 0.0) if exact else _UNIT * abs(value)
        values, bounds = map(list, zip(*(self.of(a) for a in expr.args), strict=True))
        value = self._applied(expr, values)
        if expr.is_Add:
            return value, sum(bounds) + _UNIT * sum(map(abs, values))
        if isinstance(expr, JUMPS):
            bounds[0] = self._of_jump(expr.args[0], values[0], bounds[0])
        moved = [self._applied(expr, [v + sign * b for v, b in zip(values, bounds, strict=True)]) for sign in (1, -1)]
        if expr.is_Mul:
            largest = self._applied(expr, [abs(v) + b for v, b in zip(values, bounds, strict=True)])
            moved = [value + (largest - self._applied(expr, list(map(abs, values))))]
        # what has no number within its bounds is judged as it stands
        bound = reduce(numpy.fmax, (abs(m - value) for m in moved), 0.0)
        return value, numpy.where(numpy.isfinite(bound), bound, 0.0) + _UNIT * abs(value)

    def _of_jump(self, argument: Expr, value: Any, bound: Any) -> Any:
        """The bound of a jump's argument, 0 where it is seen to have its sign all the same."""
        value = numpy.broadcast_to(value, self.weights.shape)
        doubtful = (abs(value) <= bound) & (bound > 0)
        places = numpy.flatnonzero(doubtful)
        heaviest = places[numpy.argsort(-self.weights.flat[places])[:_ASKED]]
        asked = {*heaviest.tolist(), *places[:: max(1, len(places) // _ASKED)].tolist()}
        if all(self._sign(argument, k) == numpy.sign(value.flat[k]) for k in asked):
            return numpy.where(doubtful, 0.0, bound)
        self.undecided[argument] = doubtful
        return bound

    def _sign(self, argument: Expr, k: int) -> float:
        """In many digits, at one of the points."""
        value = in_digits(self._at(argument, k), _DIGITS)
        return float(sympy.sign(value)) if value.is_comparable else numpy.nan

    def _at(self, expr: Expr, k: int) -> Expr:
        """An expression at one of the points; SymPy takes kinks and jumps of numbers with few digits."""
        if expr in self.known:
            return sympy.Rational(float(numpy.broadcast_to(self.known[expr], self.weights.shape).flat[k]))
        args = [self._at(a, k) for a in expr.args]
        if isinstance(expr, BENT):
            args = [in_digits(a, _INSIDE) for a in args]
        return expr.func(*args) if args else expr

    def _applied(self, expr: Expr, values: list[Any]) -> Any:
        return self.evaluate(expr, dict(zip(expr.args, values, strict=True)))


def may_be_lost(expr: Expr) -> bool:
    """Whether anything may cancel in it: sums, inside of functions or of them; those of lines do at single places."""
    return holds(expr, sympy.Add) and holds(expr, sympy.Function, sympy.Pow)


@lru_cache(maxsize=16)
def samples(rank: int, many: int) -> tuple[Array, Array]:
    """Points of standard normal coordinates, (1, count, rank), and weights: of one as far out as it may matter."""
    if rank == 1:
        line = numpy.linspace(-_FAR, _FAR, many)
        return line[None, :, None], density(line)[None] * (line[1] - line[0])
    draws = numpy.random.default_rng(0).standard_normal((1, many, rank))
    return draws, numpy.full((1, many), 1 / many)


def mean_of_errors(body: Expr, known: Mapping[Expr, Any], weights: Array, size: float, evaluate: Evaluate) -> float:
    """The mean of the bounds over some points, beside a mean of |f|, 0 where they are rounding as of any sum.

    EvaluationError where nothing else is left of a mean.
    """
    if not may_be_lost(body):
        return 0.0
    errors = RunningErrors(known, weights, evaluate)
    lost = float((weights * errors.of(body)[1]).sum())
    if lost > _PART * max(size, _SMALL):
        raise EvaluationError(_reason(body, errors, str))
    return lost if lost > _ROUNDED * size else 0.0


def refuse_rounding(
    body: Expr, known: Mapping[Expr, Any], weights: Array, evaluate: Evaluate, shown: Callable[[Expr], str] = str
) -> None:
    """EvaluationError where rounding decides a body that a mean is taken of with no other error than its spread.

    What cancels counts where it is larger than 1 would be: derivatives at a limit of 0 are rounding, and nothing.
    """
    if may_be_lost(body):
        errors = RunningErrors(known, weights, evaluate)
        value, bound = errors.of(body)
        size = float((weights * abs(value)).sum())
        if (weights * bound).sum() > _PART * max(size, _SMALL if errors.undecided else 1.0):
            raise EvaluationError(_reason(body, errors, shown))


def _reason(body: Expr, errors: RunningErrors, shown: Callable[[Expr], str]) -> str:
    if not errors.undecided:
        return f"of `{shown(body):.200}` double precision leaves rounding alone: write it without what cancels."
    whole = errors.weights.sum()
    shares = {a: float((errors.weights * where).sum() / whole) for a, where in errors.undecided.items()}
    argument = max(shares, key=shares.__getitem__)
    return (
        f"a function jumps where `{shown(argument):.200}` changes sign, of which double precision leaves rounding "
        f"alone at {shares[argument]:.2g} of all points: write it without what cancels."
    )
