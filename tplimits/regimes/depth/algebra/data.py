"""Subexpressions that are made of constant arrays alone, evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import mpmath
import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import NoLimitError
from tplimits.numbers.in_digits import value
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry, Lookup, axis_symbol, free_axes, size_symbol
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import ScalarNonlin
from tplimits.program.nodes.rounding import is_rounded
from tplimits.program.nodes.running_errors import RunningErrors
from tplimits.program.parts import holds
from tplimits.regimes.depth.algebra.products import axis_of

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: what a decimal number is off by, as a part of it, and what Python makes of some
_ROUNDED = mpmath.mpf(2) ** -51
#: digits of all else, and what they leave out
_DIGITS = 40
_LAST = mpmath.mpf(10) ** (4 - _DIGITS)
#: what is known to this part of it in double precision is not asked for in so many
_KNOWN = 1e-12
#: draws of what rounding makes of a value, and by how much more it may move it than in these
_DRAWS, _SAFETY = 3, 2


class Data:
    """Which parts of a program are data, and their values."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[int, bool] = {}
        self._draws: _Draws | None = None

    def is_data(self, expr: Expr) -> bool:
        """Whether an expression holds arrays, and beside them numbers alone."""
        return self._has_arrays(expr) and self._is_closed(expr)

    def _has_arrays(self, expr: Expr) -> bool:
        sources = (self.program[e.source] for e in expr.atoms(Entry))
        return expr.has(ArrayEntry) or any(isinstance(s, ScalarNonlin) and self._has_arrays(s.body) for s in sources)

    def _is_closed(self, expr: Expr) -> bool:
        for entry in expr.atoms(Entry):
            s = self.program[entry.source]
            if entry.source not in self._known:
                self._known[entry.source] = isinstance(s, ScalarNonlin) and self._is_closed(s.body)
            if not self._known[entry.source]:
                return False
        axes = {axis_symbol(a) for a in self.program.all_axes}
        bound = {s.bound for s in expr.atoms(AxisSum)}
        inside = expr.xreplace(dict.fromkeys(expr.atoms(Entry, ArrayEntry), sympy.S.One))
        numbers = inside.free_symbols - axes - bound - {size_symbol(a) for a in self.program.all_axes}
        return not numbers or all("′" in s.name for s in numbers)

    def tabulated(self, expr: Expr) -> tuple[list[Symbol], numpy.ndarray]:
        """The free indices of such an expression, and its values at all of them."""
        axes, values, off = self.in_doubles(expr)
        with mpmath.workdps(_DIGITS):
            for place, at in _unknown(axes, values, off):
                number, lost = self._value(expr, at)
                # what cancels, as in 3·0.1 − 0.3 or softmax(c) − 1/3, is no number
                values[place] = float(number) if abs(number) > lost else 0.0
        return axes, values

    def in_doubles(self, expr: Expr) -> tuple[list[Symbol], numpy.ndarray, numpy.ndarray]:
        """The free indices of such an expression, its values in doubles, and bounds of what these are off by."""
        axes = list(free_axes(expr))
        shape = [self.size(axis_of(a)) for a in axes]
        with numpy.errstate(all="ignore"):
            grid = dict(zip(axes, numpy.ogrid[tuple(map(slice, shape))], strict=True))
            values, off = (numpy.broadcast_to(x, shape).copy() for x in self._with_bounds(expr, grid))
        return axes, values, off

    def in_digits(
        self, expr: Expr, axes: list[Symbol], values: numpy.ndarray, off: numpy.ndarray
    ) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Such values in many digits where they need them, and what rounding of the entries of arrays makes of them.

        Of a long product bounds say too much: that of an array and its inverse hardly moves, whatever it multiplies.
        """
        values, moved = values.copy(), off.copy()
        with mpmath.workdps(_DIGITS):
            for place, at in _unknown(axes, values, off):
                number = self._value(expr, at)[0]
                moved[place] = _SAFETY * max(abs(self._moved(expr, at, draw) - number) for draw in range(_DRAWS))
                values[place] = float(number) if abs(number) > moved[place] else 0.0
        return values, moved

    def _moved(self, expr: Expr, at: dict[Symbol, int], draw: int) -> Any:
        """A value with entries of arrays, and decimal numbers, off by as much as rounding may make them."""
        self._draws = _Draws(draw)
        try:
            return self._value(expr, at)[0]
        finally:
            self._draws = None

    def _with_bounds(self, expr: Expr, at: Mapping[Symbol, Any]) -> tuple[Any, Any]:
        """Values at all places, indices by axes of arrays, and bounds of their rounding."""
        if holds(expr, *JUMPS):  # which side an entry is on is asked in many digits
            return numpy.nan, numpy.nan
        sizes = {size_symbol(a): a for a in self.program.all_axes}
        known = {s: (float(self.size(a)), 0.0) for s, a in sizes.items() if s in expr.free_symbols}
        for part in outermost(expr):
            if isinstance(part, ArrayEntry):
                value_ = self._entry(part, at)
                known[part] = value_, abs(value_) * float(_ROUNDED)
            elif isinstance(part, Entry):
                known[part] = self._with_bounds(*self._inside(part, at))
            else:
                known[part] = self._summed(part, at)
        values, off = ({part: pair[k] for part, pair in known.items()} for k in (0, 1))
        return RunningErrors(values, numpy.ones(()), evaluate, off).of(expr)

    def _summed(self, part: AxisSum, at: Mapping[Symbol, Any]) -> tuple[Any, Any]:
        size, rank = self.size(part.axis), max((i.ndim for i in at.values()), default=0)
        bound = numpy.arange(size).reshape(size, *(1,) * rank)
        values, off = self._with_bounds(part.summand, {**at, part.bound: bound})
        if numpy.ndim(values) <= rank:  # the same at all indices
            return size * values, size * off
        sizes = abs(values).sum(axis=0)
        return values.sum(axis=0), numpy.broadcast_to(off, values.shape).sum(axis=0) + size * float(_ROUNDED) * sizes

    def _inside(self, entry: Entry, at: Mapping[Symbol, Any]) -> tuple[Expr, dict[Symbol, Any]]:
        """The body behind an entry, and where it stands."""
        s = self.program[entry.source]
        assert isinstance(s, ScalarNonlin)
        return s.body, {axis_symbol(a): self._place(i, at) for a, i in zip(s.axes, entry.indices, strict=True)}

    def _entry(self, part: ArrayEntry, at: Mapping[Symbol, Any]) -> Any:
        """Entries of a constant array, 0 where a table says that there is none."""
        places = [self._place(i, at) for i in part.indices]
        missing = sum((p < 0 for p in places), numpy.zeros((), dtype=bool))
        return numpy.where(missing, 0.0, self.program.arrays[part.array].values[tuple(places)])

    def _place(self, index: Expr, at: Mapping[Symbol, Any]) -> Any:
        """Where an index stands: a running one, a number as of `sel`, or what a table says of another."""
        if isinstance(index, Lookup):
            return self.program.tables[index.table].values[tuple(self._place(i, at) for i in index.indices)]
        return at[index] if index in at else numpy.asarray(int(index))

    def size(self, axis: str) -> int:
        """How many values an axis of an array has."""
        size = self.program.size(axis)
        if size is None:
            raise NoLimitError(f"the axis `{axis}` of an array of `{self.program.name}` has no size.")
        return int(size)

    def _value(self, expr: Expr, at: dict[Symbol, int]) -> tuple[Any, Any]:
        """A value and what it may be off by."""
        if isinstance(expr, ArrayEntry):
            number = sympy.Rational(float(self._entry(expr, at)))
            return self._off(_written(number), (expr.array, *(int(self._place(i, at)) for i in expr.indices)))
        if isinstance(expr, Entry):
            return self._value(*self._inside(expr, at))
        if isinstance(expr, AxisSum):
            return _sum(self._value(expr.summand, {**at, expr.bound: i}) for i in range(self.size(expr.axis)))
        if not expr.args:
            axis = {size_symbol(a): a for a in self.program.all_axes}.get(expr)
            return _written(sympy.Rational(self.size(axis))) if axis else self._off(_written(expr), expr)
        arguments = [self._value(a, at) for a in expr.args]
        found = _sum(arguments) if expr.is_Add else self._applied(expr, arguments)
        if not mpmath.isfinite(found[0]):
            raise NoLimitError(
                f"an array of `{self.program.name}` is not finite at {dict(at) or 'its only entry'}. A row "
                "of a mask without any key has no mean: let every token see itself."
            )
        return found

    def _off(self, number: tuple[Any, Any], of: Any) -> tuple[Any, Any]:
        return number if self._draws is None else (number[0] + self._draws[of] * number[1], number[1])

    def _applied(self, expr: Expr, arguments: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        """A function of values, and what it is off by where they are."""
        symbols = [Symbol(f"argument {i}", real=True) for i in range(len(arguments))]
        function = expr.func(*symbols, evaluate=False)

        def moved(by: int, of: list[tuple[Any, Any]]) -> Any:
            return value(function, {s: x + by * off for s, (x, off) in zip(symbols, of, strict=True)})

        found = moved(0, arguments)
        if isinstance(expr, JUMPS):
            at, *rest = arguments
            if any(moved(by, [at, *((x, 0) for x, _ in rest)]) != found for by in (1, -1)):
                raise NoLimitError(
                    f"`{self.program.name}`: {expr.func.__name__} of a constant array jumps at an entry that is zero "
                    "but for the rounding of decimal numbers; write it without what cancels."
                )
            arguments = [(at[0], 0), *rest]
        if not any(off for _, off in arguments):
            return found, abs(found) * _LAST
        ends = [m for m in (moved(1, arguments), moved(-1, arguments)) if mpmath.isfinite(m)]
        return found, max((abs(m - found) for m in ends), default=0) + abs(found) * _LAST


class _Draws(dict[Any, float]):
    """Numbers between −1 and 1, the same one for what is asked for again."""

    def __init__(self, seed: int) -> None:
        self._rng = numpy.random.default_rng(seed)

    def __missing__(self, key: Any) -> float:
        return self.setdefault(key, float(self._rng.uniform(-1, 1)))


def _unknown(
    axes: list[Symbol], values: numpy.ndarray, off: numpy.ndarray
) -> Iterator[tuple[tuple[int, ...], dict[Symbol, int]]]:
    """The places at which double precision leaves too few digits."""
    for place in map(tuple, numpy.argwhere(~(off <= _KNOWN * abs(values)))):
        yield place, dict(zip(axes, place, strict=True))


def outermost(expr: Expr) -> list[Expr]:
    """The entries and sums of an expression that stand in no other sum."""
    if isinstance(expr, (ArrayEntry, AxisSum, Entry)):
        return [expr]
    return list(dict.fromkeys(part for a in expr.args for part in outermost(a)))


def _written(number: Expr) -> tuple[Any, Any]:
    """A number as it is written, and what it may be off by."""
    exact = number.is_Rational and not is_rounded(number)
    found = mpmath.mpf(number.p) / number.q if number.is_Rational else mpmath.mpf(sympy.N(number, _DIGITS))
    return found, abs(found) * (_LAST if exact or not number.is_Rational else _ROUNDED)


def _sum(terms: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """A sum, and what it is off by."""
    values, offs = zip(*terms, strict=True)
    return mpmath.fsum(values), mpmath.fsum(offs) + mpmath.fsum(map(abs, values)) * _LAST
