"""Plans of a recursion: what is done once for each input, and what for each pair of inputs.

`planning` makes them.  A plan holds for all data of the same sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.regimes.kernels.numbers.passes.blocks import Blocks, Own, Stack, joined
from tplimits.regimes.kernels.numbers.passes.paired import Paired
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled
from tplimits.regimes.kernels.numbers.tables.moment import refuse_underflow
from tplimits.regimes.kernels.numbers.tables.places import batch
from tplimits.regimes.kernels.numbers.tables.singular import blocks, suspects, suspicious

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.inputs import Inputs
    from tplimits.regimes.kernels.numbers.passes.functions import Functions
    from tplimits.regimes.kernels.numbers.passes.nested import Nested
    from tplimits.regimes.kernels.numbers.passes.statements import Places, Statements
    from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
    from tplimits.regimes.kernels.numbers.tables.tape import TapeSchedule

#: entries of the largest array of one block of inputs
_BLOCK = 1 << 17
#: seconds of an array pass over one entry
_SECONDS = 2e-9
#: work in seconds, for each step of the tapes, above which a function is compiled; entries below which it is too short
_WORTHWHILE, _FEW = 1.6e-3, 1 << 14
#: entries of all steps of one call from which on a second call tells that more will follow
_REPEATED = 1 << 20
#: the same of statements; pairs of one call, and statements of all pairs so far, from which on loops are worth it
_REPEATED_STATEMENTS, _MANY, _INTERPRETED = 1 << 19, 1 << 15, 1 << 28
#: pairs of a tile from which on arrays lie in memory with the pairs beside each other: runs of a few places are slow
_BESIDE = 64
#: how much more a step takes where one function goes over pairs of places as well
_BETWEEN = 4


@dataclass(eq=False)
class KernelPlan:
    """Both tapes, as far as the kernels need them."""

    pair: TapeSchedule
    kernels: int
    rows: dict[int, TapeSchedule]
    many: dict[int, int]
    largest: int
    largest_row: int
    tables: tuple[Tables, ...]
    watched: list[Mapping[int, int]]
    watched_rows: dict[int, int]
    #: entries of all steps for one pair, and for one input of a side
    entries: int
    row_entries: Mapping[int, int]
    #: seconds that array passes of all calls so far have been worth
    worth: float = 0.0
    calls: int = 0
    is_compiled: bool = False
    #: the tape of pairs and those of both sides as compiled functions
    functions: Sequence[Functions] = ()
    #: the tape of pairs as one function of arrays, where it is that and carries determinants along
    statements: Statements | None = None

    def nested(self, single: bool, columns: int) -> Nested | None:
        """The tape of pairs as one compiled function, where it has a form."""
        return self.functions[0].of(single, columns)

    @property
    def has_form(self) -> bool:
        """Whether pairs can be done by one compiled function."""
        return self.functions[0].banded or self.nested(False, 8) is not None

    def lanes(self, single: bool, columns: int) -> tuple[int, Any]:
        """Inputs in a vector of that function, and its arithmetic."""
        nest = self.nested(single, columns)
        assert nest is not None
        return nest.lanes.count, nest.dtype

    def own_nested(self, side: int, many: int = 8) -> Nested | None:
        """The same of the tape of the inputs of a side."""
        return self.functions[side].of(False, many)

    def expect(self, pairs: int) -> None:
        """Compile where the work of all calls so far passes what compiling costs.

        Who asks twice asks many times: one function for all pairs is made for the second call.
        """
        self.worth += pairs * self.seconds
        self.calls += 1
        work = pairs * self.entries
        if self.is_compiled or work <= _FEW:
            return
        # compiling waits until it costs no more than the work so far
        if self.worth > self._least or (self.calls > 1 and work >= _REPEATED):
            self.is_compiled = self.has_form

    def is_outgrown(self, pairs: int, settled: bool) -> bool:
        """Whether loops are to do what statements did: calls before were much work, or there were some and this one is.

        Where that is `settled` calls before do not count.
        """
        work, before = pairs * self.entries, 0.0 if settled else self.worth
        self.worth += work
        return bool(before and (before >= _INTERPRETED or work >= _REPEATED_STATEMENTS))

    def settled(self, pairs: int) -> KernelPlan:
        """This plan, compiled where so many pairs are worth it, whatever was asked before."""
        return replace(self, is_compiled=pairs * self.seconds > self._least and self.has_form, calls=0)

    @property
    def _least(self) -> float:
        """Seconds of work that one function for all pairs is worth: it is longer where it goes over pairs of places."""
        pairs = self.functions[0]
        many = _BETWEEN if pairs.banded or pairs.is_heavy else 1
        return many * _WORTHWHILE * sum(step is not None for _, step, _ in self.pair.steps)

    def _own_are_worth(self, side: int, inputs: int) -> bool:
        """Whether a function of single inputs is worth compiling: at a first call array passes over few cost less."""
        seconds = inputs * self.row_entries[side] * _SECONDS
        return self.is_compiled and (self.calls != 1 or seconds > _WORTHWHILE * len(self.rows[side].steps))

    @property
    def seconds(self) -> float:
        """What array passes over one pair take."""
        return self.entries * _SECONDS

    @property
    def subtracts(self) -> bool:
        """Whether gaps are differences of gaps, which few digits are left of where inputs are alike."""
        return any(t.subtracts for t in self.tables)

    @property
    def error(self) -> float:
        """The largest error of a mean so far."""
        return max(t.error for t in self.tables)

    def own(self, side: int, inputs: Inputs, together: int) -> Own:
        """What is done once for each input of a side, so many `together` as tiles have: their means find the rows."""
        statements = self.functions[side].statements if self.statements is not None else None
        if statements is not None:
            made, flag = statements.run((inputs,))
            refuse_underflow(made[statements.kernels :])
            if flag is False or not numpy.any(flag):
                return Own(Stack(made[: statements.kernels]), numpy.zeros(inputs.many, dtype=bool))
        nest = self.own_nested(side, inputs.many) if self._own_are_worth(side, inputs.many) else None
        if nest is not None:
            if isinstance(nest, Paired) and nest.is_half is None:
                nest.settle(partial(data_of, self.tables[0], inputs.some(slice(0, 2)).like()), min(2, inputs.many))
            rows, flagged = nest.run(partial(data_of, self.tables[0], inputs), (inputs.many,))
            if not flagged.any():
                return Own(rows, flagged)
        parts = []
        step = max(1, min(together, _BLOCK // self.largest_row))
        for start in range(0, inputs.many, step):
            some = inputs.some(slice(start, start + step))
            parts.append(self.rows[side].run(partial(data_of, self.tables[0], some)))
        found = [joined([p[k] for p in parts]) for k in range(len(parts[0]))]
        many = len(found) - self.watched_rows[side]
        values, flags = found[:many], [Labelled(f.array != 0, f.labels) for f in found[many:]]
        program, places = self.tables[0].derivation.recursion.program, {1: 1, 2: 1}
        bad = [s for f in flags for s in suspicious(program, (inputs, inputs), places, f)]
        near = numpy.zeros(inputs.many, dtype=bool)
        for f in bad:
            near |= f.array.any(axis=tuple(k for k, x in enumerate(f.labels) if x != batch(1)))
        return Own(values, near)

    def run_rows(
        self, one: Inputs, other: Inputs, owns: Mapping[int, Own], rows: NDArray[numpy.intp]
    ) -> Sequence[Labelled]:
        """Kernels of some rows in double precision, by compiled functions."""
        nest = self.nested(False, other.many)
        assert nest is not None
        if nest.before:  # steps for all pairs at once
            return self.run(one.some(rows), other, {1: owns[1].some(rows), 2: owns[2]})[0]
        with numpy.errstate(all="ignore"):
            many, made = (one.many, other.many), {side: own.rows for side, own in owns.items()}
            found, _ = nest.run(self._given(one, other, owns, True), many, rows=rows.tolist(), made=made)
        return [Labelled(f.array[rows] if f.array.shape[:2] == many else f.array, f.labels) for f in found]

    def run(
        self, one: Inputs, other: Inputs, owns: Mapping[int, Own], above: bool = False, single: bool = False
    ) -> tuple[Sequence[Labelled], NDArray[numpy.bool_]]:
        """Kernels of all pairs, or of those `above` the diagonal, and which of them rest on a nearly singular law."""
        if self.is_compiled and (nest := self.nested(single, other.many)) is not None:
            with numpy.errstate(all="ignore"):
                given, made = self._given(one, other, owns, True), {side: own.rows for side, own in owns.items()}
                values, flagged = nest.run(given, (one.many, other.many), above, made=made)
            near = owns[1].near[:, None] | owns[2].near[None, :]
            if flagged.any():
                near |= self._met(numpy.triu(flagged, 1) if above else flagged, one, other, owns)
            return values, near
        # row by row array passes do half of the pairs; short ones cost more in calls than they save
        if above and one.many > 1 and self.largest >= _FEW:
            return self._row_by_row(one, other, owns)
        with numpy.errstate(all="ignore"):
            found = self.pair.run(self._given(one, other, owns))
        near = self._near(found[self.kernels :], one, other)
        return found[: self.kernels], near | owns[1].near[:, None] | owns[2].near[None, :]

    def at(self, one: Inputs, other: Inputs, places: Places, values: Sequence[Array]) -> Places:
        """Put in kernels of some pairs by statements; places of those that rest on a nearly singular law."""
        (rows, i), (columns, j) = (numpy.unique(p, return_inverse=True) for p in places)
        mine, theirs = one.some(rows), other.some(columns)
        owns = {k: self.own(k, side, side.many) for k, side in ((1, mine), (2, theirs))}
        found, near = self.listed(mine, theirs, owns, (i, j))
        for value, better in zip(values, found, strict=True):
            value[places] = better
        left = numpy.zeros(len(i), dtype=bool) if near is None else near[i, j]
        return tuple(p[left] for p in places)

    def listed(
        self, one: Inputs, other: Inputs, owns: Mapping[int, Own], places: Places | None = None, symmetric: bool = False
    ) -> tuple[Array, NDArray[numpy.bool_] | None]:
        """Kernels by statements, (kernels, N1, N2) of all pairs or (kernels, pairs) at some; flags, if any, of all.

        Of a `symmetric` request pairs above the diagonal, written below it, and on it inputs by themselves.
        """
        assert self.statements is not None
        listed = _triangle(one.many)[:2] if symmetric else places
        found: Array = numpy.empty((self.kernels, 0))
        flags: Any = False
        if not symmetric or one.many > 1:
            found, flags = self.statements.run((one, other), (owns[1], owns[2]), listed)
        if symmetric:
            values, found = found, numpy.empty((self.kernels, one.many, one.many))
            flat = found.reshape(self.kernels, -1)
            for k in _triangle(one.many)[2:]:
                flat[:, k] = values
            flat[:, :: one.many + 1] = owns[1].stacked(slice(-self.kernels, None))
        near = None
        if owns[1].near.any() or (owns[2] is not owns[1] and owns[2].near.any()):
            near = owns[1].near[:, None] | owns[2].near
        if flags is not False and numpy.any(flags):
            flagged = numpy.zeros((one.many, other.many), dtype=bool)
            flagged[listed or ...] = flags
            near = self._met(flagged, one, other, owns) | (False if near is None else near)
        return found, near

    def _row_by_row(
        self, one: Inputs, other: Inputs, owns: Mapping[int, Own]
    ) -> tuple[list[Labelled], NDArray[numpy.bool_]]:
        """Pairs above the diagonal alone."""
        arrays: list[Array] = []
        labels: list[tuple[str, ...]] = []
        near = numpy.zeros((one.many, other.many), dtype=bool)
        for k in range(one.many - 1):
            row, rest = slice(k, k + 1), slice(k + 1, None)
            mine = {1: owns[1].some(row), 2: owns[2].some(rest)}
            values, near[row, rest] = self.run(one.some(row), other.some(rest), mine)
            if not arrays:
                labels = [(batch(1), batch(2), *(x for x in v.labels if x not in (batch(1), batch(2)))) for v in values]
                shapes = [v.at(names).shape[2:] for v, names in zip(values, labels, strict=True)]
                arrays = [numpy.zeros((one.many, other.many, *shape)) for shape in shapes]
            for array, value, names in zip(arrays, values, labels, strict=True):
                array[row, rest] = value.at(names)
        return [Labelled(a, names) for a, names in zip(arrays, labels, strict=True)], near

    def _met(
        self, flagged: NDArray[numpy.bool_], one: Inputs, other: Inputs, owns: Mapping[int, Own]
    ) -> NDArray[numpy.bool_]:
        """Which flagged pairs have a flag that is not at the same data: their laws are looked at entry by entry."""
        near = numpy.zeros_like(flagged)
        for i, j in blocks(flagged):
            mine, theirs = one.some(i), other.some(j)
            found = self.pair.run(self._given(mine, theirs, {1: owns[1].some(i), 2: owns[2].some(j)}))
            near[numpy.ix_(i, j)] = self._near(found[self.kernels :], mine, theirs)
        return near

    def _given(
        self, one: Inputs, other: Inputs, owns: Mapping[int, Own], in_blocks: bool = False
    ) -> Callable[[Any], Any]:
        """What the leaves of the tape of pairs are."""
        beside = not in_blocks and one.many * other.many >= _BESIDE
        laid = numpy.asfortranarray if beside else numpy.asarray

        def given(leaf: Any) -> Any:
            if leaf[0] == "data":
                found = data_of(self.tables[0], one if leaf[2] == 1 else other, leaf)
                return Labelled(laid(found.array), (batch(leaf[2]), *found.labels[1:]))
            _, side, place, labels = leaf
            row = owns[side].rows[place]
            if in_blocks and isinstance(row, Blocks):
                return row
            return Labelled(laid(owns[side].row(place).array), labels)

        return given

    def _near(self, found: Sequence[Labelled], one: Inputs, other: Inputs) -> NDArray[numpy.bool_]:
        """Pairs with a flag, but not at the same data."""
        flags = [Labelled(f.array != 0, f.labels) for f in found]
        near = numpy.zeros((one.many, other.many), dtype=bool)
        program = self.tables[0].derivation.recursion.program
        bad = [s for f, p in zip(flags, self.watched, strict=True) for s in suspicious(program, (one, other), p, f)]
        return near | suspects(bad, near.shape) if bad else near


def are_many(pairs: int) -> bool:
    """Whether loops over the pairs of one call are worth compiling, whatever was asked before."""
    return pairs >= _MANY


@lru_cache(maxsize=16)
def _triangle(many: int) -> tuple[NDArray[numpy.intp], ...]:
    """Rows and columns of pairs above the diagonal, their places one after the other and those of their mirrors."""
    i, j = numpy.triu_indices(many, 1)
    return i, j, i * many + j, j * many + i


def data_of(tables: Tables, inputs: Inputs, leaf: Any) -> Labelled:
    """What a tape reads of the data."""
    _, source, _ = leaf
    axes = tables.derivation.recursion.program[source].axes
    return Labelled(inputs.arrays[source], (batch(1), *axes))
