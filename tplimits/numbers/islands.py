"""Where a function of a few coordinates changes its sign and back between the points of a grid, in all directions.

    relu(1/1000 − (x − 1)² − (y − ½)²) is 0 but on a disc of radius 0.03, which lines 0.14 apart pass by

`crossings` follows the dips of a function along one line; here each dip of |f| in all coordinates is followed to its
bottom.  Where f has the other sign there, the bottom lies on an island.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy

from tplimits.arrays import Array

#: points of the grid along each coordinate, by how many there are
POINTS = {2: 161, 3: 49}
#: dips that are followed, the most promising ones, and steps to the bottom of each
_FOLLOWED, _STEPS = 64, 40
#: a dip is followed where it goes below this share of its least value if it goes on as it falls towards it
_SHALLOW = 0.3
#: what is below zero by less than this, beside the values around, is rounding
_ROUNDING = 1e-11
#: a share of a line along which the sign is another one than on the next line: a curve passes between them
_ACROSS = 0.5

#: values at points (count, coordinates)
Function = Callable[[Array], Array]


def islands(function: Function, radius: float, coordinates: int) -> Array:
    """A point of each island within the radius that no point of the grid lies on, (count, coordinates)."""
    return _islands(function, *_on_grid(function, radius, coordinates))


def places(function: Function, radius: float) -> Array:
    """First coordinates of lines that meet the islands of two, and curves that lines pass by from end to end.

    y = 1000 sin x is within reach for so short a stretch of x about each kπ that y has a cut there on no line.
    """
    mesh, values = _on_grid(function, radius, 2)
    found = [_islands(function, mesh, values)[:, 0]]
    up = values > 0
    flips = up[1:] != up[:-1]
    for i in numpy.flatnonzero(flips.mean(axis=1) > _ACROSS):
        # the row nearest to the middle that flips
        row = min(numpy.flatnonzero(flips[i]), key=lambda j: abs(mesh[i, j, 1]))
        low, high = mesh[i, row], mesh[i + 1, row]
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if (function(middle[None])[0] > 0) == up[i, row] else (low, middle)
        found.append(low[:1])
    return numpy.concatenate(found)


def _on_grid(function: Function, radius: float, coordinates: int) -> tuple[Array, Array]:
    line = numpy.linspace(-radius, radius, POINTS[coordinates])
    mesh = numpy.stack(numpy.meshgrid(*[line] * coordinates, indexing="ij"), axis=-1)
    return mesh, function(mesh.reshape(-1, coordinates)).reshape(mesh.shape[:-1])


def _islands(function: Function, mesh: Array, values: Array) -> Array:
    at, sign, size = _dips(values)
    if not len(sign):
        return numpy.zeros((0, values.ndim))
    bottom, least = _bottom(
        lambda x: sign[:, None] * _many(function, x),
        mesh[at],
        mesh.flat[2 * values.ndim - 1] - mesh.flat[values.ndim - 1],
    )
    return bottom[least < -_ROUNDING * size]


def _many(function: Function, x: Array) -> Array:
    return function(x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])


def _dips(values: Array) -> tuple[tuple[Array, ...], Array, Array]:
    """Points of a grid beside which |f| is larger and may cross zero, with its sign and the largest |f| beside them."""
    rank = values.ndim
    inner = values[(slice(1, -1),) * rank]

    def beside(step: tuple[int, ...]) -> Array:
        return values[tuple(slice(1 + s, values.shape[i] - 1 + s) for i, s in enumerate(step))]

    up, here = inner > 0, abs(inner)
    dips, most = numpy.isfinite(inner) & (here > 0), here.copy()
    for step in itertools.product((-1, 0, 1), repeat=rank):
        with numpy.errstate(all="ignore"):
            there = beside(step)
            dips &= (abs(there) >= here) & ((there > 0) == up)
            most = numpy.maximum(most, abs(there))
    places = numpy.argwhere(dips)
    here, most, up = here[dips], most[dips], up[dips]
    with numpy.errstate(all="ignore"):
        falls = numpy.zeros(len(places))
        for axis in numpy.eye(rank, dtype=int):
            low, high = (abs(beside(tuple(side * axis))[dips]) for side in (-1, 1))
            # never less than what a parabola has below its least point, whichever way its axes lie
            falls += abs(high - low) / 2 + (numpy.minimum(high, low) - here) / 2
        promise = (here - falls) / here
    kept = numpy.flatnonzero((promise < _SHALLOW) & numpy.isfinite(most))
    kept = kept[numpy.argsort(promise[kept], kind="stable")][:_FOLLOWED]
    return tuple(places[kept].T + 1), numpy.where(up[kept], 1.0, -1.0), most[kept]


def _bottom(function: Function, start: Array, step: float) -> tuple[Array, Array]:
    """Where functions are least near their starts (count, coordinates), and their values there.

    Newton's steps on the parabola through all neighbours at a distance that is halved where none is lower.
    """
    count, rank = start.shape
    stencil = numpy.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=rank)))
    fit = numpy.linalg.pinv(_monomials(stencil))
    place, middle = start.copy(), len(stencil) // 2
    least, size = numpy.full(count, numpy.inf), numpy.full(count, step / 2)
    for _ in range(_STEPS):
        around = place[:, None] + size[:, None, None] * stencil
        values = function(around)
        with numpy.errstate(all="ignore"):
            newton = around[:, middle] + size[:, None] * _vertex(values @ fit.T, rank)
        newton = numpy.where(numpy.isfinite(newton), newton, place)
        points = numpy.concatenate([around, newton[:, None]], axis=1)
        values = numpy.concatenate([values, function(newton[:, None])], axis=1)
        values = numpy.where(numpy.isfinite(values), values, numpy.inf)
        best = values.argmin(axis=1)
        rows = numpy.arange(count)
        # the middle itself, or nothing that is lower: look nearer
        size = numpy.where((best == middle) | (best == len(stencil)), size / 4, size)
        place, least = points[rows, best], values[rows, best]
    return place, least


def _monomials(x: Array) -> Array:
    """1, x_i and x_i x_j for i ≤ j."""
    pairs = itertools.combinations_with_replacement(range(x.shape[1]), 2)
    return numpy.stack([numpy.ones(len(x)), *x.T, *(x[:, i] * x[:, j] for i, j in pairs)], axis=1)


def _vertex(coefficients: Array, rank: int) -> Array:
    """Where parabolas with these coefficients are least, no further away than three steps."""
    hessian = numpy.zeros((len(coefficients), rank, rank))
    for place, (i, j) in enumerate(itertools.combinations_with_replacement(range(rank), 2)):
        hessian[:, i, j] += coefficients[:, 1 + rank + place]
        hessian[:, j, i] += coefficients[:, 1 + rank + place]
    hessian = numpy.where(numpy.isfinite(hessian), hessian, 0.0)
    slope = numpy.where(numpy.isfinite(coefficients[:, 1 : 1 + rank]), coefficients[:, 1 : 1 + rank], 0.0)
    return numpy.clip(-numpy.einsum("nij,nj->ni", numpy.linalg.pinv(hessian), slope), -3.0, 3.0)
