"""Gradients of a loss on many inputs as sums of products, from one execution of a total program.

With one error signal χ for every input a and output i, the gradient of a parameter is

    Σ_{a,i} χ_ai ∂f_ai/∂w = Σ_rows χ_row left_row ⊗ right_row      (matrices),      Σ_rows χ_row left_row      (others),

one row for each input and each index of each use of the parameter (`tplimits.program.network.backward.Use`).
Gradients are scaled as there, and those of the scalar that is added to the output count like those of the mean of the
readout.

A use at indices i(φ) of a parameter with axes a_1, a_2, … adds to the entry φ′ the sum of its gradients over all φ with
i(φ) = φ′.  An index that is an axis of the use runs along the axis of the parameter.  Any other, an axis of the output,
a number, an entry of a table, or an axis that runs already, holds its axis in one place: a Kronecker δ.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from sympy import Expr, Integer, Symbol

from tplimits.arrays import Array
from tplimits.program.network.samples import at_sample
from tplimits.program.nodes.entries import Entry, Lookup, axis_symbol

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.program.network.total import TotalProgram
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.grid import Grid

Integers = NDArray[numpy.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of the gradients of one parameter, for every input: `left` and `right` have shape (inputs, rows, entries).

    Those of several draws have one more dimension in front.  `family` says which member of a family of parameters a row
    belongs to, `output` which output it is a gradient of.
    """

    left: Array
    right: Array | None
    family: Integers
    output: Integers


def network_outputs(total: TotalProgram, run: Execution) -> Array:
    """f = Avg(readout) + shift of the first draw, (inputs, *outputs)."""
    readout, shift = returned_values(total, run)
    inputs = run.size(total.axis)
    return (readout[0].mean(axis=-1) + shift[0]).reshape(inputs, *run.shape(total.output_axes))


def returned_values(total: TotalProgram, run: Execution) -> tuple[Array, Array]:
    """The readout (draws, inputs, outputs, n₀), and the scalar that is added, or 0 (draws, inputs, outputs)."""
    found = []
    for position in total.network.returns:
        own = Entry(Integer(position), Integer(0), *map(axis_symbol, total.network[position].axes))
        found.append(on_grid(total, run, own, {a: run.size(a) for a in total.output_axes}))
    return found[0], found[1][..., 0] if len(found) > 1 else numpy.zeros(found[0].shape[:-1])


def gradient_rows(total: TotalProgram, name: str, run: Execution) -> list[Rows]:
    """The rows of all uses of a parameter in the first draw of an execution."""
    found = [rows_of_use(total, name, use, outputs, run) for use, outputs in total.backward.uses(name)]
    firsts = (replace(r, left=r.left[0], right=None if r.right is None else r.right[0]) for r in found)
    return [one for one in firsts if len(one.family)]


def rows_of_use(total: TotalProgram, name: str, use: Use, outputs: Mapping[str, str], run: Execution) -> Rows:
    """One use as rows, of all draws: its axes, and those output axes that it lacks, flattened."""
    program = run.program
    new = {old: name for name, old in outputs.items()}
    # an axis that the use sums over may be called like an output axis that it lacks
    sizes = {a: run.size(a) for a in use.axes}
    for a in total.output_axes:
        if a not in new:
            new[a] = f"{a} of all outputs"
            sizes[new[a]] = run.size(a)
    grid, full = _grid(total, run, sizes), tuple(sizes.values())
    family, present = flat_index(grid, use.indices, run.shape(program[program.initial_names[name]].axes), full)
    places = [axis_symbol(new[a]) for a in total.output_axes]
    output, _ = flat_index(grid, places, run.shape(total.output_axes), full)
    left = on_grid(total, run, use.gradient, sizes)[:, :, present]
    right = None if use.operand is None else on_grid(total, run, use.operand, sizes)[:, :, present]
    if use.transposed:
        assert right is not None
        # d z ⊗ x for W x, x ⊗ d z for Wᵀ x: rows of the matrix first
        left, right = right, left
    return Rows(left, right, family[present], output[present])


def _grid(total: TotalProgram, run: Execution, sizes: Mapping[str, int], samples: bool = False) -> Grid:
    inputs = {total.axis: run.size(total.axis)} if samples else {}
    return run.grid({**inputs, **sizes})


def on_grid(total: TotalProgram, run: Execution, entry: Entry, sizes: Mapping[str, int]) -> Array:
    """An entry for every input and every index of the axes, flattened: (draws, inputs, indices, entries)."""
    grid = _grid(total, run, sizes, samples=True)
    entry = at_sample(entry, axis_symbol(total.axis), total.on_data)
    scalar = run.program[entry.source].width is None
    read = grid.read(run.arrays[entry.source], entry.indices, tail=0 if scalar else 1)
    read = read[..., None] if scalar else read
    full = (len(read), run.size(total.axis), *sizes.values(), read.shape[-1])
    return numpy.broadcast_to(read, full).reshape(*full[:2], -1, full[-1])


def flat_index(
    grid: Grid, indices: Iterable[Expr], sizes: tuple[int, ...], full: tuple[int, ...]
) -> tuple[Integers, NDArray[numpy.bool_]]:
    """Multi-indices as single numbers, flattened over the grid, and whether they exist (a table may say −1)."""
    flat = numpy.zeros(full, dtype=numpy.int64)
    present = numpy.ones(full, dtype=bool)
    for index, size in zip(indices, sizes, strict=True):
        place = grid.positions(index)
        if isinstance(index, Lookup):
            # a row that a table gives no entry is the gradient of nothing
            present = present & (numpy.asarray(place) >= 0)
        flat = flat * size + place
    return flat.ravel(), present.ravel()


@dataclass(frozen=True)
class Pinned:
    """`running` maps the indices of a use that run to axes of the parameter, `fixed` other axes to their indices.

    `summed` are the axes of the use that neither run nor belong to the output.
    """

    running: dict[Expr, str]
    fixed: tuple[tuple[str, Expr], ...]
    summed: tuple[str, ...]

    def shown(self, outputs: Mapping[str, str]) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, Expr], ...]]:
        """Axes fixed to an axis of the output, in the names of both, and all others with their indices."""
        to_output = {a: outputs[i.name] for a, i in self.fixed if isinstance(i, Symbol) and i.name in outputs}
        named = {i: axis_symbol(a) for i, a in self.running.items()}
        others = tuple((a, i.xreplace(named)) for a, i in self.fixed if a not in to_output)
        return tuple(to_output.items()), others


def pinned(use: Use, axes: tuple[str, ...], outputs: Container[str]) -> Pinned:
    """A use of a parameter with these axes, where the axes `outputs` of the use are those of the output.

    >>> from sympy import Integer
    >>> from tplimits.program.network.backward import Use
    >>> from tplimits.program.nodes.entries import Entry
    >>> i, o = axis_symbol("i"), axis_symbol("o")
    >>> found = pinned(Use(Entry(Integer(0), Integer(0)), ("o", "i"), (i, o, i, Integer(2))), ("a", "b", "c", "d"), "o")
    >>> {str(index): axis for index, axis in found.running.items()}, [(a, str(index)) for a, index in found.fixed]
    ({'i': 'a'}, [('b', 'o'), ('c', 'i'), ('d', '2')])
    """
    free = {axis_symbol(a) for a in use.axes if a not in outputs}
    running: dict[Expr, str] = {}
    fixed: list[tuple[str, Expr]] = []
    for axis, index in zip(axes, use.indices, strict=True):
        if isinstance(index, Symbol) and index in free and index not in running:
            running[index] = axis
        else:
            fixed.append((axis, index))
    summed = tuple(a for a in use.axes if a not in outputs and axis_symbol(a) not in running)
    return Pinned(running, tuple(fixed), summed)
