"""Pairs of inputs that are so alike that what pools leave of their gaps has few digits, or none.

A pool subtracts what the places of either input differ among themselves: rounding of ε leaves a distance of √ε, which
the slope of a kinked function sees.  Of equal inputs the kernels are those of one with itself; single precision has
√ε = 3e-4, so that inputs that are near over a good part of their places are done in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.regimes.kernels.numbers.request import GramRequest, laid_out
from tplimits.regimes.kernels.numbers.tables.singular import blocks

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.evaluation import Planned
    from tplimits.regimes.kernels.numbers.inputs import Inputs

Mask = NDArray[numpy.bool_]
#: rows at most that single precision is tried at, one of so many
_SAMPLE, _SAMPLED = 4, 128
#: share of the squared lengths below which the data of a place are near; share of places from which on it counts
_NEAR, _MANY = 1e-4, 0.125


def equal_inputs(one: Inputs, other: Inputs) -> Mask:
    """Which pairs have the same data, bit for bit."""
    mine, theirs = (_contents(side) for side in (one, other))
    known: dict[bytes, list[int]] = {}
    for j, content in enumerate(theirs):
        # bytes of all data as keys: comparing every pair would be quadratic in long arrays
        known.setdefault(content, []).append(j)
    found = numpy.zeros((one.many, other.many), bool)
    for i, content in enumerate(mine):
        found[i, known.get(content, [])] = True
    return found


def _contents(inputs: Inputs) -> list[bytes]:
    arrays = [numpy.ascontiguousarray(inputs.arrays[k]) for k in sorted(inputs.arrays)]
    return [b"".join(a[k].tobytes() for a in arrays) for k in range(inputs.many)]


def near_inputs(one: Inputs, other: Inputs) -> Mask:
    """Which pairs are near each other at many places."""
    found = numpy.ones((one.many, other.many), bool)
    for source, array in one.arrays.items():
        found &= _near(array, other.arrays[source])
    return found


def _near(one: NDArray[Any], other: NDArray[Any]) -> Mask:
    """By the last axis as the places, and by features before it."""
    # tokens have no distance: equal or not
    if one.dtype.kind != "f" or one.ndim < 2:
        return numpy.all(one.reshape(len(one), -1)[:, None] == other.reshape(len(other), -1)[None], axis=-1)
    x, y = (a.reshape(len(a), -1, a.shape[-1]).astype(numpy.float32) for a in (one, other))
    lengths = (y**2).sum(axis=1)
    found = numpy.zeros((len(x), len(y)), bool)
    for i, row in enumerate(x):
        both = lengths + (row**2).sum(axis=0)
        apart = ((y - row) ** 2).sum(axis=1)
        found[i] = ((apart <= _NEAR * both) & (both > 0)).mean(axis=1) >= _MANY
    return found


def mended(
    planned: Planned, piece: tuple[GramRequest, slice, slice], values: list[Array], alike: Mask | None
) -> list[Array]:
    """Kernels of a tile with pairs that are alike in double precision, and equal inputs as one with itself."""
    part, rows, columns = piece
    same = equal_inputs(part.one, part.other)
    if part.symmetric:  # the diagonal is known
        same = numpy.triu(same, 1)
        alike = None if alike is None else numpy.triu(alike, 1)
    near = numpy.zeros_like(same) if alike is None else alike & ~same
    if not (same.any() or near.any()):
        return values
    values, owns = [numpy.array(v) for v in values], planned.owns_of(rows, columns, False)
    for i, j in blocks(near):
        one, other = part.one.some(i), part.other.some(j)
        found, _ = planned.plan.run(one, other, {1: owns[1].some(i), 2: owns[2].some(j)})
        some = replace(part, one=one, other=other, symmetric=False)
        for value, better in zip(values, found, strict=True):
            value[numpy.ix_(i, j)] = laid_out(some, better)
    i, j = numpy.nonzero(same & ~owns[1].near[:, None])
    if len(i):
        for value, own in zip(values, planned.own(part, owns[1]), strict=True):
            value[i, j] = own[i]
    return values


def rounding(planned: Planned, part: GramRequest, columns: slice, values: Sequence[Array]) -> float:
    """What single precision costs: the largest difference to doubles in some rows, with the pair most alike."""
    many = part.one.many, part.other.many
    first = values[0].reshape(*many, -1)[:, :, 0]
    row, _ = numpy.unravel_index(numpy.argmax(numpy.triu(first, 1) if part.symmetric else first), many)
    others = numpy.random.default_rng(many).permutation(many[0])[: many[0] // _SAMPLED]
    rows = numpy.union1d(others[: _SAMPLE - 1], [row])
    owns = {1: planned.owns[1].some(slice(0, many[0])), 2: planned.owns[2].some(columns)}
    exact = planned.plan.run_rows(part.one, part.other, owns, rows)
    kept = (rows[:, None] < numpy.arange(many[1])) if part.symmetric else numpy.ones((len(rows), many[1]), bool)
    some = replace(part, one=part.one.some(rows))
    differences = (abs(laid_out(some, e) - v[rows])[kept] for e, v in zip(exact, values, strict=True))
    return float(max((d.max(initial=0.0) for d in differences), default=0.0))
