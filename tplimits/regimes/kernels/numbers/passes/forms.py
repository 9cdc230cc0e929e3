"""What passes over the entries of tables are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

#: loop dimensions of an array's dimensions
Dims = tuple[int, ...]


class NotNested(Exception):
    """The tape has steps between its passes that are done on whole arrays."""


@dataclass(frozen=True, eq=False)
class Picks:
    """Places along one dimension of an array: (taps, entries) over some dimensions of the loop, −1 for none."""

    places: NDArray[numpy.int64]
    dims: Dims


@dataclass(frozen=True, eq=False)
class Gather:
    """Σ over taps of the entries of an array: each of its dimensions is one of the loop, or picked."""

    operand: int
    at: tuple[int | Picks, ...]
    taps: int
    #: variances of either side: a tap that is outside on one side counts half of the other's
    outside: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Reduction:
    """Σ over further dimensions of a product of arrays."""

    factors: tuple[tuple[int, Dims], ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pass:
    """What is computed together: names of what is read, formulas, results (step, text)."""

    sizes: tuple[int, ...]
    reads: Mapping[tuple[int, Dims], str]
    gathers: Mapping[str, Gather]
    reductions: Mapping[str, Reduction]
    assignments: tuple[tuple[str, str], ...]
    results: tuple[tuple[int, str], ...]
    flags: tuple[str, ...]


def read_by(one: Pass) -> Iterator[int]:
    """The arrays that a pass reads."""
    yield from (n for n, _ in one.reads)
    yield from (g.operand for g in one.gathers.values())
    yield from (n for r in one.reductions.values() for n, _ in r.factors)


def work(one: Pass) -> int:
    """Its operations, roughly: sums, and one for each formula."""
    sums = sum(g.taps for g in one.gathers.values()) + sum(math.prod(r.sizes) for r in one.reductions.values())
    return math.prod(one.sizes) * (sums + len(one.assignments))
