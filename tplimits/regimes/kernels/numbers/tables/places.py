"""Where index expressions of a recursion point: integers over running indices, and over inputs where data say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.program.nodes.entries import Lookup
from tplimits.regimes.kernels.derivation.leaves import Datum
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.tables.frames import Frame


def batch(side: int) -> str:
    """The label of the inputs of a side."""
    return f"input {side}"


def positions(frame: Frame, index: Expr) -> tuple[NDArray[numpy.intp] | int, tuple[str, ...]]:
    """An index expression as integers over what it depends on; −1 where there is no entry."""
    if index.is_Integer:
        return int(index), ()
    if isinstance(index, Lookup):
        read = gathered(frame, Labelled(frame.program.tables[index.table].values), index.indices, absent=-1)
        return read.array, read.labels
    if isinstance(index, Datum):
        side = frame.input[index.side]
        tokens = frame.tables.sides[side - 1].arrays[index.source].astype(numpy.intp)
        read = gathered(frame, Labelled(tokens, (batch(side),)), index.indices, absent=-1)
        return read.array, read.labels
    run: NDArray[numpy.intp] = numpy.arange(frame.size(index.name))
    return run, (str(index.name),)


def gathered(frame: Frame, value: Labelled, indices: Sequence[Expr], absent: float) -> Labelled:
    """An array at index expressions for its last dimensions; `absent` where an index says that there is no entry.

    The first dimensions, which have labels, are kept; others are the running indices and inputs of the indices.
    """
    found = [positions(frame, i) for i in indices]
    labels = tuple(dict.fromkeys((*value.labels, *(x for _, own in found for x in own))))
    front = [(numpy.arange(size), (x,)) for x, size in zip(value.labels, value.array.shape, strict=False)]
    places = [Labelled(numpy.asarray(p), own).at(labels) for p, own in (*front, *found)]
    picked = numpy.broadcast_to(value.array[tuple(places)], [_length(frame, x, value) for x in labels])
    for place in (p for p in places if p.min() < 0):
        picked = numpy.where(place < 0, value.array.dtype.type(absent), picked)
    return Labelled(picked, labels)


def _length(frame: Frame, label: str, value: Labelled) -> int:
    """The number of entries along a label: of an array, of a batch of inputs, of an axis."""
    if label in value.labels:
        return value.array.shape[value.labels.index(label)]
    inputs = {batch(side): side for side in frame.input.values()}
    return frame.tables.sides[inputs[label] - 1].many if label in inputs else frame.size(label)
