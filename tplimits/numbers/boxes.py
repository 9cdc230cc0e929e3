"""Means over boxes: y_α = mean over β1..βr of ψ(x_α; x_β1; …; x_βr).

Particles that lie a distance apart are a stretch of an array beside another one, so that a body is evaluated on whole
stretches at many distances, a piece at a time that stays in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sympy import Expr

from tplimits.arrays import Array
from tplimits.program.nodes.evaluate import evaluate

#: particles of a stretch, and entries of an array that are looked at together
_STRETCH, _TOGETHER = 4096, 1 << 15
#: threads, each with stretches of its own: numbers do not depend on them
_THREADS = 2


def slot_offsets(size: int, slots: int, most: int, rng: numpy.random.Generator) -> NDArray[numpy.int64]:
    """Which neurons are averaged, as offsets from α: all of them for one slot, a random sample beyond.

    The mean over a sample of K offset tuples is unbiased; no tuple repeats an index of its own row.
    """
    if slots == 1 and size <= most:
        return numpy.arange(size, dtype=numpy.int64)[:, None]
    # offset 0 would be the neuron itself
    first = rng.permutation(size - 1)[: min(most, size - 1)] + 1
    columns = [first]
    for _ in range(slots - 1):
        columns.append(rng.permutation(size - 1)[: len(first)] + 1)
    offsets = numpy.stack(columns, axis=1).astype(numpy.int64)
    distinct = numpy.array([len(set(row)) == slots for row in offsets.tolist()])
    return offsets[distinct]


def mean_over_slots(
    body: Expr,
    own: Mapping[Expr, Array],
    slots: Sequence[Mapping[Expr, Array]],
    known: Mapping[Expr, float],
    offsets: NDArray[numpy.int64],
    skip_self: bool,
    size: int,
) -> Array:
    """y_α for α = 0 … size − 1: of what a body reads, arrays of its own neuron and of each box, and numbers."""
    apart = offsets[offsets[:, 0] != 0] if skip_self else offsets
    # the neurons of a box are counted round, so that those beyond the last one are the first ones again
    round_ = [{leaf: numpy.tile(x, -(-2 * size // len(x))) for leaf, x in group.items()} for group in slots]

    def stretch(start: int) -> Array:
        wide = min(_STRETCH, size - start)
        read = {**known, **{leaf: x[start : start + wide] for leaf, x in own.items()}}
        boxes = [{leaf: sliding_window_view(x, wide)[start:] for leaf, x in group.items()} for group in round_]
        total, many = numpy.zeros(wide), max(1, _TOGETHER // wide)
        with numpy.errstate(all="ignore"):
            for first in range(0, len(apart), many):
                some = apart[first : first + many]
                for box, at in zip(boxes, some.T, strict=True):
                    read.update({leaf: windows[at] for leaf, windows in box.items()})
                total += numpy.broadcast_to(evaluate(body, read), (len(some), wide)).sum(axis=0)
            return total / len(apart)

    with ThreadPoolExecutor(_THREADS) as pool:
        return numpy.concatenate(list(pool.map(stretch, range(0, size, _STRETCH))))
