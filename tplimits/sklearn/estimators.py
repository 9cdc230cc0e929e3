"""Estimators of scikit-learn's conventions: regression and classification with the kernels of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import scipy.special
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.network.losses import cross_entropy
from tplimits.sklearn.conventions import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    available_if,
    check_classification_targets,
    check_is_fitted,
    validate_data,
)
from tplimits.sklearn.reading import as_inputs, kernels_of

if TYPE_CHECKING:
    from tplimits.regimes.kernels.regression.regression import Prediction

#: test inputs that are predicted together where no covariance between them is asked for
_BATCH = 512
#: a bound of the second derivatives of −log softmax
_CURVATURE = 0.5


class _Conditioned(BaseEstimator):
    """What the estimators share: outputs of a network given those at training inputs."""

    _kernel: ClassVar[str] = "nngp"

    def __init__(
        self,
        network: Any = None,
        *,
        noise: float = 1e-2,
        constants: Mapping[str, Any] | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.network = network
        self.noise = noise
        self.constants = constants
        self.shape = shape

    def _condition(self, X: Array, targets: Any) -> None:
        self.limit_ = kernels_of(self.network)
        self.posterior_ = self.limit_.conditioned(
            as_inputs(X, self.shape), targets, noise=self.noise, kernel=self._kernel, constants=self.constants
        )

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=numpy.float64, reset=False)
        return as_inputs(rows, self.shape)

    def _mean(self, X: Any) -> Array:
        return numpy.concatenate([p.mean for p in self._predictions(self._checked(X), covariance=False)])

    def _predictions(self, inputs: Array, covariance: bool) -> list[Prediction]:
        """Predictions batch by batch; of drawn logits all at once, from the same draws."""
        return [self.posterior_.at(part, covariance=covariance) for part in self._parts(inputs)]

    def _parts(self, inputs: Array) -> list[Array]:
        step = len(inputs) if self.limit_.is_drawn else _BATCH
        return [inputs[i : i + step] for i in range(0, len(inputs), step)]


class _Regressor(RegressorMixin, _Conditioned):
    """Regression: targets (N,), or (N, outputs) of independent outputs."""

    def fit(self, X: Any, y: Any) -> Any:
        """Condition the network on outputs y at inputs X; returns the estimator."""
        X, y = validate_data(self, X, y, dtype=numpy.float64, multi_output=True, y_numeric=True)
        self._condition(X, y)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class NNGPRegressor(_Regressor):
    """Bayesian inference for the infinitely wide network: Gaussian process regression with its NNGP kernel K.

    Mean K*ᵀ(K + noise)⁻¹y and variance of the noiseless output, those of `tp.KernelLimit.posterior`.  `network` is a
    network, its kernels, or None for a ReLU perceptron with three hidden layers; `noise` is a variance in units of y²;
    `constants` are numbers for the network's constants; rows are read as arrays of shape `shape` where it is given.
    Targets are not centred: the prior mean is 0.

    >>> import tplimits as tp
    >>> model = tp.sklearn.NNGPRegressor(noise=1e-6).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> mean, std = model.predict([[1.0]], return_std=True)
    >>> print(mean.round(3), std.round(3))
    [1.] [0.001]

    Raises what scikit-learn raises for data it does not accept, EvaluationError for K + noise that is singular.
    """

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The posterior mean, (N,) or (N, outputs), and with `return_std` the standard deviation of each output."""
        if not return_std:
            return self._mean(X)
        found = self._predictions(self._checked(X), covariance=True)
        mean, std = (numpy.concatenate([getattr(p, name) for p in found]) for name in ("mean", "std"))
        return mean, std if std.ndim == mean.ndim else numpy.repeat(std[..., None], mean.shape[-1], axis=-1)


class NTKRegressor(_Regressor):
    """The mean output of infinitely wide networks trained to the end on squared errors: regression with the NTK Θ.

    Mean Θ*ᵀ(Θ + noise)⁻¹y, that of `tp.KernelLimit.train` at time ∞; noise pulls the parameters to where they started.
    The arguments are those of `NNGPRegressor`.

    >>> import tplimits as tp
    >>> model = tp.sklearn.NTKRegressor(noise=1e-6).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> print(model.predict([[1.0]]).round(3))
    [1.]
    """

    _kernel = "ntk"

    def predict(self, X: Any) -> Array:
        """The mean over initialisations, (N,) or (N, outputs)."""
        return self._mean(X)


def _has_probabilities(estimator: Any) -> bool:
    return bool(estimator.loss == "cross_entropy")


class NTKClassifier(ClassifierMixin, _Conditioned):
    """Classification by an infinitely wide network: the class with the largest output is predicted.

    loss="squared_error" is regression with Θ on targets ±1 of two classes, 1 and 0 of several, less their mean 1/C.
    loss="cross_entropy" is `steps` of gradient descent on the cross-entropy, from outputs 0, with learning rate `lr`
    (None: half of `max_learning_rate`) and `momentum`; then there is predict_proba.  The other arguments are those of
    `NNGPRegressor`; noise pulls the parameters to where they started.

    >>> import tplimits as tp
    >>> model = tp.sklearn.NTKClassifier().fit([[0.0], [1.0], [2.0]], ["a", "b", "b"])
    >>> print(model.predict([[0.1], [1.9]]))
    ['a' 'b']
    >>> model = tp.sklearn.NTKClassifier(loss="cross_entropy").fit([[0.0], [1.0], [2.0]], ["a", "b", "b"])
    >>> print(model.predict([[0.1], [1.9]]), model.predict_proba([[1.9]]).shape)
    ['a' 'b'] (1, 2)

    Raises ValueError for targets that are no classes, or of one class alone, EvaluationError for another loss.
    """

    _kernel = "ntk"

    def __init__(
        self,
        network: Any = None,
        *,
        noise: float = 1e-2,
        constants: Mapping[str, Any] | None = None,
        shape: tuple[int, ...] | None = None,
        loss: str = "squared_error",
        steps: int = 1000,
        lr: float | None = None,
        momentum: float = 0.9,
    ) -> None:
        super().__init__(network, noise=noise, constants=constants, shape=shape)
        self.loss = loss
        self.steps = steps
        self.lr = lr
        self.momentum = momentum

    def fit(self, X: Any, y: Any) -> Any:
        """Condition the network on the classes y of inputs X, or train it on them; returns the estimator."""
        X, y = validate_data(self, X, y, dtype=numpy.float64)
        check_classification_targets(y)
        self.classes_, index = numpy.unique(y, return_inverse=True)
        many = len(self.classes_)
        if many < 2:
            raise ValueError(f"y holds one class, {self.classes_[0]!r}: a classifier needs two classes or more.")
        if self.loss == "squared_error":
            self._condition(X, 2.0 * index - 1 if many == 2 else numpy.eye(many)[index] - 1 / many)
        elif self.loss == "cross_entropy":
            self._descend(as_inputs(X, self.shape), index, many)
        else:
            raise EvaluationError(f'loss={self.loss!r}: there is "squared_error" and "cross_entropy".')
        return self

    def _descend(self, inputs: Array, index: NDArray[numpy.intp], many: int) -> None:
        self.limit_ = kernels_of(self.network)
        asked: dict[str, Any] = {"momentum": self.momentum, "noise": self.noise, "constants": self.constants}
        bound = self.limit_.max_learning_rate(inputs, curvature=_CURVATURE, **asked) if self.lr is None else 0.0
        self.lr_ = (bound / 2 if math.isfinite(bound) else 1.0) if self.lr is None else self.lr
        self.descent_ = self.limit_.descend(
            inputs, cross_entropy(index), outputs=many, steps=self.steps, lr=self.lr_, **asked
        )

    def decision_function(self, X: Any) -> Array:
        """The outputs: (N,), positive for the second class, of two classes; (N, classes) of several."""
        if self.loss != "cross_entropy":
            return self._mean(X)
        found = self._outputs(X)
        return found[:, 1] - found[:, 0] if found.shape[1] == 2 else found

    def _outputs(self, X: Any) -> Array:
        parts = self._parts(self._checked(X))
        return numpy.concatenate([self.descent_.at(part) for part in parts])

    def predict(self, X: Any) -> Any:
        """The classes with the largest outputs."""
        outputs = self.decision_function(X)
        return self.classes_[(outputs > 0).astype(int) if outputs.ndim == 1 else outputs.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """The softmax of the outputs, (N, classes); with loss="cross_entropy"."""
        return scipy.special.softmax(self._outputs(X), axis=1)
