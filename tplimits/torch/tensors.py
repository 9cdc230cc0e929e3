"""Tensors of a graph as values of a program: which entry of which value stands at each position.

A tensor has one position for each of its finite indices; along a width it has the entries of a vector.  What operations
that only move entries do is kept in tables, one for each finite axis of the value, and is written into the program
where arithmetic needs it: reshapes, transposes, slices and broadcasts emit nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from sympy import Integer

from tplimits.program.language.matrices import MatrixValue
from tplimits.program.language.values import Value
from tplimits.program.nodes.entries import Lookup, axis_symbol
from tplimits.program.nodes.stated import IndexTable

if TYPE_CHECKING:
    from tplimits.program.language.tracing import Trace

Indices = NDArray[numpy.int64]


@dataclass(frozen=True)
class Dim:
    """A dimension: `outer` finite entries, or outer pieces of a width with `inner` entries that stay together."""

    outer: int = 1
    width: str | None = None
    inner: int = 1

    @property
    def finite(self) -> list[int]:
        """The sizes of its finite axes: pieces and inner entries."""
        return [self.outer] if self.width is None else [self.outer, self.inner]

    def size(self, atoms: Mapping[str, int]) -> int:
        """Its number of entries."""
        return self.outer * self.inner * (1 if self.width is None else atoms[self.width])


ONE = Dim()


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: a value (or a matrix, or a number), its dimensions, and where the value's axes are read.

    tables: {axis of the value: its index at each position}, arrays of the positions' shape in which what does not
    depend on a position has one entry; −1 stands for an entry that is 0.
    hidden: where a logit is −∞, a tensor of ones and zeros (0: hidden), else None.  factor: what a matrix is times.
    """

    value: Any
    dims: tuple[Dim, ...]
    tables: Mapping[str, Indices]
    hidden: Tensor | None = None
    factor: Any = 1

    @property
    def positions(self) -> tuple[int, ...]:
        """The shape of its finite indices, two for a width."""
        return tuple(s for d in self.dims for s in d.finite)

    @property
    def widths(self) -> tuple[str, ...]:
        """The widths that its dimensions run over."""
        return tuple(d.width for d in self.dims if d.width is not None)


def without_positions(dims: Sequence[Dim]) -> bool:
    """Whether a tensor of these dimensions has no entry, as caches before the first token."""
    return any(s == 0 for d in dims for s in d.finite)


def empty(dims: Sequence[Dim]) -> Tensor:
    """A tensor without an entry: a zero, which sums and parts side by side leave out."""
    return Tensor(0.0, tuple(dims), {})


def places(dims: Sequence[Dim]) -> list[list[int]]:
    """The finite indices of each dimension.

    >>> places([Dim(3), Dim(2, "n", 1)])
    [[0], [1, 2]]
    """
    found, at = [], 0
    for d in dims:
        found.append(list(range(at, at + len(d.finite))))
        at += len(d.finite)
    return found


def moved(tensor: Tensor, source: Indices, dims: Sequence[Dim]) -> Tensor:
    """The tensor whose positions are read from those of another one."""
    own = prod(tensor.positions)
    flat = source.reshape([s for d in dims for s in d.finite])
    outside = flat < 0
    where = numpy.where(outside, 0, flat)
    tables: dict[str, Indices] = {}
    for axis, table in tensor.tables.items():
        full = numpy.broadcast_to(table, tensor.positions).reshape(own)
        tables[axis] = _slim(full[where])
    # one table with −1 makes the entry 0, whichever it is
    if outside.any():
        tables = _separate(_with_holes(tensor, tables, outside))
    hidden = tensor.hidden and moved(tensor.hidden, source, dims)
    return Tensor(tensor.value, tuple(dims), tables, hidden, tensor.factor)


class NoAxisToHide(Exception):
    """A value without a finite axis cannot be 0 at some positions."""


def _with_holes(tensor: Tensor, tables: dict[str, Indices], outside: NDArray[Any]) -> dict[str, Indices]:
    if not tables:
        raise NoAxisToHide
    axis = next(iter(tables))
    return {**tables, axis: _slim(numpy.where(outside, -1, numpy.broadcast_to(tables[axis], outside.shape)))}


def _separate(tables: dict[str, Indices]) -> dict[str, Indices]:
    """Tables that depend on as few indices as they can, where an entry is outside if one of them says so.

    Windows over rows and columns are then a table of rows and one of columns, which limits read as shifts.
    """
    shape = numpy.broadcast_shapes(*(t.shape for t in tables.values()))
    inside = numpy.all([numpy.broadcast_to(t, shape) >= 0 for t in tables.values()], axis=0)
    found = {}
    for axis, table in tables.items():
        entries = numpy.where(inside, numpy.broadcast_to(table, shape), -1)
        for at in range(len(shape)):
            most = entries.max(axis=at, keepdims=True)
            # along this index the table says one thing, or that there is no entry
            if ((entries == most) | (entries < 0)).all():
                entries = most
        found[axis] = entries
    # what was outside for a reason that no single table can tell has to stay in the tables as they were
    again = numpy.all([numpy.broadcast_to(t, shape) >= 0 for t in found.values()], axis=0)
    return found if (again == inside).all() else tables


def _slim(table: Indices) -> Indices:
    """A table with one entry along each index that it does not depend on."""
    for at in range(table.ndim):
        if table.shape[at] > 1 and (table == table.take([0], axis=at)).all():
            table = table.take([0], axis=at)
    return table


def spread(tensor: Tensor, dims: Sequence[Dim], to: Sequence[int]) -> Tensor:
    """A tensor along the dimensions of a larger one: its dimension i becomes to[i], others broadcast."""
    groups, target = places(tensor.dims), places(dims)
    total = sum(len(d.finite) for d in dims)

    def along(table: Indices) -> Indices:
        shape = [1] * total
        order: list[tuple[int, int]] = []
        for mine, at in zip(groups, to, strict=True):
            own = mine
            goal = target[at]
            if len(own) != len(goal):  # a dimension of one entry beside a width
                own, goal = own[:1], goal[:1]
            order += list(zip(own, goal, strict=True))
        order.sort(key=lambda pair: pair[1])
        used = [a for a, _ in order]
        rest = [a for a in range(table.ndim) if a not in used]
        table = table.transpose([*used, *rest])
        for (_, b), entries in zip(order, table.shape, strict=False):
            shape[b] = entries
        return table.reshape(shape)

    tables = {axis: along(table) for axis, table in tensor.tables.items()}
    hidden = None if tensor.hidden is None else spread(tensor.hidden, dims, to)
    return Tensor(tensor.value, tuple(dims), tables, hidden, tensor.factor)


@dataclass
class Writer:
    """Writes tensors into the program being traced; knows the names of axes."""

    trace: Trace
    atoms: Mapping[str, int]
    count: int = 0

    def fresh(self, size: int, taken: Iterable[str]) -> str:
        """A new axis of a size; one that is not in use here is used again."""
        taken = set(taken)
        number = 0
        while True:
            name = f"d{size}" if not number else f"d{size}_{number + 1}"
            if name not in taken and name not in self.trace.widths:
                self.trace.set_size(self.trace.declare(name), size)
                return name
            number += 1

    def names(self, dims: Sequence[Dim], tensors: Iterable[Tensor]) -> list[str | None]:
        """Names for the finite indices of dimensions: those of values that run along them, as far as they go."""
        sizes = [s for d in dims for s in d.finite]
        found: list[str | None] = [None] * len(sizes)
        used: set[str] = set()
        for tensor in tensors:
            for axis, table in tensor.tables.items():
                at = _running(table)
                # one axis for each position, and each axis once: x[i] + y[i] runs over one i, x[i] y[j] over two
                if at is None or found[at] is not None or axis in used:
                    continue
                if table.size == sizes[at] == self.trace.size(axis):
                    found[at] = axis
                    used.add(axis)
        for at, size in enumerate(sizes):
            if found[at] is None and size > 1:
                found[at] = self.fresh(size, used)
                used.add(found[at])  # type: ignore[arg-type]
        return found

    def written(self, tensor: Tensor, names: Sequence[str | None]) -> Any:
        """The value of a tensor with its finite indices under these names."""
        if not isinstance(tensor.value, Value):
            return tensor.value
        swap: dict[Any, Any] = {}
        axes: list[str] = []
        for axis, table in tensor.tables.items():
            index, own = self.index(table, names, axis)
            if index in swap.values() and not index.is_Integer:  # on a diagonal; gradients ask for one running index
                index, own = self._tabled(table, names)
            swap[axis_symbol(axis)] = index
            axes += own
        if all(isinstance(i, type(k)) and i == k for k, i in swap.items()):
            return tensor.value
        return tensor.value.derived(tensor.value.entry().xreplace(swap), axes=tuple(dict.fromkeys(axes)))

    def index(self, table: Indices, names: Sequence[str | None], axis: str) -> tuple[Any, list[str]]:
        """A table as an index of a value, and the axes that it runs over."""
        if table.size == 1 and int(table.reshape(-1)[0]) >= 0:
            return Integer(int(table.reshape(-1)[0])), []
        at = _running(table)
        if at is not None and table.size == self.trace.size(axis):
            return axis_symbol(str(names[at])), [str(names[at])]
        return self._tabled(table, names)

    def _tabled(self, table: Indices, names: Sequence[str | None]) -> tuple[Any, list[str]]:
        """A table as an index that is looked up."""
        along = [i for i, s in enumerate(table.shape) if s > 1]
        axes = tuple(str(names[i]) for i in along)
        if not axes:  # an entry that is 0 everywhere
            axes = tuple(n for n in names if n is not None)[:1]
            size = int(self.trace.size(axes[0]) or 1)
            number = self.trace.add_table(IndexTable(numpy.full(size, -1, dtype=numpy.int64), axes))
        else:
            values = table.reshape([table.shape[i] for i in along]).astype(numpy.int64)
            number = self.trace.add_table(IndexTable(values, axes))
        return Lookup(Integer(number), *self.trace.indices(axes)), list(axes)

    def tensor(self, value: Any, dims: Sequence[Dim], names: Sequence[str | None]) -> Tensor:
        """A value whose axes are positions of these names, as a tensor."""
        if not isinstance(value, (Value, MatrixValue)):
            return Tensor(value, tuple(dims), {})
        total = len(names)
        tables = {}
        for axis in value.axes:
            at = list(names).index(axis)
            size = int(self.trace.size(axis) or 1)
            tables[axis] = numpy.arange(size, dtype=numpy.int64).reshape([size if i == at else 1 for i in range(total)])
        return Tensor(value, tuple(dims), tables)


def _running(table: Indices) -> int | None:
    """The index along which a table counts 0, 1, 2, …, if it does nothing else."""
    along = [i for i, s in enumerate(table.shape) if s > 1]
    if len(along) != 1:
        return None
    return along[0] if (table.reshape(-1) == numpy.arange(table.size)).all() else None
