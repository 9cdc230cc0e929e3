"""Kernel matrices between training and test inputs, filled tile by tile, one kernel at a time.

A matrix has a row for each input and output axis, (N·A, N′·A′); arrays of one triangle are mirrored.  Where logits are
drawn, all blocks come from the same draws: the matrix over training and test inputs together stays semidefinite.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.regimes.kernels.numbers.drawn import drawn
from tplimits.regimes.kernels.numbers.evaluation import Tile, tiles
from tplimits.regimes.kernels.numbers.request import (
    GramRequest,
    KernelPair,
    NNGPAlone,
    refuse_mixture,
    shape_of,
    squares,
)
from tplimits.regimes.kernels.numbers.symmetry import as_matrix

if TYPE_CHECKING:
    from tplimits.progress import Progress

#: training inputs, test inputs
TRAIN, TEST = 1, 2
#: inputs a side of what is read of a stored matrix at once
_READ = 1024


class Blocks(ABC):
    """Kernel matrices between two batches, training inputs first."""

    #: whether other calls would see other draws of the kernels
    redrawn = False

    @abstractmethod
    def many(self, batch: int) -> int:
        """The number of inputs."""

    @abstractmethod
    def outputs(self, batch: int) -> tuple[int, ...]:
        """Sizes of the output axes that the kernels have."""

    @abstractmethod
    def symmetric(self, left: int, right: int) -> bool:
        """Whether a matrix is one of inputs with themselves."""

    @abstractmethod
    def tiles(self, kernel: str, left: int, right: int) -> Iterable[Tile]:
        """The matrix piece by piece; on and above the diagonal of a symmetric one."""

    def rows(self, batch: int) -> int:
        """The number of rows: inputs times outputs."""
        return self.many(batch) * math.prod(self.outputs(batch))

    def gram(self, kernel: str, left: int, right: int) -> Array:
        """The matrix between two batches, columns contiguous."""
        matrix = numpy.empty((self.rows(left), self.rows(right)), order="F")
        symmetric = self.symmetric(left, right)
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

    def _pieces(self, kernel: str, left: int, right: int) -> Any:
        """(rows, columns, entries) of the matrix; on and above the diagonal of a symmetric one."""
        outputs = math.prod(self.outputs(left)), math.prod(self.outputs(right))
        for tile in self.tiles(kernel, left, right):
            rows = slice(tile.rows.start * outputs[0], tile.rows.stop * outputs[0])
            columns = slice(tile.columns.start * outputs[1], tile.columns.stop * outputs[1])
            yield rows, columns, as_matrix(tile.values[0])


@dataclass
class ComputedBlocks(Blocks):
    """Kernels between the two batches of a request."""

    asked: GramRequest
    sampling: dict[str, Any] = field(default_factory=dict)
    progress: Progress = None
    known: dict[tuple[int, int], KernelPair] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_mixture(self.asked.derivation)
        refuse_mean(self.asked.derivation.network.name, str(self.asked.derivation.mean))
        self.redrawn = self.asked.is_drawn
        if self.redrawn:
            places = ((TRAIN, TRAIN), (TRAIN, TEST), (TEST, TEST))
            self.known = drawn(self.asked, places, **self.sampling, progress=self.progress)

    def outputs(self, batch: int) -> tuple[int, ...]:
        """Sizes of the output axes that the kernels have."""
        shape = shape_of(self._between(batch, batch))[2:]
        return shape[: len(shape) // 2]

    def many(self, batch: int) -> int:
        """The number of inputs."""
        return self.asked.one.many if batch == TRAIN else self.asked.other.many

    def symmetric(self, left: int, right: int) -> bool:
        """Whether a matrix is one of inputs with themselves."""
        return left == right or self.asked.symmetric

    def tiles(self, kernel: str, left: int, right: int) -> Iterable[Tile]:
        """By the recursion, or from what was drawn."""
        if not self.redrawn:
            return tiles(self._between(left, right), (kernel,), self.progress)
        pair = self.known[left, right]
        array, many = getattr(pair, kernel), (self.many(left), self.many(right))
        return [Tile(slice(0, many[0]), slice(0, many[1]), [array], 0.0)]

    def _between(self, left: int, right: int) -> GramRequest:
        sides = {TRAIN: self.asked.one, TEST: self.asked.other}
        return replace(self.asked, one=sides[left], other=sides[right], symmetric=self.symmetric(left, right))


@dataclass
class StoredBlocks(Blocks):
    """Parts of a matrix that is there: the numbers of training and of test inputs among its own."""

    pair: KernelPair | NNGPAlone
    sides: dict[int, NDArray[numpy.intp]]

    def outputs(self, batch: int) -> tuple[int, ...]:
        """Sizes of the output axes that the kernels have."""
        shape = self.pair.nngp.shape[2:]
        return shape[: len(shape) // 2]

    def many(self, batch: int) -> int:
        """The number of inputs."""
        return len(self.sides[batch])

    def symmetric(self, left: int, right: int) -> bool:
        """Whether a matrix is one of inputs with themselves."""
        return self.sides[left] is self.sides[right]

    def tiles(self, kernel: str, left: int, right: int) -> Iterable[Tile]:
        """Read square by square, in double precision."""
        array, rows, columns = getattr(self.pair, kernel), self.sides[left], self.sides[right]
        for i, j in squares(len(rows), len(columns), self.symmetric(left, right), _READ):
            yield Tile(i, j, [array[numpy.ix_(rows[i], columns[j])].astype(numpy.float64)], 0.0)


def refuse_mean(network: str, mean: str) -> None:
    """Refuse to predict outputs of another mean than 0."""
    if mean != "0":
        raise EvaluationError(
            f"the output of `{network}` has the mean {mean}; predictions are those of an output of mean 0. Leave it "
            "out of the network, give y minus this mean, and add it afterwards."
        )


def unfolded(matrix: Array, left: Sequence[int], right: Sequence[int]) -> Array:
    """A matrix of (input, axes) pairs, or a stack of them, as (…, N, N′, *axes, *axes′)."""
    front = matrix.ndim - 2
    array = matrix.reshape(*matrix.shape[:front], -1, *left, matrix.shape[-1] // math.prod(right), *right)
    a = front + 1 + len(left)
    order = (*range(front), front, a, *range(front + 1, a), *range(a + 1, array.ndim))
    return array.transpose(order)
