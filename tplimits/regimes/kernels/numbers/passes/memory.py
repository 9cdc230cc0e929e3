"""Memory of compiled passes: which arrays there are, where they lie, and the code that finds an entry of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from llvmlite import ir
from numpy.typing import NDArray

from tplimits.regimes.kernels.numbers.passes.cells import Axis, Kept, axes_of

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.forms import Dims, Pass
    from tplimits.regimes.kernels.numbers.passes.passes import Passes

WHOLE, POINTER = ir.IntType(64), ir.PointerType()


@dataclass(eq=False)
class Memory:
    """The arrays of passes; `count` lanes of single or double precision, and as many of each of the rows `abreast`.

    Arrays that are given or asked for (`outer`, steps in order, results and one flag for all last) go by address; of
    pairs with the distances between places and between rows.  `kept` are in the room of a thread, and so are the
    numbers of a row (`rows`, where they begin; they are the first of `outer`, those of one size together).
    """

    passes: Passes
    count: int
    single: bool
    abreast: int = 1
    outer: list[tuple[str, int]] = field(default_factory=list)
    tables: list[NDArray[numpy.int64]] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    #: given arrays of one input that are brought beside each other first
    packed: list[int] = field(default_factory=list)
    room: int = 0
    builder: ir.IRBuilder = field(init=False)
    scratch: Any = field(init=False)
    bases: dict[tuple[str, int], Any] = field(default_factory=dict)
    strides: dict[tuple[str, int], tuple[Any, Any]] = field(default_factory=dict)
    #: where arrays begin that are others from round to round of a loop over passes
    moved: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        passes = self.passes
        self.element = ir.FloatType() if self.single else ir.DoubleType()
        self.vector = ir.VectorType(self.element, self.count * self.abreast)
        self.width = 4 if self.single else 8
        self.axes = self.found_axes()
        self._place_arrays()
        given = [n for p in passes.passes for n, _ in p.reads if self.is_given(n)]
        summed = [n for p in passes.passes for r in p.reductions.values() for n, _ in r.factors if self.is_given(n)]
        given = list(dict.fromkeys([*given, *summed, *self.packed]))
        rows = sorted(filter(self.is_row, given), key=lambda n: math.prod(passes.sizes_of(n)))
        self.outer = [("in", n) for n in (*rows, *(n for n in given if n not in rows))]
        self.outer += [("out", n) for n in sorted(passes.results)]
        self.outer += [("flag", n) for n in passes.flags[:1]]
        for n in rows:
            self.rows[n] = self.room
            self.room += -(-math.prod(passes.sizes_of(n)) // self.count)

    def is_row(self, n: int) -> bool:
        """Whether an array is one of row inputs alone."""
        inputs = self.passes.inputs
        return len(inputs) == 2 and inputs[0] in self.passes.labels[n] and inputs[1] not in self.passes.labels[n]

    def is_pairs(self, n: int) -> bool:
        """Whether an array is one of pairs of inputs."""
        return len(self.passes.inputs) == 2 and set(self.passes.inputs) <= set(self.passes.labels[n])

    def has_strides(self, key: tuple[str, int]) -> bool:
        """Whether an array that goes by address is one of pairs: what lies between places and rows is told."""
        return len(self.passes.inputs) == 2 and (key[0] == "flag" or self.is_pairs(key[1]))

    def is_given(self, n: int) -> bool:
        """Whether an array is made outside."""
        return n not in self.passes.inside

    def found_axes(self) -> dict[int, Axis]:
        """How axes are stored, by their sizes."""
        return axes_of(self.passes)

    def axes_for(self, n: int) -> tuple[Axis, ...]:
        """The axes of an array that is kept."""
        return tuple(map(self.axis, self.passes.sizes_of(n)))

    def _place_arrays(self) -> None:
        """Room of arrays, used again after the last pass that reads one."""
        passes, last = self.passes, {}
        for number, one in enumerate(passes.passes):
            for n in self._read_by(one):
                last[n] = number
        free: dict[tuple[Axis, ...], list[int]] = {}
        for number, one in enumerate(passes.passes):
            for n, _ in one.results:
                if n in last and n not in self.kept:
                    axes = self.axes_for(n)
                    # room of arrays that are read no more goes to others of the same shape, whose borders are in the
                    # same cells
                    if not free.get(axes):
                        free.setdefault(axes, []).append(self.room)
                        self.room += math.prod(a.extent for a in axes)
                    self.kept[n] = Kept(free[axes].pop(), axes)
            # after the results of this pass have their room: a pass may not write over what it reads
            for n, end in last.items():
                if end == number and n in self.kept:
                    free.setdefault(self.kept[n].axes, []).append(self.kept[n].start)

    def start_of(self, n: int) -> Any:
        """Where an array begins in the room of the thread."""
        return self.moved[n] if n in self.moved else WHOLE(self.kept[n].start if n in self.kept else self.rows[n])

    def axis(self, size: int) -> Axis:
        """How an axis is stored."""
        return self.axes.get(size, Axis(size, (1, size)))

    def _read_by(self, one: Pass) -> Iterator[int]:
        passes = self.passes
        yield from (n for n, _ in one.reads if n in passes.inside)
        yield from (g.operand for g in one.gathers.values())
        for r in one.reductions.values():
            yield from (n for n, _ in r.factors if n in passes.inside)

    def read(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        """A vector of an array at the indices of the loops."""
        if not self.is_given(n):
            place = self.kept_address(n, dims, indices)
            return self.builder.load(place, typ=self.vector, align=self.width * self.count)
        if self.is_row(n) or self.is_pairs(n):
            return self._joined([self._lanes_of(n, dims, here) for here in self.rows_of(indices)])
        return self._joined([self._lanes_of(n, dims, indices)] * self.abreast)

    def _lanes_of(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        """The lanes of one row of a given array."""
        vector = ir.VectorType(self.element, self.count)
        place = self.outer_address(("in", n), dims, indices)
        if len(self.passes.inputs) - 1 in dims:
            return self.builder.load(place, typ=vector, align=self.width)
        one = self.builder.load(place, typ=self.element, align=self.width)
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), one, ir.IntType(32)(0))
        return self._picked_lanes(first, first, [0] * self.count)

    def _picked_lanes(self, one: Any, other: Any, lanes: Sequence[int]) -> Any:
        """Some lanes of two vectors, those of the second after those of the first."""
        picked = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
        return self.builder.shuffle_vector(one, other, picked)

    def _joined(self, parts: Sequence[Any]) -> Any:
        """Vectors after one another, a power of two of them."""
        while len(parts) > 1:
            lanes = range(2 * parts[0].type.count)
            parts = [self._picked_lanes(a, b, lanes) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def rows_of(self, indices: Mapping[Any, Any]) -> Sequence[Mapping[Any, Any]]:
        """The indices of each row that goes abreast."""
        if self.abreast == 1:
            return [indices]
        return [{**indices, 0: row, "abreast": k} for k, row in enumerate(indices["rows"])]

    def put(self, value: Any, key: tuple[str, int], dims: Dims, indices: Mapping[Any, Any]) -> None:
        """Store a vector into an array that is asked for."""
        for k, here in enumerate(self.rows_of(indices)):
            lanes = range(k * self.count, (k + 1) * self.count)
            part = value if self.abreast == 1 else self._picked_lanes(value, value, lanes)
            self.builder.store(part, self.outer_address(key, dims, here), align=self.width)

    def outer_address(self, key: tuple[str, int], dims: Dims, indices: Mapping[Any, Any]) -> Any:
        """Of a given or asked array: of pairs [places][rows][columns], of one input [block][places][lanes]."""
        b, inputs, n = self.builder, self.passes.inputs, key[1]
        sizes = self.passes.sizes_of(n) if key[0] != "flag" else ()
        total: Any = WHOLE(0)
        for size, dim in zip(sizes, (d for d in dims if d >= len(inputs)), strict=True):
            total = b.add(b.mul(total, WHOLE(size)), indices[dim])
        lane = indices[len(inputs) - 1]
        if key[0] == "in" and self.is_row(n):
            start = indices.get("abreast", 0) * math.prod(sizes)
            base = b.gep(self.scratch, [self.start_of(n)], source_etype=self.vector)
            return b.gep(base, [b.add(total, WHOLE(start))], source_etype=self.element)
        if self.has_strides(key):
            places, rows = self.strides[key]
            total = b.add(b.mul(total, places), b.add(b.mul(indices[0], rows), lane))
        elif len(inputs) - 1 in dims:
            total = b.add(b.mul(lane, WHOLE(math.prod(sizes))), b.mul(total, WHOLE(self.count)))
        return b.gep(self.bases[key], [total], source_etype=self.element)

    def kept_address(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        """Of an array that stays from pass to pass."""
        b, kept = self.builder, self.kept[n]
        total = self.start_of(n)
        inner = [d for d in dims if d >= len(self.passes.inputs)]
        for stride, dim in zip(kept.strides, inner, strict=True):
            total = b.add(total, b.mul(indices["cell", dim], WHOLE(stride)))
        return b.gep(self.scratch, [total], source_etype=self.vector)

    def _at(self, start: Any, place: Any) -> Any:
        """The address of a vector in the room of the thread."""
        where = self.builder.add(place, WHOLE(start) if isinstance(start, int) else start)
        return self.builder.gep(self.scratch, [where], source_etype=self.vector)

    def _load(self, start: Any, place: Any) -> Any:
        return self.builder.load(self._at(start, place), typ=self.vector, align=self.width * self.count)

    def _store(self, value: Any, start: Any, place: Any) -> None:
        self.builder.store(value, self._at(start, place), align=self.width * self.count)
