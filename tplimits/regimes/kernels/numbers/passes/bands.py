"""Passes over pairs of places as chains: every pass of a chain stays within one offset of places.

A table over (p, q) whose sums are over shared taps is asked at the offset q − p where it is itself asked; so all passes
between two pools are done offset by offset, and what they keep has the size of one image.  What is asked of a chain
are sums over pools on either side and sums over everything; they name the offsets that are needed at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tplimits.regimes.kernels.numbers.passes.cells import Axis
from tplimits.regimes.kernels.numbers.passes.forms import Gather, NotNested, Pass
from tplimits.regimes.kernels.numbers.passes.offsets import Offset, Pooled, all_offsets
from tplimits.regimes.kernels.numbers.passes.pairings import Pairings, Whole


@dataclass(frozen=True)
class Level:
    """Passes of a chain over one axis: at an offset of the chain their tables are at that offset over `strides`."""

    size: int
    strides: Offset

    def offset(self, of_chain: Offset) -> Offset | None:
        """The offset of their tables; None where they have none."""
        (a, b), (s, t) = of_chain, self.strides
        # places of a strided grid are at multiples of the strides of the finer one
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


@dataclass(eq=False)
class Bands(Pairings):
    """What the passes are: passes over places one after another, and chains between them."""

    phases: list[list[Pass] | Chain] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._arrange()
        self._demand()

    def _arrange(self) -> None:
        """Passes over places at even steps, chains at odd ones, each as late as its readers allow."""
        order = [p for p in self.passes.passes if p not in self.halves and not self._is_copy(p)]
        chained = {id(p) for p in self.chained}
        needs = {id(p): list(self._needs(p)) for p in order}
        step: dict[int, int] = {}
        for one in order:  # a pass comes after what it reads
            odd = id(one) in chained
            least = max(
                (self._after(step[id(q)], odd, id(q) in chained, direct) for q, direct in needs[id(one)]),
                default=int(odd),
            )
            step[id(one)] = least
        for one in reversed(order):
            if id(one) in chained:
                readers = [(p, d) for p in order for q, d in needs[id(p)] if q is one]
                bounds = [
                    step[id(p)] if d and id(p) in chained else step[id(p)] - 1 - (id(p) in chained) for p, d in readers
                ]
                step[id(one)] = max(step[id(one)], min(bounds, default=step[id(one)]))
        for one in order:
            for q, direct in needs[id(one)]:
                # a chain keeps one offset at a time: what is read entry by entry has to be at that same one
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
