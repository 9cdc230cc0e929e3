"""Total programs on data: a network with its gradients on many inputs, and gradients as sums of products.

With one error signal χ for every input a and output i, the gradient of a parameter is

    Σ_{a,i} χ_ai ∂f_ai/∂w = Σ_rows χ_row left_row ⊗ right_row      (matrices),      Σ_rows χ_row left_row      (others),

one row for each input and each index of each use of the parameter (`tplimits.program.backward.Use`).  Gradients are
scaled as there, and those of the scalar that is added to the output count like those of the mean of the readout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy
from numpy.typing import NDArray
from sympy import Expr, Integer

from tplimits.program.backward import Backward, Use, backpropagation
from tplimits.program.entries import Entry, Lookup, axis_symbol
from tplimits.program.grid import Grid
from tplimits.program.program import Program
from tplimits.program.run import Execution
from tplimits.program.samples import at_sample, dependent, with_samples

Array = NDArray[numpy.float64]
Integers = NDArray[numpy.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of the gradients of one parameter, for every input: `left` and `right` have shape (inputs, rows, entries).

    `family` says which member of a family of parameters a row belongs to, `output` which output it is a gradient of.
    """

    left: Array
    right: Array | None
    family: Integers
    output: Integers


@dataclass(frozen=True)
class TotalProgram:
    """A network and its gradients on many inputs with the same parameters."""

    network: Program

    @cached_property
    def backward(self) -> Backward:
        """The gradients for one input."""
        return backpropagation(self.network)

    @cached_property
    def program(self) -> Program:
        """Everything, on many inputs; the instructions of the network come first."""
        return with_samples(self.backward.program)[0]

    @cached_property
    def axis(self) -> str:
        """The axis of inputs."""
        return with_samples(self.backward.program)[1]

    @cached_property
    def on_data(self) -> tuple[bool, ...]:
        """Which instructions depend on the input."""
        return dependent(self.backward.program)

    @cached_property
    def output_axes(self) -> tuple[str, ...]:
        """The axes of the output: those of the readout, then those that the shift adds."""
        axes: dict[str, None] = {}
        for position in self.network.returns:
            axes.update(dict.fromkeys(self.network[position].axes))
        return tuple(axes)

    @cached_property
    def readout_width(self) -> str:
        """The width that the output is summed over."""
        return self.network[self.network.returns[0]].width or "n"

    def outputs(self, run: Execution) -> Array:
        """f = Avg(readout) + shift of the first draw, (inputs, *outputs)."""
        total = 0.0
        for position in self.network.returns:
            s = self.network[position]
            own = Entry(Integer(position), Integer(0), *map(axis_symbol, s.axes))
            total = total + self._on_grid(run, own, self.output_axes).mean(axis=-1)
        inputs = run.size(self.axis)
        return numpy.asarray(total).reshape(inputs, *run.shape(self.output_axes))

    def rows(self, name: str, run: Execution) -> list[Rows]:
        """The rows of all uses of a parameter in the first draw of an execution."""
        backward = self.backward
        uses = [(use, backward.outputs) for use in backward.gradients[name]]
        uses += [(use, backward.shift_outputs) for use in backward.shift_gradients[name]]
        found = [self._rows(name, use, outputs, run) for use, outputs in uses]
        return [rows for rows in found if len(rows.family)]

    def _rows(self, name: str, use: Use, outputs: Mapping[str, str], run: Execution) -> Rows:
        """One use as rows: its axes, and those output axes that it lacks, flattened."""
        program = run.program
        new = {old: name for name, old in outputs.items()}
        axes = (*use.axes, *(a for a in self.output_axes if a not in new))
        grid, full = self._grid(run, axes), run.shape(axes)
        family, present = flat_index(grid, use.indices, run.shape(program[program.initial_names[name]].axes), full)
        places = [axis_symbol(new.get(a, a)) for a in self.output_axes]
        output, _ = flat_index(grid, places, run.shape(self.output_axes), full)
        left = self._on_grid(run, use.gradient, axes)[:, present]
        right = None if use.operand is None else self._on_grid(run, use.operand, axes)[:, present]
        if use.transposed:
            assert right is not None
            left, right = right, left
        return Rows(left, right, family[present], output[present])

    def _grid(self, run: Execution, axes: Iterable[str], samples: bool = False) -> Grid:
        sizes = {self.axis: run.size(self.axis)} if samples else {}
        return Grid({**sizes, **{a: run.size(a) for a in axes}}, [t.values for t in run.program.tables])

    def _on_grid(self, run: Execution, entry: Entry, axes: tuple[str, ...]) -> Array:
        """An entry for every input and every index of the axes, flattened: (inputs, indices, entries)."""
        grid = self._grid(run, axes, samples=True)
        entry = at_sample(entry, axis_symbol(self.axis), self.on_data)
        scalar = run.program[entry.source].width is None
        read = grid.read(run.arrays[entry.source][:1], entry.indices, tail=0 if scalar else 1)[0]
        read = read[..., None] if scalar else read
        inputs = run.size(self.axis)
        full = (inputs, *run.shape(axes), read.shape[-1])
        return numpy.broadcast_to(read, full).reshape(inputs, -1, full[-1])


def flat_index(
    grid: Grid, indices: Iterable[Expr], sizes: tuple[int, ...], full: tuple[int, ...]
) -> tuple[Integers, NDArray[numpy.bool_]]:
    """Multi-indices as single numbers, flattened over the grid, and whether they exist (a table may say −1)."""
    flat = numpy.zeros(full, dtype=numpy.int64)
    present = numpy.ones(full, dtype=bool)
    for index, size in zip(indices, sizes, strict=True):
        place = grid.positions(index)
        if isinstance(index, Lookup):
            present = present & (numpy.asarray(place) >= 0)
        flat = flat * size + place
    return flat.ravel(), present.ravel()
