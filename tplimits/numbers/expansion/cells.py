"""What functions do between nodes: derivatives over the cells between them, beside derivatives at nodes.

A function that bends within less than the distance of nodes has a second derivative that no node may stand on, or one
node alone: its means are 0 then, or too large, and on every grid that is as coarse.  Between two nodes the mean of a
derivative is known all the same: it is the difference of what it is the derivative of, F′ of F and F″ of F′.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import Field, aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tplimits.numbers.expansion.nodes import Frame


#: derivatives over cells and at their ends that differ by this share are those of what bends in between
_APART = 0.3
#: and what is rounding, beside the function over a power of its argument
_ROUNDING = 1e-11
#: values of each other variable at which cells are looked at
_OTHERS = 9


def over_cells(frame: Frame, x: Field, found: Sequence[Field]) -> list[Field]:
    """F of a field x, and its derivatives, as means over the cells on either side of each node; `found` is at nodes."""
    place, last = _turning(frame, x)
    across, *values = (numpy.moveaxis(f.values, place, -1) for f in (x, *found))

    def at_nodes(between: Array, v: Array) -> Field:
        either = numpy.concatenate([between[..., :1], between, between[..., -1:]], axis=-1)
        # on a node that stands at a kink there is nothing to average
        means = numpy.concatenate([(either[..., 1:] + either[..., :-1]) / 2, v[..., last:]], axis=-1)
        return Field(x.dims, numpy.moveaxis(means, -1, place))

    between, _ = _between(across[..., :last], [v[..., :last] for v in values])
    return [at_nodes(b, v) for b, v in zip(between, values, strict=True)]


def bends(frame: Frame, x: Field, found: Sequence[Field]) -> bool:
    """Whether F of a field bends between nodes: F, F′ and F″ at nodes are `found`."""
    if not frame.divides or not x.dims:
        return False
    place, last = _turning(frame, x)

    def seen(one: Field) -> Array:
        """Along one variable, at some values of the others."""
        values = aligned(one, x.dims)
        step = [1 if i == place else math.ceil(size / _OTHERS) for i, size in enumerate(values.shape)]
        few = values[tuple(slice((s - 1) // 2, None, s) for s in step)]
        return numpy.moveaxis(few, place, -1)[..., :last]

    weights = numpy.ones(1)
    for v in map(frame.variables.__getitem__, x.dims):
        weights = weights * seen(Field(v.dims, v.weights))
    across, *values = map(seen, (x, *found))
    true, ends = _between(across, values)
    cells = (weights[..., 1:] + weights[..., :-1]) / 2
    least = _ROUNDING * float((numpy.abs(ends[0]) * cells).sum())
    for one, other in zip(true[1:], ends[1:], strict=True):
        least /= max(float((numpy.abs(across) * weights).sum()), 1e-300)
        off, *sizes = (float((numpy.abs(v) * cells).sum()) for v in (one - other, one, other))
        if off > max(_APART * max(sizes), least):
            return True
    return False


def _turning(frame: Frame, x: Field) -> tuple[int, int]:
    """The variable that a field turns most by, as its dimension, and how many of its nodes stand at no kink."""
    middle = [size // 2 for size in x.values.shape]
    turns = [numpy.diff(x.values[(*middle[:i], slice(None), *middle[i + 1 :])]) for i in range(len(middle))]
    place = int(numpy.argmax([numpy.abs(t).mean() for t in turns]))
    return place, x.values.shape[place] - frame.variables[x.dims[place]].marks


def _between(x: Array, values: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Means of F, F′ and F″ between nodes along the last dimension: true ones, and those of the two ends."""
    steps = numpy.diff(x)
    still = steps == 0
    ends = [(v[..., 1:] + v[..., :-1]) / 2 for v in values]
    rates = [numpy.diff(v) / numpy.where(still, 1.0, steps) for v in values[:-1]]
    return [ends[0], *(numpy.where(still, m, r) for m, r in zip(ends[1:], rates, strict=True))], ends
