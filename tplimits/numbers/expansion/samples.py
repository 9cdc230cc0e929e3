"""Neurons as points: drawn at random, or spread evenly over their law."""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from tplimits.numbers.expansion.fields import Field
from tplimits.numbers.expansion.nodes import Frame, Variable
from tplimits.numbers.sobol import normal_points


class Samples(Frame):
    """Neurons drawn at random, with weights: a network of these widths without its matrices.

    All base variables of an axis are columns of numbers at the same nodes.
    """

    def __init__(self, sizes: Mapping[str, int], rng: numpy.random.Generator) -> None:
        super().__init__(1.0, divides=False)
        self._rng = rng
        self._of: dict[str, int] = {}
        #: base variables of each axis so far
        self.counts = dict.fromkeys(sizes, 0)
        for axis, size in sizes.items():
            self._of[axis] = number = len(self.variables)
            nodes = numpy.arange(float(size))
            self.variables[number] = Variable(number, axis, (), nodes, numpy.full(size, 1 / size))

    def normal(self, axis: str) -> Field:
        variable = self.variables[self._of[axis]]
        self.counts[axis] += 1
        return Field(variable.dims, self._rng.standard_normal(len(variable.nodes)))

    def signs(self, axis: str) -> Field:
        one = self.normal(axis)
        return Field(one.dims, numpy.where(one.values > 0, 1.0, -1.0))


class Spread(Samples):
    """Neurons spread evenly over the law (scrambled Sobol points), for programs with more variables than a grid holds.

    `counts` are the base variables of each axis; points are `wider` than the law by this factor.
    """

    def __init__(self, counts: Mapping[str, int], size: int, seed: int, wider: float = 1.0) -> None:
        self._wider = wider
        super().__init__(dict.fromkeys(counts, size), numpy.random.default_rng(seed))
        self._columns = {}
        for place, (axis, count) in enumerate(counts.items()):
            # scrambled by a seed for each axis: replicates give an error, and axes stay independent
            self._columns[axis] = iter(normal_points(max(1, count), size, (seed, place)).T)

    def normal(self, axis: str) -> Field:
        variable = self.variables[self._of[axis]]
        return Field(variable.dims, self._wider * next(self._columns[axis]))
