"""Tables over pairs of places in passes: sums over shared taps, over pools of either side, over everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.regimes.kernels.derivation.leaves import SECOND, plain_axis
from tplimits.regimes.kernels.numbers.passes.cells import Axis, Window, axes_of, window
from tplimits.regimes.kernels.numbers.passes.forms import Dims, Gather, NotNested, Pass, Picks, Reduction
from tplimits.regimes.kernels.numbers.passes.offsets import Offset, Pooled, pool
from tplimits.regimes.kernels.numbers.tables.shifts import widths_of_grids

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.passes import Passes


@dataclass(frozen=True, eq=False)
class Whole:
    """The sum over all pairs of places of a product of arrays, by their places in a loop over them."""

    factors: tuple[tuple[int, Dims], ...]


@dataclass(eq=False)
class Pairings:
    """What passes over pairs of places read of each other; NotNested where that is of no such form."""

    passes: Passes
    axes: dict[int, Axis] = field(init=False)
    #: sums over pools by the gather that reads them, sums over shared taps by theirs
    pools: dict[int, Pooled] = field(default_factory=dict)
    windows: dict[int, tuple[Window, Offset]] = field(default_factory=dict)
    #: sums over all pairs of places, by the gather or reduction that reads them
    sums: dict[int, Whole] = field(default_factory=dict)
    #: at which places of the loop a gather reads sums over pools
    dims: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: what stands around the entries of an array: halves of variances, or nothing
    rings: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        passes = self.passes
        self.front = len(passes.inputs)
        self.made = {n: p for p in passes.passes for n, _ in p.results}
        self.halves = [p for p in passes.passes if self._is_half(p)]
        self.chained = [p for p in passes.passes if any(self.is_pair(n) for n, _ in p.results)]
        if any(not self.is_pair(n) for p in self.chained for n, _ in p.results):
            raise NotNested("tables over pairs of places beside others")
        if not self.chained or any(self.is_pair(n) for n in passes.results):
            raise NotNested("no pairs of places, or results that are")
        self.axes = axes_of(passes)
        self._distinct: dict[Any, Pooled] = {}
        for one in passes.passes:
            if one not in self.halves:
                for gather in one.gathers.values():
                    self._look_at(gather, one)
                self._look_at_reads(one)
        for found in self.kept:  # borders are known now
            found.axis = self.axes[found.axis.size]

    def places(self, n: int) -> list[str]:
        """Labels of an array but those of inputs."""
        return [x for x in self.passes.labels[n] if x not in self.passes.inputs]

    def is_two_sided(self, n: int) -> bool:
        """Whether an array has places of both sides."""
        return self.is_between(self.passes.labels[n])

    @staticmethod
    def is_between(labels: Sequence[str]) -> bool:
        """Whether labels name places of both sides: of one axis, or of two; what is summed over may be a feature."""
        inner = [x for x in labels if not x.startswith("input ")]
        mine, theirs = ({plain_axis(x) for x in inner if (SECOND in x) == second} for second in (False, True))
        return bool(mine & theirs) or len({SECOND in x for x in inner if "′" not in x}) == 2

    @property
    def kept(self) -> list[Pooled]:
        """Sums over pools, each once."""
        return list(self._distinct.values())

    def is_pair(self, n: int) -> bool:
        """Whether an array is a table over the pairs of places of one axis."""
        found = self.places(n)
        same = len(found) == 2 and plain_axis(found[0]) == plain_axis(found[1])
        return same and SECOND in found[1] and SECOND not in found[0]

    def _is_half(self, one: Pass) -> bool:
        """Whether a pass sums one side alone, for the sum of the other side."""
        if one.assignments or one.reads or one.reductions:
            return False
        return all(text in one.gathers and self._is_one_sided(one.gathers[text]) for _, text in one.results)

    def _is_one_sided(self, gather: Gather) -> bool:
        """Whether a gather sums a table over pairs of places along one side."""
        inner = _inner(gather.at, self.passes.labels[gather.operand], self.passes.inputs)
        return self.is_pair(gather.operand) and sum(isinstance(p, Picks) for p in inner) == 1

    def _look_at(self, gather: Gather, one: Pass) -> None:
        """Name a gather, or refuse."""
        n, labels = gather.operand, self.passes.labels[gather.operand]
        if self.made.get(n) not in self.halves and not self.is_two_sided(n):
            return
        picks = [p for p in gather.at if isinstance(p, Picks)]
        place = self.front
        if self.is_pair(n):
            left, right = (p for p, x in zip(gather.at, labels, strict=True) if x not in self.passes.inputs)
            if not (isinstance(left, Picks) and isinstance(right, Picks)):
                raise NotNested("a sum over one side")
            if (left.dims, right.dims) != ((place,), (place + 1,)) or not numpy.array_equal(left.places, right.places):
                raise NotNested("taps that are not shared")
            self._window(gather, left, one)
            return
        half = self.made.get(n)
        if half not in self.halves or len(picks) != 1:
            raise NotNested("places of two sides that are no pool")
        inner = half.gathers[dict(half.results)[n]]
        found = self._pooled(inner, gather, n)
        if isinstance(found, int):
            self.sums[id(gather)] = Whole(((found, (self.front, self.front + 1)),))
        else:
            self.pools[id(gather)] = found

    def _window(self, gather: Gather, taps: Picks, one: Pass) -> None:
        size = self.passes.sizes_of(gather.operand)[0]
        found, fine, coarse = self._on_grids(size, one.sizes[0], taps.places)
        taken = window([a for a, _ in found.taps], [b for _, b in found.taps])
        ends = [s * (n - 1) for s, n in zip(found.strides, coarse.shape, strict=True)]
        if taken is None or any(e >= n for e, n in zip(ends, fine.shape, strict=True)):
            raise NotNested("taps that are no rectangle")
        border = [
            max(0, -t[0], e + t[-1] - n + 1, known)
            for t, e, n, known in zip((taken.rows, taken.columns), ends, fine.shape, fine.border, strict=True)
        ]
        self.axes[size] = Axis(size, fine.shape, (border[0], border[1]))
        self.windows[id(gather)] = taken, found.strides
        if self.rings.setdefault(gather.operand, gather.outside) != gather.outside:
            raise NotNested("two kinds of borders")

    def _on_grids(self, size: int, target: int, *places: Any) -> tuple[Any, ...]:
        """Places of a finer axis that are read at those of a coarser one, as pools, and both axes."""
        source = self.axes.get(size)
        for shape in [source.shape] if source else _shapes(size):
            known = self.axes.get(target)
            for coarse in [known.shape] if known else _shapes(target):
                pools = [pool(numpy.asarray(p), shape, coarse) for p in places]
                if all(p is not None and p.strides == pools[0].strides for p in pools):  # type: ignore[union-attr]
                    self.axes.setdefault(size, Axis(size, shape))
                    self.axes.setdefault(target, Axis(target, coarse))
                    return *pools, self.axes[size], self.axes[target]
        raise NotNested("taps of no grid")

    def _pooled(self, inner: Gather, outer: Gather, half: int) -> Pooled | int:
        """The pools of both sides; of the same table the same.  The table alone where all of it is summed."""
        labels = self.passes.labels
        fine, reads = inner.operand, {}
        front = self.passes.inputs
        between = dict(
            zip([x for x in labels[half] if x not in front], _inner(outer.at, labels[half], front), strict=True)
        )
        mine = self.places(half)
        for label, at in zip(self.places(fine), _inner(inner.at, labels[fine], front), strict=True):
            if isinstance(at, Picks):
                reads[label] = (at.places, *(between[mine[dim - self.front]] for dim in at.dims))
            else:
                second_pick = between[mine[at - self.front]]
                if not isinstance(second_pick, Picks):
                    raise NotNested("one side is not pooled")
                reads[label] = (second_pick.places, *second_pick.dims)
        if (
            any(isinstance(d, Picks) for r in reads.values() for d in r[1:])
            or len({len(r) for r in reads.values()}) > 1
        ):
            raise NotNested("places of two sides that are no pool")
        (left, *d0), (right, *d1) = (reads[x] for x in self.places(fine))
        if not d0:
            everywhere = numpy.arange(self.passes.sizes_of(fine)[0])
            if not all(numpy.array_equal(numpy.sort(r.ravel()), everywhere) for r in (left, right)):
                raise NotNested("a sum over some of the places")
            return fine
        key = fine, left.tobytes(), right.tobytes()
        if key not in self._distinct:
            self._distinct[key] = self._new(fine, left, right)
        self.dims[id(outer)] = (*d0, *d1)
        return self._distinct[key]

    def _new(self, fine: int, left: Any, right: Any) -> Pooled:
        size, target = self.passes.sizes_of(fine)[0], left.shape[1]
        if right.shape[1] != target:
            raise NotNested("pools of different sizes")
        one, other, _, axis = self._on_grids(size, target, left, right)
        return Pooled(fine, one, other, axis)

    def _look_at_reads(self, one: Pass) -> None:
        place = self.front
        for n, dims in one.reads:
            if n not in self.passes.inside and self.front > 1 and set(self.passes.inputs) <= set(self.passes.labels[n]):
                raise NotNested("given quantities of pairs")
            if self.is_two_sided(n) and set(self.passes.labels[n]) & set(self.passes.inputs):
                inner = tuple(d for d in dims if d >= place)
                if not self.is_pair(n) or n not in self.made or inner != (place, place + 1) or one not in self.chained:
                    raise NotNested("entries at other places")
        for reduction in one.reductions.values():
            if any(self.is_two_sided(n) for n, _ in reduction.factors):
                self._total(one, reduction)

    def _total(self, one: Pass, reduction: Reduction) -> None:
        """A sum over all pairs of places."""
        first = self.front + len(one.sizes)
        two = [(n, tuple(d for d in dims if d >= self.front)) for n, dims in reduction.factors if self.is_two_sided(n)]
        if one.sizes or len(reduction.sizes) != 2 or not all(self.is_pair(n) and n in self.made for n, _ in two):
            raise NotNested("a sum over places of one side")
        if any(dims != (first, first + 1) for _, dims in two):
            raise NotNested("a sum over pairs of places of one input")
        self.sums[id(reduction)] = Whole(reduction.factors)


def _inner(at: Any, labels: tuple[str, ...], inputs: tuple[str, ...]) -> list[Any]:
    return [p for p, x in zip(at, labels, strict=True) if x not in inputs]


def _shapes(size: int) -> list[tuple[int, int]]:
    return [(size // w, w) for w in widths_of_grids(size)]
