"""Estimators of scikit-learn's conventions: regression and classification with the kernels of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from numpy.typing import NDArray

from tplimits.sklearn.conventions import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    check_classification_targets,
    check_is_fitted,
    validate_data,
)
from tplimits.sklearn.reading import as_inputs, kernels_of

if TYPE_CHECKING:
    from tplimits.regimes.kernels.regression.regression import Prediction

Array = NDArray[numpy.float64]
#: test inputs that are predicted together where no covariance between them is asked for
_BATCH = 512


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
        step = len(inputs) if self.limit_.is_drawn else _BATCH
        parts = [inputs[i : i + step] for i in range(0, len(inputs), step)]
        return [self.posterior_.at(part, covariance=covariance) for part in parts]


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


class NTKClassifier(ClassifierMixin, _Conditioned):
    """Classification by regression with the NTK: targets ±1 of two classes, 1 and 0 of several, less their mean 1/C.

    The class with the largest output is predicted.  The arguments are those of `NNGPRegressor`.

    >>> import tplimits as tp
    >>> model = tp.sklearn.NTKClassifier().fit([[0.0], [1.0], [2.0]], ["a", "b", "b"])
    >>> print(model.predict([[0.1], [1.9]]))
    ['a' 'b']

    Raises ValueError for targets that are no classes, or of one class alone.
    """

    _kernel = "ntk"

    def fit(self, X: Any, y: Any) -> Any:
        """Condition the network on the classes y of inputs X; returns the estimator."""
        X, y = validate_data(self, X, y, dtype=numpy.float64)
        check_classification_targets(y)
        self.classes_, index = numpy.unique(y, return_inverse=True)
        many = len(self.classes_)
        if many < 2:
            raise ValueError(f"y holds one class, {self.classes_[0]!r}: a classifier needs two classes or more.")
        self._condition(X, 2.0 * index - 1 if many == 2 else numpy.eye(many)[index] - 1 / many)
        return self

    def decision_function(self, X: Any) -> Array:
        """The outputs: (N,), positive for the second class, of two classes; (N, classes) of several."""
        return self._mean(X)

    def predict(self, X: Any) -> Any:
        """The classes with the largest outputs."""
        outputs = self.decision_function(X)
        return self.classes_[(outputs > 0).astype(int) if outputs.ndim == 1 else outputs.argmax(axis=1)]
