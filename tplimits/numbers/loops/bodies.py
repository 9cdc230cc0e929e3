"""Bodies of statements as instructions: every part of an expression at the loop where all it needs is known.

A value is a number, or a vector of numbers for neighbours along the vector loop, the innermost one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sympy
from llvmlite import ir
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError
from tplimits.numbers.loops.machine import LANES
from tplimits.program.loops.form import Loops, Read
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import Kron

if TYPE_CHECKING:
    from tplimits.numbers.loops.functions import Arithmetic

DOUBLE, WHOLE = ir.DoubleType(), ir.IntType(64)
VECTOR, WHOLES = ir.VectorType(DOUBLE, LANES), ir.VectorType(WHOLE, LANES)
POINTER = ir.PointerType()
_PLACES, _MASK = ir.VectorType(POINTER, LANES), ir.VectorType(ir.IntType(1), LANES)

#: functions of the C library that are called number by number
_LIBRARY = {
    **dict.fromkeys((sympy.sin, sympy.cos, sympy.tan, sympy.sinh, sympy.cosh, sympy.erfc), None),
    **{sympy.asin: "asin", sympy.acos: "acos", sympy.atan: "atan"},
    **{sympy.asinh: "asinh", sympy.acosh: "acosh", sympy.atanh: "atanh"},
}


@dataclass
class Level:
    """One loop around the code that is written: its index, and the block in which its values are computed."""

    index: Symbol | None
    block: ir.Block
    value: Any = None


@dataclass
class Nest:
    """Values known inside some nested loops; `vector` is the index of the innermost one, where it steps by vectors.

    `exponentials` are those that are asked for somewhere in the innermost loop: e^(−x²) serves erf x, too.
    """

    loops: Loops
    builder: ir.IRBuilder
    arithmetic: Arithmetic
    base: Callable[[str], Any]
    size: Callable[[str], Any]
    stride: Callable[[str, int], Any]
    levels: list[Level]
    vector: Symbol | None = None
    exponentials: Collection[Expr] = ()
    known: dict[Any, Any] = field(default_factory=dict)

    def level(self, expr: Expr) -> int:
        """The innermost loop that an expression depends on."""
        free = expr.free_symbols
        return max((k for k, level in enumerate(self.levels) if level.index in free), default=0)

    @contextmanager
    def at(self, number: int) -> Iterator[None]:
        """Write at the end of what a loop computes before the loop inside it."""
        before = self.builder.block
        _go(self.builder, self.levels[number].block)
        yield
        _go(self.builder, before)

    def forget(self, index: Symbol) -> None:
        """Values that depend on the index of a loop that ends."""
        self.known = {e: v for e, v in self.known.items() if index not in _free(e)}

    def is_vector(self, expr: Expr) -> bool:
        """Whether it has a value for every lane."""
        return self.vector is not None and self.vector in expr.free_symbols

    def wide(self, value: Any, kind: Any = None) -> Any:
        """A number as a vector of equal ones."""
        if isinstance(value.type, ir.VectorType):
            return value
        kind = VECTOR if kind is None else kind
        if isinstance(value, ir.Constant):
            return ir.Constant(kind, [value.constant] * LANES)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
        return self.builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    def alike(self, *values: Any) -> tuple[Any, ...]:
        """Numbers and vectors as vectors, if one is."""
        if any(isinstance(v.type, ir.VectorType) for v in values):
            return tuple(self.wide(v) for v in values)
        return values

    def value(self, expr: Expr) -> Any:
        """The value of an expression."""
        if expr.is_number and not expr.has(Read):
            return DOUBLE(float(expr))
        # at the outermost loop where all of it is known: what does not depend on the inner ones is computed once
        if expr not in self.known:
            with self.at(self.level(expr)):
                self.known[expr] = self._value(expr)
        return self.known[expr]

    def _value(self, expr: Expr) -> Any:
        if isinstance(expr, Read):
            return self._load(expr)
        if isinstance(expr, Symbol):
            return self.builder.uitofp(self.size(expr.name), DOUBLE)
        if isinstance(expr, Kron):
            i, j = (self.place(e) for e in expr.args)
            if isinstance(i.type, ir.VectorType) or isinstance(j.type, ir.VectorType):
                i, j = self.wide(i, WHOLES), self.wide(j, WHOLES)
            same = self.builder.icmp_signed("==", i, j)
            return self.builder.uitofp(same, VECTOR if isinstance(i.type, ir.VectorType) else DOUBLE)
        if isinstance(expr, (sympy.Add, sympy.Mul)):
            return self._folded(expr)
        if expr.is_Pow and expr.base is not sympy.E:
            return self._power(expr)
        return self._function(expr)

    def _folded(self, expr: Expr) -> Any:
        """A sum or a product, what outer loops know first."""
        combine = self.arithmetic.add if isinstance(expr, sympy.Add) else self.arithmetic.multiply
        # parts of outer loops first: their sum is a value of the outer loop as well
        order = sorted(expr.args, key=self.level)
        total, level = self.value(order[0]), self.level(order[0])
        for part in order[1:]:
            level = max(level, self.level(part))
            with self.at(level):
                value = self.value(part)
                total = combine(*self.alike(total, value))
        return total

    def _power(self, expr: Expr) -> Any:
        a, base = self.arithmetic, self.value(expr.base)
        if expr.exp.is_Integer and 1 < abs(expr.exp) <= 16:
            found = self._whole_power(base, abs(int(expr.exp)))
            return a.divide(a.constant(found, 1.0), found) if expr.exp < 0 else found
        if expr.exp == -1:
            return a.divide(a.constant(base, 1.0), base)
        if expr.exp == sympy.S.Half:
            return a.intrinsic("sqrt", base)
        if expr.exp == -sympy.S.Half:
            return a.divide(a.constant(base, 1.0), a.intrinsic("sqrt", base))
        base, exponent = self.alike(base, self.value(expr.exp))
        return a.scalar("pow", base, exponent)

    def _whole_power(self, base: Any, exponent: int) -> Any:
        if exponent == 1:
            return base
        half = self._whole_power(base, exponent // 2)
        square = self.arithmetic.multiply(half, half)
        return self.arithmetic.multiply(square, base) if exponent % 2 else square

    def _function(self, expr: Expr) -> Any:
        a = self.arithmetic
        values = self.alike(*map(self.value, expr.args))
        x = values[0]
        zero = a.constant(x, 0.0)
        head = type(expr)
        if head is sympy.exp:
            return a.exp(x)
        if head is sympy.erf:
            # e^(−x²) is computed for the derivative of erf anyway: the dearest part of it is shared
            bell = sympy.exp(-(expr.args[0] ** 2))
            return a.erf(x, self.value(bell) if bell in self.exponentials else None)
        if head is sympy.tanh:
            return a.tanh(x)
        if head is functions.sigmoid:
            return a.sigmoid(x)
        if head is functions.softplus:
            tail = a.scalar("log1p", a.exp(a.negative(a.absolute(x))))
            return a.add(a.select(a.greater(x, zero), x, zero), tail)
        if head is sympy.log:
            return a.scalar("log", x)
        if head is sympy.sech:
            s = a.exp(a.negative(a.absolute(x)))
            return a.divide(a.add(s, s), a.add(a.constant(x, 1.0), a.multiply(s, s)))
        if head is sympy.Abs:
            return a.absolute(x)
        if head in _LIBRARY:
            return a.scalar(_LIBRARY[head] or head.__name__, x)
        return self._piece(head, values, zero)

    def _piece(self, head: type, values: tuple[Any, ...], zero: Any) -> Any:
        """Functions that choose; NaN goes through, and a comparison with it is false."""
        a, x = self.arithmetic, values[0]
        one = a.constant(x, 1.0)
        if head is functions.step:
            return a.select(a.greater(x, zero), one, zero)
        if head is functions.relu:
            return a.select(a.greater(zero, x), zero, x)
        if head is functions.leaky_relu:
            return a.select(a.greater(x, zero), x, a.multiply(values[1], x))
        if head is functions.maximum:
            return a.select(a.greater(values[1], x), values[1], x)
        if head is functions.minimum:
            return a.select(a.greater(x, values[1]), values[1], x)
        if head is functions.where:
            return a.select(a.greater(x, zero), values[1], values[2])
        if head is sympy.sign:
            low = a.select(a.greater(zero, x), a.constant(x, -1.0), zero)
            return a.select(a.greater(x, zero), one, low)
        raise EvaluationError(f"`{head.__name__}` has no compiled form; train with functions that have one.")

    def place(self, index: Expr) -> Any:
        """An index as a whole number, or one for every lane."""
        if index.is_Integer:
            return WHOLE(int(index))
        if ("place", index) not in self.known:
            with self.at(self.level(index)):
                self.known["place", index] = self._place(index)
        return self.known["place", index]

    def _place(self, index: Expr) -> Any:
        if isinstance(index, Read):
            return self._load(index, WHOLE)
        level = next(one for one in self.levels if one.index == index)
        if index != self.vector:
            return level.value
        lanes = ir.Constant(WHOLES, list(range(LANES)))
        return self.builder.add(self.wide(level.value, WHOLES), lanes)

    def offset(self, array: str, indices: tuple[Expr, ...]) -> Any:
        """The distance of an entry from the start; of the first lane, where the last index is the vector loop.

        Fewer indices than dimensions are those of the last ones: one index counts entries in memory.
        """
        total: Any = WHOLE(0)
        level, skipped = 0, len(self.loops.by_name[array].extents) - len(indices)
        for k, index in sorted(enumerate(indices), key=lambda pair: self.level(pair[1])):
            level = max(level, self.level(index))
            # lanes beside each other are read at once from the first; where data say which entry, each has its own
            alone = not any(self.is_vector(other) for j, other in enumerate(indices) if j != k)
            first = index == self.vector and k == len(indices) - 1 and alone
            with self.at(level):
                place = self._vector_start() if first else self.place(index)
                if self._has_gaps(index):  # what is no entry is read at 0, and then left out
                    none = ir.Constant(place.type, _same(place.type, 0))
                    place = self.builder.select(self.builder.icmp_signed("<", place, none), none, place)
                step = self.stride(array, skipped + k)
                if isinstance(place.type, ir.VectorType) or isinstance(total.type, ir.VectorType):
                    place, step, total = (self.wide(v, WHOLES) for v in (place, step, total))
                total = self.builder.add(total, self.builder.mul(place, step))
        return total

    def _vector_start(self) -> Any:
        return next(level.value for level in self.levels if level.index == self.vector)

    def pointer(self, array: str, offset: Any, kind: Any = DOUBLE) -> Any:
        """The address of an entry."""
        return self.builder.gep(self.base(array), [offset], source_etype=kind)

    def _load(self, read: Read, kind: Any = DOUBLE) -> Any:
        offset = self.offset(read.array, read.indices)
        wide = VECTOR if kind == DOUBLE else WHOLES
        if isinstance(offset.type, ir.VectorType):
            value = self._gathered(read.array, offset, kind)
        else:
            along = wide if self.is_vector(read) else kind
            value = self.builder.load(self.pointer(read.array, offset, kind), typ=along, align=8)
        return self.present(read.indices, value)

    def present(self, indices: tuple[Expr, ...], value: Any) -> Any:
        """A value, or 0 where an index says that there is no entry."""
        for index in indices:
            if self._has_gaps(index):
                there = self.place(index)
                there = self.wide(there, WHOLES) if isinstance(value.type, ir.VectorType) else there
                present = self.builder.icmp_signed(">=", there, ir.Constant(there.type, _same(there.type, 0)))
                value = self.builder.select(present, value, ir.Constant(value.type, _same(value.type, 0.0)))
        return value

    def _has_gaps(self, index: Expr) -> bool:
        return isinstance(index, Read) and self.loops.by_name[index.array].gaps

    def _gathered(self, array: str, offsets: Any, kind: Any) -> Any:
        """One entry for every lane, each from its own place."""
        wide, size = (VECTOR, "f64") if kind == DOUBLE else (WHOLES, "i64")
        b, full = self.builder, f"llvm.masked.gather.v{LANES}{size}.v{LANES}p0"
        taken = ir.FunctionType(wide, [_PLACES, ir.IntType(32), _MASK, wide])
        function = b.module.globals.get(full) or ir.Function(b.module, taken, full)
        start = self.wide(b.ptrtoint(self.base(array), WHOLE), WHOLES)
        places = b.add(start, b.shl(offsets, ir.Constant(WHOLES, [3] * LANES)))
        every, nothing = ir.Constant(_MASK, [1] * LANES), ir.Constant(wide, ir.Undefined)
        return b.call(function, [b.inttoptr(places, _PLACES), ir.IntType(32)(8), every, nothing])


def _go(builder: ir.IRBuilder, block: ir.Block) -> None:
    """Write at the end of a block, before it is left."""
    if block.terminator is None:
        builder.position_at_end(block)
    else:
        builder.position_before(block.terminator)


def _same(kind: Any, value: float) -> Any:
    return [value] * kind.count if isinstance(kind, ir.VectorType) else value


def _free(key: Any) -> set[Symbol]:
    expr = key[1] if isinstance(key, tuple) else key
    return expr.free_symbols
