"""Kernels whose numbers rest on a scalar that is 0 within its error: the rule of `numbers.passes`, at every input.

All means are moved by what they may be wrong by, up or down.  A sum of scalars that moves by as much as it is, is 0 in
disguise: where the kernels of an input with itself move with it by more than its error brings along, it is rounding
that decides about them, as in tanh(10¹⁷ s x) with s = E x tanh x − E x² E tanh′(x) = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.numbers.precision import SPREADS, Unsettled, is_steady, no_settled_value, share_of_error
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.leaves import Data, Datum, Moment, TableEntry, sided
from tplimits.regimes.kernels.derivation.scales import written
from tplimits.regimes.kernels.numbers.tables.frames import Frame
from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
from tplimits.regimes.kernels.numbers.tables.labelled import mapped
from tplimits.regimes.kernels.numbers.tables.moment import function_of

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.inputs import Inputs

#: relative rounding of a closed form in doubles
_ROUNDING = 2.0**-48
#: the share of its terms that a sum has to be for its means to be moved at all
_LITTLE = 1e-3
#: as in passes of a quadrature: signs of two periods, and their contraries
_PATTERNS = (1, 3, -1, -3)


def require_settled(derivation: KernelTables, inputs: Inputs, constants: Mapping[Expr, float]) -> None:
    """Unsettled where what rounding leaves of a scalar decides about a kernel at one of the inputs."""
    sums = _sums_of_scalars(derivation)
    if not sums:
        return
    given = derivation, (inputs, inputs), constants
    plain = Tables(*given, demand=derivation.demand)
    kernels = [derivation.demand.nngp, *([] if derivation.no_ntk else [derivation.demand.ntk])]
    with numpy.errstate(all="ignore"):
        sums = [s for s in sums if _cancels(plain, s)]
        here = _values(plain, sums)
        for pattern in _PATTERNS if sums else ():
            moved = _Moved(*given, demand=derivation.demand, pattern=pattern, error_of_integrals=plain.error)
            away = _values(moved, sums)
            zeros = [s for s, v, other in zip(sums, here, away, strict=True) if _is_zero(v, other).any()]
            if not zeros:
                continue
            leaves = sorted(found(sympy.Tuple(*zeros), TableEntry, Moment), key=sympy.default_sort_key)
            errors = zip(_values(plain, leaves), _values(moved, leaves), strict=True)
            size = max(float(abs(other - v).max()) for v, other in errors)
            for value, other in zip(_values(plain, kernels), _values(moved, kernels), strict=True):
                known = numpy.isfinite(value)
                if not is_steady(value[known], other[known], size):
                    name = _name(derivation, zeros[0])
                    worst = int(abs(other - value)[known].argmax())
                    raise Unsettled(no_settled_value(value[known][worst], other[known][worst], "a kernel"), name)


def _name(derivation: KernelTables, zero: Expr) -> Expr:
    """A sum of scalars by the scalar of the program that it is, or is a multiple of."""
    recursion = derivation.recursion
    for position, limit in recursion.scalars.items():
        if sided(limit, 1, 1).primitive()[1] in (zero.primitive()[1], (-zero).primitive()[1]):
            return sympy.Symbol(recursion.program[position].name)
    return sympy.Symbol(written(recursion, zero))


def _cancels(plain: Tables, whole: Expr) -> bool:
    """Whether little is left of its terms at some input; what moves by as much as it is, is less by far."""
    value, *parts = _values(plain, [whole, *whole.args])
    return bool((abs(value) <= _LITTLE * sum(map(abs, parts))).any())


def _is_zero(here: Array, away: Array) -> Any:
    return (away != here) & (abs(here) <= SPREADS * abs(away - here))


def _values(tables: Tables, exprs: list[Expr]) -> list[Array]:
    """Of inputs with themselves."""
    frame = tables.frame(1, 1)
    return [numpy.asarray(frame.mean(e).array, dtype=float) for e in exprs]


def _sums_of_scalars(derivation: KernelTables) -> list[Expr]:
    """Sums of scalars of one input that may cancel, once for a derivation; none where logits are drawn."""
    known = derivation.remembered["sums of scalars"]
    if "all" not in known:
        exprs = (derivation.nngp, derivation.ntk, *(t.definition for t in derivation.needed))
        drawn = derivation.is_drawn or derivation.is_mixture
        known["all"] = [] if drawn else list(dict.fromkeys(sided(s, 1, 1) for e in exprs for s in _cancelling(e)))
    return known["all"]


def _cancelling(expr: Expr) -> Iterator[Expr]:
    """Sums with terms of either sign, without finite axes, that no power divides by: poles are judged by themselves."""
    if isinstance(expr, sympy.Add) and any(t.could_extract_minus_sign() for t in expr.args):
        leaves = found(expr, TableEntry, Moment, Data, Datum)
        sides = {s for leaf in found(expr, TableEntry) for s in leaf.sides}
        if len(leaves) > 1 and len(sides) == 1 and not any(getattr(leaf, "indices", ()) for leaf in leaves):
            yield expr
            return
    for part in () if expr.is_Pow and not expr.exp.is_positive else expr.args:
        if isinstance(part, Expr):
            yield from _cancelling(part)
        elif isinstance(part, sympy.Tuple):  # covariances and parameters of a mean
            for one in part:
                yield from _cancelling(one)


@dataclass
class _Moved(Tables):
    """Tables whose means are moved by a pattern of signs, by what those that are not may be wrong by."""

    pattern: int = 0
    error_of_integrals: float = 0.0
    numbers: dict[Expr, int] = field(default_factory=dict)

    def frame(self, left: int, right: int) -> Frame:
        return _MovedFrame(self, left, right)


class _MovedFrame(Frame):
    tables: _Moved

    def _compute(self, expr: Expr) -> Any:
        value, tables = super()._compute(expr), self.tables
        if not isinstance(expr, Moment):
            return value
        place = tables.numbers.setdefault(sided(expr, 1, 1), len(tables.numbers))
        closed = not expr.values and function_of(expr, tables.constants).route == "closed"
        error, share = 0.0 if closed else tables.error_of_integrals, share_of_error(place, tables.pattern)
        return mapped(lambda v: v + share * numpy.maximum(_ROUNDING * abs(v), error), [value])
