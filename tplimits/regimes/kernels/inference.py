"""Predictions with the kernels of a network: regression, training, marginal likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.program.network.parameters import scalars_unlike_normal
from tplimits.program.nodes.given import named_once
from tplimits.program.nodes.keywords import constants_apart
from tplimits.regimes.kernels import numbers as kernels
from tplimits.regimes.kernels import regression as inference

if TYPE_CHECKING:
    from tplimits.progress import Progress
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.regression.blocks import Array, Blocks
    from tplimits.regimes.kernels.regression.descent import Descended
    from tplimits.regimes.kernels.regression.regression import Conditioned, Prediction


@dataclass(frozen=True, eq=False)
class Posterior:
    """A kernel limit given outputs at training inputs: `.at(X_test)` predicts."""

    limit: Inference = field(repr=False)
    X_train: Any = field(repr=False)
    y: Any = field(repr=False)
    asked: Mapping[str, Any]
    given: Conditioned | None = field(repr=False)

    def at(self, X_test: Any, covariance: bool = True) -> Prediction:
        """Mean and covariance of the outputs at test inputs."""
        if self.given is None:
            return self.limit.posterior(self.X_train, self.y, X_test, covariance=covariance, **self.asked)
        blocks = self.limit._blocks(self.X_train, X_test, self.asked["constants"], {}, None, None, "at()")
        return self.given.at(blocks, covariance)


@dataclass(frozen=True, eq=False)
class Descent:
    """Outputs of a network in training on any loss: `.train` at the training inputs, `.at(X_test)` elsewhere."""

    _limit: Inference = field(repr=False)
    _X_train: Any = field(repr=False)
    _asked: Mapping[str, Any] = field(repr=False)
    _constants: Mapping[str, Any] | None
    _given: Descended = field(repr=False)
    _redrawn: bool = field(repr=False)

    @property
    def train(self) -> Array:
        """Outputs at the training inputs, (N, *axes) or (N, *axes, outputs); several moments as the first axis."""
        return self._given.train

    def at(self, X_test: Any, f0: Any = 0.0) -> Array:
        """Outputs at test inputs, where they were f0 at the start."""
        blocks = self._limit._blocks(self._X_train, X_test, self._constants, {}, None, None, "at()")
        given = inference.descent.descended(blocks, **self._asked) if self._redrawn else self._given
        return given.at(blocks, f0)


class Inference(ABC):
    """The methods of a kernel limit that predict.

    Targets y have shape (N,), or (N, outputs) of outputs that are independent; a network whose kernels have output axes
    takes (N, *axes) or (N, *axes, outputs).  Constants of the network go by name or in `constants`, width ratios in
    `ratios`; `draws`, `replicates` and `seed` are those of `evaluate`, for logits that are drawn.  One matrix of the
    training inputs is held at a time, in double precision: 3.2 GB of 20 000 inputs.
    """

    @constants_apart
    def posterior(
        self,
        X_train: Any,
        y: Any,
        X_test: Any = None,
        *,
        noise: float = 0.0,
        kernel: str = "nngp",
        covariance: bool = True,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        progress: Progress = None,
        **named: Any,
    ) -> Prediction:
        """Gaussian process regression: outputs at X_test (None: X_train), given noisy outputs y at X_train.

        Mean K*ᵀ(K + noise)⁻¹y, covariance K** − K*ᵀ(K + noise)⁻¹K*.  With kernel="nngp" this is Bayesian inference for
        the infinitely wide network; kernel="ntk" puts Θ in the place of K (its mean is that of `train` at time ∞).

        Raises EvaluationError for data of wrong shapes, NaN, a negative noise, and for K + noise that is not positive
        definite in double precision, with its smallest eigenvalue and a noise that would do.

        >>> import tplimits as tp
        >>> @tp.network
        ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
        ...     return tp.sum(U * ξ, over="d")
        >>> mean, covariance = tp.derive(linear, tp.Kernels()).posterior([[1.0]], [3.0], [[2.0]], noise=1)
        >>> mean, covariance  # K = 1, K* = 2, K** = 4
        (array([3.]), array([[2.]]))
        """
        self._refuse_other_laws(kernel, "posterior()")
        blocks = self._blocks(X_train, X_test, constants, named, ratios, progress, "posterior()")
        given: Conditioned = inference.regression.conditioned(blocks, y, noise, kernel)
        return given.at(blocks, covariance)

    def conditioned(
        self,
        X_train: Any,
        y: Any,
        *,
        noise: float = 0.0,
        kernel: str = "nngp",
        constants: Mapping[str, Any] | None = None,
    ) -> Posterior:
        """The posterior for test inputs that come later: K + noise is factored once, in the memory it keeps.

        `.at(X_test)` gives what `posterior` gives, which says what is raised.  Networks with drawn logits keep nothing:
        kernels of training and test inputs come from the same draws, and are made again each time.

        >>> import tplimits as tp
        >>> @tp.network
        ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
        ...     return tp.sum(U * ξ, over="d")
        >>> given = tp.derive(linear, tp.Kernels()).conditioned([[1.0]], [3.0], noise=1)
        >>> given.at([[2.0]]).mean, given.at([[4.0]]).mean
        (array([3.]), array([6.]))
        """
        self._refuse_other_laws(kernel, "conditioned()")
        blocks = self._blocks(X_train, None, constants, {}, None, None, "conditioned()")
        given = inference.regression.conditioned(blocks, y, noise, kernel)
        asked = {"noise": noise, "kernel": kernel, "constants": constants}
        return Posterior(self, X_train, y, asked, None if blocks.redrawn else given)

    @constants_apart
    def train(
        self,
        X_train: Any,
        y: Any,
        X_test: Any = None,
        *,
        time: Any = None,
        steps: Any = None,
        lr: float | None = None,
        momentum: float = 0.0,
        noise: float = 0.0,
        covariance: bool = True,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        progress: Progress = None,
        **named: Any,
    ) -> Prediction:
        """Outputs at X_test (None: X_train) of a network trained on the mean of squared errors, Σ (f − y)²/(2N).

        By gradient flow until `time` (∞ by default), or by `steps` of gradient descent with learning rate `lr`, in the
        units of the NTK: df/dt = −Θ(f − y)/N.  The mean is over initialisations, Θ*ᵀ g(Θ) y with
        g(λ) = (1 − e^(−λt/N))/λ or (1 − (1 − lr λ/N)^steps)/λ; the covariance is that of the initial outputs, of law
        N(0, K), carried along: K** − G K* − K*ᵀGᵀ + G K Gᵀ, G = Θ*ᵀ g(Θ).  `noise` adds noise/(2N) ‖θ − θ₀‖² to the
        loss: Θ + noise in the place of Θ inside g.  Several times or steps in a list become the first axis.  With
        `momentum` μ a step is lr·m, m ← μ m + gradient.

        Raises EvaluationError as `posterior` does, and for a learning rate above `max_learning_rate`.
        """
        blocks = self._blocks(X_train, X_test, constants, named, ratios, progress, "train()")
        return inference.training.trained(blocks, y, time, steps, lr, noise, momentum, covariance)

    def descend(
        self,
        X_train: Any,
        error: Any,
        *,
        outputs: int | None = None,
        time: Any = None,
        steps: Any = None,
        lr: float | None = None,
        momentum: float = 0.0,
        f0: Any = 0.0,
        noise: float = 0.0,
        constants: Mapping[str, Any] | None = None,
    ) -> Descent:
        """Training on any loss with the kernel held fixed: steps of gradient descent, or gradient flow until `time`.

        `error` gives the derivatives of the loss in the outputs, such as tp.cross_entropy(labels), and takes them in
        the shape (N, *axes), with `outputs` (N, *axes, outputs) of independent outputs.  df/dt = −Θ error(f), or
        m ← momentum·m + error(f), f ← f − lr Θ m, from f0 at the training inputs (0, or an array).  `.train` holds the
        outputs there, `.at(X_test)` those at other inputs.  Several times or steps in a list become the first axis.
        `noise` adds noise/(2N) ‖θ − θ₀‖² to the loss, as in `train`.

        Raises EvaluationError for an error that is no function or has another shape, for an infinite time, and where
        outputs do not stay finite.

        >>> import tplimits as tp
        >>> @tp.network
        ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
        ...     return tp.sum(U * ξ, over="d")
        >>> run = tp.derive(linear, tp.Kernels()).descend([[1.0]], lambda f: f - 3, lr=0.5, steps=[1, 2])
        >>> run.train.tolist(), run.at([[2.0]]).tolist()  # Θ = 1, Θ* = 2
        ([[1.5], [2.25]], [[3.0], [4.5]])
        """
        blocks = self._blocks(X_train, None, constants, {}, None, None, "descend()")
        asked = {"error": error, "f0": f0, "outputs": outputs, "momentum": momentum, "noise": noise}
        asked["schedule"] = inference.targets.read_schedule(time, steps, lr)
        given = inference.descent.descended(blocks, **asked)
        return Descent(self, X_train, asked, constants, given, blocks.redrawn)

    def max_learning_rate(
        self,
        X_train: Any,
        *,
        momentum: float = 0.0,
        noise: float = 0.0,
        curvature: float = 1.0,
        constants: Mapping[str, Any] | None = None,
    ) -> float:
        """The learning rate above which gradient descent diverges: 2(1 + momentum)N/(curvature·(λ + noise)).

        λ is the largest eigenvalue of Θ on the N training inputs.  The loss is a mean over inputs; `curvature` bounds
        the second derivative of one term: 1 for (f − y)²/2, 1/4 for −log σ(±f), 1/2 for the cross-entropy of several
        classes.  With a bound that is not reached, larger rates may do.

        >>> import tplimits as tp
        >>> @tp.network
        ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
        ...     return tp.sum(U * ξ, over="d")
        >>> tp.derive(linear, tp.Kernels()).max_learning_rate([[1.0], [2.0]])  # Θ = ξ ξ′: λ = 5, 2·2/5
        0.8
        """
        blocks = self._blocks(X_train, None, constants, {}, None, None, "max_learning_rate()")
        return float(inference.descent.max_learning_rate(blocks, momentum, noise, curvature))

    @constants_apart
    def log_marginal_likelihood(
        self,
        X: Any,
        y: Any,
        noise: float = 0.0,
        *,
        kernel: str = "nngp",
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        progress: Progress = None,
        **named: Any,
    ) -> float:
        """log N(y; 0, K + noise), summed over independent outputs; raises what `posterior` raises."""
        self._refuse_other_laws(kernel, "log_marginal_likelihood()")
        blocks = self._blocks(X, None, constants, named, ratios, progress, "log_marginal_likelihood()")
        return float(inference.regression.log_marginal_likelihood(blocks, y, noise, kernel))

    @property
    def _unlike_normal(self) -> tuple[str, ...]:
        """Scalars with which outputs at the start are no Gaussian process."""
        return ()

    def _refuse_other_laws(self, kernel: str, call: str) -> None:
        if self._unlike_normal and kernel == "nngp":
            raise EvaluationError(
                f"{call}: {', '.join(self._unlike_normal)} are not normal, so that outputs at the start are no "
                'Gaussian process: give normal scalars of the same variance, or take kernel="ntk".'
            )

    @abstractmethod
    def _blocks(
        self, X1: Any, X2: Any, constants: Any, named: dict[str, Any], ratios: Any, progress: Progress, call: str
    ) -> Blocks:
        """Kernels between training and test inputs."""


class OfData(Inference):
    """Predictions from data: kernels are evaluated as they are needed."""

    derivation: KernelTables

    @property
    def _unlike_normal(self) -> tuple[str, ...]:
        return scalars_unlike_normal(self.derivation.network)

    def _blocks(
        self, X1: Any, X2: Any, constants: Any, named: dict[str, Any], ratios: Any, progress: Progress, call: str
    ) -> Blocks:
        drawn = {key: named.pop(key) for key in ("draws", "replicates", "seed") if key in named}
        sampling = kernels.request.sampling_of(**drawn)
        given = named_once(constants, named, call, EvaluationError)
        asked = kernels.request.request(self.derivation, X1, X2, given, ratios)
        return inference.blocks.ComputedBlocks(asked, sampling, progress)
