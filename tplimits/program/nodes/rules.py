"""Rules for means over normal variables on arrays: nodes, weights, the density, Hermite polynomials."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy

from tplimits.arrays import Array


def density(z: Array) -> Array:
    """The standard normal density."""
    return numpy.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


@lru_cache(maxsize=64)
def legendre(count: int) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights on [−1, 1]."""
    return numpy.polynomial.legendre.leggauss(count)


@lru_cache(maxsize=64)
def hermite(count: int) -> tuple[Array, Array]:
    """Gauss–Hermite nodes and weights of a standard normal variable, exact for polynomials below degree 2·count."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / math.sqrt(2 * math.pi)


def hermite_polynomials(z: Array, order: int, first: Array) -> Array:
    """Orthonormal h_k(z) for k < order, times `first`, which stands for h_0: (order, nodes)."""
    found = numpy.zeros((order, *z.shape))
    found[0] = first
    for k in range(1, order):
        numpy.multiply(z, found[k - 1], out=found[k])
        if k > 1:
            found[k] -= math.sqrt(k - 1) * found[k - 2]
        found[k] /= math.sqrt(k)
    return found


def panels(edges: Array, rule: tuple[Array, Array]) -> tuple[Array, Array]:
    """Nodes and weights of a rule on the pieces between edges (…, pieces + 1): (…, pieces, nodes)."""
    x, w = rule
    half = (edges[..., 1:] - edges[..., :-1])[..., None] / 2
    middle = (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    return middle + half * x, half * w
