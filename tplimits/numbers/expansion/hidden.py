"""What lies between nodes: islands, where a function crosses 0 and comes back in all directions, and peaks.

    relu(1/1000 − (x − 1)² − (y − ½)²) and exp(−10¹⁰(x − 1)²) are 0 at all nodes, whatever line of them is looked at

As in `tplimits.numbers.islands`, for functions of which values at nodes alone are known.  What runs through the nodes
around tells what lies between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import Field, aligned

if TYPE_CHECKING:
    from tplimits.numbers.expansion.nodes import Frame, Variable

#: nodes of one polynomial along each variable, places between neighbours that are looked at, and closer looks
_NEAR, _PLACES, _ZOOMS = 8, 9, 10
#: by how much more of a function there is between nodes where these do not see a peak, and what share of its mean
_PEAK, _COUNTS = 7.0, 1e-10
#: variables of functions that are looked at, and dips of one function that are
_MOST, _DIPS = 3, 64
#: what may fall below this share of the least value, if it goes on as it falls towards it
_SHALLOW = 0.5
#: what is below zero by less than this, beside the values around or all values, is rounding
_ROUNDING, _EXACT = 1e-9, 1e-15
#: what polynomials through nodes may differ by, in distances of these
_APART = 0.1


def hides_island(frame: Frame, u: Field) -> bool:
    """Whether values at nodes are of one sign around a place where the function has the other one."""
    return len(u.dims) > 1 and any(value < 0 for _, value, _ in _bottoms(frame, u))


def misses_peak(frame: Frame, u: Field, function: Callable[[Array], Array], values: Field) -> bool:
    """Whether a function of u, `values` at nodes, has a peak that no node is on, where |u| is least between nodes."""
    weights = aligned(frame.weight(u.dims), u.dims)
    mean: float | None = None
    for at, value, sign in _bottoms(frame, u):
        around = numpy.abs(values.values[tuple(slice(i - 1, i + 2) for i in at)]).max()
        with numpy.errstate(all="ignore"):
            peak = float(numpy.abs(function(numpy.array([value * sign]))).max())
        # poles and roots are judged elsewhere
        if numpy.isfinite(peak) and peak > _PEAK * around:
            mean = frame.expectation(Field(u.dims, numpy.abs(values.values))) if mean is None else mean
            if peak * float(numpy.broadcast_to(weights, u.values.shape)[at]) > _COUNTS * mean:
                return True
    return False


def _bottoms(frame: Frame, u: Field) -> Iterator[tuple[tuple[int, ...], float, float]]:
    """The nodes about which |u| is least, what it is at least beside them, below 0 on an island, and the sign of u."""
    variables = [frame.variables[d] for d in u.dims]
    if not u.dims or len(u.dims) > _MOST or any(v.is_sign for v in variables):
        return
    kept = [v.nodes.shape[-1] - v.marks for v in variables]
    # between two places where a variable is divided its nodes are those of one rule
    blocks = [count // (v.marks + 1) for count, v in zip(kept, variables, strict=True)]
    values = u.values[tuple(slice(count) for count in kept)]
    if min(blocks) >= _NEAR and min(values.shape) >= _NEAR:
        for at in _dips(values):
            starts = [_start(i, b) for i, b in zip(at, blocks, strict=True)]
            near = tuple(slice(s, s + _NEAR) for s in starts)
            centre = [float(i - s) for i, s in zip(at, starts, strict=True)]
            if all(_is_one_rule(_nodes(v, u.dims, near), centre) for v in variables if v.parents):
                side = float(numpy.sign(values[at]))
                yield at, _least(values[near] * side, centre, _EXACT * u.size), side


def _start(index: int, block: int) -> int:
    """The first node of a polynomial about one, of one piece of a variable."""
    first = index // block * block
    return int(numpy.clip(index - _NEAR // 2, first, first + block - _NEAR))


def _nodes(variable: Variable, dims: tuple[int, ...], near: tuple[slice, ...]) -> Array:
    """The nodes of a variable about some, as a function of all."""
    own = [near[dims.index(d)] for d in variable.dims]
    around = aligned(Field(variable.dims, variable.nodes[tuple(own)]), dims)
    return numpy.broadcast_to(around, (_NEAR,) * len(dims))


def _is_one_rule(nodes: Array, centre: list[float]) -> bool:
    """Whether nodes move smoothly with those of other variables: not where a place, or the order of two, changes."""
    places = [numpy.clip(c + numpy.array([-0.5, 0.5]), 0, _NEAR - 1) for c in centre]
    off = numpy.abs(_through(nodes, places, 0) - _through(nodes, places, 1)).max()
    return bool(off <= _APART * numpy.abs(numpy.diff(nodes, axis=-1)).min())


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


def _least(near: Array, centre: list[float], rounding: float) -> float:
    """The least of values about a node by polynomials through those around, with what they differ by added."""
    most, reach = numpy.abs(near).max(), 1.0
    rounding = max(rounding, _ROUNDING * most)
    least = numpy.inf
    for _ in range(_ZOOMS):
        places = [numpy.clip(c + reach * numpy.linspace(-1, 1, _PLACES), 0, _NEAR - 1) for c in centre]
        found = _through(near, places, 0)
        lowest = numpy.unravel_index(found.argmin(), found.shape)
        centre = [float(p[i]) for p, i in zip(places, lowest, strict=True)]
        value, other = (float(_through(near, [numpy.array([c]) for c in centre], left).sum()) for left in (0, 1))
        least = min(least, value + abs(value - other))
        if least < -rounding:
            return least
        reach *= 4 / _PLACES
    return 0.0 if least < rounding else float(least)


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
