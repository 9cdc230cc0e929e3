"""Scalars of a program to order 1/n, at two resolutions of the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.law.observables import Observable, ScalarObservable
from tplimits.numbers.expansion.averages import Averages
from tplimits.numbers.expansion.fields import MOST_ENTRIES, Field, TooLarge, aligned
from tplimits.numbers.expansion.jets import Jet, number
from tplimits.numbers.expansion.kinks import NoDefinitePlace
from tplimits.numbers.expansion.nodes import Frame, Moved, Rough, Singular, Split
from tplimits.numbers.expansion.programs import Numbers, Pass
from tplimits.numbers.expansion.samples import Samples, Spread
from tplimits.numbers.rare import WIDER, Counts, hits_of_all
from tplimits.program.nodes.kinds import MatMul

if TYPE_CHECKING:
    from tplimits.numbers.expansion.reading import Use
    from tplimits.program.nodes.program import Program

T = TypeVar("T")
#: distances of nodes, from the finest
STEPS = (0.27, 0.34, 0.42, 0.5, 0.65)
#: an estimate of entries above the largest number by this factor is believed
_MARGIN = 2.0
#: passes, each of which divides a variable or refines one
_MOST_PASSES = 200
#: a place that is read off nodes comes nearer by this factor in each pass, or is found by chords
_FAST = 0.1
#: moves of one place that do not bring it nearer by half, as where a function jumps over 0: a zero has been found then
_VAIN = 40


@dataclass(frozen=True)
class Part:
    """One average: what it contributes to the bias and to the variances of each observable."""

    label: str
    bias: tuple[float, ...]
    variance: tuple[float, ...]


@dataclass(frozen=True)
class Expanded:
    """L, b and C of some observables, what n^(−1/2) contributes, and the averages behind them."""

    limit: Array
    bias: Array
    covariance: Array
    root: Array
    parts: tuple[Part, ...]
    #: which of the observables are √n times what tends to 0: their C is their variance
    random: tuple[bool, ...]
    #: the influence of each average on each observable, and all averages that were asked for, in order
    total: Array
    calls: tuple[tuple[float, int | None], ...]
    #: a function that bends between nodes, and its line; the values at nodes of the largest vector
    bends: str = ""
    misses: str = ""
    entries: int = 0
    #: how many of the points that are spread make each average
    hits: Mapping[str, Counts] = field(default_factory=dict)


@dataclass(frozen=True)
class Drawn:
    """One drawn network: which directions exist at finite width, and the base variables of each axis."""

    exist: dict[Use, bool]
    variables: dict[str, int]


def drawn(program: Program, numbers: Numbers) -> Drawn:
    """What is the same in almost every network, read off one."""
    found: dict[Use, bool] = {}
    frame = Samples(dict.fromkeys(numbers.ratios, drawn_size(program)), numpy.random.default_rng(0))
    with numpy.errstate(all="ignore"):
        averages = Averages(frame, numbers.ratios, values_only=True)
        Pass(program, numbers, averages, found, drawn_size(program)).run()
    # one more for each direction that this network may have missed
    missed = list(found.values()).count(False)
    return Drawn(found, {axis: count + missed for axis, count in frame.counts.items()})


def drawn_size(program: Program) -> int:
    """A width at which one drawn network shows what all have."""
    return 48 + 8 * sum(isinstance(s, MatMul) for s in program)


def fitting(program: Program, numbers: Numbers, seen: Drawn) -> tuple[float, ...]:
    """The resolutions that have room for the vectors of a program, finest first, seen on values at the coarsest."""
    coarse, rough, divides = STEPS[-1], frozenset[int](), True
    while True:
        frame = Frame(coarse, rough, divides=divides)
        try:
            run = Pass(program, numbers, Averages(frame, numbers.ratios, values_only=True), seen.exist).run()
            break
        except Rough as found:
            rough |= found.numbers
        # where variables are divided is found by passes with derivatives: for sizes undivided nodes are enough
        except (Split, Moved):
            divides = False
        except TooLarge:
            return ()
        except (NoLimitError, EvaluationError):
            return STEPS  # passes with derivatives say why
    sizes = {(x.value.values.size, len(x.value.dims)) for x in run.jets.values()}
    room = MOST_ENTRIES * _MARGIN
    # a field of so many variables grows by the ratio of the steps in each of them
    return tuple(s for s in STEPS if all(size * (coarse / s) ** count <= room for size, count in sizes))


def on_grid(
    program: Program,
    numbers: Numbers,
    observables: Sequence[Observable],
    seen: Drawn,
    step: float,
    by_cells: bool = False,
) -> Expanded:
    """One resolution, with derivatives at nodes or over cells between them.  May raise TooLarge."""

    def made(frame: Frame) -> Expanded:
        frame.by_cells = by_cells
        averages = Averages(frame, numbers.ratios)
        return _collected(Pass(program, numbers, averages, seen.exist).run(), observables)

    return divided(program.name, step, made)


@dataclass(frozen=True)
class Bracket:
    """The nearest places on both sides of a zero, with the values there, as passes in a row have met them.

    What runs through nodes beside a steep function leads to either side of its zero for ever.
    """

    #: where values are negative, and where they are positive; NaN where there is none yet
    ends: tuple[Array, Array]
    values: tuple[Array, Array]
    #: what was met last
    last: Array

    @classmethod
    def around(cls, like: Array) -> Bracket:
        """Nothing is known yet."""
        nothing = numpy.full(like.shape, numpy.nan)
        return cls((nothing, nothing), (nothing, nothing), nothing)

    def narrowed(self, place: Array, value: Array) -> Bracket:
        """With one more place; an end that stays twice counts half (the Illinois rule), or it would stay for ever."""
        again = self.last * value > 0
        sides = (value < 0, value > 0)
        ends = [numpy.where(side, place, end) for side, end in zip(sides, self.ends, strict=True)]
        values = [
            numpy.where(side, value, numpy.where(other & again, old / 2, old))
            for side, other, old in zip(sides, sides[::-1], self.values, strict=True)
        ]
        return Bracket((ends[0], ends[1]), (values[0], values[1]), value)

    def nearer(self, place: Array, before: Array) -> Array:
        """A place that was read off, where it is between both ends and came much nearer; else that of a chord."""
        (low, high), (below, above) = self.ends, self.values
        chord = low - below * (high - low) / numpy.where(above == below, 1.0, above - below)
        inside = (numpy.minimum(low, high) < place) & (place < numpy.maximum(low, high))
        fast = ~(abs(self.last) > _FAST * abs(before))
        return numpy.where(numpy.isfinite(chord) & ~(inside & fast), chord, place)


@dataclass
class Divisions:
    """Which variables are no polynomials, and where they are divided, as far as passes have met it."""

    rough: frozenset[int] = frozenset()
    graded: frozenset[int] = frozenset()
    splits: dict[int, list[Field]] = field(default_factory=dict)
    #: around what the place that was moved last is to be, and which it is
    bracket: tuple[tuple[int, int], Bracket] | None = None
    #: what its function was there at least, and how often it has been moved since
    nearest: tuple[float, int] = (math.inf, 0)

    def move(self, moved: Moved) -> None:
        """Move a place, to within what passes in a row have found around it; NoDefinitePlace where it is at none."""
        places, key = list(self.splits[moved.number]), (moved.number, moved.mark)
        least, times = self.nearest if self.bracket and self.bracket[0] == key else (math.inf, 0)
        self.nearest = (moved.value.size, 0) if moved.value.size < least / 2 else (least, times + 1)
        if times == _VAIN:
            raise NoDefinitePlace("a function jumps over 0, where it has a kink: smooth the jump.")
        old = aligned(places[moved.mark], moved.place.dims)
        value = numpy.broadcast_to(moved.value.values, moved.place.values.shape)
        known = self.bracket[1] if self.bracket and self.bracket[0] == key else None
        if known is None or known.last.shape != value.shape:
            known = Bracket.around(value)
        found = known.narrowed(numpy.broadcast_to(old, value.shape), value)
        self.bracket = key, found
        # as many nodes as before: places that are functions of them keep their shape, and are moved in turn
        places[moved.mark] = Field(moved.place.dims, found.nearer(moved.place.values, known.last))
        self.splits = {**self.splits, moved.number: places}

    def elsewhere(self) -> Divisions:
        """What is the same at other numbers: places that depend on nothing."""
        kept = {k: [p for p in places if not p.dims and p.values == 0] for k, places in self.splits.items()}
        return Divisions(self.rough, self.graded, {k: places for k, places in kept.items() if places})


def divided(
    name: str, step: float, made: Callable[[Frame], T], few: int | None = None, met: Divisions | None = None
) -> T:
    """What is made on the nodes of one resolution; variables are divided at the kinks that are met on the way.

    `met` keeps what was found for passes at the same numbers.
    """
    met = Divisions() if met is None else met
    for _ in range(_MOST_PASSES):
        frame = Frame(step, met.rough, met.splits, few=few, graded=met.graded)
        try:
            return made(frame)
        except Rough as found:
            met.rough, met.bracket = met.rough | found.numbers, None
            # a place that is a function of a variable is an array on its nodes: other nodes, other arrays
            met.splits = _apart_from(met.splits, found.numbers)
        except Singular as found:
            met.graded, met.bracket = met.graded | found.numbers, None
            met.splits = _apart_from(met.splits, found.numbers)
        except Split as split:
            kept, met.bracket = _apart_from(met.splits, {split.number}), None
            met.splits = {**kept, split.number: [*kept.get(split.number, []), split.place]}
        except Moved as moved:
            met.move(moved)
    raise EvaluationError(
        f"{frame.where}: in `{name}` more than {_MOST_PASSES} divisions at kinks that neurons cross are needed up to "
        "here. Smooth the kink, or look at a shorter program."
    )


def _apart_from(splits: Mapping[int, list[Field]], changed: AbstractSet[int]) -> dict[int, list[Field]]:
    """Places that are no functions of variables whose nodes change; the others are found again."""
    return {k: kept for k, places in splits.items() if (kept := [p for p in places if not changed & set(p.dims)])}


def on_points(
    program: Program, numbers: Numbers, observables: Sequence[Observable], seen: Drawn, size: int, seed: int
) -> Expanded:
    """One replicate on points that are spread over the law."""
    averages = Averages(Spread(seen.variables, size, seed), numbers.ratios)
    found = _collected(Pass(program, numbers, averages, seen.exist).run(), observables)
    return replace(found, hits=_by_label(averages))


class _Held(Averages):
    """Averages that are what they are on points of the law, while points are those of a wider one."""

    def average(self, x: Jet, axis: str, label: str) -> Jet:
        limit, _ = self.calls[len(self.hits)]
        self.hits.append((label, hits_of_all(x.value.values)))
        return number(limit)


def on_wider_points(
    program: Program, numbers: Numbers, found: Expanded, seen: Drawn, size: int, seed: int
) -> Mapping[str, Counts]:
    """How many of the points would make each average of a replicate, were they spread over a wider law."""
    held = _Held(Spread(seen.variables, size, seed, WIDER), numbers.ratios, values_only=True, calls=list(found.calls))
    Pass(program, numbers, held, seen.exist).run()
    return _by_label(held)


def _by_label(averages: Averages) -> dict[str, Counts]:
    """Averages of one line may be several."""
    labels = dict.fromkeys(label for label, _ in averages.hits)
    return {name: numpy.concatenate([c for label, c in averages.hits if label == name]) for name in labels}


def _collected(run: Pass, observables: Sequence[Observable]) -> Expanded:
    averages = run.averages
    jets = [run.observed(o) for o in observables]
    law, rows, total = averages.law(jets)
    slopes, shifts = averages.slopes, numpy.array([a.shift for a in averages.known])
    # m = (I − D)⁻¹ own: taken apart, each average states what it adds by itself
    own = shifts - slopes @ shifts
    # Cov of the own part of each average with the whole: (I − D) C rows
    shares = total * (rows @ averages.covariance @ (numpy.eye(len(shifts)) - slopes).T)
    parts = [
        Part(a.label, tuple(total[:, j] * own[j]), tuple(shares[:, j]))
        for j, a in enumerate(averages.known)
        if numpy.abs(total[:, j]).max(initial=0.0) > 0
    ]
    return Expanded(
        law.value,
        law.shift,
        law.covariance,
        law.root,
        tuple(parts),
        tuple(isinstance(o, ScalarObservable) and o.key in run.fluctuations for o in observables),
        total,
        tuple(averages.calls),
        run.frame.bends,
        run.frame.misses,
        max((x.value.values.size for x in run.jets.values()), default=0),
    )
