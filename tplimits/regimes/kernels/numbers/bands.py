"""Passes over pairs of places as chains: every pass of a chain stays within one offset of places.

A table over (p, q) whose sums are over shared taps is asked at the offset q − p where it is itself asked; so all passes
between two pools are done offset by offset, and what they keep has the size of one image.  What is asked of a chain
are sums over pools on either side and sums over everything; they name the offsets that are needed at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.regimes.kernels.derivation.leaves import SECOND, plain_axis
from tplimits.regimes.kernels.numbers.cells import Axis, Window, axes_of, window
from tplimits.regimes.kernels.numbers.forms import Dims, Gather, NotNested, Pass, Picks, Reduction
from tplimits.regimes.kernels.numbers.offsets import Offset, Pooled, all_offsets, pool

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes import Passes


@dataclass(frozen=True)
class Level:
    """Passes of a chain over one axis: at an offset of the chain their tables are at that offset over `strides`."""

    size: int
    strides: Offset

    def offset(self, of_chain: Offset) -> Offset | None:
        """The offset of their tables; None where they have none."""
        (a, b), (s, t) = of_chain, self.strides
        return None if a % s or b % t else (a // s, b // t)


@dataclass(eq=False)
class Chain:
    """Passes over pairs of places, offset by offset; strides take them to coarser grids."""

    passes: list[Pass]
    levels: list[Level]
    level_of: dict[int, int]
    reads: list[Pooled] = field(default_factory=list)
    feeds: list[Pooled] = field(default_factory=list)
    totals: list[Whole] = field(default_factory=list)
    #: where the sums that are read or fed stand, by their place
    read_at: list[int] = field(default_factory=list)
    fed_at: list[int] = field(default_factory=list)
    wanted: frozenset[Offset] = frozenset()


@dataclass(frozen=True, eq=False)
class Whole:
    """The sum over all pairs of places of a product of arrays, by their places in a loop over them."""

    factors: tuple[tuple[int, Dims], ...]


@dataclass(eq=False)
class Bands:
    """What the passes are: passes over places one after another, and chains between them."""

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
        for found in self.kept:  # borders are known now
            found.axis = self.axes[found.axis.size]
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
        for k in range(max(step.values()) + 1):
            mine = [p for p in order if step[id(p)] == k]
            if k % 2 == 0:
                self.phases += [mine] if mine else []
                continue
            self.phases += self._chains(mine, needs)
        self.passes.passes = [p for phase in self.phases for p in (phase.passes if isinstance(phase, Chain) else phase)]

    def _chains(self, passes: list[Pass], needs: Mapping[int, Any]) -> list[Chain]:
        """Passes by what they read of each other, with the strides between them."""
        links: dict[int, list[tuple[Pass, Fraction, Fraction]]] = {id(p): [] for p in passes}
        for one in passes:
            for q, direct in needs[id(one)]:
                if direct and id(q) in links:
                    steps = {self.windows[id(g)][1] for g in one.gathers.values() if self.made.get(g.operand) is q}
                    if len(steps | {(1, 1)} if one.sizes == q.sizes else steps) != 1:
                        raise NotNested("tables read in two ways")
                    down, across = map(Fraction, (*steps, (1, 1))[0])
                    links[id(one)].append((q, 1 / down, 1 / across))
                    links[id(q)].append((one, down, across))
        found, known = [], {}
        for first in passes:
            if id(first) in known:
                continue
            known[id(first)] = Fraction(1), Fraction(1)
            members, waiting = [first], [first]
            while waiting:
                one = waiting.pop()
                for q, down, across in links[id(one)]:
                    strides = known[id(one)][0] * down, known[id(one)][1] * across
                    if known.setdefault(id(q), strides) != strides:
                        raise NotNested("tables of two strides")
                    if not any(q is m for m in members):
                        members.append(q)
                        waiting.append(q)
            found.append(self._chain([p for p in passes if any(p is m for m in members)], known))
        return found

    def _chain(self, passes: list[Pass], strides: Mapping[int, tuple[Fraction, Fraction]]) -> Chain:
        finest = [min(strides[id(p)][k] for p in passes) for k in range(2)]
        levels: list[Level] = []
        level_of = {}
        for one in passes:
            size = one.sizes[0]
            self.axes.setdefault(size, Axis(size, (1, size)))
            ratio = [strides[id(one)][k] / finest[k] for k in range(2)]
            if any(r.denominator > 1 for r in ratio):
                raise NotNested("tables of two strides")
            level = Level(size, (int(ratio[0]), int(ratio[1])))
            levels += [level] if level not in levels else []
            level_of[id(one)] = levels.index(level)
        return Chain(passes, levels, level_of)

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
            chain = phase if isinstance(phase, Chain) else None
            for one in chain.passes if chain else phase:  # type: ignore[union-attr]
                for gather in one.gathers.values():
                    self._asked(gather, one, chain)
                    if id(gather) in self.sums:
                        self._at_home(self.sums[id(gather)], home)
                for reduction in one.reductions.values():
                    if id(reduction) in self.sums:
                        self._at_home(self.sums[id(reduction)], home)
        for found in self.kept:
            made = self.made[found.fine]
            home[id(made)].feeds.append(found)
            home[id(made)].fed_at.append(home[id(made)].level_of[id(made)])
        for chain in reversed(chains):
            wanted: set[Offset] = set()
            for whole in chain.totals:
                wanted |= self._of_chain(chain, self._level(chain, whole), None)
            for found, place in zip(chain.feeds, chain.fed_at, strict=True):
                wanted |= self._of_chain(chain, place, found.reached())
            chain.wanted = frozenset(wanted)
            for read, place in zip(chain.reads, chain.read_at, strict=True):
                level = chain.levels[place]
                inside = all_offsets(self.axes[level.size].shape)
                read.wanted |= {o for w in wanted if (o := level.offset(w)) is not None and o in inside}

    def _asked(self, gather: Gather, one: Pass, chain: Chain | None) -> None:
        """A sum over pools that a pass reads, at the offsets of its chain or at equal places."""
        found = self.pools.get(id(gather))
        if found is None:
            return
        if chain is None or self.dims[id(gather)][0] == self.dims[id(gather)][1]:
            found.wanted |= {(0, 0)}
        elif found not in chain.reads:
            chain.reads.append(found)
            chain.read_at.append(chain.level_of[id(one)])
        elif chain.read_at[chain.reads.index(found)] != chain.level_of[id(one)]:
            raise NotNested("sums over pools read at two strides")

    def _level(self, chain: Chain, whole: Whole) -> int:
        """Where the tables of a sum over everything stand."""
        places = {chain.level_of[id(self.made[n])] for n, _ in whole.factors if self.is_pair(n)}
        if len(places) != 1:
            raise NotNested("a sum over tables of two strides")
        return places.pop()

    def _of_chain(self, chain: Chain, place: int, offsets: frozenset[Offset] | None) -> set[Offset]:
        """Offsets of a level, of all where none are given, as those of its chain."""
        level = chain.levels[place]
        inside = all_offsets(self.axes[level.size].shape)
        (s, t), some = level.strides, inside if offsets is None else offsets & inside
        return {(s * a, t * b) for a, b in some}

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
