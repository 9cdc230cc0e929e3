"""Loops as compiled functions on arrays that they own."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from llvmlite import ir
from numpy.typing import NDArray

from tplimits.numbers.loops.bodies import POINTER, WHOLE
from tplimits.numbers.loops.machine import LANES, compiled
from tplimits.numbers.loops.nests import Writer

if TYPE_CHECKING:
    from tplimits.program.loops.form import Array, Loops, Statement


class Module:
    """A module of functions f(arrays, sizes): a table of addresses, and one of sizes and distances."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.module = ir.Module("loops")
        self.numbers = {a.name: k for k, a in enumerate(loops.arrays)}
        open_extents = [e for e, size in loops.extents.items() if size is None]
        #: where sizes, and the room along them, stand in the table of sizes
        self.sizes = {e: 2 * k for k, e in enumerate(open_extents)}

    def add(self, name: str, statements: Sequence[Statement]) -> None:
        """A function that runs some statements."""
        kind = ir.FunctionType(WHOLE, [POINTER, POINTER])
        function = ir.Function(self.module, kind, name)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        table, sizes = function.args
        used = {s.target for s in statements} | {r.array for s in statements for r in s.reads}
        bases = {
            array: builder.load(builder.gep(table, [WHOLE(k)], source_etype=POINTER), typ=POINTER)
            for array, k in self.numbers.items()
            if array in used
        }
        held = {
            (extent, room): builder.load(builder.gep(sizes, [WHOLE(k + room)], source_etype=WHOLE), typ=WHOLE)
            for extent, k in self.sizes.items()
            for room in (0, 1)
        }
        strides: dict[tuple[str, int], Any] = {}
        for array in filter(used.__contains__, self.numbers):  # in order: the same text is compiled once for good
            extents, step = self.loops.by_name[array].extents, WHOLE(1)
            for k in range(len(extents) - 1, -1, -1):
                strides[array, k] = step
                size = self.loops.extents[extents[k]]
                if k:
                    step = builder.mul(step, held[extents[k], 1] if size is None else WHOLE(size))
        writer = Writer(
            self.loops,
            builder,
            self.module,
            bases.__getitem__,
            lambda extent: held[extent, 0],
            lambda array, k: strides[array, k],
        )
        start = builder.append_basic_block("start")
        builder.position_at_end(start)
        writer.write(statements)
        builder.ret(WHOLE(0))
        with builder.goto_block(function.entry_basic_block):
            builder.branch(start)

    def compiled(self) -> Any:
        """The functions."""
        return compiled(str(self.module))


class Storage:
    """The arrays of some loops in memory, with room for whole vectors along extents that are open.

    Of `several` arrays there are `many` copies, along a first dimension; code works on the one that is selected.
    """

    def __init__(self, loops: Loops, sizes: Mapping[str, int], several: Collection[str] = (), many: int = 1) -> None:
        self.several, self.many = {a.name: k for k, a in enumerate(loops.arrays) if a.name in several}, many
        self.room = {e: -(-size // LANES) * LANES for e, size in sizes.items()}
        self.memory: dict[str, NDArray[Any]] = {}
        self.arrays: dict[str, NDArray[Any]] = {}
        for a in loops.arrays:
            self._make(loops, a, sizes)
        self.table = numpy.array([m.ctypes.data for m in self.memory.values()], dtype=numpy.int64)
        pairs = [(sizes[e], self.room[e]) for e, size in loops.extents.items() if size is None]
        self.counts = numpy.array(pairs, dtype=numpy.int64).ravel()

    def _make(self, loops: Loops, a: Array, sizes: Mapping[str, int]) -> None:
        known = [(e, loops.extents[e]) for e in a.extents]
        full = [self.room[e] if size is None else size for e, size in known]
        copies = [self.many] if a.name in self.several else []
        count = math.prod(full)  # whole vectors, also where entries are gone through as they lie in memory
        kind = numpy.int64 if a.whole else numpy.float64
        memory = self.memory[a.name] = numpy.zeros([*copies, -(-count // LANES) * LANES], dtype=kind)
        place: tuple[Any, ...] = (..., *(slice(sizes[e] if size is None else size) for e, size in known))
        shaped = memory[..., :count].reshape([*copies, *full])
        self.arrays[a.name] = shaped[place]
        if a.values is not None:
            self.arrays[a.name][...] = a.values.values

    def select(self, copy: int) -> None:
        """Let the code work on one of the copies of the arrays that there are several of."""
        for name, number in self.several.items():
            memory = self.memory[name]
            self.table[number] = memory.ctypes.data + copy * memory.strides[0]


def run(loops: Loops, sizes: Mapping[str, int], given: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """All arrays of some loops by name, as `tplimits.program.loops.arrays.run` gives them."""
    storage = Storage(loops, sizes)
    for name, value in given.items():
        storage.arrays[name][...] = value
    module = Module(loops)
    module.add("run", loops.statements)
    code = module.compiled()
    code.function("run", 2)(storage.table.ctypes.data, storage.counts.ctypes.data)
    return storage.arrays
