"""Kinks that rows of nodes pass by: crossed by the last variable only in a narrow band of an earlier one.

    step(x) step(−x − z/1000): in x < 9/1000 alone the place −1000 x of the second kink is within reach of z

The argument has one sign on nearly every row of z, and the other one on the next row.  The earlier variable is divided
where the band begins and ends, so that it has nodes of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from tplimits.numbers.expansion.fields import Field, constant
from tplimits.numbers.expansion.nodes import APART, OTHER, Split

if TYPE_CHECKING:
    from tplimits.numbers.expansion.nodes import Frame

#: between marks a band has this many nodes of the earlier variable at least; narrower ones than this are rounding
_FEW, _ROUNDING = 8, 1e-9
#: a place is known to this share of the band
_SAME = 1e-2


def divide_bands(frame: Frame, u: Field) -> None:
    """Split where the zeros of u, for all values of its last variable, lie between few nodes of the earlier one."""
    if len(u.dims) != 2 or any(d >= OTHER for d in u.dims) != all(OTHER <= d < APART for d in u.dims):
        return
    first, last = (frame.variables[d] for d in u.dims)
    if first.parents or first.is_sign or last.is_sign:
        return
    rows, columns = (n - v.marks for n, v in zip(u.values.shape, (first, last), strict=True))
    nodes, values = first.nodes[:rows], u.values[:rows, :columns]
    up = values > 0
    changes = up[1:] != up[:-1]
    # one place for each value of the last variable
    if not (changes.sum(axis=0) == 1).all():
        return
    at, column = changes.argmax(axis=0), numpy.arange(columns)
    low, high = values[at, column], values[at + 1, column]
    places = nodes[at] - low * (nodes[at + 1] - nodes[at]) / (high - low)
    ends = float(places.min()), float(places.max())
    width, marks = ends[1] - ends[0], first.nodes[rows:]
    edges = numpy.array(sorted([*ends, *(m for m in marks if ends[0] < m < ends[1])]))
    pieces = numpy.diff(edges) > _SAME * width
    if width < _ROUNDING or (numpy.histogram(nodes, edges)[0][pieces] >= _FEW).all():
        return
    for end in ends:
        if not (numpy.abs(marks - end) <= _SAME * width).any():
            raise Split(first.number - OTHER if first.number >= OTHER else first.number, constant(end))
