"""Where two places change their order at which a variable is divided: what is integrated over its pieces bends there.

    ∫ step(y + |x|) clip(y, −1, 2) φ(y) dy   has a kink in x at |x| = 1,

for the places −|x| and −1 of y cross there: a piece of y has a length of |1 − |x||.  No function of x alone shows it,
and Gauss' rule converges only if x is divided there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import Field, aligned, union
from tplimits.numbers.expansion.newton import NEAR, zero_of
from tplimits.numbers.expansion.nodes import APART, OTHER, Variable

#: beyond this nothing weighs anything, and a place there is as good as none
_MET = 7.5
#: places this near to one another are one
_ONE = 1e-9
#: ends of a change this near to one another are a place, if not a smooth one
_NEAREST = 1e-6
#: a place where no neuron is, for what crosses nothing
NOWHERE = 30.0


def crossing(places: Sequence[Field], variables: Mapping[int, Variable]) -> tuple[int, Field] | None:
    """The variable to be divided where two places cross, and the place there; None where all crossings are marked."""
    for one, other in combinations(places, 2):
        dims = union(one, other)
        # of a second neuron's variables nothing is divided: they are those of the first
        if not dims or any(OTHER <= d < APART for d in dims):
            continue
        shape = [variables[d].nodes.shape[-1] for d in dims]
        pair = numpy.stack([numpy.broadcast_to(aligned(p, dims), shape) for p in (one, other)])
        found = _along_last(dims, pair, variables)
        if found is not None:
            return found
    return None


def _along_last(dims: tuple[int, ...], pair: Array, variables: Mapping[int, Variable]) -> tuple[int, Field] | None:
    """Where two places cross along the last variable that they depend on, or an earlier one if that is ±1."""
    last, rest = variables[dims[-1]], dims[:-1]
    if last.is_sign:
        sides = (_along_last(rest, pair[..., i], variables) for i in range(2)) if rest else ()
        return next((s for s in sides if s is not None), None)
    nodes = numpy.broadcast_to(aligned(Field(last.dims, last.nodes), dims), pair.shape[1:])
    first = nodes.shape[-1] - last.marks
    order = numpy.argsort(nodes[..., :first], axis=-1)
    g, a, b = (numpy.take_along_axis(v[..., :first], order, axis=-1) for v in (nodes, *pair))
    marks = nodes[..., first:, None]
    low, high, change = _changes(g, a, b)
    inside = ((marks >= low[..., None, :]) & (marks <= high[..., None, :])).any(axis=-2)
    change &= ~inside & (high - low > _NEAREST)
    here = change.any(axis=-1)
    if not here.any():
        return None
    at = change.argmax(axis=-1)[..., None]
    ends = tuple(numpy.take_along_axis(v, at, axis=-1)[..., 0] for v in (low, high))
    window = _window(g, marks[..., 0], (ends[0], ends[1]), at)
    near_g, near_v = (numpy.take_along_axis(v, window, axis=-1) for v in (g, a - b))
    with numpy.errstate(all="ignore"):  # in rows without a change nodes may coincide
        root, _ = zero_of(near_g, near_v)
        read = (ends[0] <= root) & (root <= ends[1])
    # what is no polynomial is divided in the middle first: nodes crowd there in the next pass
    place = numpy.where(here, numpy.where(read, root, (ends[0] + ends[1]) / 2), NOWHERE)
    return dims[-1], Field(rest, place)


def _changes(g: Array, a: Array, b: Array) -> tuple[Array, Array, NDArray[numpy.bool_]]:
    """For each node the nodes between which a − b changes its sign before it, and whether it does.

    Between them are nodes at most on which both agree.  A place that comes from beyond all neurons crosses nothing.
    """
    side = numpy.where(numpy.abs(a - b) > _ONE, numpy.sign(a - b), 0.0)
    side[(numpy.maximum(numpy.abs(a), numpy.abs(b)) > _MET) | (numpy.abs(g) > _MET)] = numpy.nan
    index = numpy.broadcast_to(numpy.arange(g.shape[-1]), g.shape)
    known = numpy.maximum.accumulate(numpy.where(side == 0, 0, index), axis=-1)
    before = numpy.concatenate([known[..., :1], known[..., :-1]], axis=-1)
    return numpy.take_along_axis(g, before, axis=-1), g, numpy.take_along_axis(side, before, axis=-1) * side < 0


def _window(g: Array, marks: Array, ends: tuple[Array, Array], at: NDArray[numpy.intp]) -> NDArray[numpy.intp]:
    """The indices of nodes about a change, on one side of all marks: beyond one places may be other functions."""
    low = numpy.where(marks <= ends[0][..., None], marks, -numpy.inf).max(axis=-1, initial=-numpy.inf)
    high = numpy.where(marks >= ends[1][..., None], marks, numpy.inf).min(axis=-1, initial=numpy.inf)
    start = (g < low[..., None]).sum(axis=-1)[..., None]
    stop = (g <= high[..., None]).sum(axis=-1)[..., None]
    first = numpy.clip(at - NEAR // 2, start, numpy.maximum(stop - NEAR, start))
    window: NDArray[numpy.intp] = numpy.clip(first, 0, g.shape[-1] - NEAR) + numpy.arange(NEAR)
    return window
