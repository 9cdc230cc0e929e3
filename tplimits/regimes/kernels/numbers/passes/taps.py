"""Sums over taps as compiled loops: Σ_t x[m, S(t, i), T(t, j)], by flat shifts where T keeps a grid.

Where T moves every place of a grid W columns wide by (a_t, b_t), a row of the table is one flat vector.  Taps with the
same b are added first, shifted by a·W; what columns of that sum reads beyond an edge is set to zero, and the sum is
added shifted by b.  Nothing is copied, and no loop has a condition.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy
from numpy.typing import NDArray

from tplimits.numbers.jit import njit
from tplimits.regimes.kernels.numbers.passes import buffers
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled
from tplimits.regimes.kernels.numbers.tables.shifts import Read, after, moved, summed_entries

Places = NDArray[numpy.int64]
_LOOP: Any = njit(parallel=True, error_model="numpy")


def summed_by_loops(values: list[Labelled], reads: tuple[Read, ...]) -> Labelled:
    """What `summed_entries` gives, by compiled loops."""
    (value,) = values
    names, labels = [r.label for r in reads], after(value, reads)
    if len(reads) > 2:
        return summed_entries(values, reads)
    if len(reads) == 1 and value.labels[-1] != names[0]:
        return _in_the_middle(value, reads[0], labels)
    array = value.at([*(x for x in value.labels if x not in names), *names])
    many = array.ndim - len(reads)
    last = reads[-1].flat
    first = reads[0].flat if len(reads) == 2 else numpy.zeros((len(last), 1), numpy.int64)
    flat = numpy.ascontiguousarray(array).reshape(-1, array.shape[many] if len(reads) == 2 else 1, array.shape[-1])
    out = buffers.empty((len(flat), first.shape[1], last.shape[1]), flat.dtype)
    moves = moved(last, array.shape[-1])
    if moves is None:
        _gathered(flat, out, _integers(first), _integers(last))
    else:
        order, down, across, width = moves
        _shifted(flat, out, numpy.ascontiguousarray(_integers(first)[order]), down, across, width)
    return Labelled(out.reshape(*array.shape[:many], *(s for r in reads for s in r.sizes)), labels)


def _integers(places: NDArray[numpy.intp]) -> Places:
    return numpy.ascontiguousarray(places, dtype=numpy.int64)


def _in_the_middle(value: Labelled, read: Read, labels: tuple[str, ...]) -> Labelled:
    """Whole rows behind an index are added."""
    k, shape = value.labels.index(read.label), value.array.shape
    array = numpy.ascontiguousarray(value.array).reshape(math.prod(shape[:k]), shape[k], math.prod(shape[k + 1 :]))
    out = buffers.empty((len(array), read.flat.shape[1], array.shape[2]), array.dtype)
    _rows(array, out, _integers(read.flat))
    order = (*value.labels[:k], *read.labels, *value.labels[k + 1 :])
    return Labelled(Labelled(out.reshape(*shape[:k], *read.sizes, *shape[k + 1 :]), order).at(labels), labels)


@_LOOP
def _shifted(array: Any, out: Any, places: Any, down: Any, across: Any, width: int) -> None:
    rows, size = out.shape[1], array.shape[2]
    for r in numba.prange(array.shape[0] * rows):
        m, i = r // rows, r % rows
        line = numpy.empty(size, array.dtype)
        out[m, i] = 0
        t = 0
        while t < len(across):
            b, some = across[t], False
            line[:] = 0
            while t < len(across) and across[t] == b:
                k = places[t, i]
                if k >= 0:
                    shift, some = down[t] * width, True
                    low, high = max(0, -shift), size - max(0, shift)
                    _add(line[low:high], array[m, k, low + shift : high + shift])
                t += 1
            if some:
                edge = 0 if b > 0 else width + b
                for c in range(abs(b)):
                    for y in range(size // width):
                        line[y * width + edge + c] = 0
                low, high = max(0, -b), size - max(0, b)
                _add(out[m, i, low:high], line[low + b : high + b])


@_LOOP
def _gathered(array: Any, out: Any, places: Any, others: Any) -> None:
    rows = out.shape[1]
    for r in numba.prange(array.shape[0] * rows):
        m, i = r // rows, r % rows
        out[m, i] = 0
        for t in range(len(others)):
            k = places[t, i]
            if k >= 0:
                for j in range(out.shape[2]):
                    if others[t, j] >= 0:
                        out[m, i, j] += array[m, k, others[t, j]]


@_LOOP
def _rows(array: Any, out: Any, places: Any) -> None:
    rows = out.shape[1]
    for r in numba.prange(array.shape[0] * rows):
        m, i = r // rows, r % rows
        out[m, i] = 0
        for t in range(places.shape[0]):
            if places[t, i] >= 0:
                _add(out[m, i], array[m, places[t, i]])


@njit(error_model="numpy")
def _add(total: Any, more: Any) -> None:
    """In a function of its own: slices from 0 have no tests for wrapped indices, and the loop is vectorised."""
    for e in range(len(total)):
        total[e] += more[e]
