"""Optimizers as statements: the recursion of `tplimits.program.optimizers` on every entry of a parameter.

    s ← update_s(g, t, s) for all states,        w ← keep·w − rate·Q_t(g, t, s),        g = factor·∂L/∂W

What depends on the step alone (factor, rate, keep, powers of t) is read from one array of scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program.loops.form import GRADIENT, PARAMETER, VALUE, Array, Loop, Loops, Read, Statement
from tplimits.program.optimizers.stepping import TIME, G

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer

#: the array of scalars of a step, and its extent
SCALARS, _EXTENT = "scalars", "scalars of a step"
#: the entries of `SCALARS` that every parameter has
FACTOR, RATE, KEEP = "factor", "rate", "keep"
#: what a scalar that moves with the step is in the next one
NEXT = "next"


@dataclass
class Updating:
    """The statements of a step under construction; `scalars` are what the array of them holds, in order.

    An entry is the word of what it is with the parameter's name, or an expression of the time.
    """

    loops: Loops
    scalars: list[tuple[str, str] | Expr]
    arrays: list[Array] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    states: dict[str, list[str]] = field(default_factory=dict)

    def scalar(self, entry: tuple[str, str] | Expr) -> Read:
        """A scalar of the step, read from the array."""
        if entry not in self.scalars:
            self.scalars.append(entry)
        return Read(Symbol(SCALARS), sympy.Integer(self.scalars.index(entry)))

    def parameter(self, name: str, optimizer: Optimizer) -> None:
        """The update of one parameter."""
        own = next(a for a in self.loops.of_role(PARAMETER) if a.title == name)
        gradient = next(a for a in self.loops.of_role(GRADIENT) if a.title == name)
        over = tuple(Loop(Symbol(f"i{k}", integer=True), extent) for k, extent in enumerate(own.extents))
        place = tuple(loop.index for loop in over)
        g = self.scalar((FACTOR, name)) * Read(Symbol(gradient.name), *place)
        known: dict[Expr, Expr] = {G: g}
        held = [f"s{len(self.arrays) + k}_{own.name}" for k in range(len(optimizer.states))]
        self.states[name] = held
        self.arrays += [Array(array, own.extents, VALUE) for array in held]
        old = {s.symbol: Read(Symbol(array), *place) for s, array in zip(optimizer.states, held, strict=True)}
        bodies = [self._body(s.update, {**known, **old}) for s in optimizer.states]
        mixed = any(len(old.keys() & s.update.free_symbols) > 1 for s in optimizer.states)
        if mixed:  # all states move at once
            self.arrays += [Array(f"new_{array}", own.extents, VALUE) for array in held]
            self._fill([f"new_{array}" for array in held], place, over, bodies)
            bodies = [Read(Symbol(f"new_{array}"), *place) for array in held]
        self._fill(held, place, over, bodies)
        q = self._body(optimizer.output, {**known, **old})
        w = Read(Symbol(own.name), *place)
        self._fill([own.name], place, over, [self.scalar((KEEP, name)) * w - self.scalar((RATE, name)) * q])

    def scheduled(self, name: str) -> None:
        """What becomes of a scalar that moves with the step."""
        own = next(a for a in self.loops.of_role(PARAMETER) if a.title == name)
        self._fill([own.name], (), (), [self.scalar((NEXT, name))])

    def _fill(
        self, targets: Sequence[str], place: tuple[Symbol, ...], over: tuple[Loop, ...], bodies: Sequence[Expr]
    ) -> None:
        self.statements += [Statement(t, place, over, body) for t, body in zip(targets, bodies, strict=True)]

    def _body(self, expr: Expr, known: dict[Expr, Expr]) -> Expr:
        """An expression of gradient, time and states on arrays."""
        if expr in known:
            return known[expr]
        if expr.free_symbols == {TIME}:
            return self.scalar(expr)
        return expr.func(*(self._body(a, known) for a in expr.args)) if expr.args else expr

    def finished(self) -> Loops:
        """The loops with the arrays of the update."""
        scalars = Array(SCALARS, (_EXTENT,), VALUE)
        extents = {**self.loops.extents, _EXTENT: max(1, len(self.scalars))}
        return replace(self.loops, arrays=(*self.loops.arrays, scalars, *self.arrays), extents=extents)
