"""Many steps of training in one call: batches, outputs, error signals, gradients and updates as compiled functions.

A step goes through its batch in blocks of inputs, whose arrays stay in the processor's cache.

before        what does not depend on the inputs, once a step; sums over inputs start at zero
block         what does, for one block of inputs after another; sums over inputs grow
after         what rests on these sums, once a step
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy
import sympy
from llvmlite import ir
from numpy.typing import NDArray
from sympy import Symbol

from tplimits.numbers.loops.bodies import DOUBLE, POINTER, WHOLE
from tplimits.numbers.loops.kernels import Module, Storage
from tplimits.numbers.loops.machine import PRODUCT, compiled
from tplimits.numbers.loops.nests import looping
from tplimits.program.loops.form import DATA, PARAMETER, VALUE, Array, Loop, Loops, Statement
from tplimits.program.loops.updating import SCALARS


@dataclass(frozen=True)
class LoopSchedule:
    """Statements of one step; `forward` are those of `block` that the outputs rest on."""

    before: tuple[Statement, ...]
    forward: tuple[Statement, ...]
    backward: tuple[Statement, ...]
    after: tuple[Statement, ...]


def scheduled(loops: Loops, signal: str = "chi") -> LoopSchedule:
    """The schedule of loops that hold gradients."""
    first, second = loops.split(signal)
    grows = {s.target for s in second.statements if _sums_inputs(loops, s)}
    before = [s for s in first.statements if not _by_input(loops, s)]
    zeros = [_zero(loops, target) for target in loops.by_name if target in grows]
    more = [replace(s, add=True) if s.target in grows else s for s in second.statements]
    more = [s for s in more if not (s.target in grows and s.body == 0)]
    by_input = [s for s in more if _by_input(loops, s)]
    after = [s for s in more if not _by_input(loops, s)]
    forward = [s for s in first.statements if _by_input(loops, s)]
    return LoopSchedule((*before, *zeros), tuple(forward), tuple(by_input), tuple(after))


def _by_input(loops: Loops, s: Statement) -> bool:
    """Whether a statement runs over inputs."""
    return any(loop.extent == loops.samples for loop in (*s.loops, *s.summed))


def _sums_inputs(loops: Loops, s: Statement) -> bool:
    return _by_input(loops, s) and loops.samples not in loops.by_name[s.target].extents


def _zero(loops: Loops, target: str) -> Statement:
    extents = loops.by_name[target].extents
    over = tuple(Loop(Symbol(f"i{k}", integer=True), extent) for k, extent in enumerate(extents))
    return Statement(target, tuple(loop.index for loop in over), over, sympy.S.Zero)


#: bytes of the arrays of a block of inputs: in training, and where values are only looked at.  The smaller is faster by
#: a quarter; the larger stays, since how sums are parted moves their last digit, and long runs with it.
_BLOCK, _LOOKED = 1_500_000, 64_000


@dataclass(frozen=True)
class Training:
    """Loops with updates: `update` runs once a step, on the array of `scalars` values of that step.

    The error signal is computed by the loops, or is data.
    """

    loops: Loops
    update: tuple[Statement, ...]
    scalars: int

    @cached_property
    def by_input(self) -> tuple[Array, ...]:
        """The arrays that a block is given: data, targets, or the error signal."""
        return tuple(a for a in self.loops.arrays if a.role == DATA)

    @cached_property
    def text(self) -> str:
        """The module: `train`, `outputs` and `gradients`."""
        module = Module(self.loops)
        parts = scheduled(self.loops)
        forward = {r.array for s in parts.forward for r in s.reads}
        module.add("before", parts.before)
        module.add("forward", parts.forward)
        module.add("backward", parts.backward)
        module.add("after", parts.after)
        module.add("update", self.update)
        _Driver(self, module, forward).write()
        return str(module.module)


class _Driver:
    """The loops over steps and blocks."""

    def __init__(self, asked: Training, module: Module, forward: set[str]) -> None:
        self.asked, self.module, self.forward = asked, module, forward
        self.sample = module.sizes[asked.loops.samples]

    def write(self) -> None:
        """train(arrays, sizes, call) for many steps, outputs(…) and gradients(…) for one batch."""
        self._function("outputs", backward=False, update=False)
        self._function("gradients", backward=True, update=False)
        self._function("train", backward=True, update=True)

    def _function(self, name: str, backward: bool, update: bool) -> None:
        """−1 where all outputs were finite, otherwise the step at which some were not.

        `call` holds the number of steps, of rows of a step, of rows of a block, of values of the scalars, then
        addresses: of the rows of all steps, of the scalars, of f, and of all data.
        """
        kind = ir.FunctionType(WHOLE, [POINTER] * 3)
        function = ir.Function(self.module.module, kind, name)
        b = ir.IRBuilder(function.append_basic_block("entry"))
        table, sizes, call = function.args
        steps, rows, block = (self._whole(b, call, k) for k in range(3))
        row_table, scalar_table, out = (self._address(b, call, k) for k in (4, 5, 6))
        begin = b.append_basic_block("begin")
        b.branch(begin)
        b.position_at_end(begin)
        with looping(b, steps) as t:
            if update:
                self._scalars(b, table, scalar_table, t)
            self._call(b, "before", table, sizes)
            own = b.gep(row_table, [b.mul(t, rows)], source_etype=WHOLE)
            with looping(b, b.sdiv(b.add(rows, b.sub(block, WHOLE(1))), block)) as number:
                first = b.mul(number, block)
                left = b.sub(rows, first)
                count = b.select(b.icmp_signed("<", left, block), left, block)
                b.store(count, b.gep(sizes, [WHOLE(self.sample)], source_etype=WHOLE))
                self._gather(b, table, call, b.gep(own, [first], source_etype=WHOLE), count, backward)
                self._call(b, "forward", table, sizes)
                self._finite(b, function, table, count, t)
                if not update:
                    self._keep(b, table, out, first, count)
                if backward:
                    self._call(b, "backward", table, sizes)
            if backward:
                self._call(b, "after", table, sizes)
            if update:
                self._call(b, "update", table, sizes)
        b.ret(WHOLE(-1))

    def _whole(self, b: ir.IRBuilder, call: Any, k: int) -> Any:
        return b.load(b.gep(call, [WHOLE(k)], source_etype=WHOLE), typ=WHOLE)

    def _address(self, b: ir.IRBuilder, call: Any, k: int) -> Any:
        return b.load(b.gep(call, [WHOLE(k)], source_etype=WHOLE), typ=POINTER)

    def _call(self, b: ir.IRBuilder, name: str, table: Any, sizes: Any) -> None:
        b.call(self.module.module.globals[name], [table, sizes])

    def _array(self, b: ir.IRBuilder, table: Any, name: str) -> Any:
        return b.load(b.gep(table, [WHOLE(self.module.numbers[name])], source_etype=POINTER), typ=POINTER)

    def _scalars(self, b: ir.IRBuilder, table: Any, scalar_table: Any, t: Any) -> None:
        """The values of this step."""
        count = WHOLE(self.asked.scalars)
        held = self._array(b, table, SCALARS)
        with looping(b, count) as k:
            place = b.gep(scalar_table, [b.add(b.mul(t, count), k)], source_etype=DOUBLE)
            b.store(b.load(place, typ=DOUBLE), b.gep(held, [k], source_etype=DOUBLE))

    def _room(self, a: Array) -> int:
        """How many numbers an input has."""
        sizes = [self.asked.loops.extents[e] or 1 for e in a.extents if e != self.asked.loops.samples]
        return int(numpy.prod(sizes, dtype=int))

    def _gather(self, b: ir.IRBuilder, table: Any, call: Any, rows: Any, count: Any, all_of_them: bool) -> None:
        """The rows of a block, out of those of all data; of what outputs rest on, or of all."""
        room = self._whole(b, call, 3)
        for number, a in enumerate(self.asked.by_input):
            if not (all_of_them or a.name in self.forward):
                continue
            kind = WHOLE if a.whole else DOUBLE
            source, held = self._address(b, call, 7 + 2 * number), self._array(b, table, a.name)
            inputs = self._whole(b, call, 8 + 2 * number)
            with looping(b, WHOLE(self._room(a))) as k, looping(b, count) as s:
                row = b.load(b.gep(rows, [s], source_etype=WHOLE), typ=WHOLE)
                place = b.gep(source, [b.add(b.mul(k, inputs), row)], source_etype=kind)
                own = b.gep(held, [b.add(b.mul(k, room), s)], source_etype=kind)
                b.store(b.load(place, typ=kind), own)

    def _outputs(self) -> Array:
        return self.asked.loops.by_name["f"]

    def _finite(self, b: ir.IRBuilder, function: Any, table: Any, count: Any, t: Any) -> None:
        """Leave where an output is not finite."""
        room = b.load(b.gep(function.args[1], [WHOLE(self.sample + 1)], source_etype=WHOLE), typ=WHOLE)
        held = self._array(b, table, "f")
        with b.goto_entry_block():
            total = b.alloca(DOUBLE)
        b.store(DOUBLE(0.0), total)
        with looping(b, WHOLE(self._room(self._outputs()))) as k, looping(b, count) as s:
            value = b.load(b.gep(held, [b.add(b.mul(k, room), s)], source_etype=DOUBLE), typ=DOUBLE)
            # 0·x is 0 for numbers, NaN for ∞ and NaN: one comparison for all outputs
            b.store(b.fadd(b.load(total, typ=DOUBLE), b.fmul(value, DOUBLE(0.0))), total)
        value = b.load(total, typ=DOUBLE)
        # NaN alone is not equal to itself
        with b.if_then(b.fcmp_unordered("uno", value, value), likely=False):
            b.ret(t)

    def _keep(self, b: ir.IRBuilder, table: Any, out: Any, first: Any, count: Any) -> None:
        """The outputs of a block, among those of all."""
        sizes = b.function.args[1]
        room = b.load(b.gep(sizes, [WHOLE(self.sample + 1)], source_etype=WHOLE), typ=WHOLE)
        rows, held = self._whole(b, b.function.args[2], 1), self._array(b, table, "f")
        with looping(b, WHOLE(self._room(self._outputs()))) as k, looping(b, count) as s:
            value = b.load(b.gep(held, [b.add(b.mul(k, room), s)], source_etype=DOUBLE), typ=DOUBLE)
            b.store(value, b.gep(out, [b.add(b.mul(k, rows), b.add(first, s))], source_etype=DOUBLE))


class Kernel:
    """Compiled training on arrays of its own, at some widths."""

    def __init__(self, asked: Training, widths: Mapping[str, int], inputs: int, draws: int | None = None) -> None:
        """With `draws`, there are so many copies of the parameters and of what optimizers remember of them."""
        self.asked, loops = asked, asked.loops
        self.block = min(inputs, _block(loops, widths, _BLOCK))
        # products of matrices are fast in large blocks
        self._looked_at = self.block if PRODUCT in asked.text else min(inputs, _block(loops, widths, _LOOKED))
        moved = {s.target for s in asked.update} | {a.name for a in loops.of_role(PARAMETER)}
        several = () if draws is None else moved
        self.storage = Storage(loops, {**widths, loops.samples: self.block}, several, draws or 1)
        self._code = compiled(asked.text)  # held as long as its functions are
        self._functions = {name: self._code.function(name, 3) for name in ("outputs", "gradients", "train")}

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays: parameters, gradients and states may be read and set."""
        return self.storage.arrays

    def outputs(self, data: Mapping[str, NDArray[Any]], rows: NDArray[numpy.int64]) -> NDArray[numpy.float64]:
        """f on some rows of the data, inputs last; not finite where they overflow."""
        return self._looked("outputs", data, rows)

    def gradients(self, data: Mapping[str, NDArray[Any]], rows: NDArray[numpy.int64]) -> NDArray[numpy.float64]:
        """Fill the gradients from some rows of the data; f on them, not finite where gradients are not there."""
        return self._looked("gradients", data, rows)

    def _looked(
        self, name: str, data: Mapping[str, NDArray[Any]], rows: NDArray[numpy.int64]
    ) -> NDArray[numpy.float64]:
        f = self.asked.loops.by_name["f"]
        shape = [self.asked.loops.extents[e] or 1 for e in f.extents[:-1]]
        out = numpy.full((*shape, len(rows)), numpy.nan)
        self._call(name, data, rows[None], numpy.zeros((1, 1)), out)
        return out

    def train(
        self, data: Mapping[str, NDArray[Any]], rows: NDArray[numpy.int64], scalars: NDArray[numpy.float64]
    ) -> int:
        """Steps on rows (steps, batch) with scalars (steps, …); −1, or the step whose outputs are not finite."""
        return self._call("train", data, rows, scalars)

    def _call(
        self,
        name: str,
        data: Mapping[str, NDArray[Any]],
        rows: NDArray[numpy.int64],
        scalars: NDArray[numpy.float64],
        out: NDArray[numpy.float64] | None = None,
    ) -> int:
        rows, scalars = numpy.ascontiguousarray(rows, dtype=numpy.int64), numpy.ascontiguousarray(scalars)
        room = self.storage.room[self.asked.loops.samples]
        block = self.block if out is None else self._looked_at
        call = [len(rows), rows.shape[1], block, room, rows.ctypes.data, scalars.ctypes.data]
        call.append(0 if out is None else out.ctypes.data)
        for a in self.asked.by_input:
            held = data.get(a.name)
            call += [0, 0] if held is None else [held.ctypes.data, held.shape[-1]]
        asked = numpy.array(call, dtype=numpy.int64)
        return int(
            self._functions[name](self.storage.table.ctypes.data, self.storage.counts.ctypes.data, asked.ctypes.data)
        )


def _block(loops: Loops, widths: Mapping[str, int], size: int) -> int:
    """How many inputs a block has: their arrays fit into a part of a processor's cache."""
    entries = 0
    for a in loops.arrays:
        if a.role == VALUE and loops.samples in a.extents:
            sizes = [loops.extents[e] or widths.get(e, 1) for e in a.extents]
            entries += int(numpy.prod(sizes, dtype=int))
    most = size // (8 * max(1, entries))
    # whole vectors of inputs
    return max(8, min(512, most // 8 * 8))


def data_of(array: NDArray[Any], a: Array) -> NDArray[Any]:
    """Data (N, *axes) as they lie in memory: inputs last."""
    kind = numpy.int64 if a.whole else numpy.float64
    return numpy.ascontiguousarray(numpy.moveaxis(array, 0, -1), dtype=kind)
