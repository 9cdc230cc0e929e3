"""Repeated layers in a recursion: the same definitions over and over, up to the tables they refer to.

A network of many equal blocks gives tables whose definitions repeat with some period.  Such a run is found by the
shapes of the definitions, then proved: the pattern, with references shifted, has to be the definition of every table
in the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sympy import Expr, Integer, S

from tplimits.program.nodes.entries import AxisSum, axis_symbol
from tplimits.regimes.kernels.derivation.leaves import TableEntry, second
from tplimits.regimes.kernels.derivation.terms import axis_sum
from tplimits.report.rolled import segments

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.nodes import KernelTable

#: a repetition has at least so many layers
FEWEST_LAYERS = 3


def referred(definitions: Sequence[Expr]) -> list[int]:
    """The tables that definitions refer to, in order."""
    return sorted({entry.table for d in definitions for entry in d.atoms(TableEntry)})


def renumbered(expr: Expr, swap: Mapping[int, int]) -> Expr:
    """The definition with other tables in the places of those in `swap`."""
    return expr.xreplace(
        {e: TableEntry(Integer(swap[e.table]), *e.args[1:]) for e in expr.atoms(TableEntry) if e.table in swap}
    )


def numbers_in_front(expr: Expr) -> Expr:
    """Sums with the numbers that multiply them in front."""
    if not expr.has(AxisSum):
        return expr
    rebuilt = expr.func(*map(numbers_in_front, expr.args))
    return axis_sum(rebuilt.summand, rebuilt.bound, rebuilt.args[2]) if isinstance(rebuilt, AxisSum) else rebuilt


def shape_of(expr: Expr) -> Expr:
    """A definition without what it refers to: the kinds of its entries alone."""
    return renumbered(expr, {e.table: 0 for e in expr.atoms(TableEntry)})


#: a run spares at least so many lines
_SPARED = 4
#: trials for what stands before the first layer
_MOST_TRIALS = 2000
#: numbers from here on are references inside patterns
_MARKS = 10**6


@dataclass(frozen=True)
class Mark:
    """A reference inside a pattern: the table of a slot of a run, `back` layers earlier."""

    run: int
    slot: int
    back: int


@dataclass(frozen=True)
class Run:
    """Layers `first`, first + 1, …: for each layer the numbers of its tables, all made after one pattern.

    References in the pattern to repeated tables are table numbers that `Repetitions.marks` explains.  `before` are the
    tables that stand for some slots in the layer before the first.
    """

    number: int
    first: int
    layers: tuple[tuple[int, ...], ...]
    pattern: tuple[Expr, ...] = ()
    before: Mapping[int, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return self.first + len(self.layers) - 1

    def table(self, slot: int, layer: int) -> int | None:
        """The number of a table of the run."""
        if self.first <= layer <= self.last:
            return self.layers[layer - self.first][slot]
        return self.before.get(slot) if layer == self.first - 1 else None

    def places(self) -> dict[int, tuple[int, int]]:
        """KernelTable numbers to (slot, layer)."""
        return {t: (k, self.first + i) for i, layer in enumerate(self.layers) for k, t in enumerate(layer)}


class Repetitions:
    """All runs of a recursion."""

    def __init__(self, tables: Sequence[KernelTable], wanted: Sequence[KernelTable]) -> None:
        self._tables, self._wanted = tables, wanted
        self._marks: dict[Mark, int] = {}
        self._multiples: dict[int, tuple[Expr, int]] = {}  # multiples of tables, which have no table of their own
        self._known = {(t.definition, t.left, t.right): t.number for t in reversed(tables)}
        self.runs: list[Run] = []
        for start, period, length in sorted(segments([shape_of(t.definition) for t in wanted], FEWEST_LAYERS)):
            run = self._fitted(start, period, length)
            if run is not None:
                self.runs.append(run)

    @property
    def marks(self) -> dict[int, Mark]:
        """What the numbers of references in patterns mean."""
        return {number: mark for mark, number in self._marks.items()}

    def _fitted(self, start: int, period: int, length: int) -> Run | None:
        choices = []
        for turn in range(period):
            run = self._cut(start + turn, period, (length - turn) // period)
            if run is not None:
                choices.append((self._crossings(run), turn, run))
        if not choices:
            return None
        run = self._proved(min(choices, key=lambda c: c[:2])[2])
        if run is None:
            return None
        while (longer := self._extended(run)) is not None:
            run = longer
        return run

    def _cut(self, start: int, period: int, layers: int) -> Run | None:
        """Layers from a start, numbered like the layers of earlier runs that they belong to, else after those."""
        if layers < FEWEST_LAYERS or (layers - 1) * period < _SPARED:
            return None
        numbers = [t.number for t in self._wanted[start : start + layers * period]]
        cut = tuple(tuple(numbers[i : i + period]) for i in range(0, len(numbers), period))
        used = [layer for t in referred(self._definitions(cut[1])) for _, _, layer in self._elsewhere(t)]
        if not used:
            return Run(len(self.runs), max((r.last + 2 for r in self.runs), default=1), cut)
        names = {self._tables[t].name.replace("δ", "") for t in cut[1]}
        same = [k for r in self.runs for t, (_, k) in r.places().items() if self._tables[t].name in names]
        return Run(len(self.runs), max(max(used), min(same, default=0)) - 1, cut)

    def _elsewhere(self, table: int) -> Iterator[tuple[int, int, int]]:
        """(run, slot, layer) of a table of an earlier run."""
        for run in self.runs:
            if table in run.places():
                yield (run.number, *run.places()[table])
                return
            for slot, before in run.before.items():
                if before == table:
                    yield run.number, slot, run.first - 1
                    return

    def _definitions(self, layer: Sequence[int]) -> list[Expr]:
        return [self._tables[t].definition for t in layer]

    def _mark(self, run: Run, table: int, layer: int) -> Mark | None:
        mine = run.places()
        if table in mine:
            return Mark(run.number, mine[table][0], layer - mine[table][1])
        for number, slot, other in self._elsewhere(table):
            return Mark(number, slot, layer - other)
        return None

    def _crossings(self, run: Run) -> int:
        """How many quantities a layer takes from others before it: fewest where the block of the network begins."""
        found = {self._mark(run, t, run.first + 1) for t in referred(self._definitions(run.layers[1]))}
        return sum(1 for mark in found if mark is not None and mark.back)

    def _proved(self, run: Run) -> Run | None:
        """The run with its pattern, as far as the pattern holds."""
        layer = run.first + 1
        swap = {}
        for table in referred(self._definitions(run.layers[1])):
            mark = self._mark(run, table, layer)
            if mark is not None and (mark.run == run.number or mark.back < len(run.layers)):
                swap[table] = self._marks.setdefault(mark, _MARKS + len(self._marks))
        run = replace(run, pattern=tuple(renumbered(d, swap) for d in self._definitions(run.layers[1])))
        holds = len(run.layers)
        for i in range(2, len(run.layers)):
            if not self._holds(run, run.first + i):
                holds = i
                break
        run = replace(run, layers=run.layers[:holds])
        before = self._before(run)
        if before is None:  # the first layer is of another kind
            used = self._needed_before(run)
            run = replace(run, first=run.first + 1, layers=run.layers[1:], before={k: run.layers[0][k] for k in used})
        else:
            run = replace(run, before=before)
        enough = len(run.layers) >= FEWEST_LAYERS and (len(run.layers) - 1) * len(run.pattern) >= _SPARED
        return run if enough else None

    def _needed_before(self, run: Run) -> list[int]:
        marks = self.marks
        used = {marks[t] for t in referred(run.pattern) if t in marks}
        return sorted({m.slot for m in used if m.run == run.number and m.back == 1})

    def _resolved(self, run: Run, layer: int, slot: int) -> Expr | None:
        """The pattern of a slot at a layer."""
        swap = {}
        marks = self.marks
        for number in referred([run.pattern[slot]]):
            if number in marks:
                mark = marks[number]
                owner = run if mark.run == run.number else self.runs[mark.run]
                table = owner.table(mark.slot, layer - mark.back)
                if table is None:
                    return None
                swap[number] = table
        if not any(t in self._multiples for t in swap.values()):
            return renumbered(run.pattern[slot], swap)
        swapped = {}
        for entry in run.pattern[slot].atoms(TableEntry):
            factor, table = self._multiples.get(
                swap.get(entry.table, entry.table), (S.One, swap.get(entry.table, entry.table))
            )
            swapped[entry] = factor * TableEntry(Integer(table), *entry.args[1:])
        return numbers_in_front(run.pattern[slot].xreplace(swapped))

    def _holds(self, run: Run, layer: int) -> bool:
        tables = run.layers[layer - run.first]
        return all(self._resolved(run, layer, k) == self._tables[t].definition for k, t in enumerate(tables))

    def _trials(self, run: Run, candidates: Sequence[int]) -> Iterator[dict[int, int]]:
        slots = self._needed_before(run)
        every = itertools.product(candidates, repeat=len(slots))
        for choice in itertools.islice(every, _MOST_TRIALS):
            yield dict(zip(slots, choice, strict=True))

    def _before(self, run: Run) -> dict[int, int] | None:
        """The tables that the first layer takes for those of a layer before it."""
        mine = run.places()
        candidates = [t for t in referred(self._definitions(run.layers[0])) if t not in mine]
        for before in self._trials(run, candidates):
            if self._holds(replace(run, before=before), run.first):
                return before
        return None

    def _extended(self, run: Run) -> Run | None:
        """One layer more at the front, whose tables may be shared with other runs or be multiples of earlier ones."""
        earliest = min(run.layers[0])
        starts = {t for r in self.runs for t in r.before.values()}
        candidates = sorted({t.number for t in self._wanted if t.number < earliest} & starts) or [
            t.number for t in self._wanted if t.number < earliest
        ]
        for before in self._trials(run, candidates):
            longer = self._one_more(run, before)
            if longer is not None:
                return longer
        return None

    def _one_more(self, run: Run, before: dict[int, int]) -> Run | None:
        layer: list[int] = []
        for slot, _ in enumerate(run.pattern):
            padded = (*layer, *(-1 for _ in run.pattern[slot:]))
            trial = replace(run, first=run.first - 1, layers=(padded, *run.layers), before=before)
            found = self._resolved(trial, trial.first, slot)
            like = self._tables[run.layers[0][slot]]
            number = self._number(found, like) if found is not None else None
            if number is None or run.before.get(slot, number) != number:
                return None
            layer.append(number)
        return replace(run, first=run.first - 1, layers=(tuple(layer), *run.layers), before=before)

    def _number(self, value: Expr, like: KernelTable) -> int | None:
        """The number of the table with a definition, or one for a multiple of a table."""
        known = self._known.get((value, like.left, like.right))
        factor, rest = value.as_coeff_Mul()
        if known is not None or not isinstance(rest, TableEntry):
            return known
        places = (*map(axis_symbol, like.left), *(second(axis_symbol(a)) for a in like.right))
        if rest.sides != (1, 2) or rest.indices != places:
            return None
        if factor == 1:
            return rest.table
        return next((n for n, m in self._multiples.items() if m == (factor, rest.table)), None) or self._multiple(
            factor, rest.table
        )

    def _multiple(self, factor: Expr, table: int) -> int:
        number = -1 - len(self._multiples)
        self._multiples[number] = (factor, table)
        return number
