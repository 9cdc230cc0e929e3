"""Subexpressions that are made of constant arrays alone, evaluated."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import mpmath
import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import NoLimitError
from tplimits.numbers.in_digits import value
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry, axis_symbol, free_axes, size_symbol
from tplimits.program.nodes.kinds import ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: values of data below this are rounding
_NOTHING = 1e-15


class Data:
    """Which parts of a program are data, and their values."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[int, bool] = {}

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
        axes = list(free_axes(expr))
        sizes = [self.size(a.name.split("′")[0]) for a in axes]
        values = numpy.empty(sizes)
        for place in itertools.product(*map(range, sizes)):
            values[place] = float(self._value(expr, dict(zip(axes, place, strict=True))))
        # rounding of what cancels, as in softmax(c) − 1/3, is no number
        return axes, numpy.where(numpy.abs(values) < _NOTHING, 0.0, values)

    def size(self, axis: str) -> int:
        """How many values an axis of an array has."""
        size = self.program.size(axis)
        if size is None:
            raise NoLimitError(f"the axis `{axis}` of an array of `{self.program.name}` has no size.")
        return int(size)

    def _value(self, expr: Expr, at: dict[Symbol, int]) -> Any:
        if isinstance(expr, ArrayEntry):
            return float(self.program.arrays[expr.array].values[tuple(at[i] for i in expr.indices)])
        if isinstance(expr, Entry):
            s = self.program[expr.source]
            assert isinstance(s, ScalarNonlin)
            inner = {axis_symbol(a): at[i] for a, i in zip(s.axes, expr.indices, strict=True)}
            return self._value(s.body, inner)
        if isinstance(expr, AxisSum):
            return sum(self._value(expr.summand, {**at, expr.bound: i}) for i in range(self.size(expr.axis)))
        if not expr.args:
            axis = {size_symbol(a): a for a in self.program.all_axes}.get(expr)
            return float(self.size(axis) if axis else expr)
        arguments = {Symbol(f"argument {i}", real=True): self._value(a, at) for i, a in enumerate(expr.args)}
        found = value(expr.func(*arguments, evaluate=False), arguments)
        if not mpmath.isfinite(found):
            raise NoLimitError(
                f"an array of `{self.program.name}` is not finite at {dict(at) or 'its only entry'}. A row "
                "of a mask without any key has no mean: let every token see itself."
            )
        return found
