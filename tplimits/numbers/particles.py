"""Particle evaluation: a program run on M joint samples of its kets, without its matrices.

The instructions are those of a finite-width run; only the matrices are made as they are used (see
`conditioning`) and means over boxes leave out a particle's own copy.  Error bars come from independent
replicates.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.law.hypotheses.read_where import may_lie_far_out
from tplimits.law.unroll import Unroller, indices
from tplimits.numbers.boxes import mean_over_slots, slot_offsets
from tplimits.numbers.conditioning import Normals, Population
from tplimits.numbers.matrices import InitialOperator
from tplimits.numbers.rare import WIDER, Counts, hits
from tplimits.program.nodes.drawing import drawn
from tplimits.program.nodes.entries import OWN, Entry, entries, width_symbol, with_names
from tplimits.program.nodes.evaluate import evaluate as evaluated
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import Avg, Initial, InitialMatrix, InitialVector, MatMul, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.laws import NORMAL
from tplimits.program.nodes.running_errors import RunningErrors, may_be_lost, refuse_rounding
from tplimits.program.parts import holds

if TYPE_CHECKING:
    from sympy import Expr

    from tplimits.law.kets import Key
    from tplimits.program.nodes.program import Program

#: evaluations of a body for one vector entry of order 2 or more: M × offsets
_MOST_EVALUATIONS = 20_000_000
#: the share of one particle in a mean above which the spread of particles says nothing of its error
_LARGEST_SHARE = 0.25
#: particles at which rounding is bounded
SEEN = 256
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
        settled: Mapping[Key, float] = MappingProxyType({}),
        off_by_rounding: bool = False,
    ) -> None:
        super().__init__(program, particles, 1, rng, ratios, given)
        #: numbers of scalars that are not read off the particles; whether bodies are moved by their rounding
        self.settled, self.off_by_rounding = settled, off_by_rounding
        #: numbers of whole scalars, by position, (*axes)
        self.held: Mapping[int, Array] = {}
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
        self.rounding_at = SEEN
        self._looked_at: set[Expr] = set()
        #: how many times as wide normal vectors and images are drawn, to see whether zeros are 0 by identity
        self.wider = 1.0
        #: how many particles make each mean that was taken, by position
        self.hits: dict[int, Counts] = {}

    def hold(self, plain: ParticleExecution) -> None:
        """Draw wider, with scalars that are what they are in another run."""
        self.wider, self.may_lie_far_out = WIDER, False
        scalars = (
            p for p, s in enumerate(self.program) if isinstance(s, (Avg, ScalarNonlin)) and p < len(plain.arrays)
        )
        self.settled = {
            (p, i): float(plain.arrays[p][(0, *i)]) for p in scalars for i in numpy.ndindex(*plain.arrays[p].shape[1:])
        }

    def part(self, number: int, of: int) -> ParticleExecution:
        """The same program on one of several equal parts of the same particles."""
        other = copy.copy(self)
        other.arrays, other._matrices, other.hits = [], {}, {}
        other.width = {w: size // of for w, size in self.width.items()}
        rows = {w: slice(number * size, (number + 1) * size) for w, size in other.width.items()}
        other.populations = {w: Population(self._normals[w], self._white, rows[w]) for w in self.width}
        return other

    def _initial(self, s: Initial) -> Array:
        if isinstance(s, InitialMatrix):
            return numpy.empty(0)
        if not isinstance(s, InitialVector) or s.name in self.given:
            return super()._initial(s)
        population, shape = self.populations[s.over], self.shape(s.axes)
        full = (1, *shape, population.size)

        def fresh() -> Array:
            return numpy.concatenate([population.fresh(1) for _ in range(math.prod(shape))]).reshape(full)

        return self._wide(s, drawn(s.law, full, fresh, self.leaves))

    def _wide(self, s: InitialVector, array: Array) -> Array:
        if self.wider == 1 or s.law.shape != NORMAL.shape:
            return array
        mean = float(evaluated(s.law.mean, self.leaves))
        return numpy.asarray(mean + self.wider * (array - mean))

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
        self._count(x)
        out = numpy.empty((*x.shape[:-1], self.width[s.over]))
        for index in numpy.ndindex(*x.shape[1:-1]):
            out[(0, *index)] = self._matrix(s, index).apply(x[(0, *index)][None], s.transposed)[0]
        return out if self.wider == 1 else self.wider * out

    def _count(self, x: Array) -> None:
        self.hits[len(self.arrays)] = hits(x)

    def _look_at_rounding(self, body: Expr, known: Mapping[Expr, Any]) -> None:
        """EvaluationError where rounding decides jumps, or is all that is left: the spread of particles is no error."""
        if not holds(body, *JUMPS):  # which move in training
            self._looked_at.add(body)
        last = max((numpy.shape(v)[-1] for v in known.values() if numpy.ndim(v)), default=1)
        few = slice(None, None, max(1, last // self.rounding_at))
        some = {leaf: v[..., few] if numpy.ndim(v) and v.shape[-1] == last else v for leaf, v in known.items()}
        shape = numpy.broadcast_shapes(*map(numpy.shape, some.values()))
        weights = numpy.full(shape, 1 / max(1, math.prod(shape)))
        refuse_rounding(
            body, some, weights, evaluated, lambda part: with_names(part, lambda entry: self.program[entry.source].name)
        )

    def rounding(self, body: Expr, known: Mapping[Expr, Any]) -> Any:
        """The bound of rounding, where values are asked for that are off by as much; EvaluationError as above."""
        asked = self.rounding_at and body not in self._looked_at
        if not (asked or self.off_by_rounding) or not may_be_lost(body):
            return 0.0
        known = _read_in(body, known)  # without what sums that are known were of
        if asked:
            self._look_at_rounding(body, known)
        if not self.off_by_rounding:
            return 0.0
        shape = numpy.broadcast_shapes(*map(numpy.shape, known.values()))
        return RunningErrors(known, numpy.ones(shape), evaluated).of(body)[1]

    def average(self, s: Avg) -> Array:
        if self.may_lie_far_out:
            refuse_unseen(self._vector(s), s.name)
        self._count(self._vector(s))
        return self._settled(super().average(s))

    def scalar(self, s: ScalarNonlin) -> Array:
        return self._settled(super().scalar(s))

    def _settled(self, array: Array) -> Array:
        """The array of the next instruction, a scalar, with the entries that are known."""
        if (held := self.held.get(len(self.arrays))) is not None:
            return numpy.broadcast_to(held, array.shape)
        known = {index: value for (p, index), value in self.settled.items() if p == len(self.arrays)}
        if known:
            array = numpy.array(array)
        for index, value in known.items():
            array[(0, *index)] = value
        return array

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


def _read_in(expr: Expr, known: Mapping[Expr, Any]) -> dict[Expr, Any]:
    """What an expression reads of what is known, from above."""
    if expr in known:
        return {expr: known[expr]}
    return {leaf: value for part in expr.args for leaf, value in _read_in(part, known).items()}


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
