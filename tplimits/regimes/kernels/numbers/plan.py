"""Plans of a recursion: what is done once for each input, and what for each pair of inputs.

The interpreter of `tables` is run once on traced arrays.  What depends on one input alone goes to the tape of that
input (`Rows`), everything else to the tape of a pair.  A plan holds for all data of the same sizes.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.program.nodes.entries import free_indices
from tplimits.regimes.kernels.derivation.leaves import on_first
from tplimits.regimes.kernels.numbers.alone import data_of
from tplimits.regimes.kernels.numbers.blocks import Blocks, Own
from tplimits.regimes.kernels.numbers.compiled import CompiledSchedule, compiled
from tplimits.regimes.kernels.numbers.extents import entries, largest, sizes_of
from tplimits.regimes.kernels.numbers.forms import NotNested
from tplimits.regimes.kernels.numbers.frames import suspicious
from tplimits.regimes.kernels.numbers.gaps import spread
from tplimits.regimes.kernels.numbers.inputs import keyed
from tplimits.regimes.kernels.numbers.labelled import Labelled, Traced
from tplimits.regimes.kernels.numbers.nested import Nested, nested
from tplimits.regimes.kernels.numbers.passes import Passes
from tplimits.regimes.kernels.numbers.places import batch
from tplimits.regimes.kernels.numbers.singular import KINKED, blocks, suspects
from tplimits.regimes.kernels.numbers.tables import Tables
from tplimits.regimes.kernels.numbers.tape import Schedule, Tape

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.inputs import Inputs

Array = NDArray[numpy.float64]
#: entries of the largest array of one block of inputs, or of one tile of pairs
_BLOCK = 1 << 17
#: seconds of an array pass over one entry
_SECONDS = 2e-9
#: work in seconds above which loops are compiled; entries below which a loop costs more than it saves
_WORTHWHILE, _FEW = 0.5, 1 << 14
#: of a compiled tile: inputs a side, and entries of all steps
_WIDEST, _LONGEST = 1024, 1 << 33
_PLANS: weakref.WeakKeyDictionary[KernelTables, dict[Any, Plan]] = weakref.WeakKeyDictionary()


@dataclass(eq=False)
class Rows:
    """Quantities of one input that pairs read, each with its place among the results of the tape of its side."""

    tables: dict[int, Tables]
    tape: Tape
    outputs: dict[int, list[Any]] = field(default_factory=lambda: {1: [], 2: []})
    places: dict[tuple[int, Any], int] = field(default_factory=dict)

    def row(self, expr: Expr, side: int) -> Any:
        """A quantity of one input, as a leaf of the tape of pairs."""
        first = on_first(expr)
        names = {on_first(i).name: i.name for i in free_indices(expr)} | {batch(1): batch(side)}
        value = self.tables[side].frame(1, 1).value(first)
        order = sorted(value.labels, key=lambda x: x != batch(1))  # inputs first, as rows are kept
        labels = tuple(names.get(x, x) for x in (order if isinstance(value, Traced) else value.labels))
        if isinstance(value, Labelled):
            return Labelled(value.array, labels)
        return self._leaf(first, side, value, labels)

    def spread(self, expr: Expr, side: int, axes: tuple[str, ...]) -> Any:
        """What the places differ that a sum over one input reads (see `gaps`)."""
        value = spread(self.tables[side].frame(1, 1), expr)
        return None if value is None else self._leaf(("spread", expr), side, value, (batch(side), *axes))

    def _leaf(self, key: Any, side: int, value: Any, labels: tuple[str, ...]) -> Any:
        mine = side if self.tables[1] is not self.tables[2] else 1
        if (mine, key) not in self.places:
            self.places[mine, key] = len(self.outputs[mine])
            self.outputs[mine].append(value)
        return self.tape.leaf(("row", side, self.places[mine, key], labels), labels)


@dataclass(eq=False)
class Plan:
    """Both tapes, as far as the kernels need them."""

    pair: Schedule
    kernels: int
    rows: dict[int, Schedule]
    many: dict[int, int]
    largest: int
    largest_row: int
    tables: tuple[Tables, ...]
    watched: list[Mapping[int, int]]
    watched_rows: dict[int, int]

    labels: Sequence[tuple[str, ...]]
    sizes: Mapping[str, int]
    #: entries of all steps for one pair
    entries: int
    #: seconds that array passes of all calls so far have been worth
    worth: float = 0.0
    is_compiled: bool = False
    _nested: dict[tuple[bool, bool], Nested | None] = field(default_factory=dict)

    @cached_property
    def loops(self) -> CompiledSchedule:
        """The tape of pairs with its pointwise steps in compiled loops."""
        return compiled(self.pair, self.labels, self.sizes)

    @cached_property
    def own_loops(self) -> dict[int, CompiledSchedule]:
        """The same of the tapes of inputs."""
        found: dict[int, CompiledSchedule] = {}
        for side, tables in ((1, self.tables[1]), (2, self.tables[2])):
            assert tables.tape is not None
            known = self.rows[side] is self.rows[1] and 1 in found
            sizes = sizes_of(self.rows[side], tables.tape, tables)
            found[side] = found[1] if known else compiled(self.rows[side], tables.tape.labels, sizes)
        return found

    def nested(self, single: bool, columns: int) -> Nested | None:
        """The tape of pairs as one compiled function, where it has a form."""
        kind = single, single and columns <= 8
        if kind not in self._nested:
            eps = float(numpy.finfo(numpy.float32 if single else numpy.float64).eps)
            inputs = (batch(1), batch(2))
            self._nested[kind] = _nested(
                lambda: Passes(self.pair, self.labels, self.sizes, inputs, self.kernels, eps=eps), single, columns
            )
        return self._nested[kind]

    @property
    def is_nested(self) -> bool:
        """Whether pairs are done by one compiled function."""
        return self.is_compiled and self.nested(False, 8) is not None

    def lanes(self, single: bool, columns: int) -> tuple[int, Any]:
        """Inputs in a vector of that function, and its arithmetic."""
        nest = self.nested(single, columns)
        assert nest is not None
        return nest.lanes.count, nest.dtype

    @cached_property
    def own_nested(self) -> dict[int, Nested | None]:
        """The same of the tapes of inputs."""
        found: dict[int, Nested | None] = {}
        for side, tables in ((1, self.tables[1]), (2, self.tables[2])):
            assert tables.tape is not None
            if self.rows[side] is self.rows[1] and 1 in found:
                found[side] = found[1]
                continue
            schedule, labels = self.rows[side], tables.tape.labels
            sizes, many = sizes_of(schedule, tables.tape, tables), len(schedule.wanted) - self.watched_rows[side]
            found[side] = _nested(partial(Passes, schedule, labels, sizes, (batch(1),), many, True), False, 8)
        return found

    def expect(self, pairs: int) -> None:
        """Compile the loops where the work of all calls so far passes what compiling costs, or where they are known."""
        self.worth += pairs * self.seconds
        if not self.is_compiled and pairs * self.entries > _FEW:
            self.is_compiled = self.worth > _WORTHWHILE or self._are_kept

    def settled(self, pairs: int) -> Plan:
        """This plan with loops compiled where so many pairs are worth it, whatever was asked before."""
        return replace(self, is_compiled=pairs * self.seconds > _WORTHWHILE)

    @property
    def seconds(self) -> float:
        """What array passes over one pair take."""
        return self.entries * _SECONDS

    @property
    def _are_kept(self) -> bool:
        return self.loops.are_kept and all(loops.are_kept for loops in self.own_loops.values())

    @property
    def error(self) -> float:
        """The largest error of a mean so far."""
        return max(t.error for t in self.tables)

    def own(self, side: int, inputs: Inputs) -> Own:
        """What is done once for each input of a side."""
        nest = self.own_nested[side] if self.is_compiled else None
        if nest is not None:
            rows, flagged = nest.run(partial(data_of, self.tables[0], inputs), (inputs.many,), False)
            if not flagged.any():
                return Own(rows, flagged)
        schedule, parts = (self.own_loops if self.is_compiled and nest is None else self.rows)[side], []
        step = max(1, _BLOCK // self.largest_row)
        for start in range(0, inputs.many, step):
            some = inputs.some(slice(start, start + step))
            parts.append(schedule.run(partial(data_of, self.tables[0], some)))
        found = [_joined([p[k] for p in parts]) for k in range(len(parts[0]))]
        many = len(found) - self.watched_rows[side]
        values, flags = found[:many], [Labelled(f.array != 0, f.labels) for f in found[many:]]
        program, places = self.tables[0].derivation.recursion.program, {1: 1, 2: 1}
        bad = [s for f in flags for s in suspicious(program, (inputs, inputs), places, f)]
        near = numpy.zeros(inputs.many, dtype=bool)
        for f in bad:
            near |= f.array.any(axis=tuple(k for k, x in enumerate(f.labels) if x != batch(1)))
        return Own(values, near)

    def run(
        self, one: Inputs, other: Inputs, owns: Mapping[int, Own], above: bool = False, single: bool = False
    ) -> tuple[list[Labelled], NDArray[numpy.bool_]]:
        """Kernels of all pairs, or of those `above` the diagonal, and which of them rest on a nearly singular law."""

        if self.is_compiled and (nest := self.nested(single, other.many)) is not None:
            with numpy.errstate(all="ignore"):
                values, flagged = nest.run(self._given(one, other, owns, True), (one.many, other.many), above)
            near = owns[1].near[:, None] | owns[2].near[None, :]
            if flagged.any():
                near |= self._met(numpy.triu(flagged, 1) if above else flagged, one, other, owns)
            return values, near
        given = self._given(one, other, owns)
        found = self._interpreted(given)
        near = self._near(found[self.kernels :], one, other)
        return found[: self.kernels], near | owns[1].near[:, None] | owns[2].near[None, :]

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

        def given(leaf: Any) -> Any:
            if leaf[0] == "data":
                found = data_of(self.tables[0], one if leaf[2] == 1 else other, leaf)
                return Labelled(found.array, (batch(leaf[2]), *found.labels[1:]))
            _, side, place, labels = leaf
            row = owns[side].rows[place]
            if isinstance(row, Blocks) and in_blocks:
                return Blocks(row.array, row.many, row.sizes, labels)
            return Labelled(owns[side].row(place).array, labels)

        return given

    def _interpreted(self, given: Callable[[Any], Labelled]) -> list[Labelled]:
        with numpy.errstate(all="ignore"):
            return (self.loops if self.is_compiled else self.pair).run(given)

    def _near(self, found: Sequence[Labelled], one: Inputs, other: Inputs) -> NDArray[numpy.bool_]:
        """Pairs with a flag, but not at the same data."""
        flags = [Labelled(f.array != 0, f.labels) for f in found]
        near = numpy.zeros((one.many, other.many), dtype=bool)
        program = self.tables[0].derivation.recursion.program
        bad = [s for f, p in zip(flags, self.watched, strict=True) for s in suspicious(program, (one, other), p, f)]
        return near | suspects(bad, near.shape) if bad else near


def _nested(passes: Callable[[], Passes], single: bool, columns: int) -> Nested | None:
    try:
        return nested(passes(), single, columns)
    except NotNested:
        return None


def _joined(parts: Sequence[Labelled]) -> Labelled:
    if batch(1) not in parts[0].labels:
        return parts[0]
    labels = (batch(1), *(x for x in parts[0].labels if x != batch(1)))
    return Labelled(numpy.concatenate([numpy.ascontiguousarray(p.at(labels)) for p in parts]), labels)


def plan_for(
    derivation: KernelTables, one: Inputs, other: Inputs, constants: Mapping[Expr, float], kernels: tuple[str, ...]
) -> Plan:
    """The plan of a recursion for these sizes and constants, remembered."""
    known = _PLANS.setdefault(derivation, {})
    key = (keyed(one.sizes), keyed(other.sizes), keyed(constants), kernels)
    if key not in known:
        known[key] = _made(derivation, one, other, constants, kernels)
    return known[key]


def _made(
    derivation: KernelTables, one: Inputs, other: Inputs, constants: Mapping[Expr, float], kernels: tuple[str, ...]
) -> Plan:
    demand, kinked = derivation.demand, any(t.definition.has(*KINKED) for t in derivation.needed)
    shared: dict[str, Any] = {"demand": demand, "gapped": kinked}

    def alone(inputs: Inputs) -> Tables:
        return Tables(derivation, (inputs, inputs), constants, tape=Tape(), **shared)

    first = alone(one)
    second = first if dict(one.sizes) == dict(other.sizes) else alone(other)
    pair = Tape()
    rows = Rows({1: first, 2: second}, pair)
    both = Tables(derivation, (one, other), constants, tape=pair, rows=rows, **shared)
    exprs = [getattr(demand, k) for k in kernels]
    results = [both.frame(1, 2).mean(e) for e in exprs]
    mine = [first.frame(1, 1).mean(e) for e in exprs]
    rows.outputs[1] += mine
    if second is first:
        rows.outputs[2] = rows.outputs[1]
    schedule = pair.schedule([*results, *(w for w, _ in pair.watched)])
    own: dict[int, Schedule] = {}
    watched: dict[int, int] = {}
    for side, tables in ((1, first), (2, second)):
        assert tables.tape is not None
        flags = [w for w, _ in tables.tape.watched]
        own[side] = own[1] if side == 2 and second is first else tables.tape.schedule([*rows.outputs[side], *flags])
        watched[side] = len(flags)
    return Plan(
        schedule,
        len(kernels),
        own,
        {s: len(o) for s, o in rows.outputs.items()},
        largest(schedule, pair, both),
        max(largest(own[s], t.tape, t) for s, t in ((1, first), (2, second))),
        (both, first, second),
        [p for _, p in pair.watched],
        watched,
        pair.labels,
        sizes_of(schedule, pair, both),
        entries(schedule, pair, both),
    )


def step_of(plan: Plan, block: int = _BLOCK) -> int:
    """Inputs a side of a tile: as many as the arrays of all pairs leave room for, or as take a second or two."""
    if plan.is_nested:
        return 16 * max(1, min(_WIDEST, math.isqrt(_LONGEST // plan.entries)) // 16)
    return max(1, math.isqrt(block // min(block, plan.largest)))


__all__ = ["Plan", "Rows", "Traced", "plan_for", "step_of"]
