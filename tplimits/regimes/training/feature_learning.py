"""The feature-learning limit of a network in training as a user sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from tplimits.errors import EvaluationError, NoLimitError, ProgramError
from tplimits.law.effort import Effort, TooMuch, deep
from tplimits.law.hypotheses import universality
from tplimits.program.network.data import inputs_of
from tplimits.program.network.loss import exact_signal
from tplimits.program.network.run_asked import RunAsked
from tplimits.program.network.schedules import parted
from tplimits.program.nodes.given import named_once, whole_from
from tplimits.program.nodes.keywords import constants_apart
from tplimits.program.parametrization.table import MUP
from tplimits.progress import Progress, Report, reporting
from tplimits.regimes.protocol import refuse_unknown_doubts
from tplimits.regimes.training import numbers
from tplimits.regimes.training.claims import OF_COMMAND, TrainedAs
from tplimits.regimes.training.derivation.feature_learning import MaximalRecursion, derive_maximal
from tplimits.regimes.training.derivation.unrolled import unrolled
from tplimits.regimes.training.derivation.unrolled_asked import exact_rates
from tplimits.regimes.training.limit import TrainingLimit
from tplimits.regimes.training.report import feature_learning as report
from tplimits.regimes.training.report.update_functions import NOT_ZERO
from tplimits.regimes.training.runs import TrainingRun, mean_of_draws
from tplimits.regimes.width.derivation import derive_width
from tplimits.regimes.width.limit import WidthLimit
from tplimits.report.roles import by_role

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.law.state import Derivation
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.report.latex_formulas import Formula

#: nodes of expressions that `exact` reads before it refuses
_MOST = 200_000


@dataclass(frozen=True)
class MaximalUpdate:
    """The regime of feature learning: the maximal update parametrization, trained by an optimizer.

    `optimizer` is one for all parameters, or a mapping that names every parameter; so is `weight_decay`, the decoupled
    decay λ of w ← (1 − λ) w − η Q_t (frameworks multiply theirs by the learning rate), whose names may leave out those
    of tp.Frozen().
    """

    optimizer: Any
    weight_decay: Any = 0
    word: ClassVar[str] = "feature"
    formerly: ClassVar[str | None] = "maximal"
    takes: ClassVar[str] = "network"
    options: ClassVar[tuple[str, ...]] = ("optimizer", "weight_decay")
    inputs: ClassVar[tuple[str, ...] | None] = OF_COMMAND

    def derive(self, program: Program) -> MaximalLimit:
        """The limit of training; ProgramError for an optimizer or a decay that is none."""
        return MaximalLimit(program, self, derive_maximal(program, self.optimizer, self.weight_decay))


@dataclass(frozen=True)
class MaximalLimit(TrainingLimit):
    """Training at infinite width with features that move: kets and operators at every step."""

    program: Program
    regime: MaximalUpdate
    recursion: MaximalRecursion = field(repr=False, compare=False)
    _word: ClassVar[str] = MaximalUpdate.word

    @property
    def steps(self) -> tuple[Step, ...]:
        """The recursion, one step an equation."""
        return report.steps(self.recursion)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the limit rests on; hypotheses that the optimizer loses start with "lost"."""
        return (
            "the maximal update parametrization: every vector and scalar of order 1, initial vectors and matrices "
            "Gaussian (matrices of variance 1/columns), the output an average",
            "activations with derivatives, and update functions, that are pseudo-Lipschitz",
            *((NOT_ZERO,) if any(o.may_vanish for o in self.recursion.optimizers.values()) else ()),
            *(f"lost: {line}" for line in self.recursion.lost),
            *(f"not established: {name}" for name in dict.fromkeys(d.name for d in self.recursion.open)),
            *(f"taken on by the user, not established: {name}" for name in self.recursion.assumed),
            *universality.stated(self.recursion.network),
        )

    def assuming(self, names: Sequence[str]) -> MaximalLimit:
        """The same with doubts about second moments taken on by the user."""
        doubts = dict.fromkeys(doubt.name for doubt in self.recursion.doubts)
        refuse_unknown_doubts(self.program, names, tuple(doubts))
        assumed = tuple(name for name in names if name in doubts)
        recursion = derive_maximal(self.program, self.regime.optimizer, self.regime.weight_decay, assumed)
        return replace(self, recursion=recursion)

    def __repr__(self) -> str:
        return self.text()

    def text(self, full: bool = False) -> str:
        """What is printed; repeated layers and long sections written out if `full`."""
        return report.text(self.recursion, full)

    def _formulas(self) -> list[Formula]:
        return by_role(report.formulas(self.recursion), self.recursion.total.backward.program)

    @property
    def _optimizers(self) -> Mapping[str, Optimizer]:
        return self.recursion.optimizers

    @property
    def trained_as(self) -> TrainedAs:
        """How networks of finite width are trained that have this limit."""
        optimizers = self.recursion.optimizers
        decay = {name: float(λ) for name, λ in self.recursion.weight_decay.items()}
        return TrainedAs(MUP.adjusted(self.program, optimizers), optimizers, decay, (), False)

    @constants_apart
    def unrolled(
        self, X: Any, *, error: Any, lr: Any, steps: int, constants: Mapping[str, Any] | None = None, **named: Any
    ) -> Program:
        """A few steps of training as one program, which returns f_0, …, f_steps with one entry an input.

        It is what a network of width n does (`.run`), and its width limit (`tp.derive`, `tp.check`) is this limit with
        kets of all times: `h_t` for the vector h after step t.  Data, targets and rates become exact numbers, and so do
        constants, functions of the step among them, and starts of scalar parameters by name; others stay symbols.

        Raises ProgramError for families of matrices, and for optimizers that look at all entries at once.
        """
        data = inputs_of(self.program, X, "X")
        times = whole_from("steps", steps, 0, EvaluationError)
        rates = exact_rates(lr, self.recursion.optimizers)
        given = named_once(constants, named, "unrolled()", EvaluationError)
        return unrolled(self.recursion, data, exact_signal(error), rates, times, given)

    @constants_apart
    def exact(
        self,
        X: Any,
        *,
        error: Any,
        lr: Any,
        steps: int,
        most: int = _MOST,
        constants: Mapping[str, Any] | None = None,
        progress: Progress = None,
        **named: Any,
    ) -> Any:
        """f_0, …, f_steps as expressions, (steps + 1, inputs, *outputs); what is not closed is a mean left open.

        >>> import tplimits as tp
        >>> @tp.network
        ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        ...     return v * (W @ tp.sum(U * ξ, over="d"))
        >>> limit = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
        >>> limit.exact([[1.0]], error=tp.squared_error([1.0]), lr=0.5, steps=1).ravel().tolist()
        [0, 3/2]

        Linear updates are fast.  Nonlinear ones of a matrix put kets inside one another: one step is fast, what follows
        is refused when `most` nodes of expressions have been read, after seconds; numbers are then those
        of `evaluate`.  `progress` tells how many instructions have been read.

        Raises ProgramError as `unrolled` does, and when `most` is not enough; NoLimitError where a step lands on a
        jump, a pole or the end of a root.
        """
        given = named_once(constants, named, "exact()", EvaluationError)
        program = self.unrolled(X, error=error, lr=lr, steps=steps, constants=given).returned
        with deep(program.name, NoLimitError), reporting(progress) as report:
            limit = WidthLimit(program, _derived(program, whole_from("most", most, 1, EvaluationError), report))
            numbers.moments.refuse_singular(limit.state)
        return numpy.array([_entries(limit, f"f_{t}") for t in range(steps + 1)], dtype=object)

    @constants_apart
    def evaluate(
        self,
        X: Any,
        *,
        error: Any,
        lr: Any,
        steps: int,
        particles: int = 8192,
        replicates: int = 8,
        seed: int = 0,
        block: int = 256,
        conditioning: str = "white",
        record: Any = (),
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        draws: int | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
        **named: Any,
    ) -> TrainingRun:
        """Outputs f_0, …, f_steps on all inputs, on joint samples of kets ("particles").

        X: data (N, *axes), or a dictionary of arrays where the network takes several.
        error: χ = error(f) or error(f, t), such as `tp.squared_error(y)`; f and χ have shape (N, *outputs).
        lr: a number, a function of the step, or a mapping that names every parameter which moves.
        particles: samples of every ket, at least four for each input, step and use of a matrix.
        block: nonlinear updates of a matrix are averaged over so many particles (`particles` × `block` numbers).
        record: names of vectors whose samples and Gram matrices are kept at every step.
        checkpoint: a file that keeps what is done, also of the replicate that runs; the same call goes on from there.
            It knows functions `error` by their values at a few fixed outputs, at the first step and the last.
        Scalar parameters and constants go by name, or in `constants`; constants may be functions c(t) of the step,
            asked for t = 0, …, steps: outputs and gradients of step t are those at c(t), initial laws those at c(0).
        draws: the limit depends on scalar parameters that are drawn and not given: it is found for so many draws of
            them, 8 if left out, those of the seeds `seed`, `seed` + 1, … of `tp.watch`.  f is then the mean over draws.

        Raises EvaluationError for data, targets or settings that make no sense, too few particles, and outputs that
        are not finite.
        """
        given = named_once(constants, named, "evaluate()", EvaluationError)
        schedules, rest = parted(self.program, given)
        given = {**rest, **schedules}
        starts = numbers.scalars.starts(self.program, X, given, ratios, seed, draws, checkpoint)
        if starts:
            more: dict[str, Any] = {
                "particles": particles,
                "replicates": replicates,
                "block": block,
                "conditioning": conditioning,
            }
            more |= {"record": record, "ratios": ratios, "executor": executor, "progress": progress}
            runs = [
                self.evaluate(X, error=error, lr=lr, steps=steps, seed=number, constants={**given, **start}, **more)
                for number, start in starts.items()
            ]
            return mean_of_draws(runs, tuple(starts[next(iter(starts))]))
        run = RunAsked(X, error, lr, steps, given, ratios, particles, replicates, seed, block, conditioning, checkpoint)
        run.refuse_runner(executor, progress)
        asked = numbers.request.request(self.recursion, run, record)
        found, more_errors = numbers.feature_learning.trajectories(asked, executor, progress)
        paths = numpy.array([one.f for one in found])
        shares = numpy.array([one.gates[numbers.execution.SHARE] for one in found])
        f, stderr = numbers.averages.mean_and_error(paths, shares)
        stderr = numpy.hypot(stderr, more_errors)
        grams = {name: numpy.mean([one.grams[name] for one in found], axis=0) for name in asked.record}
        return TrainingRun(f"{self.program.name}, μ-limit", f, stderr, paths, grams, found[0].kets, seed=seed)


def _derived(program: Program, most: int, report: Report) -> Derivation:
    """The width limit of a program of steps, refused when it gets too long."""
    report.plan(len(program), f"the limit of {program.name}")
    at = [0]

    def reading(position: int) -> None:
        report.advance(position - at[0])
        at[0] = position

    try:
        return derive_width(program, effort=Effort(most), reading=reading)
    except TooMuch:
        name = program[at[0]].name
        raise ProgramError(
            f"`{program.name}`: the kets put inside one another have more than {most:,} nodes at `{name}`, instruction "
            f"{at[0] + 1} of {len(program)}. Take fewer steps or inputs, numbers by evaluate(…), or give exact(most=…)."
        ) from None


def _entries(limit: WidthLimit, name: str) -> Any:
    """All entries of a family of scalars as an array."""
    program = limit.program
    s = program[program.position(name)]
    shape = tuple(int(program.size(a) or 1) for a in s.axes)
    found = numpy.empty(shape, dtype=object)
    for index in numpy.ndindex(*shape):
        found[index] = limit.scalar(name, **dict(zip(s.axes, index, strict=True)))
    return found
