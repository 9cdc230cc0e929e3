"""Products of small square matrices, in tiles of the result that stay in vector registers.

A compiler makes poor code of three short loops: it sums along rows, and adds up a register for every entry.  Here a
tile of 4 rows and 8 columns of A B, or 4 where no more are left, is the sum over k of 4 entries of column k of A, each
times a piece of row k of B.  Where the number of tokens is no multiple of the tile, the last tiles overlap others and
write the same numbers again.  Every entry is summed in the same order, so that A Aᵀ is exactly symmetric.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import intrinsic

from tplimits.numbers.jit import njit

_ROWS = 4
_WIDE, _NARROW = 8, 4


def _tile(width: int) -> Any:
    """The compiled function that computes one tile, of a number of columns."""

    def tile(typing: Any, A: Any, B: Any, out: Any, i: Any, j: Any, start: Any) -> Any:
        """out[i : i + 4, j : j + width] = A[i : i + 4, start:] B[start:, j : j + width], in C order."""
        if any(array != types.Array(types.float64, 2, "C") for array in (A, B, out)):
            raise errors.TypingError(f"tiles are of float64 matrices in C order; these are {A}, {B}, {out}.")
        return types.void(A, B, out, types.intp, types.intp, types.intp), code

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        double, index = ir.DoubleType(), context.get_value_type(types.intp)
        vector = ir.VectorType(double, width)
        arrays = [context.make_array(t)(context, builder, v) for t, v in zip(signature.args[:3], given, strict=False)]
        i, j, start = given[3:]
        m = builder.extract_value(arrays[0].shape, 0)

        def address(array: Any, row: Any, column: Any) -> Any:
            return builder.gep(array.data, [builder.add(builder.mul(row, m), column)])

        rows = [builder.add(i, index(r)) for r in range(_ROWS)]
        sums = [cgutils.alloca_once(builder, vector) for _ in rows]  # registers, once optimised
        for total in sums:
            builder.store(ir.Constant(vector, [0.0] * width), total)
        with cgutils.for_range_slice(builder, start, m, index(1), index) as (k, _):
            piece = builder.load(builder.bitcast(address(arrays[1], k, j), vector.as_pointer()), align=8)
            for row, total in zip(rows, sums, strict=True):
                one = builder.insert_element(
                    ir.Constant(vector, ir.Undefined), builder.load(address(arrays[0], row, k)), ir.IntType(32)(0)
                )
                all_ = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))
                term = builder.fmul(all_, piece, flags=("contract",))
                builder.store(builder.fadd(builder.load(total), term, flags=("contract",)), total)
        for row, total in zip(rows, sums, strict=True):
            place = builder.bitcast(address(arrays[2], row, j), vector.as_pointer())
            builder.store(builder.load(total), place, align=8)
        return context.get_dummy_value()

    return intrinsic(tile)


_wide, _narrow = _tile(_WIDE), _tile(_NARROW)


@njit(nogil=True, error_model="numpy")
def multiply(A: Any, B: Any, lower: bool, out: Any) -> None:
    """A B, in C order all three and `out` neither of the others; `lower` where B has zeros above the diagonal."""
    m = A.shape[0]
    if m < _ROWS:
        for i in range(m):
            for j in range(m):
                total = 0.0
                for k in range(m):
                    total += A[i, k] * B[k, j]
                out[i, j] = total
        return
    for i in range(0, m, _ROWS):
        row = min(i, m - _ROWS)
        column = 0
        while m - column >= _WIDE:
            _wide(A, B, out, row, column, column if lower else 0)
            column += _WIDE
        if m - column > _NARROW and m >= _WIDE:
            column = m - _WIDE
            _wide(A, B, out, row, column, column if lower else 0)
        else:
            while column < m:
                last = min(column, m - _NARROW)
                _narrow(A, B, out, row, last, last if lower else 0)
                column += _NARROW


@njit(nogil=True, error_model="numpy")
def transpose(A: Any, out: Any) -> None:
    """Aᵀ."""
    m = A.shape[0]
    for i in range(m):
        for j in range(m):
            out[i, j] = A[j, i]


@njit(nogil=True, error_model="numpy")
def copy(A: Any, out: Any) -> None:
    """A; assignment to all of an array compiles to slow code, and slowly."""
    m = A.shape[0]
    for i in range(m):
        for j in range(m):
            out[i, j] = A[i, j]
