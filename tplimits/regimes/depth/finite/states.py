"""States of a given covariance, and normal random numbers for them: where chains of layers start."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy

from tplimits.arrays import Array

#: a vector is in the span of others when this is left of its square
_SPAN = 1e-12


def covariance(states: Array) -> Array:
    """V = (1/n) X Xᵀ."""
    return states @ numpy.swapaxes(states, -1, -2) / states.shape[-1]


def cholesky(gram: Array) -> Array:
    """L with L Lᵀ = gram for a batch of positive semidefinite matrices; zero columns where rows are dependent.

    >>> cholesky(numpy.array([[4.0, 2.0], [2.0, 1.0]])).tolist()
    [[2.0, 0.0], [1.0, 0.0]]
    """
    size = gram.shape[-1]
    L = numpy.zeros(gram.shape)
    for j in range(size):
        left = gram[..., j, j] - (L[..., j, :j] ** 2).sum(axis=-1)
        regular = left > _SPAN * gram[..., j, j]
        L[..., j, j] = pivot = numpy.sqrt(numpy.where(regular, left, 0.0))
        below = gram[..., j + 1 :, j] - (L[..., j + 1 :, :j] @ L[..., j, :j, None])[..., 0]
        scale = numpy.where(regular, 1 / numpy.where(regular, pivot, 1.0), 0.0)
        L[..., j + 1 :, j] = below * scale[..., None]
    return L


@dataclass(frozen=True)
class Start:
    """Where a chain starts: the covariance V of the states, which fixes them up to a rotation of the neurons."""

    V: Array
    root: Array = field(repr=False)

    @property
    def tokens(self) -> int:
        """m."""
        return int(self.V.shape[0])

    def states(self, draws: int, n: int, rng: numpy.random.Generator) -> tuple[Array, Array]:
        """X and orthogonal rows U of length √n, X = root·U, rotated at random: (draws, m, n) each."""
        g = rng.standard_normal((draws, self.tokens, n))
        L = cholesky(g @ numpy.swapaxes(g, -1, -2) / n)
        u: Array = numpy.asarray(numpy.linalg.solve(L, g), dtype=numpy.float64)
        return self.root @ u, u


class Mirrored:
    """Normal random numbers in pairs: the second half of every array is the first with the other sign.

    Both halves have the law they should have, and their mean is free of everything odd in all weights together.
    """

    def __init__(self, rng: numpy.random.Generator) -> None:
        self.rng = rng

    def standard_normal(self, shape: tuple[int, ...]) -> Array:
        """Normals for twice as many draws as are independent; the first dimension counts draws."""
        z = self.rng.standard_normal((shape[0] // 2, *shape[1:]))
        return numpy.concatenate([z, -z])
