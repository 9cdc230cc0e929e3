"""The compiled functions of a plan: of pairs of inputs and of inputs, each made when it is first asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy

from tplimits.regimes.kernels.numbers.passes.bands import Bands
from tplimits.regimes.kernels.numbers.passes.forms import NotNested, read_by, work
from tplimits.regimes.kernels.numbers.passes.nested import Nested, nested
from tplimits.regimes.kernels.numbers.passes.paired import listed, paired
from tplimits.regimes.kernels.numbers.passes.passes import Passes
from tplimits.regimes.kernels.numbers.passes.statements import Statements
from tplimits.regimes.kernels.numbers.tables.places import batch

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.tables.tape import TapeSchedule

#: entries of tables that are kept for all offsets, of one pair
_MOST_KEPT = 1 << 21
#: operations that bringing one entry of an input beside others is worth
_PACKED = 16


@dataclass(eq=False)
class Functions:
    """A tape as a compiled function, in either arithmetic; `kernels` of its results are asked for, the rest are flags.

    `banded`: tables over pairs of places are done offset by offset.
    """

    schedule: TapeSchedule
    labels: Sequence[tuple[str, ...]]
    sizes: Mapping[str, int]
    inputs: tuple[str, ...]
    kernels: int
    banded: bool = False
    known: dict[tuple[bool, int], Nested | None] = field(default_factory=dict)

    @cached_property
    def statements(self) -> Statements | None:
        """The tape as one function of NumPy arrays; None where there are places."""
        try:
            return Statements(self.schedule, self.labels, self.inputs, self.kernels)
        except NotNested:
            return None

    def passes(self, single: bool = False) -> Passes:
        """The tape as passes over entries."""
        eps = float(numpy.finfo(numpy.float32 if single else numpy.float64).eps)
        guarded = len(self.inputs) == 1
        return Passes(
            self.schedule, self.labels, self.sizes, self.inputs, self.kernels, guarded, eps=eps, banded=self.banded
        )

    @property
    def has_bands(self) -> bool:
        """Whether all tables over pairs of places are done offset by offset; NotNested where one cannot be."""
        if not any(Bands.is_between(self.labels[n]) for n, _, _ in self.schedule.steps):
            return False
        passes = self.passes()
        if not any(Bands.is_between(self.labels[n]) for n in passes.kept):
            return False
        bands = Bands(passes)
        if sum(p.extent for p in bands.kept) > _MOST_KEPT:
            raise NotNested("tables behind pools are too large")
        return True

    @cached_property
    def is_heavy(self) -> bool:
        """Whether passes over pairs of inputs do so much that bringing what they read beside each other is little."""
        if len(self.inputs) == 1:
            return False
        try:
            passes = self.passes()
        except NotNested:
            return False
        one = {n for p in passes.passes for n in read_by(p) if n not in passes.inside}
        packed = sum(math.prod(passes.sizes_of(n)) for n in one if len(set(self.inputs) & set(passes.labels[n])) == 1)
        return _PACKED * packed <= sum(work(p) for p in passes.passes)

    def of(self, single: bool, columns: int) -> Nested | None:
        """The function for so many inputs; None where the tape has no such form."""
        key = single, self._lanes(single, columns)
        if key not in self.known:
            try:
                made = paired if self.banded else listed if self.is_heavy else nested
                self.known[key] = made(self.passes(single), *key)
            except NotNested:
                self.known[key] = None
        return self.known[key]

    def _lanes(self, single: bool, columns: int) -> int:
        """Inputs, or pairs of them, beside each other: whole vectors, or half of one where there are few."""
        if self.banded or self.is_heavy:
            few = columns <= (4 if len(self.inputs) == 1 else 3)
            return (8 if single else 4) if few else (16 if single and columns > 5 else 8)
        return 16 if single else 8


def functions_of(
    schedule: TapeSchedule,
    labels: Sequence[tuple[str, ...]],
    sizes: Mapping[str, int],
    sides: Sequence[int],
    kernels: int,
) -> Functions:
    """Those of the tape of some sides."""
    return Functions(schedule, labels, sizes, tuple(batch(s) for s in sides), kernels)


def take_bands(functions: Sequence[Functions]) -> bool:
    """Do tables over pairs of places offset by offset, where all can be; whether the tapes may stay as they are."""
    distinct = list({id(f): f for f in functions}.values())
    try:
        for f in distinct:
            f.banded = True
        found = [f.has_bands for f in distinct]
    except (NotNested, RecursionError):  # formulas of hundreds of layers without a sum between them
        return False
    for f, has in zip(distinct, found, strict=True):
        f.banded = has
    return True
