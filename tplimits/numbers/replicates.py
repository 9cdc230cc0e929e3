"""Means over replicates of particle runs: the bias of order 1/M removed, an error from their spread and rounding.

What hardly any particle sees has no such error, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.law.observables import BracketObservable, Observable, keys
from tplimits.numbers.number import Number, standard_error
from tplimits.numbers.particles import CONDITIONINGS, SEEN, ParticleExecution
from tplimits.numbers.rare import Counts, hits, refuse_rare, unseen
from tplimits.numbers.steep.doubts import doubts
from tplimits.numbers.steep.errors import errors
from tplimits.numbers.steep.looking import Looking, few_seen
from tplimits.numbers.steep.nested import nested_errors
from tplimits.numbers.steep.readers import Readers, readers_of
from tplimits.program.nodes.given import seed_number, whole_from, word_of, working_executor
from tplimits.progress import Progress, reporting

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.program import Program

#: relative rounding of a replicate: programs that white particles do exactly have no other error
_ROUNDING = 1e-14


def observed(execution: Execution, observable: Observable) -> float:
    """The value of an observable in one draw."""
    arrays = execution.arrays
    if isinstance(observable, BracketObservable):
        (p, i), (q, j) = observable.left, observable.right
        return float(numpy.mean(arrays[p][(0, *i)] * arrays[q][(0, *j)]))
    position, index = observable.key
    return float(arrays[position][(0, *index)])


@dataclass(frozen=True)
class Draws:
    """What all replicates have in common."""

    program: Program
    observables: tuple[Observable, ...]
    white: bool
    ratios: Mapping[str, float]
    constants: Mapping[str, Any]
    settled: Mapping[Key, float] = field(default_factory=dict)
    #: numbers of whole scalars, by position
    held: Mapping[int, Array] = field(default_factory=dict)

    @cached_property
    def readers(self) -> Readers:
        """The functions of scalars that the observables rest on."""
        return readers_of(self.program, frozenset(p for o in self.observables for p, _ in keys(o))).curved

    def execution(
        self, particles: int, seed: numpy.random.SeedSequence, seen: int = 0, moved: bool = False
    ) -> ParticleExecution:
        """One draw of so many particles, not yet run; rounding is bounded at `seen` of them."""
        # of its own: a sequence that streams were spawned from gives other ones
        own = numpy.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
        rng = numpy.random.Generator(numpy.random.SFC64(own))
        found = ParticleExecution(
            self.program, particles, rng, self.white, self.ratios, self.constants, self.settled, moved
        )
        found.rounding_at, found.held = seen, self.held
        return found

    def replicate(self, particles: int, seed: numpy.random.SeedSequence, seen: int = SEEN) -> Array:
        """The values of `counted` alone."""
        return self.counted(particles, seed, seen).values

    def counted(self, particles: int, seed: numpy.random.SeedSequence, seen: int = SEEN) -> Replicate:
        """One replicate, with the bias of order 1/M removed by the jackknife.

        Rounding is bounded at `seen` particles.

        A(M) has bias b/M; 2 A(M) − mean of A over the two halves of the same particles does not, and hardly
        any more noise, since the halves share it.
        """
        whole = self.execution(particles, seed, seen)
        # halves of the same particles, from the same normal columns: their noise is that of the whole
        runs = [whole, whole.part(0, of=2), whole.part(1, of=2)]
        values, counts, read = [], dict[str, Counts](), dict[int, Array]()
        for run in runs:
            run.run()
            values.append(numpy.array([observed(run, o) for o in self.observables]))
            if run is whole:
                counts, read = self._counts(run), few_seen(self.readers, run)
            run.arrays = []
        with numpy.errstate(invalid="ignore"):  # what is infinite in all of them is refused by name
            return Replicate(2 * values[0] - (values[1] + values[2]) / 2, counts, read)

    def _counts(self, run: ParticleExecution) -> dict[str, Counts]:
        """How many particles make each mean that the observables rest on."""
        behind = self.program.behind(position for o in self.observables for position, _ in keys(o))
        found = {self.program[p].name: counts for p, counts in run.hits.items() if p in behind}
        for o in self.observables:
            if isinstance(o, BracketObservable):
                left, right = (run.arrays[p][(0, *i)] for p, i in (o.left, o.right))
                found[o.label] = hits(left * right)
        return found

    def wider(self, particles: int, seed: numpy.random.SeedSequence) -> dict[str, Counts]:
        """How many particles would make each mean, were vectors wider and scalars what they are."""
        run, wide = (self.execution(particles, seed) for _ in range(2))
        run.run()
        wide.hold(run)
        wide.run()
        return self._counts(wide)

    def rounding(self, particles: int, seed: numpy.random.SeedSequence) -> Array:
        """What observables are off by where every body is off by its rounding, of few particles."""
        runs = [self.execution(min(particles, SEEN), seed, moved=moved).run() for moved in (False, True)]
        here, moved = (numpy.array([observed(run, o) for o in self.observables]) for run in runs)
        with numpy.errstate(invalid="ignore"):  # as above
            return numpy.nan_to_num(abs(moved - here), posinf=0.0)

    def more_errors(
        self, replicates: Sequence[Replicate], again: Callable[[Draws, Sequence[int]], Sequence[Replicate]]
    ) -> Array:
        """What functions of scalars add to the errors of the observables; SteepError where that is no number."""
        if not self.readers.means:
            return numpy.zeros(len(self.observables))
        run = self.execution(2, numpy.random.SeedSequence(0))
        looking = Looking(self.program, self.readers, replicates[0].read, run.leaves, self.ratios, self.constants)
        bent = doubts(looking, {p: numpy.array([r.read[p] for r in replicates]) for p in self.readers.sources})
        values = numpy.array([r.values for r in replicates])
        labels = [f"`{o.label}`" for o in self.observables]

        def held(means: Mapping[int, Array], which: Sequence[int]) -> Array:
            return numpy.array([one.values for one in again(replace(self, held=means), which)])

        def read(means: Mapping[int, Array]) -> Mapping[int, Array]:
            return again(replace(self, held=means), [0])[0].read

        behind = [self.program.behind(p for p, _ in keys(o)) for o in self.observables]

        def rest(reader: int) -> Array:
            return numpy.array([reader in of for of in behind])

        more = errors(bent, values, held, rest, labels.__getitem__)
        return numpy.hypot(more, nested_errors(looking, bent, values, held, read, rest, labels.__getitem__))


@dataclass(frozen=True)
class Replicate:
    """One draw: the values of the observables, how many particles make each mean, and what is read of scalars."""

    values: Array
    counts: dict[str, Counts]
    read: dict[int, Array]


@dataclass(frozen=True)
class Particles:
    """How means are taken over joint samples of kets: as it was asked for, and not yet looked at."""

    particles: Any
    replicates: Any
    seed: Any
    conditioning: Any
    executor: Executor | None = None
    progress: Progress = None

    def checked(self) -> None:
        """EvaluationError for settings that are none."""
        word_of("conditioning", self.conditioning, CONDITIONINGS, EvaluationError)
        whole_from("particles", self.particles, 16, EvaluationError)
        whole_from("replicates", self.replicates, 2, EvaluationError)
        seed_number(self.seed, EvaluationError)
        working_executor(self.executor, EvaluationError)


def evaluate(
    program: Program,
    observables: Sequence[Observable],
    asked: Particles,
    ratios: Mapping[str, float],
    constants: Mapping[str, Any],
    settled: Mapping[Key, float],
) -> dict[str, Number]:
    """Means over replicates with their standard errors; the same seed gives the same numbers on any executor.

    Scalars that are `settled` are these numbers.
    """
    asked.checked()
    particles, replicates, white = int(asked.particles), int(asked.replicates), asked.conditioning == "white"
    draws = Draws(program, tuple(observables), white, ratios, constants, settled)
    seeds = numpy.random.SeedSequence(asked.seed).spawn(replicates)

    def rows(other: Draws, which: Sequence[int], told: Callable[[int], None] = lambda done: None) -> list[Replicate]:
        # all replicates have one law: the first looks at what rounding makes of it for all of them
        first = SEEN * replicates if other is draws else 0
        job, of = partial(other.counted, particles), ([seeds[k] for k in which], [first * (k == 0) for k in which])
        found = []
        for one in map(job, *of) if asked.executor is None else asked.executor.map(job, *of):
            found.append(one)
            told(1)
        return found

    with reporting(asked.progress) as report:
        report.plan(replicates, "particles")
        try:
            found = rows(draws, range(replicates), report.advance)
        except MemoryError:
            raise EvaluationError(f"particles={particles}: they do not fit into memory; give fewer.") from None
    seen_by = {name: numpy.sum([one.counts[name] for one in found], axis=0) for name in found[0].counts}
    refuse_rare(seen_by, draws.wider(particles, seeds[0]) if unseen(seen_by) else {}, particles * replicates)
    values, lost = numpy.array([one.values for one in found]), draws.rounding(particles, seeds[0])
    for o, column in zip(observables, values.T, strict=True):
        if not numpy.isfinite(column).all():
            raise EvaluationError(f"moment not established: `{o.label}` is not finite in some replicate.")
    more = draws.more_errors(found, rows)
    result = {}
    for o, column, moved, bent in zip(observables, values.T, lost, more, strict=True):
        rounding = _ROUNDING * max(1.0, float(numpy.max(numpy.abs(column))))
        # equal replicates, as of what white particles do exactly, would claim no error at all
        error = math.hypot(float(standard_error(column)), max(rounding, float(moved)), float(bent))
        result[o.label] = Number(float(column.mean()), error, "particles", degrees=replicates - 1)
    return result
