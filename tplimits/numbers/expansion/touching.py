"""Kinks that an argument comes to and leaves on the side it came from, as that of relu(y² − s) where s tends to 0.

No neuron crosses the kink in the limit, and at finite width, where s moves, a share of them does: of E relu(y² − s)
the mean is off by E|s|^(3/2), a multiple of n^(−3/4).  An argument that cannot move at such a place, as (c y)², stays
on its side.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import Field, aligned, mapped, plus
from tplimits.numbers.expansion.newton import NEAR, differences, polynomial, turn

if TYPE_CHECKING:
    from tplimits.numbers.expansion.nodes import Frame

#: least values and squared slopes this small, beside those around, are 0; nodes beyond are met by no neuron
_ZERO, _STILL, _MET = 1e-5, 1e-6, 6.0
#: what has no side
_ROUNDING = 1e-11
#: rows of nodes that are more than this share of neurons
_SHARE = 1e-3
#: points that are looked at where they are spread, and what is near to 0 there, beside the median
_LEAST, _NEARBY = 4, 1e-2


def touches(frame: Frame, u: Field, moves: Iterable[Field]) -> bool:
    """Whether u comes to 0 without crossing it where some of its derivatives are not 0."""
    if not frame.divides and (u.values.min() < 0 < u.values.max() or not _comes_near(u.values)):
        return False
    squares: Field | None = None
    for d in moves:
        square = mapped(lambda s, v: s**2 + 0 * v, d, u)
        squares = plus(squares, frame.mean(square, set(square.dims) - set(u.dims)))
    if squares is None or not squares.size:
        return False
    if not frame.divides:
        return bool(squares.values[_least_points(u.values)].mean() > _NEARBY * squares.values.mean())
    dims, values, squared = u.dims, u.values, squares.values
    while dims:
        variable = frame.variables[dims[-1]]
        nodes = numpy.broadcast_to(aligned(Field(variable.dims, variable.nodes), dims), values.shape)
        turned = _nearest if variable.is_sign else partial(_turned, nodes, marks=variable.marks)
        values, squared = turned(values, squared)
        dims = dims[:-1]
        found = (values == 0) & (squared > 0)
        # a share of rows, or the one between them at which their least values come to 0
        if frame.expectation(Field(dims, found.astype(numpy.float64))) > _SHARE:
            return True
    return False


def _least_points(u: Array) -> Any:
    """Where points in no order come nearest to 0."""
    return numpy.argsort(numpy.abs(u))[:_LEAST]


def _comes_near(u: Array) -> bool:
    return bool(numpy.abs(u[_least_points(u)]).max() < _NEARBY * numpy.median(numpy.abs(u)))


def _nearest(u: Array, squares: Array) -> tuple[Array, Array]:
    """The value nearest to 0 along a last dimension that is ±1, in which nothing turns, and the squares."""
    at = numpy.abs(u).argmin(axis=-1)[..., None]
    value, square = (numpy.take_along_axis(a, at, axis=-1)[..., 0] for a in (u, squares))
    return value, square


def _turned(nodes: Array, u: Array, squares: Array, marks: int) -> tuple[Array, Array]:
    """The value nearest to 0 at which u turns back along the last dimension, NaN where there is none, and the squares.

    What is next to nothing beside the values around is 0.
    """
    order = numpy.argsort(nodes, axis=-1)
    stands = order >= nodes.shape[-1] - marks
    g, v, q = (numpy.take_along_axis(a, order, axis=-1) for a in (nodes, u, squares))
    size, index = numpy.abs(v), numpy.broadcast_to(numpy.arange(g.shape[-1]), g.shape)
    # nodes on a kink are within rounding of 0, on either side: those beside them tell
    side = numpy.where(size > _ROUNDING * max(1.0, size.max()), numpy.sign(v), 0.0)
    before = numpy.maximum.accumulate(numpy.where(side == 0, 0, index), axis=-1)
    after = numpy.minimum.accumulate(numpy.where(side == 0, index[..., -1:], index)[..., ::-1], axis=-1)[..., ::-1]
    left, right = (numpy.take_along_axis(side, a, axis=-1) for a in (before[..., :-2], after[..., 2:]))
    dips = (left * right > 0) & (left * side[..., 1:-1] >= 0) & (numpy.abs(g[..., 1:-1]) < _MET)
    dips &= (size[..., 1:-1] <= size[..., :-2]) & (size[..., 1:-1] <= size[..., 2:])
    dips &= size[..., 1:-1] < numpy.maximum(size[..., :-2], size[..., 2:])
    # what lies between two nodes may be far below both
    at = numpy.where(dips, size[..., 1:-1], numpy.inf).argmin(axis=-1)[..., None]
    has = numpy.take_along_axis(dips, at, axis=-1)[..., 0]
    least, square, around, moving = _between(g, v, q, stands, at + 1)
    value = numpy.where(numpy.abs(least) <= _ZERO * around, 0.0, least)
    return numpy.where(has, value, numpy.nan), numpy.where(square > _STILL * moving, square, 0.0)


def _between(g: Array, v: Array, q: Array, stands: Any, at: Any) -> tuple[Array, Array, Array, Array]:
    """v and q where |v| is least next to a node, and the largest of both around.

    On a kink it is the node itself, and nodes beyond a kink are other functions.
    """
    last = g.shape[-1]
    index = numpy.broadcast_to(numpy.arange(last), g.shape)
    before = numpy.maximum.accumulate(numpy.where(stands, index, -1), axis=-1)
    after = numpy.minimum.accumulate(numpy.where(stands, index, last)[..., ::-1], axis=-1)[..., ::-1]
    on, low, high = (numpy.take_along_axis(a, at, axis=-1) for a in (stands, before, after))
    first = numpy.clip(numpy.clip(at + 1 - NEAR // 2, low + 1, numpy.maximum(high - NEAR, low + 1)), 0, last - NEAR)
    near_g, near_v, near_q = (numpy.take_along_axis(a, first + numpy.arange(NEAR), axis=-1) for a in (g, v, q))
    # never beyond the nodes that the polynomial runs through: there may be another function
    ends = tuple(
        numpy.clip(numpy.take_along_axis(g, at + step, axis=-1)[..., 0], near_g[..., 0], near_g[..., -1])
        for step in (-1, 1)
    )
    node, value, square = (numpy.take_along_axis(a, at, axis=-1)[..., 0] for a in (g, v, q))
    with numpy.errstate(all="ignore"):  # nodes that fall together are no polynomial: the node itself counts
        x = turn(near_g, near_v, (ends[0], ends[1]), node)
        along = numpy.moveaxis(near_g, -1, 0)
        v_there, q_there = (polynomial(differences(near_g, a), along, x)[0] for a in (near_v, near_q))
        smooth = ~on[..., 0] & (high - low > NEAR)[..., 0] & numpy.isfinite(v_there * q_there)
        # on the other side of 0 there are crossings, hidden between two nodes
        better = smooth & ((numpy.abs(v_there) <= numpy.abs(value)) | (v_there * near_v[..., 0] < 0))
    value = numpy.where(better, v_there, value)
    square = numpy.where(better, numpy.maximum(q_there, 0.0), square)
    return value, square, numpy.abs(near_v).max(axis=-1), near_q.max(axis=-1)
