"""Functions of scalars at any number of places at once, given these scalars and few particles of vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.program.nodes.entries import NO_NEURON, OWN, AxisSum, entries, free_axes
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.kinds import MatMul, OuterNonlin, ScalarNonlin
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.numbers.steep.readers import Readers
    from tplimits.program.nodes.kinds import Nonlin
    from tplimits.program.nodes.program import Program

#: particles of vectors that functions of scalars and vectors are looked at
FEW = 16


class Looking(Execution):
    """A program of which scalars and few particles of vectors are given, at any number of places at once."""

    def __init__(
        self, program: Program, asked: Readers, vectors: Mapping[int, Array], leaves: Mapping[Expr, Any], *setting: Any
    ) -> None:
        super().__init__(program, FEW, 1, numpy.random.default_rng(0), *setting)
        self.leaves |= leaves
        self.readers, self._vectors = asked, vectors
        # particles stand for other neurons, too
        few = min((vectors[p].shape[-1] for p in asked.vectors), default=1)
        self.width = dict.fromkeys(self.width, few)

    def go(self, means: Mapping[int, Array]) -> None:
        """To places, the first axis of the means."""
        self.draws = len(next(iter(means.values())))
        self.arrays = [numpy.empty(0)] * len(self.program)
        few = next(iter(self.width.values()))
        for position in self.readers.vectors:
            self.arrays[position] = self._vectors[position][None, ..., :few]
        for position in self.readers.scalars:
            s = self.program[position]
            if isinstance(s, MatMul):
                self.arrays[position] = self._image(s, self.arrays[position])
            else:
                self.arrays[position] = means[position] if position in means else self.read(s)

    def _image(self, s: MatMul, image: Array) -> Array:
        """An image as it was seen, times the share that what it is an image of has of what was seen of that."""
        seen = self._vectors[int(s.operand.source)][None, ..., : image.shape[-1]]
        before = self._grid(s.axes).read(seen, s.operand.indices, tail=1)
        squares = numpy.vecdot(before, before)
        share = numpy.vecdot(self._vector(s), before) / numpy.where(squares > 0, squares, 1.0)
        return numpy.asarray(numpy.where(squares > 0, share, 1.0)[..., None] * image)

    def of(self, s: Nonlin) -> Array:
        """A function at these places, (places, values, particles)."""
        if isinstance(s, ScalarNonlin):
            return self.scalar(s).reshape(self.draws, -1, 1)
        assert isinstance(s, OuterNonlin)
        neurons = {OWN: s.over, **dict(zip(s.slots, s.slot_widths, strict=True))}
        values = self._body(s.body, s.axes, neurons, slice(0, self.draws), slice(None))
        values = values.mean(axis=tuple(range(-len(s.slots), 0))) if s.slots else values
        return values.reshape(self.draws, -1, values.shape[-1])

    def part(self, s: Nonlin, part: Expr) -> Array:
        """A part of it, (places, values): of what reads vectors at each particle."""
        axes = tuple(a.name for a in free_axes(part))
        if of_scalars(part):
            return self.of(ScalarNonlin("", axes, s.line, body=part)).reshape(self.draws, -1)
        assert isinstance(s, OuterNonlin)
        return self.of(replace(s, axes=axes, body=part)).reshape(self.draws, -1)

    def cost(self, s: Nonlin) -> float:
        """How many evaluations a function is at one place."""
        sums = {total.bound.name for total in found(s.body, AxisSum)}
        one = numpy.prod(self.shape((*s.axes, *sums)), dtype=float)
        slots = 1 + len(s.slots) if isinstance(s, OuterNonlin) else 0
        return float(one * next(iter(self.width.values())) ** slots)


def of_scalars(part: Expr) -> bool:
    """Whether an expression reads no vector."""
    return all(e.neuron == NO_NEURON for e in entries(part))


def few_seen(asked: Readers, run: Execution) -> dict[int, Array]:
    """What some functions read in one draw, as far as it has run: means, (*axes), and few particles of vectors."""
    done = {p: run.arrays[p][0] for p in (*asked.sources, *asked.vectors) if p < len(run.arrays)}
    return {p: numpy.array(x[..., :FEW] if p in asked.vectors else x) for p, x in done.items()}
