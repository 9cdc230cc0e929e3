"""A matrix of pairs cut into square tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.request import GramRequest


def squares(rows: int, columns: int, mirrored: bool, step: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles of a matrix; of a symmetric one those on and above the diagonal."""
    for i in range(0, rows, step):
        for j in range(i if mirrored else 0, columns, step):
            yield slice(i, min(i + step, rows)), slice(j, min(j + step, columns))


def many_squares(asked: GramRequest, step: int) -> int:
    """How many of them there are."""
    a, b = -(-asked.one.many // step), -(-asked.other.many // step)
    return a * (a + 1) // 2 if asked.symmetric else a * b
