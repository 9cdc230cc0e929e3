"""The derivative of a network along a random direction of its parameters, as a program.

With θ → θ + ε δθ, δθ a fresh draw of the trainable parameters, every vector gets a tangent next to it:

    δ(W x) = δW x + W δx,      δψ(x; θ) = Σ ∂ψ/∂x δx + Σ ∂ψ/∂θ δθ,      δAvg(x) = Avg(δx).

The mean of δf δf′ over δθ is Σ_θ ∂f/∂θ ∂f′/∂θ, the tangent kernel, at any width.  A tangent program uses a
transpose only where the network does, so no independence of W and Wᵀ is ever assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer, Symbol

from tplimits.program.language.names import free_name
from tplimits.program.network.differentiate import without_continuous_jumps, without_continuous_jumps_of
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import OWN, AxisSum, Entry, GaussMean, axis_symbol, entries
from tplimits.program.nodes.hidden_jumps import ambiguous_delta, derivative, hidden_jumps, slope
from tplimits.program.nodes.kinds import Avg, Initial, InitialVector, Instruction, MatMul, Nonlin, OuterNonlin
from tplimits.program.nodes.laws import NORMAL, Law
from tplimits.program.parts import put_in, remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

_BINDERS = (AxisSum, GaussMean)
_ε = Symbol("ε′", real=True)


@dataclass(frozen=True)
class Tangent:
    """A network followed by its tangents; `of` maps the position of an instruction to that of its tangent."""

    program: Program
    of: dict[int, int]
    size: int

    def behind(self, outputs: Iterable[int] | None) -> list[int]:
        """The instructions behind outputs and their tangents, in order; all of them where no output is named.

        Of the others no hypothesis is asked: networks run them, and nothing that is claimed depends on them.
        """
        if outputs is None:
            return list(range(len(self.program)))
        outputs = tuple(outputs)
        return sorted(self.program.behind((*outputs, *(self.of[p] for p in outputs if p in self.of))))


class _Writer:
    def __init__(self, program: Program, train: Iterable[str], scales: Mapping[str, Expr]) -> None:
        self.program, self.train, self.scales = program, frozenset(train), scales
        self.instructions: list[Instruction] = list(program.instructions)
        self.of: dict[int, int] = {}
        self.taken = {s.name for s in program}

    def add(self, instruction: Instruction, name: str) -> int:
        name = free_name(name, self.taken)
        self.taken.add(name)
        self.instructions.append(replace(instruction, name=name))
        return len(self.instructions) - 1

    def tangent(self, position: int) -> None:
        """Write the tangent of one instruction, if anything trainable is behind it."""
        s = self.program[position]
        name = f"δ{s.name}"
        if isinstance(s, Initial):
            if s.name in self.train:
                vector = isinstance(s, InitialVector)
                fresh = replace(s, law=Law(std=self.scales[s.name]) if vector and s.name in self.scales else NORMAL)
                self.of[position] = self.add(fresh, name)
        elif isinstance(s, MatMul):
            self._matmul(position, s, name)
        elif isinstance(s, Avg):
            if s.operand.source in self.of:
                self.of[position] = self.add(replace(s, operand=self._moved(s.operand)), name)
        else:
            assert isinstance(s, Nonlin)
            body = self.derivative(s.body)
            if body != 0:
                self.of[position] = self.add(replace(s, body=body), name)

    def _moved(self, entry: Entry) -> Entry:
        return Entry(Integer(self.of[entry.source]), *entry.args[1:])

    def _matmul(self, position: int, s: MatMul, name: str) -> None:
        parts, scales = [], []
        if s.matrix in self.of:
            parts.append(self.add(replace(s, matrix=self.of[s.matrix]), f"{name}₁"))
            # a matrix is drawn with variance 1/columns whatever its rate: the scale stands before its image
            scales.append(self.scales.get(self.program[s.matrix].name, sympy.S.One))
        if s.operand.source in self.of:
            parts.append(self.add(replace(s, operand=self._moved(s.operand)), f"{name}₂"))
            scales.append(sympy.S.One)
        if len(parts) < 2 and scales in ([], [1]):
            if parts:
                self.of[position] = parts[0]
            return
        indices = tuple(map(axis_symbol, s.axes))
        body = sympy.Add(*(c * Entry(Integer(p), OWN, *indices) for p, c in zip(parts, scales, strict=True)))
        self.of[position] = self.add(OuterNonlin(name, s.axes, s.line, body=body, over=s.over), name)

    def derivative(self, body: Expr) -> Expr:
        """d/dε of a body in which every entry moves by ε times its tangent."""
        moving = [e for e in entries(body) if e.source in self.of]
        if not moving:
            return sympy.S.Zero
        if body.has(*_BINDERS):
            return canonical_bound_axes(self._below_binders(body, moving))
        # entries in the order in which they stand: layers of one form share one derivative
        dummies = {e: Symbol(f"e′{i}", real=True) for i, e in enumerate(moving)}
        slopes = _slopes(body.xreplace(dummies), tuple(dummies.values()))
        back = {d: e for e, d in dummies.items()}
        return sympy.Add(*(put_in(d, back, {}) * self._moved(e) for e, d in zip(moving, slopes, strict=True)))

    def _below_binders(self, body: Expr, moving: Sequence[Entry]) -> Expr:
        """The same by a derivative in ε; with sources numbered as they come, so that equal layers share it."""
        every = entries(body)
        number = {n: k for k, n in enumerate(dict.fromkeys(e.source for e in every))}
        marks = {e: Entry(Integer(number[e.source]), *e.args[1:]) for e in every}
        found = _slope(body.xreplace(marks), tuple(marks[e] for e in moving), len(number))
        named = {m: e for e, m in marks.items()}
        named |= {_beside(marks[e], len(number)): self._moved(e) for e in moving}
        return found.xreplace(named)


@remembered(256)
def _slopes(body: Expr, symbols: tuple[Symbol, ...]) -> tuple[Expr, ...]:
    """The derivatives of a function of numbers."""
    return tuple(without_continuous_jumps(slope(body, s)) for s in symbols)


@remembered(256)
def _slope(body: Expr, moving: tuple[Entry, ...], many: int) -> Expr:
    """d/dε where some entries move by ε times those of sources numbered from `many` on."""
    return without_continuous_jumps_of(_through(body, {e: _beside(e, many) for e in moving}))


def _through(expr: Expr, moves: Mapping[Expr, Expr]) -> Expr:
    """The same of a part: sums and products argument by argument, anything else as SymPy finds it, by ε."""
    if expr in moves:
        return moves[expr]
    if moves.keys().isdisjoint(entries(expr)):
        return sympy.S.Zero
    if isinstance(expr, sympy.Add):
        return sympy.Add(*(_through(a, moves) for a in expr.args))
    deltas = (ambiguous_delta(z) * _through(z, moves) for z in hidden_jumps(expr))
    if isinstance(expr, sympy.Mul):
        slopes = [_through(a, moves) for a in expr.args]
        every = [sympy.Mul(*expr.args[:i], d, *expr.args[i + 1 :]) for i, d in enumerate(slopes) if d != 0]
        return sympy.Add(*every, *deltas)
    if isinstance(expr, AxisSum):
        return AxisSum(without_continuous_jumps_of(_through(expr.summand, moves)), *expr.args[1:])
    moved = expr.xreplace({e: e + _ε * m for e, m in moves.items()})
    return sympy.Add(derivative(moved, _ε).xreplace({_ε: sympy.S.Zero}), *deltas)


def _beside(entry: Entry, many: int) -> Entry:
    return Entry(Integer(entry.source + many), *entry.args[1:])


def tangent(program: Program, train: Iterable[str], scales: Mapping[str, Expr] | None = None) -> Tangent:
    """The network followed by its derivative along fresh draws of the parameters named in `train`, times `scales`."""
    writer = _Writer(program, train, scales or {})
    for position in range(len(program)):
        writer.tangent(position)
    names = dict(program.names)
    names.update({writer.instructions[p].name: p for p in range(len(program), len(writer.instructions))})
    returns = program.returns + tuple(writer.of[p] for p in program.returns if p in writer.of)
    total = program.replace(
        instructions=tuple(writer.instructions),
        names=names,
        returns=returns,
        returns_tuple=True,
        inputs=(),
        arguments=(),
    )
    return Tangent(total.released, dict(writer.of), len(program))
