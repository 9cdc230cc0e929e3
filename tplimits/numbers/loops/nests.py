"""Statements as nests of loops, in the code that a builder writes.

The loop along neurons, or along inputs where there are no neurons, is innermost and steps by vectors: arrays have room
for whole vectors at their ends.  Statements over the same indices share one nest, where nothing between them stands in
the way: what one computes, the next has at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sympy
from llvmlite import ir
from sympy import Expr

from tplimits.numbers.loops.bodies import DOUBLE, VECTOR, WHOLE, WHOLES, Level, Nest
from tplimits.numbers.loops.functions import Arithmetic
from tplimits.numbers.loops.machine import LANES
from tplimits.numbers.loops.matrices import multiply, product_of
from tplimits.program.loops.form import Loop, Loops, Read, Statement
from tplimits.program.nodes.entries import Kron

#: finite sums of at most so many terms are written out
_WRITTEN_OUT = 16


class Writer:
    """Writes statements into one function; `base`, `size` and `stride` tell where arrays are, and how large."""

    def __init__(
        self,
        loops: Loops,
        builder: ir.IRBuilder,
        module: ir.Module,
        base: Callable[[str], Any],
        size: Callable[[str], Any],
        stride: Callable[[str, int], Any],
    ) -> None:
        self.loops, self.builder = loops, builder
        self.arithmetic = Arithmetic(builder, module)
        self.base, self.size, self.stride = base, size, stride

    def write(self, statements: Sequence[Statement]) -> None:
        """All statements; what is the same as in order."""
        for group in self._groups(statements):
            self._nest(group)

    def _groups(self, statements: Sequence[Statement]) -> list[list[Statement]]:
        """Statements nest by nest: each in the last nest that it fits into, behind all that it has to follow."""
        groups: list[list[Statement]] = []
        for s in statements:
            # into the last nest that it fits, unless something between has to come before it
            for group in reversed(groups):
                if self._joins(group, s):
                    group.append(s)
                    break
                if any(_follows(s, other) for other in group):
                    groups.append([s])
                    break
            else:
                groups.append([s])
        return groups

    def _long(self, extent: str) -> bool:
        return self.loops.extents[extent] is None

    def _reduces(self, s: Statement) -> bool:
        """Whether the vector loop is one that is summed over."""
        if not any(self._long(loop.extent) for loop in s.summed):
            return False
        over_neurons = any(loop.extent in self.loops.widths for loop in s.summed)
        last = s.loops[-1] if s.loops else None
        return over_neurons or last is None or not self._long(last.extent)

    def _vector(self, s: Statement) -> Loop | None:
        """The loop that steps by vectors."""
        if self._reduces(s):
            order = sorted(s.summed, key=lambda loop: (self._long(loop.extent), loop.extent in self.loops.widths))
            return order[-1]
        last = s.loops[-1] if s.loops else None
        if last is None or not self._long(last.extent) or s.indices[-1] != last.index:
            return None
        return last if all(last.index not in i.free_symbols for i in s.indices[:-1]) else None

    def _joins(self, group: list[Statement], s: Statement) -> bool:
        """Whether a statement can stand in the nest of others."""
        first = group[0]
        if any(product_of(self.loops, one) is not None for one in (first, s)):
            return False
        if s.loops != first.loops or self._reduces(s) or self._reduces(first) or s.scatters or first.scatters:
            return False
        if self._vector(s) != self._vector(first) or any(self._stays(one) for one in (*group, s)):
            return False
        if self._is_flat(s) != self._is_flat(first):
            return False
        written = {one.target for one in group}
        own = tuple(loop.index for loop in s.loops)
        read = {r.array for one in group for r in one.reads if r.array == s.target and r.indices != own}
        terms = (r for r in self._written_out(s)[0].atoms(Read) | s.scale.atoms(Read))
        return not read and all(r.array not in written or r.indices == own for r in terms)

    def _stays(self, s: Statement) -> bool:
        return bool(self._written_out(s)[1]) or s.largest

    def _is_flat(self, s: Statement) -> bool:
        """Whether entry follows entry in memory, in the target and in all that is read along with it."""
        sizes = [self.loops.extents[loop.extent] or 0 for loop in s.loops]
        if math.prod(sizes) < LANES or s.scatters or s.body.has(Kron) or self._stays(s):
            return False
        own = tuple(loop.index for loop in s.loops)
        reads = self._written_out(s)[0].atoms(Read) | s.scale.atoms(Read)
        return all(r.indices == own or not r.free_symbols for r in reads)

    def _written_out(self, s: Statement) -> tuple[Expr, list[Loop]]:
        """The body with short sums written out, and the loops that stay."""
        body, stay, terms = s.body, [], 1
        for loop in s.summed:
            size = self.loops.extents[loop.extent]
            if size is None or terms * size > _WRITTEN_OUT or s.largest:
                stay.append(loop)
                continue
            terms *= size
            body = sympy.Add(*(body.xreplace({loop.index: sympy.Integer(k)}) for k in range(size)))
        return body, stay

    def count(self, extent: str) -> Any:
        """The size of an extent."""
        size = self.loops.extents[extent]
        return self.size(extent) if size is None else WHOLE(size)

    @contextmanager
    def _inside(self, nest: Nest, order: Sequence[Loop]) -> Iterator[None]:
        """Inside some loops, one in another."""
        if not order:
            yield
            return
        loop = order[0]
        with looping(self.builder, self.count(loop.extent), LANES if loop.index == nest.vector else 1) as index:
            nest.levels.append(Level(loop.index, self.builder.block, index))
            with self._inside(nest, order[1:]):
                yield
            nest.levels.pop()
            nest.forget(loop.index)

    def _nest(self, group: list[Statement]) -> None:
        """One nest of loops, or a product of matrices inside loops."""
        b, first = self.builder, group[0]
        start = b.append_basic_block("nest")
        b.branch(start)
        b.position_at_end(start)
        vector = self._vector(first)
        nest = Nest(self.loops, b, self.arithmetic, self.base, self.size, self.stride, [Level(None, start)])
        nest.vector = vector.index if vector else None
        matrices = product_of(self.loops, first)
        if matrices is not None:
            nest.vector = None
            own = (matrices.row, matrices.column)
            with self._inside(nest, [loop for loop in first.loops if loop.index not in own]):
                multiply(nest, first, matrices)
            return
        if self._reduces(first):
            self._reduction(nest, first)
            return
        nest.exponentials = {e for s in group for e in s.body.atoms(sympy.exp)}
        if self._is_flat(first):
            self._flat(nest, group)
            return
        # where data say what is added to, neighbours along the inputs are often the same: others come between
        order = sorted(first.loops, key=lambda loop: first.scatters and not vector and not self._long(loop.extent))
        with self._inside(nest, order):
            for s in group:
                self._fill(nest, s)

    def _flat(self, nest: Nest, group: list[Statement]) -> None:
        """Statements entry by entry as one loop along memory, which has room for whole vectors at its end."""
        index = nest.vector = sympy.Symbol("entry", integer=True)
        size = math.prod(self.loops.extents[loop.extent] or 0 for loop in group[0].loops)
        with looping(self.builder, WHOLE(size), LANES) as first:
            nest.levels.append(Level(index, self.builder.block, first))
            for s in group:
                body, own = self._written_out(s)[0], tuple(loop.index for loop in s.loops)
                along = {r: Read(r.args[0], index) for r in body.atoms(Read) | s.scale.atoms(Read) if r.indices == own}
                one = Loop(index, "")
                held = replace(s, indices=(index,), loops=(one,), summed=(), body=body.xreplace(along))
                self._fill(nest, replace(held, scale=s.scale.xreplace(along)))
            nest.levels.pop()

    def _fill(self, nest: Nest, s: Statement) -> None:
        """One entry, or one vector of entries."""
        body, stay = self._written_out(s)
        if stay:
            order = sorted(stay, key=lambda loop: self._long(loop.extent))
            value = self._total(nest, order, body, s.largest)
        else:
            value = nest.value(s.scale * body)
        if stay and s.scale != 1:
            value = self.arithmetic.multiply(*nest.alike(value, nest.value(s.scale)))
        self._store(nest, s, value)

    def _store(self, nest: Nest, s: Statement, value: Any) -> None:
        vector = nest.vector is not None and any(nest.vector in i.free_symbols for i in s.indices)
        value = nest.wide(value) if vector else value
        value = nest.present(s.indices, value)  # what belongs to no entry is added nowhere
        place = nest.pointer(s.target, nest.offset(s.target, s.indices))
        if s.add:
            held = Read(sympy.Symbol(s.target), *s.indices)
            # a statement of the same nest has just stored it: no load behind its own store
            old = nest.known.get(held) if not s.scatters else None
            old = self.builder.load(place, typ=value.type, align=8) if old is None else old
            value = self.arithmetic.add(old, value)
        self.builder.store(value, place, align=8)
        # what was read of the array before is no longer what stands there
        nest.known = {e: v for e, v in nest.known.items() if not _reads(e, s.target)}
        if not s.scatters:
            nest.known[Read(sympy.Symbol(s.target), *s.indices)] = value

    def _total(self, nest: Nest, order: Sequence[Loop], body: Expr, largest: bool) -> Any:
        """The sum, or the maximum, of a body over loops inside."""
        b = self.builder
        wide = nest.is_vector(body)
        kind = VECTOR if wide else DOUBLE
        begin = float("-inf") if largest else 0.0
        held = self._room(kind)
        b.store(ir.Constant(kind, [begin] * LANES if wide else begin), held)
        with self._inside(nest, order):
            value = nest.value(body)
            value = nest.wide(value) if wide else value
            old = b.load(held, typ=kind)
            b.store(self._joined(old, value, largest), held)
        return b.load(held, typ=kind)

    def _joined(self, old: Any, value: Any, largest: bool) -> Any:
        a = self.arithmetic
        return a.select(a.greater(value, old), value, old) if largest else a.add(old, value)

    def _room(self, kind: Any) -> Any:
        """A variable of the function, which becomes a register."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(kind)

    def _reduction(self, nest: Nest, s: Statement) -> None:
        """A sum, or maximum, along the vector loop."""
        body, stay = self._written_out(s)
        order = sorted(stay, key=lambda loop: loop.index == nest.vector)
        extent = order[-1].extent
        with self._inside(nest, s.loops):
            b = self.builder
            begin = float("-inf") if s.largest else 0.0
            nothing = ir.Constant(VECTOR, [begin] * LANES)
            held = self._room(VECTOR)
            b.store(nothing, held)
            lanes = ir.Constant(WHOLES, list(range(LANES)))
            with self._inside(nest, order):
                value = nest.wide(nest.value(body))
                # lanes beyond the end hold whatever lies there: they are put to nothing, not multiplied by 0, which NaN
                # survives
                left = b.sub(self.count(extent), nest.levels[-1].value)
                inside = b.icmp_signed("<", lanes, nest.wide(left, WHOLES))
                old = b.load(held, typ=VECTOR)
                b.store(self._joined(old, b.select(inside, value, nothing), s.largest), held)
            total = self._across(b.load(held, typ=VECTOR), s.largest)
            if s.scale != 1:
                total = self.arithmetic.multiply(total, nest.value(s.scale))
            vector, nest.vector = nest.vector, None
            self._store(nest, s, total)
            nest.vector = vector

    def _across(self, value: Any, largest: bool) -> Any:
        """The sum, or maximum, of all lanes, by halves."""
        b, width = self.builder, LANES
        while width > 1:
            half = width // 2
            nothing = ir.Constant(ir.VectorType(DOUBLE, width), ir.Undefined)
            masks = ir.VectorType(ir.IntType(32), half)
            # a fixed order of additions: the same sum on every machine with these lanes
            low = b.shuffle_vector(value, nothing, ir.Constant(masks, list(range(half))))
            high = b.shuffle_vector(value, nothing, ir.Constant(masks, list(range(half, width))))
            value, width = self._joined(low, high, largest), half
        return b.extract_element(value, ir.IntType(32)(0))


@contextmanager
def looping(b: ir.IRBuilder, count: Any, step: int = 1) -> Iterator[Any]:
    """A loop over 0, step, … below a count."""
    before = b.block
    header, body, end = (b.append_basic_block(name) for name in ("header", "body", "end"))
    b.branch(header)
    b.position_at_end(header)
    index = b.phi(WHOLE)
    index.add_incoming(WHOLE(0), before)
    b.cbranch(b.icmp_signed("<", index, count), body, end)
    b.position_at_end(body)
    yield index
    index.add_incoming(b.add(index, WHOLE(step)), b.block)
    b.branch(header)
    b.position_at_end(end)


def _follows(s: Statement, other: Statement) -> bool:
    """Whether a statement reads or changes what another one writes, or changes what it reads."""
    return (
        s.target == other.target
        or any(r.array == other.target for r in s.reads)
        or any(r.array == s.target for r in other.reads)
    )


def _reads(key: Any, array: str) -> bool:
    expr = key[1] if isinstance(key, tuple) else key
    return any(r.array == array for r in expr.atoms(Read))
