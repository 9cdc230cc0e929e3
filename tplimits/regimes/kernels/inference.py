"""Predictions with the kernels of a network: regression, training, marginal likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import named_once
from tplimits.regimes.kernels import numbers as kernels
from tplimits.regimes.kernels import regression as inference

if TYPE_CHECKING:
    from tplimits.progress import Progress
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.regression.blocks import Blocks
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


class Inference(ABC):
    """The methods of a kernel limit that predict.

    Targets y have shape (N,), or (N, outputs) of outputs that are independent; a network whose kernels have output axes
    takes (N, *axes) or (N, *axes, outputs).  Constants of the network go by name or in `constants`, width ratios in
    `ratios`; `draws`, `replicates` and `seed` are those of `evaluate`, for logits that are drawn.  One matrix of the
    training inputs is held at a time, in double precision: 3.2 GB of 20 000 inputs.
    """

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
        blocks = self._blocks(X_train, None, constants, {}, None, None, "conditioned()")
        given = inference.regression.conditioned(blocks, y, noise, kernel)
        asked = {"noise": noise, "kernel": kernel, "constants": constants}
        return Posterior(self, X_train, y, asked, None if blocks.redrawn else given)

    def train(
        self,
        X_train: Any,
        y: Any,
        X_test: Any = None,
        *,
        time: Any = None,
        steps: Any = None,
        lr: float | None = None,
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
        loss: Θ + noise in the place of Θ inside g.  Several times or steps in a list become the first axis.

        Raises EvaluationError as `posterior` does, and for a learning rate above 2N/λ, λ the largest eigenvalue of Θ.
        """
        blocks = self._blocks(X_train, X_test, constants, named, ratios, progress, "train()")
        found: Prediction = inference.training.trained(blocks, y, time, steps, lr, noise, covariance)
        return found

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
        blocks = self._blocks(X, None, constants, named, ratios, progress, "log_marginal_likelihood()")
        return float(inference.regression.log_marginal_likelihood(blocks, y, noise, kernel))

    @abstractmethod
    def _blocks(
        self, X1: Any, X2: Any, constants: Any, named: dict[str, Any], ratios: Any, progress: Progress, call: str
    ) -> Blocks:
        """Kernels between training and test inputs."""


class OfData(Inference):
    """Predictions from data: kernels are evaluated as they are needed."""

    derivation: KernelTables

    def _blocks(
        self, X1: Any, X2: Any, constants: Any, named: dict[str, Any], ratios: Any, progress: Progress, call: str
    ) -> Blocks:
        sampling: dict[str, Any] = {key: named.pop(key) for key in ("draws", "replicates", "seed") if key in named}
        given = named_once(constants, named, call, EvaluationError)
        asked = kernels.request.request(self.derivation, X1, X2, given, ratios)
        found: Blocks = inference.blocks.ComputedBlocks(asked, sampling, progress)
        return found
