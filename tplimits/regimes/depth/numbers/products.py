"""Products of small square matrices, in tiles of the result that stay in vector registers.

A compiler makes poor code of three short loops: it sums along rows, and adds up a register for every entry.  Here a
tile of 4 rows and 8 columns of A B, or 4 where no more are left, is the sum over k of 4 entries of column k of A, each
times a piece of row k of B.  Where the number of tokens is no multiple of the tile, the last tiles overlap others and
write the same numbers again.  Every entry is summed in the same order, so that A Aᵀ is exactly symmetric.  Sums leave
out k at which a factor is known to be zero: the covariance of tokens and their tangents is made of matrices that are
zero in the upper right quarter.
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

    def tile(typing: Any, A: Any, B: Any, out: Any, i: Any, j: Any, start: Any, stop: Any) -> Any:
        """out[i : i + 4, j : j + width] = A[i : i + 4, start:stop] B[start:stop, j : j + width], in C order."""
        # addresses are computed from the rows alone: another layout would be read as garbage, silently
        if any(array != types.Array(types.float64, 2, "C") for array in (A, B, out)):
            raise errors.TypingError(f"tiles are of float64 matrices in C order; these are {A}, {B}, {out}.")
        return types.void(A, B, out, types.intp, types.intp, types.intp, types.intp), code

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        double, index = ir.DoubleType(), context.get_value_type(types.intp)
        vector = ir.VectorType(double, width)
        arrays = [context.make_array(t)(context, builder, v) for t, v in zip(signature.args[:3], given, strict=False)]
        i, j, start, stop = given[3:]
        m = builder.extract_value(arrays[0].shape, 0)

        def address(array: Any, row: Any, column: Any) -> Any:
            return builder.gep(array.data, [builder.add(builder.mul(row, m), column)])

        rows = [builder.add(i, index(r)) for r in range(_ROWS)]
        sums = [cgutils.alloca_once(builder, vector) for _ in rows]  # registers, once optimised
        for total in sums:
            builder.store(ir.Constant(vector, [0.0] * width), total)
        with cgutils.for_range_slice(builder, start, stop, index(1), index) as (k, _):
            # aligned to one double only: tiles start at any column
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


@njit(nogil=True, error_model="numpy", forceinline=True)
def multiply(A: Any, B: Any, left: int, right: int, out: Any) -> None:
    """A B, in C order all three and `out` neither of the others.

    A is zero above its diagonal blocks of `left` rows; B above those of `right` rows, or below those of −`right`.  A
    triangular matrix has blocks of one row, and the number of all rows says nothing.
    """
    m = A.shape[0]
    # no tile fits; the loops are short enough as they are
    if m < _ROWS:
        for i in range(m):
            for j in range(m):
                total = 0.0
                for k in range(m):
                    total += A[i, k] * B[k, j]
                out[i, j] = total
        return
    for i in range(0, m, _ROWS):
        # the last tile reaches back over rows that are done: no smaller tile has to be compiled
        row = min(i, m - _ROWS)
        held = _end(row + _ROWS, left, m)
        column = 0
        while m - column >= _WIDE:
            _wide(A, B, out, row, column, _begin(column, right), min(held, _end(column + _WIDE, -right, m)))
            column += _WIDE
        # one wide tile that overlaps costs less than two narrow ones
        if m - column > _NARROW and m >= _WIDE:
            column = m - _WIDE
            # the last columns: `_end` would say m
            _wide(A, B, out, row, column, _begin(column, right), held)
        else:
            while column < m:
                last = min(column, m - _NARROW)
                _narrow(A, B, out, row, last, _begin(last, right), min(held, _end(last + _NARROW, -right, m)))
                column += _NARROW


@njit(nogil=True, error_model="numpy")
def _begin(column: int, blocks: int) -> int:
    """The first row of a column that is not zero, of a matrix that is zero above diagonal blocks."""
    # divisions take as long as a tile of a few rows: blocks of one row or of all need none
    if blocks <= 0 or column < blocks:
        return 0
    return column if blocks == 1 else column // blocks * blocks


@njit(nogil=True, error_model="numpy")
def _end(rows: int, blocks: int, m: int) -> int:
    """Behind the last column of some first rows that is not zero, of the same."""
    if blocks <= 0 or blocks >= m:
        return m
    return rows if blocks == 1 else min(m, (rows + blocks - 1) // blocks * blocks)


@njit(nogil=True, error_model="numpy")
def diagonal_blocks(A: Any) -> int:
    """Half of the rows where A is zero in its upper right quarter, else all of them."""
    m = A.shape[0]
    half = m // 2
    # no half, so no blocks of a covariance of tokens and their tangents
    if m % 2:
        return m
    for i in range(half):
        for j in range(half, m):
            if A[i, j] != 0.0:
                return m
    return half


@njit(nogil=True, error_model="numpy", forceinline=True)
def transpose(A: Any, out: Any) -> None:
    """Aᵀ."""
    m = A.shape[0]
    for i in range(m):
        for j in range(m):
            out[i, j] = A[j, i]


@njit(nogil=True, error_model="numpy", forceinline=True)
def copy(A: Any, out: Any) -> None:
    """A, or what of it `out` has room for; assignment to all of an array compiles to slow code, and slowly."""
    m = out.shape[0]
    for i in range(m):
        for j in range(m):
            out[i, j] = A[i, j]
