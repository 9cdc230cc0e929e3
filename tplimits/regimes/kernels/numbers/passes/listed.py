"""Passes over a list of pairs of inputs, some of them beside each other in a vector: none of its lanes is idle.

What pairs read of one input is brought beside each other first.  That is little where passes go over pairs of places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from llvmlite import ir

from tplimits.regimes.kernels.numbers.passes.cells import Kept
from tplimits.regimes.kernels.numbers.passes.lanes import Lanes
from tplimits.regimes.kernels.numbers.passes.memory import WHOLE

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.forms import Dims, Pass

#: tables of whole numbers before all others: left and right input of each pair
PAIRS = 2


@dataclass(eq=False)
class Listed(Lanes):
    """The code of passes; lanes are pairs of inputs, or inputs."""

    pointers: dict[int, Any] = field(default_factory=dict)

    def is_row(self, n: int) -> bool:
        """No input has a row of its own."""
        return False

    def _place_arrays(self) -> None:
        super()._place_arrays()
        if len(self.passes.inputs) == 2:
            given = dict.fromkeys(n for p in self.passes.passes for n in self._read_by_place(p) if self.is_given(n))
            for n in given:
                axes = self.axes_for(n)
                self.kept[n] = Kept(self.room, axes)
                self.packed.append(n)
                self.room += numpy.prod([a.extent for a in axes], dtype=int).item()

    def _read_by_place(self, one: Pass) -> Iterator[int]:
        """What a pass reads of one input."""
        yield from (n for n, _ in one.reads if self.is_one_input(n))
        for gather in one.gathers.values():
            yield from filter(self.is_one_input, (gather.operand,))
        for reduction in one.reductions.values():
            yield from (n for n, _ in reduction.factors if self.is_one_input(n))

    def is_one_input(self, n: int) -> bool:
        """Whether an array is one of a single input."""
        return len(set(self.passes.inputs) & set(self.passes.labels[n])) == 1

    def read(self, n: int, dims: Dims, indices: Mapping[Any, Any]) -> Any:
        """A vector of an array at the indices of the loops."""
        if n not in self.kept or (self.is_given(n) and n not in self.packed):
            return super().read(n, dims, indices)
        return self.builder.load(self.kept_address(n, dims, indices), typ=self.vector, align=self.width * self.count)

    def _write(self) -> None:
        self.tables = [numpy.zeros(1, numpy.int64) for _ in range(PAIRS)]
        with self._blocks() as column:
            for one in self.passes.passes:
                if not any(n in self.packed for n, _ in one.results):
                    self._pass(one, [WHOLE(0)], column)

    @contextmanager
    def _blocks(self) -> Iterator[Any]:
        """The function: a loop over blocks of pairs, with what they read packed."""
        first, last, _, _ = self._opened()
        b = self.builder
        self.pointers = {k: self._address_of(WHOLE(len(self.outer) + k)) for k in range(len(self.tables))}
        block, blocks = self._begin(first, b.block)
        column = b.mul(block, WHOLE(self.count))
        self._pack(column)
        with self._watched([WHOLE(0)], column):
            yield column
        self._end(block, blocks, 1, last)
        b.ret(WHOLE(0))

    def _whole(self, table: Any, place: Any) -> Any:
        return self.builder.load(self.builder.gep(table, [place], source_etype=WHOLE), typ=WHOLE)

    def _pack(self, column: Any) -> None:
        """What pairs read of one input, of the inputs of some pairs beside each other."""
        b = self.builder
        lanes: dict[int, list[tuple[Any, Any]]] = {}
        for side in range(PAIRS if self.packed else 0):
            numbers = [self._whole(self.pointers[side], b.add(column, WHOLE(k))) for k in range(self.count)]
            lanes[side] = [(b.and_(i, WHOLE(-self.count)), b.and_(i, WHOLE(self.count - 1))) for i in numbers]
        for n in self.packed:
            side = int(self.passes.inputs[1] in self.passes.labels[n])
            axes, sizes = self.kept[n].axes, self.passes.sizes_of(n)
            many = int(numpy.prod(sizes, dtype=int))
            bases = [
                b.gep(self.bases["in", n], [b.add(b.mul(block, WHOLE(many)), lane)], source_etype=self.element)
                for block, lane in lanes[side]
            ]
            dims = tuple(range(len(self.passes.inputs), len(self.passes.inputs) + len(axes)))
            with ExitStack() as loops:
                indices: dict[Any, Any] = {}
                for dim, size in zip(dims, sizes, strict=True):
                    (found,) = loops.enter_context(self._along(dim, size))
                    indices |= found
                place: Any = WHOLE(0)
                for dim, size in zip(dims, sizes, strict=True):
                    place = b.add(b.mul(place, WHOLE(size)), indices[dim])
                value: Any = ir.Constant(self.vector, ir.Undefined)
                for k, base in enumerate(bases):
                    source = b.gep(base, [b.mul(place, WHOLE(self.count))], source_etype=self.element)
                    one = b.load(source, typ=self.element, align=self.width)
                    value = b.insert_element(value, one, ir.IntType(32)(k))
                address = self.kept_address(n, dims, indices)
                b.store(value, address, align=self.width * self.count)
