"""Passes over pairs of places as chains: every pass of a chain stays within one offset of places.

A table over (p, q) whose sums are over shared taps is asked at the offset q − p where it is itself asked; so all passes
between two pools are done offset by offset, and what they keep has the size of one image.  What is asked of a chain
are sums over pools on either side and sums over everything; they name the offsets that are needed at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.regimes.kernels.derivation.leaves import SECOND, plain_axis
from tplimits.regimes.kernels.numbers.cells import Axis, axes_of
from tplimits.regimes.kernels.numbers.forms import Dims, Gather, NotNested, Pass, Picks, Reduction
from tplimits.regimes.kernels.numbers.offsets import Offset, Pool, Pooled, all_offsets, pool
from tplimits.regimes.kernels.numbers.shifts import moved

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes import Passes


@dataclass(eq=False)
class Chain:
    """Passes over the pairs of places of one axis, offset by offset."""

    axis: Axis
    passes: list[Pass] = field(default_factory=list)
    reads: list[Pooled] = field(default_factory=list)
    feeds: list[Pooled] = field(default_factory=list)
    totals: list[Whole] = field(default_factory=list)
    wanted: frozenset[Offset] = frozenset()


@dataclass(frozen=True, eq=False)
class Whole:
    """The sum over all pairs of places of a product of arrays, by their places in a loop over them."""

    factors: tuple[tuple[int, Dims], ...]


@dataclass(frozen=True)
class Window:
    """Shared taps as rows and columns that a place is moved by, all pairs of them."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(eq=False)
class Bands:
    """What the passes are: passes over places one after another, and chains between them."""

    passes: Passes
    axes: dict[int, Axis] = field(init=False)
    #: sums over pools by the gather that reads them, sums over shared taps by theirs
    pools: dict[int, Pooled] = field(default_factory=dict)
    windows: dict[int, Window] = field(default_factory=dict)
    #: sums over all pairs of places, by the gather or reduction that reads them
    sums: dict[int, Whole] = field(default_factory=dict)
    #: at which places of the loop a gather reads sums over pools
    dims: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: what stands around the entries of an array: halves of variances, or nothing
    rings: dict[int, tuple[int, ...]] = field(default_factory=dict)
    phases: list[list[Pass] | Chain] = field(default_factory=list)

    def __post_init__(self) -> None:
        passes = self.passes
        self.front = len(passes.inputs)
        self.made = {n: p for p in passes.passes for n, _ in p.results}
        self.halves = [p for p in passes.passes if self._is_half(p)]
        self.chained = [p for p in passes.passes if any(self.is_pair(n) for n, _ in p.results)]
        if not self.chained or any(self.is_pair(n) for n in passes.results):
            raise NotNested("no pairs of places, or results that are")
        self.axes = axes_of(passes)
        self._distinct: dict[Any, Pooled] = {}
        for one in passes.passes:
            if one not in self.halves:
                for gather in one.gathers.values():
                    self._look_at(gather, one)
                self._look_at_reads(one)
        self._arrange()
        self._demand()

    # -- what there is ------------------------------------------------------------------------

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
            if (left.dims, right.dims) != ((place,), (place + 1,)) or (left.places != right.places).any():
                raise NotNested("taps that are not shared")
            self._window(gather, left, one)
            return
        half = self.made.get(n)
        if half not in self.halves or len(picks) != 1:
            raise NotNested("places of two sides that are no pool")
        inner = half.gathers[dict(half.results)[n]]  # type: ignore[union-attr]
        found = self._pooled(inner, gather, n)
        if isinstance(found, int):
            self.sums[id(gather)] = Whole(((found, (self.front, self.front + 1)),))
        else:
            self.pools[id(gather)] = found

    def _window(self, gather: Gather, taps: Picks, one: Pass) -> None:
        size = one.sizes[0]
        found = moved(taps.places, size) if taps.places.shape[1] == size else None
        axis = self.axes.get(size)
        if found is None or axis is None or axis.shape[1] != found[3]:
            raise NotNested("taps that move places differently")
        moves = list(zip(found[1].tolist(), found[2].tolist(), strict=True))
        rows, columns = sorted({a for a, _ in moves}), sorted({b for _, b in moves})
        if len(moves) != len(rows) * len(columns) or len(set(moves)) != len(moves):
            raise NotNested("taps that are no rectangle")
        self.windows[id(gather)] = Window(tuple(rows), tuple(columns))
        if self.rings.setdefault(gather.operand, gather.outside) != gather.outside:
            raise NotNested("two kinds of borders")

    def _pooled(self, inner: Gather, outer: Gather, half: int) -> Pooled | int:
        """The pools of both sides; of the same table the same.  The table alone where all of it is summed."""
        labels = self.passes.labels
        fine, reads = inner.operand, {}
        front = self.passes.inputs
        between = dict(zip([x for x in labels[half] if x not in front], _inner(outer.at, labels[half], front), strict=True))
        mine = self.places(half)
        for label, at in zip(self.places(fine), _inner(inner.at, labels[fine], front), strict=True):
            if isinstance(at, Picks):
                reads[label] = (at.places, *(between[mine[dim - self.front]] for dim in at.dims))
            else:
                second_pick = between[mine[at - self.front]]
                if not isinstance(second_pick, Picks):
                    raise NotNested("one side is not pooled")
                reads[label] = (second_pick.places, *second_pick.dims)
        if any(isinstance(d, Picks) for r in reads.values() for d in r[1:]) or len({len(r) for r in reads.values()}) > 1:
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
        source = self.axes.get(size)
        for shape in [source.shape] if source else _shapes(size):
            known = self.axes.get(target)
            for coarse in [known.shape] if known else _shapes(target):
                pools = [pool(numpy.asarray(p), shape, coarse) for p in (left, right)]
                if pools[0] is not None and pools[1] is not None and pools[0].strides == pools[1].strides:
                    self.axes.setdefault(size, Axis(size, shape))
                    axis = self.axes.setdefault(target, Axis(target, coarse))
                    return Pooled(fine, pools[0], pools[1], axis)
        raise NotNested("a pool of no grid")

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

    # -- order --------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Passes over places at even steps, chains at odd ones, each as late as its readers allow."""
        order = [p for p in self.passes.passes if p not in self.halves and not self._is_copy(p)]
        chained = {id(p) for p in self.chained}
        needs = {id(p): list(self._needs(p)) for p in order}
        step: dict[int, int] = {}
        for one in order:  # a pass comes after what it reads
            odd = id(one) in chained
            least = max((self._after(step[id(q)], odd, id(q) in chained, direct) for q, direct in needs[id(one)]), default=int(odd))
            step[id(one)] = least
        for one in reversed(order):
            if id(one) in chained:
                readers = [(p, d) for p in order for q, d in needs[id(p)] if q is one]
                bounds = [step[id(p)] if d and id(p) in chained else step[id(p)] - 1 - (id(p) in chained) for p, d in readers]
                step[id(one)] = max(step[id(one)], min(bounds, default=step[id(one)]))
        for one in order:
            for q, direct in needs[id(one)]:
                if direct and id(q) in chained and step[id(one)] != step[id(q)]:
                    raise NotNested("a table over pairs of places is read after a pool")
        chains: dict[int, dict[int, Chain]] = {}
        for k in range(max(step.values()) + 1):
            mine = [p for p in order if step[id(p)] == k]
            if k % 2 == 0:
                self.phases += [mine] if mine else []
                continue
            for one in mine:
                group = chains.setdefault(k, {})
                axis = self.axes.setdefault(one.sizes[0], Axis(one.sizes[0], (1, one.sizes[0])))
                group.setdefault(one.sizes[0], Chain(axis)).passes.append(one)
            self.phases += list(chains.get(k, {}).values())
        self.passes.passes = [p for phase in self.phases for p in (phase.passes if isinstance(phase, Chain) else phase)]

    def _is_copy(self, one: Pass) -> bool:
        """Whether a pass makes room for what pairs read of one input, which is packed as it is."""
        return self.front > 1 and all(n not in self.passes.inside for n, _ in one.results)

    @staticmethod
    def _after(step: int, odd: bool, chained: bool, direct: bool) -> int:
        if odd:
            return step if chained and direct else step + 2 if chained else step + 1
        return step + 1 if chained else step

    def _needs(self, one: Pass) -> Any:
        """(pass, whether entries of it are read as they are made) of all passes that one reads."""
        given = self.made
        for n, _ in one.reads:
            if n in given and n in self.passes.inside:
                yield given[n], True
        for gather in one.gathers.values():
            for n in gather.outside:
                if n in given:
                    yield given[n], True
            if id(gather) in self.pools:
                yield given[self.pools[id(gather)].fine], False
            elif id(gather) in self.sums:
                yield from ((given[n], False) for n, _ in self.sums[id(gather)].factors)
            elif gather.operand in given:
                yield given[gather.operand], True
        for reduction in one.reductions.values():
            for n, _ in reduction.factors:
                if n in given:
                    yield given[n], not self.is_pair(n)

    # -- which offsets ------------------------------------------------------------------------

    def _demand(self) -> None:
        """What is asked of each chain, the last first."""
        chains = [c for c in self.phases if isinstance(c, Chain)]
        home = {id(p): c for c in chains for p in c.passes}
        for phase in self.phases:
            for one in phase.passes if isinstance(phase, Chain) else phase:
                for gather in one.gathers.values():
                    if id(gather) in self.pools and isinstance(phase, Chain) and self.dims[id(gather)][0] != self.dims[id(gather)][1]:
                        if self.pools[id(gather)] not in phase.reads:
                            phase.reads.append(self.pools[id(gather)])
                    elif id(gather) in self.pools:
                        self.pools[id(gather)].wanted |= {(0, 0)}
                    elif id(gather) in self.sums:
                        self._at_home(self.sums[id(gather)], home)
                for reduction in one.reductions.values():
                    if id(reduction) in self.sums:
                        self._at_home(self.sums[id(reduction)], home)
        for found in self._distinct.values():
            home[id(self.made[found.fine])].feeds.append(found)
        for chain in reversed(chains):
            inside = all_offsets(chain.axis.shape)
            wanted = set(inside) if chain.totals else set()
            for found in chain.feeds:
                wanted |= found.reached() & inside
            chain.wanted = frozenset(wanted)
            for read in chain.reads:
                read.wanted |= chain.wanted


    def _at_home(self, whole: Whole, home: dict[int, Chain]) -> None:
        """Give a sum to the chain of what is summed."""
        chains = {id(c): c for c in (home[id(self.made[n])] for n, _ in whole.factors if self.is_pair(n))}
        if len(chains) != 1:
            raise NotNested("a sum over tables of several chains")
        next(iter(chains.values())).totals.append(whole)


def _inner(at: Any, labels: tuple[str, ...], inputs: tuple[str, ...]) -> list[Any]:
    return [p for p, x in zip(at, labels, strict=True) if x not in inputs]


def _shapes(size: int) -> list[tuple[int, int]]:
    """Grids of so many places: one row first, then square ones."""
    widths = [w for w in range(1, size + 1) if size % w == 0]
    return [(size // w, w) for w in sorted(widths, key=lambda w: (w != size, abs(w * w - size)))]
