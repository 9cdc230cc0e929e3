"""Products of matrices inside statements, by BLAS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from sympy import Expr, Symbol

from tplimits.numbers.loops.bodies import DOUBLE, POINTER, WHOLE, Nest
from tplimits.numbers.loops.machine import PRODUCT

if TYPE_CHECKING:
    from tplimits.program.loops.form import Loops, Read, Statement

#: extents below this are no matrices: writing loops is faster
_LEAST_ROWS, _LEAST = 8, 16
_SHORT = ir.IntType(32)


@dataclass(frozen=True)
class Product:
    """target[…, row, …, column] = Σ_k left[…] right[…]: `left` has the row, `right` the column."""

    left: Read
    right: Read
    row: Symbol
    column: Symbol
    summed: Symbol


def product_of(loops: Loops, s: Statement) -> Product | None:
    """A statement as products of matrices, if it is that of large ones."""
    if s.product is None or len(s.loops) < 2:
        return None
    column, (inner,) = s.loops[-1], s.summed
    if not (_is_large(loops, column.extent, _LEAST) and _is_large(loops, inner.extent, _LEAST)):
        return None
    first, second = s.product
    for left, right in ((first, second), (second, first)):
        if column.index not in right.indices or column.index in left.indices:
            continue
        rows = [
            loop
            for loop in s.loops[:-1]
            if loop.index in left.indices
            and loop.index not in right.indices
            and _is_large(loops, loop.extent, _LEAST_ROWS)
            and _has_unit_step(left, loop.index, inner.index)
        ]
        if rows and _has_unit_step(right, column.index, inner.index) and not _repeats(left, right):
            return Product(left, right, rows[-1].index, column.index, inner.index)
    return None


def _is_large(loops: Loops, extent: str, least: int) -> bool:
    size = loops.extents[extent]
    return size is None or size >= least


def _has_unit_step(read: Read, outer: Expr, inner: Expr) -> bool:
    """Whether one of two indices runs over neighbours in memory."""
    return read.indices[-1] in (outer, inner)


def _repeats(*reads: Read) -> bool:
    return any(len(set(r.indices)) < len(r.indices) for r in reads)


def multiply(nest: Nest, s: Statement, p: Product) -> None:
    """The call, inside the loops over all other indices.  BLAS stores columns: it is given the transposes."""
    b = nest.builder
    at = {p.row: WHOLE(0), p.column: WHOLE(0), p.summed: WHOLE(0)}
    nest.known |= {("place", index): value for index, value in at.items()}
    count = {loop.index: _short(nest, loop.extent) for loop in (*s.loops, *s.summed)}
    right_transposed = p.right.indices[-1] == p.summed
    left_transposed = p.left.indices[-1] == p.row
    arguments = [
        _letter(nest, right_transposed),
        _letter(nest, left_transposed),
        *(_held(nest, count[index]) for index in (p.column, p.row, p.summed)),
        _held(nest, nest.value(s.scale)),
        *_matrix(nest, p.right.array, p.right.indices, p.column if right_transposed else p.summed),
        *_matrix(nest, p.left.array, p.left.indices, p.summed if left_transposed else p.row),
        _held(nest, DOUBLE(1.0 if s.add else 0.0)),
        *_matrix(nest, s.target, s.indices, p.row),
    ]
    module = nest.arithmetic.module
    kind = ir.FunctionType(ir.VoidType(), [POINTER] * len(arguments))
    b.call(module.globals.get(PRODUCT) or ir.Function(module, kind, PRODUCT), arguments)


def _short(nest: Nest, extent: str) -> Any:
    size = nest.loops.extents[extent]
    return _SHORT(size) if size is not None else nest.builder.trunc(nest.size(extent), _SHORT)


def _held(nest: Nest, value: Any) -> Any:
    """A value in memory, which BLAS is given the address of."""
    with nest.builder.goto_entry_block():
        room = nest.builder.alloca(value.type)
    nest.builder.store(value, room)
    return room


def _letter(nest: Nest, transposed: bool) -> Any:
    return _held(nest, ir.IntType(8)(ord("T" if transposed else "N")))


def _matrix(nest: Nest, array: str, indices: tuple[Expr, ...], outer: Expr) -> tuple[Any, Any]:
    """Where a matrix starts, and how far its rows are apart."""
    apart = nest.builder.trunc(nest.stride(array, indices.index(outer)), _SHORT)
    return nest.pointer(array, nest.offset(array, indices)), _held(nest, apart)
