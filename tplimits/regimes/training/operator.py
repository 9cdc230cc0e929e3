"""Training in the operator regime as a user sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.law.at_constants import at_zeros
from tplimits.program.network.parameters import infinite_axes
from tplimits.program.network.run_asked import RunAsked
from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.given import named_once
from tplimits.program.nodes.keywords import constants_apart
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.table import NTP
from tplimits.regimes.protocol import refuse_unknown_doubts
from tplimits.regimes.training import numbers
from tplimits.regimes.training.claims import OF_COMMAND, TrainedAs
from tplimits.regimes.training.derivation.operator import TangentOperator, derive_tangent
from tplimits.regimes.training.derivation.square_integrable import kets_of
from tplimits.regimes.training.limit import TrainingLimit
from tplimits.regimes.training.report import operator as report
from tplimits.regimes.training.report import operator_latex as tangent_latex
from tplimits.regimes.training.runs import TrainingRun
from tplimits.report.roles import by_role

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.program.nodes.program import Program
    from tplimits.progress import Progress
    from tplimits.report.latex_formulas import Formula


@dataclass(frozen=True)
class NeuralTangent:
    """The operator regime: the neural tangent parametrization, trained by an optimizer.

    `optimizer` is one for all parameters, or a mapping that names every parameter; so is `weight_decay`, the decoupled
    decay λ of w ← (1 − λ) w − η Q_t (frameworks multiply theirs by the learning rate), whose names may leave out those
    of tp.Frozen().
    Axes in `infinite` have infinitely many independent members, such as attention heads.
    `f0` are the outputs at the start where `evaluate` is given none: drawn from their Gaussian law, or 0, as in
    parametrizations whose readouts start smaller.
    """

    optimizer: Any
    weight_decay: Any = 0
    infinite: tuple[str, ...] = ()
    f0: Any = None
    word: ClassVar[str] = "operator"
    formerly: ClassVar[str | None] = "tangent"
    takes: ClassVar[str] = "network"
    options: ClassVar[tuple[str, ...]] = ("optimizer", "weight_decay", "infinite")
    inputs: ClassVar[tuple[str, ...] | None] = ("f0", *OF_COMMAND)

    def derive(self, program: Program) -> TangentLimit:
        """The limit of training; ProgramError for an optimizer or a decay that is none."""
        return derive_tangent_limit(program, self)


def derive_tangent_limit(network: Program, regime: NeuralTangent, assumed: tuple[str, ...] = ()) -> TangentLimit:
    """The operator of a network, for a regime whose fields are checked here; doubts in `assumed` are taken on."""
    if not isinstance(regime.optimizer, (Optimizer, Mapping)):
        raise ProgramError(
            f"tp.NeuralTangent({shown(regime.optimizer)}): give an optimizer, such as tp.SGD() or tp.Adam(eps=1e-4)."
        )
    if regime.f0 is not None and not (isinstance(regime.f0, (int, float)) and regime.f0 == 0):
        raise ProgramError(f"tp.NeuralTangent(f0={shown(regime.f0)}): None or 0; evaluate(f0=…) takes other outputs.")
    infinite = infinite_axes(network, regime.infinite)
    operator = derive_tangent(network, regime.optimizer, regime.weight_decay, infinite, assumed)
    return TangentLimit(network, regime, operator)


@dataclass(frozen=True)
class TangentLimit(TrainingLimit):
    """Training at infinite width without features that move: f_{t+1} = f_t − η 𝒦_Q(χ_0, …, χ_t)."""

    program: Program
    regime: NeuralTangent
    operator: TangentOperator = field(repr=False, compare=False)
    #: the operator at the zeros that were given last
    _known_at: dict[Any, TangentOperator] = field(default_factory=dict, init=False, repr=False, compare=False)
    _word: ClassVar[str] = NeuralTangent.word

    @property
    def trained(self) -> tuple[str, ...]:
        """The parameters that are trained, output biases last."""
        return (*self.operator.trained, *self.operator.biases)

    @property
    def is_exact(self) -> bool:
        """Whether updates are linear, but for norms: tangent kernels then give the outputs without particles."""
        return self.operator.is_by_kernel and not self.operator.kernels.is_drawn

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the limit rests on."""
        return report.assumptions(self.operator, self.starts_at_zero)

    def assuming(self, names: Sequence[str]) -> TangentLimit:
        """The same with doubts taken on by the user, also those of gradients; ProgramError for a name that is none."""
        known = self.operator.kernels.recursion.judged.doubtful()
        if not set(known).issuperset(names):  # only particles ask for what gradients have
            gradients = kets_of(TotalProgram(self.program, self.operator.trained)).judged.doubtful()
            known = list(dict.fromkeys((*known, *gradients)))
        refuse_unknown_doubts(self.program, names, known)
        return derive_tangent_limit(self.program, self.regime, tuple(dict.fromkeys((*self.operator.assumed, *names))))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The derivation step by step."""
        return report.steps(self.operator, self.starts_at_zero)

    @property
    def starts_at_zero(self) -> bool:
        """Whether f_0 = 0, where `evaluate` is not given another."""
        return self.regime.f0 is not None

    def __repr__(self) -> str:
        return self.text()

    def text(self, full: bool = False) -> str:
        """What print shows, repeated layers once; every line if `full`."""
        return report.text(self.operator, self.starts_at_zero, full)

    def _formulas(self) -> list[Formula]:
        return by_role(tangent_latex.formulas(self.operator), self.operator.backward.program)

    @property
    def _optimizers(self) -> Mapping[str, Optimizer]:
        return self.operator.optimizers

    @property
    def trained_as(self) -> TrainedAs:
        """How networks of finite width are trained that have this limit."""
        of = self.operator
        parametrization = NTP.adjusted(self.program, of.optimizers)
        return TrainedAs(parametrization, of.optimizers, of.weight_decay, of.infinite, True)

    def __reduce__(self) -> tuple[Any, ...]:
        # tables hold functions; they are made again
        return derive_tangent_limit, (self.program, self.regime, self.operator.assumed)

    @constants_apart
    def evaluate(
        self,
        X: Any,
        *,
        error: Any,
        lr: Any,
        steps: int,
        f0: Any = None,
        particles: int = 4096,
        replicates: int = 8,
        seed: int = 0,
        block: int = 256,
        conditioning: str = "white",
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
        **named: Any,
    ) -> TrainingRun:
        """Outputs f_0, …, f_steps on all inputs.

        X: data (N, *axes), or a dictionary of arrays where the network takes several.
        error: χ = error(f) or error(f, t), such as `tp.squared_error(y)`; f and χ have shape (N, *outputs).
        lr: a number, a function of the step, or a mapping that names every parameter which moves.
        f0: outputs at the start (N, *outputs), or one number for all; those of the regime if left out, or drawn from
            their Gaussian law with `seed`; with weight decay also the whole path of f^dec, (steps + 1, N, *outputs).
        Constants go by name, or in `constants`; they may be functions c(t) of the step, asked for t = 0, …, steps, and
            f^dec is then the path of the outputs without training, at c(t).
        particles, block, replicates: for nonlinear updates, as in `tp.MaximalUpdate`; linear ones need none.
        checkpoint: a file that keeps what is done, also of the replicate that runs; the same call goes on from there.
            It knows functions `error` by their values at a few fixed outputs, at the first step and the last.

        Raises EvaluationError for data, targets or settings that make no sense, too few particles, and outputs that
        are not finite.

        >>> import tplimits as tp
        >>> @tp.network
        ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
        ...     return tp.sum(U * ξ, over="d")
        >>> limit = tp.derive(linear, tp.NeuralTangent(tp.SGD()))
        >>> limit.evaluate([[1.0]], error=tp.squared_error([1.0]), lr=0.5, steps=2, f0=[0.0]).f.ravel().tolist()
        [0.0, 0.5, 0.75]
        """
        operator, given = self._at_zeros(named_once(constants, named, "evaluate()", EvaluationError))
        run = RunAsked(X, error, lr, steps, given, ratios, particles, replicates, seed, block, conditioning, checkpoint)
        run.refuse_runner(executor, progress)
        start = self.regime.f0 if f0 is None else f0
        asked = numbers.operator_request.tangent_request(operator, run, start, f0 is None)
        f, stderr, runs = numbers.operator.train(asked, executor, progress)
        return TrainingRun(f"{self.program.name}, operator regime", f, stderr, runs, seed=seed)

    def _at_zeros(self, given: Mapping[str, Any]) -> tuple[TangentOperator, dict[str, Any]]:
        """The operator with zeros put in for constants that are 0, and what else is given."""

        def derived(bound: Program) -> TangentOperator:
            return derive_tangent_limit(bound, self.regime, self.operator.assumed).operator

        return at_zeros(self.program, given, self._known_at, derived, self.operator)

    @constants_apart
    def sign_kernel(
        self,
        X: Any,
        *,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> NDArray[numpy.float64]:
        """K_sign (trained input, evaluated input) of sign descent on one training input at a time.

        f_{t+1}(a) = f_t(a) − η sign(χ) K_sign[b, a]; it is not symmetric, and the same for every optimizer.

        >>> import tplimits as tp
        >>> @tp.network
        ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
        ...     return tp.sum(U * ξ, over="d")
        >>> tp.derive(linear, tp.NeuralTangent(tp.SGD())).sign_kernel([[1.0], [-3.0]]).tolist()
        [[1.0, -3.0], [-1.0, 3.0]]

        Raises NoLimitError where a parameter is used more than once or the network has several outputs.
        """
        operator, given = self._at_zeros(named_once(constants, named, "sign_kernel()", EvaluationError))
        run = RunAsked(X, numpy.zeros_like, 0.0, 0, given, ratios)
        asked = numbers.operator_request.tangent_request(operator, run, None)
        return numbers.operator.sign_gram_of(asked)
