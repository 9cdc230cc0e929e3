"""Optimizers and losses as statements: the recursion of `tplimits.program.optimizers` on every entry of a parameter.

    s ← update_s(g, t, s) for all states,        w ← keep·w − rate·Q_t(g, t, s),        g = factor·∂L/∂W

What depends on the step alone (factor, rate, keep, powers of t) is read from one array of scalars.

A loss by name is χ = ∂loss/∂f for a batch, from outputs, targets and weights.  Weights are those of the targets, 0
where they are not trained on; the first scalar of a step is one over their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, Symbol

from tplimits.program.loops.form import DATA, GRADIENT, PARAMETER, VALUE, Array, Loop, Loops, Read, Statement
from tplimits.program.network.losses import CrossEntropy, SquaredError
from tplimits.program.nodes.entries import Kron
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


#: the arrays of targets and weights
TARGETS, WEIGHTS = "targets", "weights"
_SHARE = Read(Symbol(SCALARS), sympy.Integer(0))


def kind_of(loss: Any) -> tuple[str, float] | None:
    """What statements see of a loss, its labels aside; None for a function of the user's, which is no statement."""
    if type(loss) is SquaredError:
        return "squared", 0.0
    return ("entropy", loss.smoothing) if type(loss) is CrossEntropy else None


def with_signal(loops: Loops, kind: tuple[str, float] | None) -> Loops | None:
    """Loops in which χ is computed, for what `kind_of` says; None where it is not.

    The order of the extents of `f` is that of the axes of the outputs, inputs last; classes are the axis before.
    """
    if kind is None:
        return None
    word, smoothing = kind
    if word == "squared":
        return _with(loops, *_squared(loops))
    return _with(loops, *_entropy(loops, smoothing)) if len(loops.by_name["f"].extents) > 1 else None


def _with(loops: Loops, arrays: list[Array], statements: list[Statement]) -> Loops:
    behind = loops.split("chi")[1].statements
    before = [s for s in loops.statements if s not in behind]
    after = [s for s in loops.statements if s not in before]
    known = tuple(replace(a, role=VALUE) if a.name == "chi" else a for a in loops.arrays)
    return replace(loops, arrays=(*known, *arrays), statements=(*before, *statements, *after))


def _indices(extents: tuple[str, ...]) -> tuple[Loop, ...]:
    return tuple(Loop(Symbol(f"i{k}", integer=True), extent) for k, extent in enumerate(extents))


def _read(array: str, loops: tuple[Loop, ...]) -> Read:
    return Read(Symbol(array), *(loop.index for loop in loops))


def _squared(loops: Loops) -> tuple[list[Array], list[Statement]]:
    extents = loops.by_name["f"].extents
    over = _indices(extents)
    difference = _read("f", over) - _read(TARGETS, over)
    body = difference * _read(WEIGHTS, over[-1:]) * _SHARE
    arrays = [Array(TARGETS, extents, DATA), Array(WEIGHTS, extents[-1:], DATA)]
    return arrays, [Statement("chi", tuple(loop.index for loop in over), over, body)]


def _entropy(loops: Loops, smoothing: float) -> tuple[list[Array], list[Statement]]:
    extents = loops.by_name["f"].extents
    rest = (*extents[:-2], extents[-1])
    size = loops.extents[extents[-2]]
    over, without = _indices(extents), _indices(rest)
    label = (*over[:-2], over[-1])
    inner = Loop(Symbol(f"i{len(rest)}", integer=True), extents[-2])
    at = (*without[:-1], inner, without[-1])
    place, places = tuple(loop.index for loop in without), tuple(loop.index for loop in over)
    wanted: Expr = Kron(_read(TARGETS, label), over[-2].index)
    if smoothing:
        wanted = sympy.Float(1 - smoothing) * wanted + sympy.Float(smoothing) / sympy.Integer(size)
    weights = _read("weight", over)
    statements = [
        Statement("largest", place, without, _read("f", at), (inner,), largest=True),
        Statement("weight", places, over, sympy.exp(_read("f", over) - _read("largest", label))),
        Statement("total", place, without, _read("weight", at), (inner,)),
        Statement("chi", places, over, (weights / _read("total", label) - wanted) * _read(WEIGHTS, label) * _SHARE),
    ]
    arrays = [
        Array(TARGETS, rest, DATA, whole=True),
        Array(WEIGHTS, rest, DATA),
        Array("largest", rest, VALUE),
        Array("weight", extents, VALUE),
        Array("total", rest, VALUE),
    ]
    return arrays, statements
