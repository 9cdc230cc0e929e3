"""The gradient of every parameter as products of two factors, read off one execution of a total program.

A use z = W x of a matrix contributes d z ⊗ x to its gradient; a vector or a scalar has d v alone.  One row for each
index of each use, on many inputs at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.program.backward import Backward, Use
from tplimits.program.entries import Entry, Lookup, axis_symbol
from tplimits.program.grid import Grid
from tplimits.program.program import Program
from tplimits.program.run import Execution
from tplimits.program.samples import at_sample, dependent

Array = NDArray[numpy.float64]


@dataclass(frozen=True)
class Factors:
    """The uses of one parameter, one row for each index of each use: left and right factors of its gradient.

    `left` and `right` have shapes (draws, inputs, rows, entries); `family` says which member of the family of
    parameters a row belongs to, `output` which output it is the gradient of (both of length rows).
    """

    left: Array
    right: Array | None
    family: NDArray[numpy.int64]
    output: NDArray[numpy.int64]


class FactorReader:
    """Reads the factors of gradients off an execution of the total program of a network on many inputs.

    `axis` is the axis of inputs; outputs are numbered in row order over the axes of the readout, then those that the
    shift adds.
    """

    def __init__(self, network: Program, backward: Backward, run: Execution, axis: str) -> None:
        self.network, self.backward, self.run, self.axis = network, backward, run, axis
        self.on_data = dependent(backward.program)
        self.n0 = run.width[network[network.returns[0]].width or "n"]
        self.inputs = run.size(axis)
        axes: dict[str, None] = {}
        for position in network.returns:
            axes.update(dict.fromkeys(network[position].axes))
        self.output_axes = tuple(axes)
        self.shape = run.shape(self.output_axes)

    def of(self, name: str, readout: bool = True) -> Factors | None:
        """The rows of all uses of a parameter; gradients of the shift weigh n₀^(−1/2) beside those of the readout."""
        backward = self.backward
        weighted = [
            (u, backward.shift_outputs, self.n0**-0.5 if readout else 1.0) for u in backward.shift_gradients[name]
        ]
        if readout:
            weighted += [(u, backward.outputs, 1.0) for u in backward.gradients[name]]
        found = [self._rows(name, use, outputs, weight) for use, outputs, weight in weighted]
        found = [f for f in found if len(f.family)]
        if not found:
            return None
        if len(found) == 1:
            return found[0]
        rights = [f.right for f in found if f.right is not None]
        return Factors(
            numpy.concatenate([f.left for f in found], axis=2),
            numpy.concatenate(rights, axis=2) if rights else None,
            numpy.concatenate([f.family for f in found]),
            numpy.concatenate([f.output for f in found]),
        )

    def _rows(self, name: str, use: Use, outputs: Mapping[str, str], weight: float) -> Factors:
        """One use as rows: its axes, and those output axes that it lacks, flattened."""
        program = self.run.program
        new = {old: name for name, old in outputs.items()}
        axes = (*use.axes, *(a for a in self.output_axes if a not in new))
        grid, full = self._grid(axes), self.run.shape(axes)
        members = self.run.shape(program[program.initial_names[name]].axes)
        family, present = _flat(grid, use.indices, members, full)
        places = [axis_symbol(new.get(a, a)) for a in self.output_axes]
        output, _ = _flat(grid, places, self.shape, full)
        left = self.on_grid(use.gradient, axes)
        right = None if use.operand is None else self.on_grid(use.operand, axes)
        if not present.all():
            left, right = left[:, :, present], None if right is None else right[:, :, present]
        left = left if weight == 1 else left * weight
        if use.transposed:
            assert right is not None
            left, right = right, left
        return Factors(left, right, family[present], output[present])

    def _grid(self, axes: Iterable[str], samples: bool = False) -> Grid:
        sizes = {self.axis: self.inputs} if samples else {}
        return Grid({**sizes, **{a: self.run.size(a) for a in axes}}, [t.values for t in self.run.program.tables])

    def on_grid(self, entry: Entry, axes: tuple[str, ...]) -> Array:
        """An entry for every input and every index of the axes, flattened: (draws, inputs, indices, entries)."""
        grid = self._grid(axes, samples=True)
        entry = at_sample(entry, axis_symbol(self.axis), self.on_data)
        scalar = self.run.program[entry.source].width is None
        read = grid.read(self.run.arrays[entry.source], entry.indices, tail=0 if scalar else 1)
        read = read[..., None] if scalar else read
        full = (read.shape[0], self.inputs, *self.run.shape(axes), read.shape[-1])
        return numpy.broadcast_to(read, full).reshape(full[0], full[1], -1, full[-1])


def _flat(
    grid: Grid, indices: Iterable[Expr], sizes: tuple[int, ...], full: tuple[int, ...]
) -> tuple[NDArray[numpy.int64], NDArray[numpy.bool_]]:
    """Multi-indices as single numbers, flattened over the grid, and whether they exist (a table may say −1)."""
    flat = numpy.zeros(full, dtype=numpy.int64)
    present = numpy.ones(full, dtype=bool)
    for index, size in zip(indices, sizes, strict=True):
        place = grid.positions(index)
        if isinstance(index, Lookup):
            present = present & (numpy.asarray(place) >= 0)
        flat = flat * size + place
    return flat.ravel(), present.ravel()
