"""Pairs with a nearly singular law of a kinked function: found in double precision, done again in extended precision.

A rounding error e in 1 − ρ² costs an angle √e.  Pairs whose data is the same are exactly singular; their determinants
are rounding and count as zero.  On machines whose `numpy.longdouble` is a double nothing is gained: 1e-8 remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.regimes.kernels.derivation.leaves import SECOND, plain_axis
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, mapped
from tplimits.regimes.kernels.numbers.tables.places import batch

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.numbers.inputs import Inputs

#: a determinant below this share of c11·c22 has lost the digits that an angle needs
NEARLY = 1e-8

Flags = NDArray[numpy.bool_]


def flagged(covariances: Sequence[Any], same: Labelled | None = None) -> Any:
    """Where a law (c11, c12, c22) is nearly singular, but not where places are the `same`."""
    return mapped(nearly_singular, [*covariances, *([] if same is None else [same])])


def nearly_singular(a: Any, c: Any, b: Any, same: Any = 0.0) -> Flags:
    """Whether a law has lost the digits of its determinant; never where `same` is 1."""
    with numpy.errstate(all="ignore"):
        found: Flags = a * b - c * c + same * a * b < NEARLY * a * b
    return found


def equal_places(program: Program, inputs: Inputs, labels: Sequence[str]) -> Labelled | None:
    """1 where the running indices of both sides are the same place of one input; None if they do not match."""
    matched = _matched(program, [x for x in labels if not x.startswith("input ")])
    if not matched or not matched[0]:
        return None
    found = numpy.ones(())
    for root in (_root(program, x) for x in matched[0]):
        found = numpy.multiply.outer(found, numpy.eye(inputs.sizes[root]))
    return Labelled(found, tuple(x for pair in zip(*matched, strict=True) for x in pair))


def _matched(program: Program, axes: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Running indices of either side, of the same axes in the same order."""
    sides = [
        sorted((x for x in axes if (SECOND in x) is mark), key=lambda x: _root(program, x)) for mark in (False, True)
    ]
    roots = [[_root(program, x) for x in side] for side in sides]
    return None if roots[0] != roots[1] or len(set(roots[0])) < len(roots[0]) else (sides[0], sides[1])


def _root(program: Program, label: str) -> str:
    return program.root_axis(plain_axis(label))


def same_data(
    program: Program, sides: tuple[Inputs, Inputs], batch: tuple[str, str], labels: Sequence[str]
) -> Labelled | None:
    """Where two inputs have the same data at the running indices of a table; None if the indices do not match."""
    matched = _matched(program, [x for x in labels if x not in batch])
    if matched is None:
        return None
    first, second = matched
    roots = [_root(program, x) for x in first]
    rows = [_places(program, s, roots) for s in sides]
    _, numbers = numpy.unique(numpy.concatenate(rows), axis=0, return_inverse=True)
    split = len(rows[0])
    shapes = [(s.many, *(s.sizes[r] for r in roots)) for s in sides]
    one, other = numbers.ravel()[:split].reshape(shapes[0]), numbers.ravel()[split:].reshape(shapes[1])
    same = mapped(numpy.equal, [Labelled(one, (batch[0], *first)), Labelled(other, (batch[1], *second))])
    beyond = tuple(k for k, x in enumerate(same.labels) if x not in labels)  # inputs the law does not depend on
    return Labelled(numpy.asarray(same.array.all(axis=beyond)), tuple(x for x in same.labels if x in labels))


def _places(program: Program, inputs: Inputs, roots: Sequence[str]) -> NDArray[numpy.float64]:
    """All data of an input at a place of some axes, (inputs × places, entries)."""
    sizes = [inputs.sizes[r] for r in roots]
    columns = []
    for source, array in inputs.arrays.items():
        mine = [program.root_axis(a) for a in program[source].axes]
        front = [mine.index(r) + 1 for r in roots if r in mine]
        rest = [k for k in range(1, array.ndim) if k not in front]
        shape = [inputs.many, *(s if r in mine else 1 for r, s in zip(roots, sizes, strict=True))]
        placed = array.transpose((0, *front, *rest)).reshape((*shape, -1))
        columns.append(numpy.broadcast_to(placed, (inputs.many, *sizes, placed.shape[-1])))
    return numpy.concatenate(columns, axis=-1).reshape((-1, sum(c.shape[-1] for c in columns)))


def suspicious(program: Any, sides: Sequence[Inputs], places: Mapping[int, int], found: Labelled) -> list[Labelled]:
    """Where a moment has a nearly singular law, but not at the same data; `found` are its flags."""
    if not found.labels or not found.array.any():  # constants are exactly what they are
        return []
    left, right = places[1], places[2]
    same = same_data(program, (sides[left - 1], sides[right - 1]), (batch(left), batch(right)), found.labels)
    if same is not None:
        found = Labelled(found.array & ~same.at(found.labels), found.labels)
    return [found] if found.array.any() else []


def suspects(found: Sequence[Labelled], many: tuple[int, int]) -> Flags:
    """The pairs of inputs (N1, N2) whose kernels use one of the flagged laws."""
    pairs = numpy.zeros(many, dtype=numpy.bool_)
    for flags in found:
        inner = tuple(k for k, x in enumerate(flags.labels) if not x.startswith("input "))
        batch = tuple(x for x in flags.labels if x.startswith("input "))
        pairs |= Labelled(numpy.asarray(flags.array.any(axis=inner)), batch).at(("input 1", "input 2"))
    return pairs


def blocks(pairs: Flags) -> Iterator[tuple[NDArray[numpy.intp], NDArray[numpy.intp]]]:
    """Rows with the same columns, and these columns."""
    patterns, place = numpy.unique(pairs, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if pattern.any():
            yield numpy.flatnonzero(place.ravel() == number), numpy.flatnonzero(pattern)
