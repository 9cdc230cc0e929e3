"""A program at finite width: the same instructions on NumPy arrays, with real matrices.

Arrays have a leading axis of independent draws: `run` takes one draw, an `Execution` any number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr

from tplimits.errors import EvaluationError, shown
from tplimits.program.nodes.drawing import drawn, places
from tplimits.program.nodes.entries import OWN, ArrayEntry, AxisSum, Entry, Kron
from tplimits.program.nodes.evaluate import Array, evaluate
from tplimits.program.nodes.given import seed_number, whole_number
from tplimits.program.nodes.grid import Grid, Scatter, scatter, scattered
from tplimits.program.nodes.kinds import (
    Avg,
    Initial,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.nodes.laws import GRID, NORMAL
from tplimits.program.nodes.setting import Setting
from tplimits.program.nodes.shifted_sums import AxisLargest, with_shifts
from tplimits.program.parts import found, remembered
from tplimits.program.walk import Walker

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: entries of one intermediate array of an OuterNonlin of order 2 or more
_CHUNK = 4_000_000
#: doubles below this have fewer digits
_LEAST = 1e-290


class Execution(Setting, Walker[Array]):
    """One program, one width, a batch of draws: holds the arrays of all instructions."""

    def __init__(
        self,
        program: Program,
        n: int,
        draws: int,
        rng: numpy.random.Generator,
        ratios: Mapping[str, float] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(program, n, ratios, given)
        self.draws, self.rng = draws, rng
        self.arrays: list[Array] = []

    def run(self) -> Execution:
        """Fill `arrays`, one array for each instruction, with dimensions (draw, *axes, width)."""
        return self.run_some(len(self.program))

    def run_some(self, count: int) -> Execution:
        """Fill `arrays` from where it ends up to the first `count` instructions."""
        with numpy.errstate(all="ignore"):
            for instruction in self.program.instructions[len(self.arrays) : count]:
                self.arrays.append(self.read(instruction))
        return self

    def _initial(self, s: Initial) -> Array:
        axes = self.shape(s.axes)
        if isinstance(s, InitialMatrix):
            shape = (*axes, self.width[s.rows], self.width[s.columns])
        else:
            shape = (*axes, self.width[s.over]) if isinstance(s, InitialVector) else axes
        if s.name in self.given:
            array = self.given[s.name]
            if array.shape != shape:
                raise EvaluationError(f"`{s.name}` has shape {array.shape}; it needs {shape}.")
            return numpy.broadcast_to(array, (self.draws, *shape))
        if isinstance(s, InitialScalar):
            data = [self.program[p].name for p in self.program.inputs]
            if s.value is None and (s.law != NORMAL or (data and s.name not in data)):
                return self._drawn(s, shape)  # a scalar parameter
            if s.value is None:
                what = "input" if data else "scalar"
                raise EvaluationError(f"the {what} `{s.name}` has no value: give {s.name}=….")
            return numpy.full((self.draws, *shape), float(evaluate(s.value, self.leaves)))
        if isinstance(s, InitialMatrix):
            normal = s.law == NORMAL
            array = self.rng.standard_normal((self.draws, *shape)) if normal else self._drawn(s, shape)
            array *= 1 / math.sqrt(shape[-1])
            return array
        return self._drawn(s, shape)

    def initial_matrix(self, s: InitialMatrix) -> Array:
        return self._initial(s)

    def initial_vector(self, s: InitialVector) -> Array:
        return self._initial(s)

    def initial_scalar(self, s: InitialScalar) -> Array:
        return self._initial(s)

    def _drawn(self, s: Initial, shape: tuple[int, ...]) -> Array:
        """Entries by their law; places of neurons are where they are."""
        full = (self.draws, *shape)
        if s.law.shape == GRID:
            return numpy.broadcast_to(places(shape[-1]), full)
        return drawn(s.law, full, lambda: self.rng.standard_normal(full), self.leaves)

    def _grid(self, axes: Iterable[str], bound: Mapping[str, str] | None = None) -> Grid:
        """The grid of an instruction; `bound` maps the names of summed indices to their axes."""
        return self.grid({a: self.size(a) for a in axes} | {b: self.size(a) for b, a in (bound or {}).items()})

    def _vector(self, s: MatMul | Avg) -> Array:
        """The operand with dimensions (draw, *axes, width), expanded to the instruction's axes."""
        x = self._grid(s.axes).read(self.arrays[s.operand.source], s.operand.indices, tail=1)
        return numpy.broadcast_to(x, (x.shape[0], *self.shape(s.axes), x.shape[-1]))

    def average(self, s: Avg) -> Array:
        return self._vector(s).mean(axis=-1)

    def matmul(self, s: MatMul) -> Array:
        x, matrix = self._vector(s), self.arrays[s.matrix]
        if s.transposed:
            matrix = numpy.swapaxes(matrix, -1, -2)
        if all(isinstance(i, sympy.Integer) for i in s.matrix_indices):  # one matrix: a single product per draw
            place: tuple[Any, ...] = (slice(None), *map(int, s.matrix_indices))
            one = matrix[place]
            flat = x.reshape(x.shape[0], -1, x.shape[-1])
            return (flat @ numpy.swapaxes(one, -1, -2)).reshape((*x.shape[:-1], one.shape[-2]))
        family = self._grid(s.axes).read(matrix, s.matrix_indices, tail=2)
        return numpy.matmul(family, x[..., None])[..., 0]

    def scalar(self, s: ScalarNonlin) -> Array:
        return self._body(s.body, s.axes, {}, slice(0, self.draws), slice(None))

    def outer(self, s: OuterNonlin) -> Array:
        """The mean of the body over its slots, in batches of draws, and of α where one draw is too large."""
        neurons = {OWN: s.over, **dict(zip(s.slots, s.slot_widths, strict=True))}
        if not s.slots:
            return self._body(s.body, s.axes, neurons, slice(0, self.draws), slice(None))
        n, slots = self.width[s.over], tuple(range(-len(s.slots), 0))
        axes = (*s.axes, *_reads(s.body).bound.values())
        # slots multiply the array by a width each: pieces of it at a time
        entries = math.prod(self.width[w] for w in neurons.values()) * math.prod(self.shape(axes))
        batch, step = max(1, _CHUNK // entries), max(1, min(n, _CHUNK * n // entries))
        rows = []
        for first in range(0, self.draws, batch):
            draws = slice(first, min(self.draws, first + batch))
            parts = [
                self._body(s.body, s.axes, neurons, draws, slice(a, min(n, a + step))).mean(axis=slots)
                for a in range(0, n, step)
            ]
            rows.append(numpy.concatenate(parts, axis=-1))
        return numpy.concatenate(rows)

    def _body(self, body: Expr, axes: tuple[str, ...], neurons: Mapping[Expr, str], draws: slice, own: slice) -> Array:
        """A body on the grid (draw, *axes, *neurons) for some draws and some α; `neurons` gives widths."""
        value, lost = self._written(body, axes, neurons, draws, own)
        # exponentials of large logits overflow in numerator and denominator, while their quotient is a weight
        if (lost or not numpy.isfinite(value).all()) and (other := with_shifts(body)) != body:
            shifted, _ = self._written(other, axes, neurons, draws, own)
            kept = numpy.isfinite(shifted) & (lost | ~numpy.isfinite(value))
            value = numpy.where(kept, shifted, value)
        return value

    def _written(
        self, body: Expr, axes: tuple[str, ...], neurons: Mapping[Expr, str], draws: slice, own: slice
    ) -> tuple[Array, bool]:
        """A body as it is written, and whether a sum of exponentials in it is so small that its digits are lost."""
        lost = False
        reads = _reads(body)
        bound = reads.bound
        grid = self._grid(axes, bound)
        known = dict(self.leaves)
        for leaf in reads.leaves:
            known[leaf] = self._leaf(leaf, grid, list(neurons), draws, own)
        for kron in reads.compared:
            known[kron] = _on_grid(grid.same(*kron.indices), grid, len(neurons))
        for total in reads.sums:
            if total in reads.scatters:
                known[total] = self._scattered(total, reads.scatters[total], known, grid, len(neurons))
                continue
            summand = numpy.asarray(evaluate(total.summand, known) + self.rounding(total.summand, known))
            known[total] = _summed(summand, grid.dimension(total.bound.name), self.size(total.axis), total)
            lost = lost or (total.summand.has(sympy.exp) and bool((numpy.abs(known[total]) < _LEAST).any()))
        value = numpy.asarray(evaluate(body, known) + self.rounding(body, known), dtype=numpy.float64)
        if value.ndim:
            summed = slice(1 + len(axes), 1 + len(axes) + len(bound))
            value = value.reshape(value.shape[: summed.start] + value.shape[summed.stop :])
        lengths = [self.width[w] for w in neurons.values()]
        if lengths:
            lengths[0] = len(range(*own.indices(lengths[0])))
        return numpy.broadcast_to(value, (draws.stop - draws.start, *self.shape(axes), *lengths)), lost

    def rounding(self, body: Expr, known: Mapping[Expr, Any]) -> Any:
        """What is added to bodies and summands: nothing, a run at finite width is what doubles make of them."""
        return 0.0

    def _scattered(self, total: AxisSum, s: Scatter, known: Mapping[Expr, Any], grid: Grid, neurons: int) -> Array:
        """A sum whose summands data put at their places, with dimensions (draw, *grid, *neurons)."""
        values = numpy.asarray(evaluate(s.summand, known), dtype=numpy.float64)
        places = _on_grid(grid.positions(s.index), grid, neurons)
        summed, onto = grid.dimension(total.bound.name), grid.dimension(s.onto.name)
        return scattered(values, places, summed, onto, grid.sizes[s.onto.name])

    def _leaf(self, leaf: Entry | ArrayEntry, grid: Grid, neurons: list[Expr], draws: slice, own: slice) -> Array:
        """What one leaf of a body reads, with dimensions (draw, *grid, *neurons)."""
        if isinstance(leaf, ArrayEntry):
            read = grid.read(self.program.arrays[leaf.array].values[None], leaf.indices, tail=0)
            return read.reshape(read.shape + (1,) * len(neurons))
        array = self.arrays[leaf.source][draws]
        if self.program[leaf.source].width is None:
            read = grid.read(array, leaf.indices, tail=0)
            return read.reshape(read.shape + (1,) * len(neurons))
        read = grid.read(array[..., own] if leaf.neuron == OWN else array, leaf.indices, tail=1)
        place = neurons.index(leaf.neuron)
        return read.reshape((*read.shape[:-1], *(1,) * place, read.shape[-1], *(1,) * (len(neurons) - place - 1)))


@dataclass(frozen=True)
class _Reads:
    """What a body reads: leaves, sums from the innermost, those of them that scatter, and comparisons of indices."""

    leaves: frozenset[Expr]
    sums: tuple[AxisSum, ...]
    scatters: Mapping[AxisSum, Scatter]
    #: but for those that are the places of scatters
    compared: frozenset[Kron]
    #: the bound indices by name, and the axes they run over
    bound: Mapping[str, str]


@remembered(1 << 12)
def _reads(body: Expr) -> _Reads:
    """What a body reads, found once for all batches of draws."""
    # inner sums hold fewer sums than outer ones, so they are known when an outer one needs them
    sums = tuple(sorted(body.atoms(AxisSum), key=lambda s: len(s.atoms(AxisSum))))
    scatters = {s: one for s in sums if (one := scatter(s)) is not None}
    compared = found(body.xreplace({total: s.summand for total, s in scatters.items()}), Kron)
    bound = {s.bound.name: s.axis for s in sorted(sums, key=lambda s: s.bound.name)}
    return _Reads(frozenset(body.atoms(Entry, ArrayEntry)), sums, scatters, compared, bound)


def _on_grid(values: Any, grid: Grid, neurons: int) -> Any:
    """Values that broadcast over the axes of a grid, with dimensions (draw, *grid, *neurons)."""
    shape = numpy.shape(values)
    return numpy.reshape(values, (1,) * (1 + len(grid.sizes) - len(shape)) + shape + (1,) * neurons)


def _summed(summand: Array, dimension: int, size: int, total: AxisSum) -> Array:
    """The sum, or the largest, along one dimension of the grid; what does not vary along it counts `size` times."""
    if isinstance(total, AxisLargest):
        return summand if summand.ndim == 0 else summand.max(axis=dimension, keepdims=True)
    if summand.ndim == 0 or summand.shape[dimension] == 1:
        return summand * size
    return summand.sum(axis=dimension, keepdims=True)


def run(
    program: Program, n: int, seed: int, ratios: Mapping[str, float] | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """One draw of the program; see `Program.run`."""
    width = whole_number(n)
    if width is None or width < 1:
        raise EvaluationError(f"run(n={shown(n)}): the width is a positive whole number.")
    rng = numpy.random.default_rng(seed_number(seed, EvaluationError))
    try:
        execution = Execution(program, width, 1, rng, ratios, given).run()
    except MemoryError:
        raise EvaluationError(f"run(n={n}): the arrays do not fit into memory; give a smaller width.") from None
    arrays = {name: execution.arrays[p][0] for name, p in program.names.items()}
    return {name: (float(a) if a.ndim == 0 else numpy.array(a)) for name, a in arrays.items()}
