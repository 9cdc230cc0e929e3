"""A random matrix known only through what it was applied to (Bolthausen's conditioning).

With W q_i = z_i and Wᵀ p_j = y_j known for orthonormal q_i and p_j, a new unit vector q ⊥ q_i gets

    W q = P (Yᵀ q) + (I − P Pᵀ) g,   g ~ N(0, v I)

with v the variance of the entries: given the past, exactly the law of a real matrix of that size.
White conditioning replaces g by a column orthogonal to everything its population has seen, with the
squared length of its law: first and second moments of hats are then exact, at a bias of order 1/M.
"""

from __future__ import annotations

import numpy

from tplimits.errors import EvaluationError
from tplimits.numbers.columns import PER_COLUMN, Array
from tplimits.numbers.columns import Population as Columns


class Normals:
    """Columns of standard normals, one after the other, remembered so that parts of the rows can be used again."""

    def __init__(self, rng: numpy.random.Generator, size: int) -> None:
        self.size, self.rng = size, rng
        self._columns: list[Array] = []

    def column(self, number: int) -> Array:
        # kept by number: halves of the particles read the same rows of the same columns
        while len(self._columns) <= number:
            self._columns.append(self.rng.standard_normal(self.size))
        return self._columns[number]


class Population(Columns):
    """The particles of one width on some rows of shared normal columns; it refuses rather than stop to be white."""

    least_per_column = 1

    def __init__(self, normals: Normals, white: bool, rows: slice = slice(None)) -> None:
        super().__init__(len(range(normals.size)[rows]), white, normals.rng)
        self._normals, self._rows, self._drawn = normals, rows, 0

    def see(self, x: Array) -> None:
        if self.white:
            new = self.seen.new_directions(x)[2]
            self._has_room(len(new))
            self.seen.append(new)

    def _has_room(self, columns: int) -> bool:
        count = self.seen.count + columns
        if self.white and PER_COLUMN * count > self.size:
            raise EvaluationError(
                f"too few particles: {self._normals.size} for {count} columns; give particles={16 * count} or more."
            )
        return self.white

    def _normal(self, count: int) -> Array:
        first, self._drawn = self._drawn, self._drawn + count
        return numpy.array([self._normals.column(k)[self._rows] for k in range(first, self._drawn)])
