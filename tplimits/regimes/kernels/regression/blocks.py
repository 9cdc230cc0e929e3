"""Kernel matrices between training and test inputs, filled tile by tile, one kernel at a time.

A matrix has a row for each input and output axis, (N·A, N′·A′); arrays of one triangle are mirrored.  Where logits are
drawn, all blocks come from the same draws: the matrix over training and test inputs together stays semidefinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.regimes.kernels.numbers.drawn import drawn
from tplimits.regimes.kernels.numbers.evaluation import Tile, tiles
from tplimits.regimes.kernels.numbers.request import KERNELS, GramRequest, KernelPair, refuse_mixture, shape_of

if TYPE_CHECKING:
    from tplimits.progress import Progress

Array = NDArray[numpy.float64]
#: training inputs, test inputs
TRAIN, TEST = 1, 2


@dataclass
class Blocks:
    """Kernels between the two batches of a request, training inputs first."""

    asked: GramRequest
    sampling: dict[str, Any] = field(default_factory=dict)
    progress: Progress = None
    known: dict[tuple[int, int], KernelPair] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_mixture(self.asked.derivation)
        mean = self.asked.derivation.mean
        if mean != 0:
            raise EvaluationError(
                f"the output of `{self.asked.derivation.network.name}` has the mean {mean}; predictions are those of "
                "an output of mean 0. Leave it out of the network, give y minus this mean, and add it afterwards."
            )
        if self.asked.is_drawn:
            places = ((TRAIN, TRAIN), (TRAIN, TEST), (TEST, TEST))
            self.known = drawn(self.asked, places, **self.sampling, progress=self.progress)

    def outputs(self, batch: int) -> tuple[int, ...]:
        """Sizes of the output axes that the kernels have."""
        shape = shape_of(self._between(batch, batch))[2:]
        return shape[: len(shape) // 2]

    def many(self, batch: int) -> int:
        """The number of inputs."""
        return self.asked.one.many if batch == TRAIN else self.asked.other.many

    def rows(self, batch: int) -> int:
        """The number of rows: inputs times outputs."""
        return self.many(batch) * math.prod(self.outputs(batch))

    def gram(self, kernel: str, left: int, right: int) -> Array:
        """The matrix between two batches, columns contiguous."""
        matrix = numpy.empty((self.rows(left), self.rows(right)), order="F")
        symmetric = self._between(left, right).symmetric
        for rows, columns, values in self._pieces(kernel, left, right):
            matrix[rows, columns] = values
            if symmetric and rows != columns:
                matrix[columns, rows] = values.T
        return matrix

    def product(self, factor: Array, kernel: str) -> Array:
        """factor · K(training, training), without the matrix."""
        found = numpy.zeros(factor.shape)
        for rows, columns, values in self._pieces(kernel, TRAIN, TRAIN):
            found[:, columns] += factor[:, rows] @ values
            if rows != columns:
                found[:, rows] += factor[:, columns] @ values.T
        return found

    def _between(self, left: int, right: int) -> GramRequest:
        sides = {TRAIN: self.asked.one, TEST: self.asked.other}
        return replace(self.asked, one=sides[left], other=sides[right], symmetric=left == right or self.asked.symmetric)

    def _pieces(self, kernel: str, left: int, right: int) -> Any:
        """(rows, columns, entries) of the matrix; on and above the diagonal of a symmetric one."""
        outputs = math.prod(self.outputs(left)), math.prod(self.outputs(right))
        for tile in self._tiles(kernel, left, right):
            rows = slice(tile.rows.start * outputs[0], tile.rows.stop * outputs[0])
            columns = slice(tile.columns.start * outputs[1], tile.columns.stop * outputs[1])
            yield rows, columns, _matrix(tile.values[0])

    def _tiles(self, kernel: str, left: int, right: int) -> Any:
        if not self.known:
            return tiles(self._between(left, right), (kernel,), self.progress)
        pair = self.known[left, right]
        array, many = getattr(pair, kernel), (self.many(left), self.many(right))
        return [Tile(slice(0, many[0]), slice(0, many[1]), [array], 0.0)]


def _matrix(values: Array) -> Array:
    """(N, N′, *axes, *axes′) as a matrix of (input, axes) pairs."""
    axes = values.ndim // 2 - 1
    order = (0, *range(2, 2 + axes), 1, *range(2 + axes, 2 + 2 * axes))
    moved = values.transpose(order)
    rows = math.prod(moved.shape[: 1 + axes])
    return moved.reshape(rows, -1)


def unfolded(matrix: Array, left: Sequence[int], right: Sequence[int]) -> Array:
    """A matrix of (input, axes) pairs, or a stack of them, as (…, N, N′, *axes, *axes′)."""
    front = matrix.ndim - 2
    array = matrix.reshape(*matrix.shape[:front], -1, *left, matrix.shape[-1] // math.prod(right), *right)
    a = front + 1 + len(left)
    order = (*range(front), front, a, *range(front + 1, a), *range(a + 1, array.ndim))
    return array.transpose(order)


def kernel_name(kernel: Any) -> str:
    """Which of the two kernels is asked for."""
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise EvaluationError(
            f'kernel={kernel!r}: there is "nngp", the law of the outputs at initialisation, and "ntk".'
        )
    return kernel
