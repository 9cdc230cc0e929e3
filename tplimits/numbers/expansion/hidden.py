"""Islands between nodes: where a function of two or three variables crosses 0 and comes back in all directions.

    relu(1/1000 − (x − 1)² − (y − ½)²) is 0 at all nodes, whatever line of them is looked at

As in `tplimits.numbers.islands`, for functions of which values at nodes alone are known.  What runs through the nodes
around tells what lies between them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array

if TYPE_CHECKING:
    from tplimits.numbers.expansion.fields import Field
    from tplimits.numbers.expansion.nodes import Frame

#: nodes of one polynomial along each variable, places between neighbours that are looked at, and closer looks
_NEAR, _PLACES, _ZOOMS = 8, 9, 10
#: variables of functions that are looked at, and dips of one function that are
_MOST, _DIPS = 3, 64
#: what may fall below this share of the least value, if it goes on as it falls towards it
_SHALLOW = 0.5
#: what is below zero by less than this, beside the values around, is rounding
_ROUNDING = 1e-9


def hides_island(frame: Frame, u: Field) -> bool:
    """Whether values at nodes are of one sign around a place where the function has the other one."""
    variables = [frame.variables[d] for d in u.dims]
    if not 2 <= len(u.dims) <= _MOST or any(v.is_sign for v in variables):
        return False
    kept = [v.nodes.shape[-1] - v.marks for v in variables]
    # between two places where a variable is divided its nodes are those of one rule
    blocks = [count // (v.marks + 1) for count, v in zip(kept, variables, strict=True)]
    values = u.values[tuple(slice(count) for count in kept)]
    if min(blocks) < _NEAR or min(values.shape) < 3:
        return False
    return any(_crosses(values, at, blocks) for at in _dips(values))


def _dips(values: Array) -> list[tuple[int, ...]]:
    """The nodes beside which |v| is larger, of the same sign, and may fall to 0."""
    size, up = numpy.abs(values), values > 0
    low = (size[..., 1:-1] <= size[..., :-2]) & (size[..., 1:-1] <= size[..., 2:]) & (size[..., 1:-1] > 0)
    low &= (up[..., 1:-1] == up[..., :-2]) & (up[..., 1:-1] == up[..., 2:])
    at = numpy.argwhere(low) + numpy.eye(values.ndim, dtype=int)[-1]
    at = at[((at > 0) & (at < numpy.array(values.shape) - 1)).all(axis=1)]
    here, dips = size[tuple(at.T)], numpy.ones(len(at), dtype=bool)
    for step in itertools.product((-1, 0, 1), repeat=values.ndim):
        there = tuple((at + step).T)
        dips &= (size[there] >= here) & (up[there] == up[tuple(at.T)])
    at, here = at[dips], here[dips]
    falls = numpy.zeros(len(at))
    for axis in numpy.eye(values.ndim, dtype=int):
        before, after = (size[tuple((at + side * axis).T)] for side in (-1, 1))
        # never less than what a parabola has below its least node
        falls += numpy.abs(after - before) / 2 + (numpy.minimum(after, before) - here) / 2
    promise = 1 - falls / here
    found = numpy.flatnonzero(promise < _SHALLOW)
    return [tuple(at[i]) for i in found[numpy.argsort(promise[found], kind="stable")][:_DIPS].tolist()]


def _crosses(values: Array, at: tuple[int, ...], blocks: list[int]) -> bool:
    """Whether polynomials through the nodes around one have the other sign beside it, by more than they differ."""
    starts = [
        int(numpy.clip(i - _NEAR // 2, i // b * b, (i // b + 1) * b - _NEAR)) for i, b in zip(at, blocks, strict=True)
    ]
    near = values[tuple(slice(s, s + _NEAR) for s in starts)] * numpy.sign(values[at])
    most, centre, reach = numpy.abs(near).max(), [float(i - s) for i, s in zip(at, starts, strict=True)], 1.0
    for _ in range(_ZOOMS):
        places = [numpy.clip(c + reach * numpy.linspace(-1, 1, _PLACES), 0, _NEAR - 1) for c in centre]
        found = _through(near, places, 0)
        least = numpy.unravel_index(found.argmin(), found.shape)
        centre = [float(p[i]) for p, i in zip(places, least, strict=True)]
        value, other = (float(_through(near, [numpy.array([c]) for c in centre], left).sum()) for left in (0, 1))
        if value + abs(value - other) < -_ROUNDING * most:
            return True
        reach *= 4 / _PLACES
    return False


def _through(values: Array, places: list[Array], left_out: int) -> Array:
    """What runs through values at evenly numbered nodes, of which some at either end may be left out, elsewhere."""
    nodes = numpy.arange(left_out, _NEAR - left_out)
    for axis, x in enumerate(places):
        matrix = numpy.zeros((len(x), _NEAR))
        for k in nodes:
            others = nodes[nodes != k]
            matrix[:, k] = ((x[:, None] - others) / (k - others)).prod(axis=1)
        values = numpy.moveaxis(numpy.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return values
