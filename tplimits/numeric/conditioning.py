"""A random matrix known only through what it was applied to (Bolthausen's conditioning).

With W q_i = z_i and Wᵀ p_j = y_j known for orthonormal q_i and p_j, a new unit vector q ⊥ q_i gets

    W q = P (Yᵀ q) + (I − P Pᵀ) g,   g ~ N(0, v I)

with v the variance of the entries: given the past, exactly the law of a real matrix of that size.
White conditioning replaces g by a column orthogonal to everything its population has seen, with the
squared length of its law: first and second moments of hats are then exact, at a bias of order 1/M.
"""

from __future__ import annotations

import math

import numpy

from tplimits.errors import EvaluationError
from tplimits.program.evaluate import Array

#: directions shorter than this, relative to the vector, are taken as repetitions
_REPEATED = 1e-6
#: particles needed for every column of a population (a half of them is run too)
_PER_COLUMN = 4


class _Basis:
    """Orthonormal columns, grown one at a time."""

    def __init__(self, size: int) -> None:
        self._columns = numpy.empty((size, 8))
        self.count = 0

    @property
    def columns(self) -> Array:
        return self._columns[:, : self.count]

    def rest(self, x: Array) -> tuple[Array, Array]:
        """(coordinates, remainder) of x; Gram-Schmidt twice, for accuracy."""
        q = self.columns
        coordinates = q.T @ x
        left = x - q @ coordinates
        again = q.T @ left
        return coordinates + again, left - q @ again

    def append(self, column: Array) -> None:
        if self.count == self._columns.shape[1]:
            self._columns = numpy.concatenate([self._columns, numpy.empty_like(self._columns)], axis=1)
        self._columns[:, self.count] = column
        self.count += 1


class Normals:
    """Columns of standard normals, one after the other, remembered so that parts of the rows can be used again."""

    def __init__(self, rng: numpy.random.Generator, size: int) -> None:
        self.size, self._rng = size, rng
        self._columns: list[Array] = []

    def column(self, number: int) -> Array:
        while len(self._columns) <= number:
            self._columns.append(self._rng.standard_normal(self.size))
        return self._columns[number]


class Population:
    """The particles of one width: everything seen so far, and fresh columns.

    `rows` are the rows of the normal columns that this population uses.
    """

    def __init__(self, normals: Normals, white: bool, rows: slice = slice(None)) -> None:
        self._normals, self._rows, self._drawn, self.white = normals, rows, 0, white
        self.size = size = len(range(normals.size)[rows])
        self._seen = _Basis(size)
        if white:
            self._seen.append(numpy.full(size, 1 / math.sqrt(size)))

    def see(self, column: Array) -> None:
        """Remember a column, so that later fresh columns are orthogonal to it."""
        if not self.white:
            return
        length = float(numpy.linalg.norm(column))
        if not math.isfinite(length):
            raise EvaluationError("moment not established: a particle column is not finite.")
        _, left = self._seen.rest(column)
        rest = float(numpy.linalg.norm(left))
        if rest > _REPEATED * max(length, 1e-300):
            self._grow(left / rest)

    def _grow(self, column: Array) -> None:
        self._seen.append(column)
        if self.size < _PER_COLUMN * self._seen.count:
            raise EvaluationError(
                f"too few particles: {self._normals.size} for {self._seen.count} columns; give "
                f"particles={16 * self._seen.count} or more."
            )

    def fresh(self, variance: float) -> Array:
        """A column of independent N(0, variance) entries, whitened if the population is white."""
        g = self._normals.column(self._drawn)[self._rows]
        self._drawn += 1
        if not self.white:
            return g * math.sqrt(variance)
        _, left = self._seen.rest(g)
        left /= numpy.linalg.norm(left)
        self._grow(left)
        return left * math.sqrt(variance * self.size)


class ImplicitMatrix:
    """A matrix of rows × columns with entry variance 1/columns, made as it is used."""

    def __init__(self, rows: Population, columns: Population) -> None:
        self._sides = {False: (rows, columns), True: (columns, rows)}
        self._inputs = {False: _Basis(columns.size), True: _Basis(rows.size)}
        self._outputs: dict[bool, list[Array]] = {False: [], True: []}
        self._variance = 1.0 / columns.size

    def apply(self, x: Array, transposed: bool) -> Array:
        """W x, or Wᵀ x."""
        target, source = self._sides[transposed]
        source.see(x)
        inputs, outputs = self._inputs[transposed], self._outputs[transposed]
        coordinates, left = inputs.rest(x)
        length, rest = float(numpy.linalg.norm(x)), float(numpy.linalg.norm(left))
        if not math.isfinite(length):
            raise EvaluationError("moment not established: a particle column is not finite.")
        if rest > _REPEATED * length:
            outputs.append(self._image(left / rest, transposed, target))
            inputs.append(left / rest)
            coordinates = numpy.append(coordinates, rest)
        if not outputs:
            return numpy.zeros(target.size)
        image = numpy.column_stack(outputs) @ coordinates
        target.see(image)
        return image

    def _image(self, q: Array, transposed: bool, target: Population) -> Array:
        partners, images = self._inputs[not transposed], self._outputs[not transposed]
        g = target.fresh(self._variance)
        if partners.count == 0:
            return g
        p = partners.columns
        return p @ (numpy.column_stack(images).T @ q) + g - p @ (p.T @ g)
