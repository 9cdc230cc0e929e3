"""Where a function of several variables does not depend on the last of them: its kinks lie along that variable there.

    E δ(relu(y) − x) = ∫_{y > 0} φ(y) φ(x = y) dy + P(y < 0) φ(x = 0)

Zeros in y alone see the first part.  On a plateau the function is one of the other variables, and crosses 0 in these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from tplimits.numbers.expansion.fields import Field, aligned

if TYPE_CHECKING:
    from tplimits.numbers.expansion.nodes import Frame

Mask = NDArray[numpy.bool_]
#: what moves by less than this does not move, and a share of neurons that may as well be none
_SAME, _RARE = 1e-12, 1e-8


def flat_nodes(frame: Frame, u: Field) -> Mask:
    """The nodes beside which u stays the same as its last variable moves; none where they weigh next to nothing."""
    flat: Mask = numpy.zeros(u.values.shape, dtype=bool)
    if len(u.dims) < 2:
        return flat
    last = frame.variables[u.dims[-1]]
    nodes = numpy.broadcast_to(aligned(Field(last.dims, last.nodes), u.dims), u.values.shape)
    order = numpy.argsort(nodes, axis=-1)
    g, v = (numpy.take_along_axis(a, order, axis=-1) for a in (nodes, u.values))
    # places that fall together have nodes that do
    same = (numpy.abs(numpy.diff(v)) <= _SAME * max(1.0, u.size)) & (numpy.diff(g) > _RARE)
    end = numpy.zeros((*same.shape[:-1], 1), dtype=bool)
    numpy.put_along_axis(flat, order, numpy.append(same, end, -1) | numpy.append(end, same, -1), axis=-1)
    whole = numpy.broadcast_to(flat, [frame.variables[d].nodes.shape[-1] for d in u.dims])
    share = frame.expectation(Field(u.dims, whole.astype(numpy.float64)))
    return flat if share > _RARE else numpy.zeros_like(flat)


def plateaus(u: Field, flat: Mask) -> Iterator[tuple[Field, Field]]:
    """What u is on each plateau that crosses 0, a function of all variables but the last, and 1 where it is that."""
    rows, values = flat.reshape(-1, flat.shape[-1]), u.values.reshape(-1, flat.shape[-1])
    left = rows.any(axis=0)
    while left.any():
        # one of the nodes that are level most often, and all that have its values wherever both are level
        chosen = int(numpy.where(left, rows.sum(axis=0), -1).argmax())
        off = numpy.abs(values - values[:, [chosen]]) > _SAME * max(1.0, u.size)
        alike = left & ~(off & rows & rows[:, [chosen]]).any(axis=0)
        left &= ~alike
        level = values[:, chosen][rows[:, alike].any(axis=-1)]
        if (level > 0).any() and (level < 0).any():
            yield Field(u.dims[:-1], u.values[..., chosen]), Field(u.dims, (flat & alike).astype(numpy.float64))
