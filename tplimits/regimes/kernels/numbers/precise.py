"""Single pairs in many digits: for nearly singular laws whose determinant no rule carries along.

The same tables and the same text of closed moments, on numbers of mpmath; inputs are taken for the exact numbers that
their doubles are.  Some milliseconds a pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import mpmath
import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.arrays import Array
from tplimits.numbers.moments.function import MomentFunction, closed_code
from tplimits.program.nodes.entries import AxisSum
from tplimits.regimes.kernels.derivation.leaves import Data, Moment, TableEntry
from tplimits.regimes.kernels.numbers.tables.moment import function_of
from tplimits.regimes.kernels.numbers.tables.sums import nest

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.inputs import Inputs

_DIGITS = 40

#: what the text of a moment calls `math`
_MATH = SimpleNamespace(
    nan=mpmath.nan,
    copysign=lambda size, sign: mpmath.fabs(size) * (-1 if sign < 0 else 1),
    **{f: getattr(mpmath, f) for f in ("sqrt", "exp", "expm1", "log", "sin", "cos", "atan2", "fabs", "erf")},
)


class NotPrecise(Exception):
    """A mean has no formula whose digits could be asked for."""


@lru_cache(maxsize=256)
def in_many_digits(moment: MomentFunction) -> Any:
    """The text of a closed moment as a function of (c11, c12, c22, det) on numbers of mpmath."""
    if moment.route != "closed":
        raise NotPrecise
    names: dict[str, Any] = {"math": _MATH}
    arguments = ("c11", "c12", "c22", "det")
    exec(closed_code([moment], arguments).function_text("closed", arguments), names)  # our own text
    return names["closed"]


class PrecisePair:
    """Values of tables for one pair of inputs."""

    def __init__(
        self,
        derivation: KernelTables,
        one: Inputs,
        other: Inputs,
        places: tuple[int, int],
        constants: Mapping[Expr, float],
    ) -> None:
        self.derivation, self.constants = derivation, constants
        self.data = {
            side: {p: [mpmath.mpf(float(v)) for v in array[place].ravel()] for p, array in inputs.arrays.items()}
            for side, inputs, place in ((1, one, places[0]), (2, other, places[1]))
        }
        self.known: dict[tuple[Expr, int, int], Any] = {}

    def value(self, expr: Expr, left: int = 1, right: int = 2) -> Any:
        """An expression with inputs `left` and `right` in the places of ξ and ξ′."""
        key = (expr, left, right)
        if key not in self.known:
            self.known[key] = self._value(expr, {1: left, 2: right})
        return self.known[key]

    def _value(self, expr: Expr, place: Mapping[int, int]) -> Any:
        if isinstance(expr, TableEntry) and not expr.indices:
            table = self.derivation.tables[expr.table]
            return self.value(table.definition, *(place[s] for s in expr.sides))
        if expr in self.constants:
            return mpmath.mpf(self.constants[expr])
        if isinstance(expr, Data) and not expr.indices:  # an input without axes, as the ages of decayed weights are
            return self.data[place[expr.side]][expr.source][0]
        if isinstance(expr, AxisSum):
            return self._gram(expr, place)
        if isinstance(expr, Moment):
            if expr.parameters:  # its text is that of one value of them, a double
                raise NotPrecise
            found = [self.value(c, place[1], place[2]) for c in expr.covariances]
            c11, c12, c22 = found if len(found) == 3 else (found[0], mpmath.mpf(0), mpmath.mpf(0))
            # in so many digits the plain difference is exact enough
            det = max(c11 * c22 - c12 * c12, mpmath.mpf(0))
            return in_many_digits(function_of(expr, self.constants))(c11, c12, c22, det)
        if expr.is_number and not expr.args:
            return mpmath.mpf(expr.p) / expr.q if expr.is_Rational else mpmath.mpf(str(expr.evalf(_DIGITS)))
        if not isinstance(expr, (sympy.Add, sympy.Mul, sympy.Pow, sympy.Function)):  # what data pick, say
            raise NotPrecise
        values = [self.value(a, place[1], place[2]) for a in expr.args]
        if isinstance(expr, sympy.Add):
            return mpmath.fsum(values)
        if isinstance(expr, sympy.Mul):
            return mpmath.fprod(values)
        if isinstance(expr, sympy.Pow):
            return mpmath.power(*values)
        digits = expr.func(*(sympy.Float(v, _DIGITS) for v in values)).evalf(_DIGITS)
        return mpmath.mpf(sympy.Float(digits, _DIGITS)._mpf_)

    def _gram(self, expr: Expr, place: Mapping[int, int]) -> Any:
        """Σ x·x′ over all axes of one source; NotPrecise for other sums of data, as those with a mask."""
        bounds, body = nest(expr)
        powers = [f.as_base_exp() for f in sympy.Mul.make_args(body)]  # ‖x‖² is Σ x·x as one power
        data = [(base, many) for base, many in powers if isinstance(base, Data)]
        rest = sympy.Mul(*(base**many for base, many in powers if not isinstance(base, Data)))
        if rest.free_symbols & {*bounds} or any(not (many.is_Integer and many.is_positive) for _, many in data):
            raise NotPrecise
        factors = [base for base, many in data for _ in range(int(many))]
        if len(factors) != 2 or len({(f.source, f.indices) for f in factors}) > 1 or {*factors[0].indices} != {*bounds}:
            raise NotPrecise
        first, second = (self.data[place[f.side]][f.source] for f in factors)
        return self.value(rest, place[1], place[2]) * mpmath.fsum(a * b for a, b in zip(first, second, strict=True))


def precise_pairs(
    derivation: KernelTables, one: Inputs, other: Inputs, places: NDArray[numpy.intp], constants: Mapping[Expr, float]
) -> Array:
    """(NNGP, NTK) of pairs (i, j), in doubles: (pairs, 2)."""
    found = numpy.empty((len(places), 2))
    with mpmath.workdps(_DIGITS):
        for row, (i, j) in enumerate(places):
            pair = PrecisePair(derivation, one, other, (int(i), int(j)), constants)
            found[row] = [float(pair.value(k)) for k in (derivation.nngp, derivation.ntk)]
    return found
