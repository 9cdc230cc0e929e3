"""Means over replicates of particle runs: the bias of order 1/M removed, an error from their spread and rounding.

What hardly any particle sees has no such error, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.law.observables import BracketObservable, Observable, keys
from tplimits.numbers.number import Number, standard_error
from tplimits.numbers.particles import CONDITIONINGS, SEEN, ParticleExecution
from tplimits.numbers.rare import Counts, hits, refuse_rare, unseen
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
        found.rounding_at = seen
        return found

    def replicate(self, particles: int, seed: numpy.random.SeedSequence, seen: int = SEEN) -> Array:
        """The values of `counted` alone."""
        return self.counted(particles, seed, seen)[0]

    def counted(
        self, particles: int, seed: numpy.random.SeedSequence, seen: int = SEEN
    ) -> tuple[Array, dict[str, Counts]]:
        """One replicate, with the bias of order 1/M removed by the jackknife, and how many particles make each mean.

        Rounding is bounded at `seen` particles.

        A(M) has bias b/M; 2 A(M) − mean of A over the two halves of the same particles does not, and hardly
        any more noise, since the halves share it.
        """
        whole = self.execution(particles, seed, seen)
        # halves of the same particles, from the same normal columns: their noise is that of the whole
        runs = [whole, whole.part(0, of=2), whole.part(1, of=2)]
        values, counts = [], dict[str, Counts]()
        for run in runs:
            run.run()
            values.append(numpy.array([observed(run, o) for o in self.observables]))
            counts = self._counts(run) if run is whole else counts
            run.arrays = []
        with numpy.errstate(invalid="ignore"):  # what is infinite in all of them is refused by name
            return 2 * values[0] - (values[1] + values[2]) / 2, counts

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
    job = partial(draws.counted, particles)
    seeds = numpy.random.SeedSequence(asked.seed).spawn(replicates)
    # all replicates have one law: the first looks at what rounding makes of it for all of them
    seen = [SEEN * replicates, *(0,) * (replicates - 1)]
    rows, counts = [], []
    with reporting(asked.progress) as report:
        report.plan(replicates, "particles")
        try:
            for row, one in map(job, seeds, seen) if asked.executor is None else asked.executor.map(job, seeds, seen):
                rows.append(row)
                counts.append(one)
                report.advance(1)
        except MemoryError:
            raise EvaluationError(f"particles={particles}: they do not fit into memory; give fewer.") from None
    seen_by = {name: numpy.sum([one[name] for one in counts], axis=0) for name in counts[0]}
    refuse_rare(seen_by, draws.wider(particles, seeds[0]) if unseen(seen_by) else {}, particles * replicates)
    values, lost = numpy.array(rows), draws.rounding(particles, seeds[0])
    result = {}
    for o, column, moved in zip(observables, values.T, lost, strict=True):
        if not numpy.isfinite(column).all():
            raise EvaluationError(f"moment not established: `{o.label}` is not finite in some replicate.")
        rounding = _ROUNDING * max(1.0, float(numpy.max(numpy.abs(column))))
        # equal replicates, as of what white particles do exactly, would claim no error at all
        error = math.hypot(float(standard_error(column)), max(rounding, float(moved)))
        result[o.label] = Number(float(column.mean()), error, "particles", degrees=replicates - 1)
    return result
