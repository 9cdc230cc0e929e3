"""Particle evaluation: a program run on M joint samples of its kets, without its matrices.

The instructions are those of a finite-width run; only the matrices are made as they are used (see
`conditioning`) and means over boxes leave out a particle's own copy.  Error bars come from independent
replicates.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.law.hypotheses.bounds import may_lie_far_out
from tplimits.law.observables import BracketObservable, Observable
from tplimits.law.unroll import Unroller, indices
from tplimits.numbers.boxes import mean_over_slots, slot_offsets
from tplimits.numbers.conditioning import Normals, Population
from tplimits.numbers.matrices import InitialOperator
from tplimits.numbers.number import Number, standard_error
from tplimits.program.nodes.drawing import drawn
from tplimits.program.nodes.entries import OWN, Entry, entries, width_symbol, with_names
from tplimits.program.nodes.evaluate import evaluate as evaluated
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.given import seed_number, whole_from, word_of, working_executor
from tplimits.program.nodes.kinds import Avg, InitialMatrix, InitialScalar, InitialVector, MatMul, OuterNonlin
from tplimits.program.nodes.running_errors import may_be_lost, refuse_rounding
from tplimits.program.parts import holds
from tplimits.progress import Progress, reporting

if TYPE_CHECKING:
    from sympy import Expr

    from tplimits.program.nodes.program import Program

#: evaluations of a body for one vector entry of order 2 or more: M × offsets
_MOST_EVALUATIONS = 20_000_000
#: the share of one particle in a mean above which the spread of particles says nothing of its error
_LARGEST_SHARE = 0.25
#: particles at which rounding is bounded
_SEEN = 256
#: relative rounding of a replicate: programs that white particles do exactly have no other error
_ROUNDING = 1e-14
CONDITIONINGS = ("white", "lazy")


class ParticleExecution(Execution):
    """An Execution whose matrices are implicit: one draw of M particles."""

    def __init__(
        self,
        program: Program,
        particles: int,
        rng: numpy.random.Generator,
        white: bool,
        ratios: Mapping[str, float] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(program, particles, 1, rng, ratios, given)
        for width in program.widths:  # negative powers of a width vanish in the limit
            # so that 1/n is 0 whatever the number of particles is
            self.leaves[width_symbol(width)] = math.inf
        self._white, streams = white, rng.spawn(len(self.width))
        self._normals = {w: Normals(stream, self.width[w]) for w, stream in zip(self.width, streams, strict=True)}
        self.populations = {w: Population(normals, white) for w, normals in self._normals.items()}
        self._matrices: dict[tuple[int, tuple[int, ...]], InitialOperator] = {}
        self._unroller = Unroller(program, self.data)
        self.may_lie_far_out = lies_far_out(program)
        #: at how many particles rounding is bounded
        self.rounding_at = _SEEN
        self._looked_at: set[Expr] = set()

    def part(self, number: int, of: int) -> ParticleExecution:
        """The same program on one of several equal parts of the same particles."""
        other = copy.copy(self)
        other.arrays, other._matrices = [], {}
        other.width = {w: size // of for w, size in self.width.items()}
        rows = {w: slice(number * size, (number + 1) * size) for w, size in other.width.items()}
        other.populations = {w: Population(self._normals[w], self._white, rows[w]) for w in self.width}
        return other

    def _initial(self, s: InitialMatrix | InitialVector | InitialScalar) -> Array:
        if isinstance(s, InitialMatrix):
            return numpy.empty(0)
        if isinstance(s, InitialScalar) or s.name in self.given:
            return super()._initial(s)
        population, shape = self.populations[s.over], self.shape(s.axes)
        full = (1, *shape, population.size)

        def fresh() -> Array:
            return numpy.concatenate([population.fresh(1) for _ in range(math.prod(shape))]).reshape(full)

        return drawn(s.law, full, fresh, self.leaves)

    def _matrix(self, s: MatMul, index: tuple[int, ...]) -> InitialOperator:
        chosen = tuple(self._unroller.index_at(i, s.axes, index) for i in s.matrix_indices)
        key = (s.matrix, chosen)
        if key not in self._matrices:
            matrix = self.program[s.matrix]
            assert isinstance(matrix, InitialMatrix)
            self._matrices[key] = InitialOperator(self.populations[matrix.rows], self.populations[matrix.columns])
        return self._matrices[key]

    def matmul(self, s: MatMul) -> Array:
        x = self._vector(s)
        out = numpy.empty((*x.shape[:-1], self.width[s.over]))
        for index in numpy.ndindex(*x.shape[1:-1]):
            out[(0, *index)] = self._matrix(s, index).apply(x[(0, *index)][None], s.transposed)[0]
        return out

    def look_at_rounding(self, body: Expr, known: Mapping[Expr, Any]) -> None:
        """EvaluationError where rounding decides jumps, or is all that is left: the spread of particles is no error."""
        if not self.rounding_at or not may_be_lost(body) or body in self._looked_at:
            return
        if not holds(body, *JUMPS):  # which move in training
            self._looked_at.add(body)
        last = max((numpy.shape(v)[-1] for v in known.values() if numpy.ndim(v)), default=1)
        few = slice(None, None, max(1, last // self.rounding_at))
        some = {leaf: v[..., few] if numpy.ndim(v) and v.shape[-1] == last else v for leaf, v in known.items()}
        shape = numpy.broadcast_shapes(*map(numpy.shape, some.values()))
        weights = numpy.full(shape, 1 / max(1, math.prod(shape)))
        refuse_rounding(body, some, weights, evaluated, lambda e: with_names(e, self._name))

    def _name(self, entry: Entry) -> str:
        return self.program[entry.source].name

    def average(self, s: Avg) -> Array:
        if self.may_lie_far_out:
            refuse_unseen(self._vector(s), s.name)
        return super().average(s)

    def outer(self, s: OuterNonlin) -> Array:
        if not s.slots:
            return super().outer(s)
        size = self.width[s.over]
        # the same offsets for all indices of the axes: what cancels between them cancels exactly
        offsets = slot_offsets(size, len(s.slots), max(64, _MOST_EVALUATIONS // size), self.rng)
        shape = self.shape(s.axes)
        out = numpy.empty((1, *shape, size))
        for index in indices(self.program, s.axes):
            out[(0, *index)] = self._averaged(s, index, offsets)
        return out

    def _averaged(self, s: OuterNonlin, index: tuple[int, ...], offsets: Any) -> Array:
        body = self._unroller.at(s.body, s.axes, index)
        own: dict[Expr, Array] = {}
        slots: list[dict[Expr, Array]] = [{} for _ in s.slots]
        known: dict[Expr, Any] = dict(self.leaves)
        for entry in entries(body):
            if entry.neuron == OWN:
                own[entry] = self._read(entry)
            elif entry.neuron in s.slots:
                slots[s.slots.index(entry.neuron)][entry] = self._read(entry)
            else:
                known[entry] = self._read(entry)
        # boxes are other neurons: a particle's own copy would bias the mean by 1/M
        skip_self = len(s.slots) == 1 and s.slot_widths[0] == s.over and bool(slots[0])
        return mean_over_slots(body, own, slots, known, offsets, skip_self, self.width[s.over])

    def _read(self, entry: Entry) -> Array:
        array = self.arrays[entry.source][(0, *(int(i) for i in entry.indices))]
        return numpy.asarray(array)


def refuse_unseen(entries_of: Array, name: str) -> None:
    """EvaluationError where one particle makes much of a mean: E exp(8 x) is that of particles at eight deviations."""
    sizes = abs(entries_of)
    with numpy.errstate(all="ignore"):
        refuse_share(sizes.max(axis=-1) / sizes.sum(axis=-1), sizes.shape[-1], name)


def refuse_share(of_one: Array, particles: int, name: str) -> None:
    """The same, given what the largest of so many particles makes of each mean."""
    share = float(numpy.max(numpy.nan_to_num(of_one), initial=0.0))
    # of some dozens one makes as much of E|x y z|, which all of them see
    if share > max(_LARGEST_SHARE, 32 / particles):
        raise EvaluationError(
            f"moment not established: the mean `{name}` lies further out than {particles} particles look: one of "
            f"them makes {share:.0%} of it, so that their spread is no error. Narrow the argument of the exponential, "
            "or give it a form whose mean is closed."
        )


def lies_far_out(program: Program) -> bool:
    """Whether a function of vectors may have a mean that lies further out than particles look."""
    return any(isinstance(s, OuterNonlin) and may_lie_far_out(s.body) for s in program)


def observed(execution: Execution, observable: Observable) -> float:
    """The value of an observable in one draw."""
    arrays = execution.arrays
    if isinstance(observable, BracketObservable):
        (p, i), (q, j) = observable.left, observable.right
        return float(numpy.mean(arrays[p][(0, *i)] * arrays[q][(0, *j)]))
    position, index = observable.key
    return float(arrays[position][(0, *index)])


def replicate(
    program: Program,
    observables: Sequence[Observable],
    particles: int,
    rng: numpy.random.Generator,
    white: bool,
    ratios: Mapping[str, float],
    constants: Mapping[str, Any],
    seen: int = _SEEN,
) -> Array:
    """One replicate, with the bias of order 1/M removed by the jackknife; rounding is bounded at `seen` particles.

    A(M) has bias b/M; 2 A(M) − mean of A over the two halves of the same particles does not, and hardly
    any more noise, since the halves share it.
    """
    whole = ParticleExecution(program, particles, rng, white, ratios, constants)
    whole.rounding_at = seen
    # halves of the same particles, from the same normal columns: their noise is that of the whole
    runs = [whole, whole.part(0, of=2), whole.part(1, of=2)]
    values = []
    for run in runs:
        run.run()
        values.append(numpy.array([observed(run, o) for o in observables]))
        run.arrays = []
    with numpy.errstate(invalid="ignore"):  # what is infinite in all of them is refused by name
        return 2 * values[0] - (values[1] + values[2]) / 2


def _seeded_replicate(
    program: Program,
    observables: Sequence[Observable],
    particles: int,
    white: bool,
    ratios: Mapping[str, float],
    constants: Mapping[str, Any],
    seed: numpy.random.SeedSequence,
    seen: int,
) -> Array:
    rng = numpy.random.Generator(numpy.random.SFC64(seed))
    return replicate(program, observables, particles, rng, white, ratios, constants, seen)


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
) -> dict[str, Number]:
    """Means over replicates with their standard errors; the same seed gives the same numbers on any executor."""
    asked.checked()
    particles, replicates, white = int(asked.particles), int(asked.replicates), asked.conditioning == "white"
    job = partial(_seeded_replicate, program, tuple(observables), particles, white, ratios, constants)
    seeds = numpy.random.SeedSequence(asked.seed).spawn(replicates)
    # all replicates have one law: the first looks at what rounding makes of it for all of them
    seen = [_SEEN * replicates, *(0,) * (replicates - 1)]
    rows = []
    with reporting(asked.progress) as report:
        report.plan(replicates, "particles")
        try:
            for row in map(job, seeds, seen) if asked.executor is None else asked.executor.map(job, seeds, seen):
                rows.append(row)
                report.advance(1)
        except MemoryError:
            raise EvaluationError(f"particles={particles}: they do not fit into memory; give fewer.") from None
    values = numpy.array(rows)
    result = {}
    for o, column in zip(observables, values.T, strict=True):
        if not numpy.isfinite(column).all():
            raise EvaluationError(f"moment not established: `{o.label}` is not finite in some replicate.")
        rounding = _ROUNDING * max(1.0, float(numpy.max(numpy.abs(column))))
        # equal replicates, as of what white particles do exactly, would claim no error at all
        error = math.hypot(float(standard_error(column)), rounding)
        result[o.label] = Number(float(column.mean()), error, "particles", degrees=replicates - 1)
    return result
