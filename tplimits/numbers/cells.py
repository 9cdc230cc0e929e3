"""Adaptive integration in one and two standard normal coordinates, for integrands with narrow peaks.

Between two cuts a coordinate is u = low + (high − low) φ(s) with the graded φ of `cut_grid`, so that roots and
logarithms at a cut are met too; boxes of the coordinates s are halved where the rule and the coarser rule inside
it disagree, along the axis along which they disagree most.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy
from numpy.typing import NDArray

from tplimits.arrays import distinct_rows
from tplimits.errors import EvaluationError
from tplimits.numbers.cut_grid import grading, off_the_edges
from tplimits.numbers.frame import Array
from tplimits.program.nodes.rules import density

if TYPE_CHECKING:
    from tplimits.numbers.cuts import Cutting

#: pieces of a coordinate at the start, by level: two levels share no nodes, so that their difference is an error
_PANELS = (4, 5, 7, 9, 11)
#: nodes of the rule along each axis, by dimension; every second one makes the coarser rule
_NODES = {1: 31, 2: 15}
#: asked of an integral, relative to that of the absolute value, by dimension
_ENOUGH = {1: 2e-14, 2: 1e-11}
#: boxes halved at once, rounds of halving, evaluations in all, and the smallest box
_BATCH, _ROUNDS, _MOST, _SMALLEST = 512, 200, 4_000_000, 2.0**-40

#: beyond this part of the radius a node is outermost
FAR = 0.95
#: nodes nearer to a cut than this, relative to the place of the cut, are rounded too coarsely
_CLEAR = 1e-12
#: how far from where it should be a node near a cut may stand, in units of rounding of the cut
_MISPLACED = 4
#: an error left in the smallest boxes, relative, that means divergence
_DIVERGENT = 1e-3

#: f · (what stands under the Gaussian law) at nodes (1, count, rank)
Integrated = Callable[[Array], Array]


@lru_cache(maxsize=4)
def _fejer(count: int) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1] of Fejér's second rule: no ends, and the rule of (count − 1)/2 nodes inside it."""
    n = count + 1
    angle = math.pi * numpy.arange(1, n) / n
    j = numpy.arange(1, n // 2 + 1)
    weights = 4 * numpy.sin(angle) / n * (numpy.sin(numpy.outer(angle, 2 * j - 1)) / (2 * j - 1)).sum(axis=1)
    return (1 - numpy.cos(angle)) / 2, weights / 2


@lru_cache(maxsize=4)
def _coarse(count: int) -> Array:
    """The weights of the coarser rule, zero at the nodes it leaves out."""
    weights = numpy.zeros(count)
    weights[1::2] = _fejer((count - 1) // 2)[1]
    return weights


@dataclass
class _Rows:
    """Arrays with one row a box."""

    def chosen(self, which: NDArray[numpy.bool_]) -> Self:
        """Some of the rows."""
        return type(self)(*(getattr(self, f.name)[which] for f in fields(self)))

    def joined(self, other: Self) -> Self:
        """The rows of both."""
        return type(self)(*(numpy.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


@dataclass
class _Boxes(_Rows):
    """Boxes [low, high] of the coordinates s, each in one piece of every coordinate u."""

    piece: NDArray[numpy.int64]  # (boxes, rank)
    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.low)

    def halved(self, axis: NDArray[numpy.int64]) -> _Boxes:
        """Every box cut in two across its axis."""
        rows = numpy.arange(len(self))
        left_high, right_low = self.high.copy(), self.low.copy()
        left_high[rows, axis] = right_low[rows, axis] = (self.low[rows, axis] + self.high[rows, axis]) / 2
        return _Boxes(
            numpy.concatenate([self.piece, self.piece]),
            numpy.concatenate([self.low, right_low]),
            numpy.concatenate([left_high, self.high]),
        )


@dataclass
class _Measured(_Rows):
    """Integrals over boxes: value, that of the absolute value, its part at the outermost nodes and what of it rounding
    moves, disagreement along each axis and whether the box lies at a cut there, whether doubles still tell the nodes
    from the cut."""

    value: Array
    size: Array
    far: Array
    blurred: Array
    doubt: Array  # (boxes, rank)
    at_cut: NDArray[numpy.bool_]  # (boxes, rank)
    resolved: NDArray[numpy.bool_]

    @property
    def error(self) -> Array:
        """The disagreement, sharpened where the rules already nearly agree (as in QUADPACK).

        At a cut it is not: rules for roots and logarithms agree there as slowly as they converge.
        """
        with numpy.errstate(divide="ignore", invalid="ignore"):
            size = self.size[:, None]
            share = numpy.where(size > 0, 200 * self.doubt / size, 0.0)
            sharpened = numpy.where(share < 1, self.doubt * numpy.sqrt(share), self.doubt)
        return numpy.asarray(numpy.where(self.at_cut, self.doubt, sharpened).max(axis=1))


class _Rule:
    """The product rule on boxes."""

    def __init__(self, cutting: Cutting, f: Integrated, spend: Callable[[int], None]) -> None:
        self.cutting, self.f, self.rank, self._spend = cutting, f, cutting.rank, spend
        self.count = _NODES[self.rank]
        self.evaluations = 0

    def pieces(self) -> list[int]:
        """The largest number of pieces of each coordinate."""
        counts, nodes = [], numpy.zeros((1, 1, 0))
        for k in range(self.rank):
            counts.append(self.cutting.edges(k, nodes).shape[-1] - 1)
            line = numpy.linspace(-self.cutting.radius, self.cutting.radius, 321)
            nodes = line.reshape(1, -1, 1)
        return counts

    def measured(self, boxes: _Boxes) -> _Measured:
        """Integrals over the boxes."""
        s, w = _fejer(self.count)
        n, coarse = len(boxes), _coarse(self.count)
        u = numpy.zeros((1, n, 0))
        weight, blur = numpy.ones(n), numpy.zeros(n)
        outer, resolved = numpy.zeros(n, dtype=bool), numpy.ones(n, dtype=bool)
        for k in range(self.rank):
            place, speed, clear, share = self._along(boxes, k, u, s)
            resolved &= clear.reshape(n, -1).any(axis=1)
            wide = numpy.broadcast_to(u[0][:, None, :], (*place.shape, k))
            u = numpy.concatenate([wide, place[..., None]], axis=-1).reshape(1, -1, k + 1)
            weight = (weight[:, None] * speed).reshape(-1)
            blur = numpy.maximum(blur[:, None], share).reshape(-1)
            outer = (outer[:, None] | (abs(place) > FAR * self.cutting.radius)).reshape(-1)
        self.evaluations += weight.size
        self._spend(weight.size)
        f = self.f(u)[0] * weight
        # a node that rounding moves onto the cut is none: what it stands for is as small as its distance
        f[(blur > 0) & ~numpy.isfinite(f)] = 0.0
        f = f.reshape(n, *[self.count] * self.rank)
        fine = [_contract(f, [w] * self.rank)]
        rough = [_contract(f, [coarse if i == k else w for i in range(self.rank)]) for k in range(self.rank)]
        doubt = numpy.stack([abs(fine[0] - r) for r in rough], axis=1)
        # a node at a pole: the box is halved until it is small or divergence shows
        doubt[~numpy.isfinite(doubt)] = numpy.inf
        size = abs(f)
        far, blurred = (_shared(size, part.reshape(f.shape), w) for part in (outer, blur))
        at_cut = (boxes.low == 0) | (boxes.high == 1)
        return _Measured(fine[0], _contract(size, [w] * self.rank), far, blurred, doubt, at_cut, resolved)

    def _along(self, boxes: _Boxes, k: int, u: Array, s: Array) -> tuple[Array, Array, Array, Array]:
        """Nodes (earlier nodes, count) of coordinate k, the factors of their weights, which are clear of cuts, and by
        which share of their distance from a cut rounding moves the others."""
        repeats = u.shape[1] // len(boxes)
        edges = self._edges(k, u)
        piece = numpy.minimum(numpy.repeat(boxes.piece[:, k], repeats), edges.shape[-1] - 2)
        rows = numpy.arange(u.shape[1])
        start, end = edges[rows, piece][:, None], edges[rows, piece + 1][:, None]
        low, high = (numpy.repeat(side[:, k], repeats)[:, None] for side in (boxes.low, boxes.high))
        along = low + (high - low) * s
        # 1 − φ(s) = φ(1 − s): near the far end the distance would cancel
        place, speed = grading(numpy.minimum(along, 1 - along))  # from the nearer end, to keep its digits
        reach, near = (end - start) * place, along < 0.5
        scale = self.cutting.scale(k, u)[0][:, None]
        there = off_the_edges(numpy.where(near, start + reach, end - reach), start, end, scale)
        cut = numpy.maximum(numpy.where(near, abs(start), abs(end)), scale)
        clear, share = reach > _CLEAR * cut, numpy.zeros(cut.shape)
        if not clear.all():
            misplaced = _MISPLACED * numpy.spacing(cut[~clear])
            share[~clear] = misplaced / numpy.maximum(reach[~clear], misplaced)
        lost = numpy.repeat(boxes.piece[:, k], repeats)[:, None] > edges.shape[-1] - 2
        factor = speed * (high - low) * (end - start) * density(there)
        return there, numpy.where(lost, 0.0, factor), clear, share

    def _edges(self, k: int, u: Array) -> Array:
        """The edges at nodes (1, count, k); curved ones, which have to be found, once for equal nodes."""
        if k == 0 or not self.cutting.curved:
            return self.cutting.edges(k, u)[0]
        distinct, place = distinct_rows(u[0])
        return self.cutting.edges(k, distinct[None])[0][place]


def _contract(f: Array, weights: list[Array]) -> Array:
    for w in reversed(weights):
        f = f @ w
    return f


def _shared(size: Array, share: Array, w: Array) -> Array:
    """Integrals of a share of the size, which is zero at most nodes and in most boxes."""
    found, some = numpy.zeros(len(size)), share.reshape(len(size), -1).any(axis=1)
    part = numpy.zeros((some.sum(), *size.shape[1:]))
    numpy.multiply(size[some], share[some], out=part, where=share[some] > 0)
    found[some] = _contract(part, [w] * (size.ndim - 1))
    return found


def _start(pieces: list[int], panels: int) -> _Boxes:
    """Every piece of every coordinate in equal panels."""
    edges = numpy.linspace(0, 1, panels + 1)
    sides = list(itertools.product(*[list(itertools.product(range(p), range(panels))) for p in pieces]))
    piece = numpy.array([[p for p, _ in side] for side in sides])
    panel = numpy.array([[q for _, q in side] for side in sides])
    return _Boxes(piece, edges[panel], edges[panel + 1])


def adaptive(
    cutting: Cutting, f: Integrated, level: int, spend: Callable[[int], None]
) -> tuple[float, float, float, float]:
    """(E f, what the halving could not settle and what rounding moves, E|f|, its part at the outermost nodes).

    `spend` is told the evaluations as they are made.
    """
    rule = _Rule(cutting, f, spend)
    boxes = _start(rule.pieces(), _PANELS[level])
    found = rule.measured(boxes)
    # many boxes at once, so that the integrand is evaluated on long arrays
    for _ in range(_ROUNDS):
        chosen = _worst(boxes, found)
        if not chosen.any() or rule.evaluations > _MOST:
            break
        parts = boxes.chosen(chosen).halved(found.doubt[chosen].argmax(axis=1))
        boxes, found = boxes.chosen(~chosen).joined(parts), found.chosen(~chosen).joined(rule.measured(parts))
    # what is left where doubles no longer resolve the place: a convergent integral leaves next to nothing there
    if found.error[~_divisible(boxes, found)].sum() > _DIVERGENT * found.size.sum():
        raise EvaluationError(
            "moment not established: an integral does not converge at a singular point, and may be infinite; keep the "
            "function away from its pole."
        )
    columns = (found.value, found.error + found.blurred, found.size, found.far)
    value, error, size, far = (float(column.sum()) for column in columns)
    return value, error, size, far


def _divisible(boxes: _Boxes, found: _Measured) -> NDArray[numpy.bool_]:
    """Which boxes can still be halved."""
    return found.resolved & ((boxes.high - boxes.low).max(axis=1) > _SMALLEST)


def _worst(boxes: _Boxes, found: _Measured) -> NDArray[numpy.bool_]:
    """The boxes to be halved next: none when the whole is accurate enough."""
    error, allowed = found.error, _ENOUGH[boxes.low.shape[1]] * float(found.size.sum())
    # boxes with less than a quarter of their share may keep it: together they stay below what is allowed
    chosen = (error > allowed / (4 * len(error))) & _divisible(boxes, found)
    if error.sum() <= allowed:
        chosen[:] = False
    elif chosen.sum() > _BATCH:
        chosen &= error >= numpy.partition(error[chosen], -_BATCH)[-_BATCH]
    return chosen
