"""A kernel of a network where scikit-learn takes a kernel: Gaussian processes, support vector machines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.nodes.bind import constant_value
from tplimits.program.nodes.given import by_name, finite_number, real_array, word_of
from tplimits.regimes.kernels.numbers.request import KERNELS
from tplimits.sklearn.conventions import Hyperparameter, Kernel
from tplimits.sklearn.reading import as_inputs, kernels_of

#: inputs whose kernels with themselves are evaluated together
_DIAGONAL = 32
#: the step in log θ of central differences: errors 1e-8 of the third derivative, 1e-12 of rounding
_STEP = 1e-4
#: before the names of constants among the parameters
_CONSTANTS = "constants__"


class NetworkKernel(Kernel):
    """K or Θ of a network between rows of inputs: `GaussianProcessRegressor(kernel=…)`, `SVC(kernel=…)`.

    `network` is a network, its kernels `tp.derive(net, tp.Kernels(…))`, or None for a ReLU perceptron; `kernel` is
    "nngp" or "ntk"; rows are read as arrays of shape `shape` where it is given.  `constants` are numbers for the
    network's constants.  These are hyperparameters, fitted on a logarithmic scale within `constants_bounds` (a pair, or
    a mapping by name; "fixed" keeps them); gradients are central differences.

    >>> import tplimits as tp
    >>> kernel = tp.sklearn.NetworkKernel(kernel="ntk")
    >>> kernel([[1.0, 0.0], [0.0, 1.0]]).shape, kernel.n_dims
    ((2, 2), 0)

    Raises EvaluationError for networks with several correlated outputs, and with drawn logits: scikit-learn asks for
    parts of one matrix in several calls, which would come from different draws.
    """

    def __init__(
        self,
        network: Any = None,
        kernel: str = "nngp",
        constants: Mapping[str, float] | None = None,
        constants_bounds: Any = (1e-5, 1e5),
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.network = network
        self.kernel = kernel
        self.constants = constants
        self.constants_bounds = constants_bounds
        self.shape = shape

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The matrix between X and Y (None: X); with `eval_gradient` also its derivatives in log θ, (N, N, n_dims)."""
        left, right = as_inputs(X, self.shape), None if Y is None else as_inputs(Y, self.shape)
        value = self._gram(left, right)
        if not eval_gradient:
            return value
        if Y is not None:
            raise EvaluationError(
                "eval_gradient=True: gradients are those of the matrix of X with itself; leave out Y."
            )
        slopes = [self._slope(left, i) for i in range(self.n_dims)]
        return value, numpy.stack(slopes, axis=-1) if slopes else numpy.empty((*value.shape, 0))

    def diag(self, X: Any) -> Array:
        """The kernel of each input with itself, (N,)."""
        inputs = as_inputs(X, self.shape)
        parts = [inputs[i : i + _DIAGONAL] for i in range(0, max(len(inputs), 1), _DIAGONAL)]
        return numpy.concatenate([self._gram(part, None).diagonal() for part in parts])

    def is_stationary(self) -> bool:
        """False: kernels of networks depend on more than the difference of inputs."""
        return False

    def _gram(self, left: Array, right: Array | None) -> Array:
        limit, name = kernels_of(self.network), word_of("kernel", self.kernel, KERNELS, EvaluationError)
        if limit.is_drawn:
            raise EvaluationError(
                f"the kernels of `{limit.program.name}` are means over draws of random logits, other ones in each "
                "call; use tp.sklearn.NNGPRegressor or NTKRegressor, or kernel='precomputed' with limit.evaluate(X)."
            )
        gram: Array = getattr(limit.evaluate(left, right, constants=self.constants), name)
        if gram.ndim != 2:
            raise EvaluationError(
                f"`{limit.program.name}` has several correlated outputs, a kernel of shape {gram.shape}; scikit-learn "
                "takes one number for a pair of inputs. Use tp.sklearn.NNGPRegressor or NTKRegressor."
            )
        return gram

    def _slope(self, inputs: Array, place: int) -> Array:
        shifts = numpy.eye(self.n_dims)[place] * _STEP
        up, down = (self.clone_with_theta(self.theta + s)._gram(inputs, None) for s in (shifts, -shifts))
        return (up - down) / (2 * _STEP)

    def _numbers(self) -> dict[str, float]:
        """The constants of the network that have numbers, given here or by default."""
        network, given = kernels_of(self.network).program, by_name(self.constants, "constants", EvaluationError)
        found = {name: given.get(name, default) for name, default in network.constants.items()}
        try:
            exact = {n: constant_value(network, v, f"{n}={v!r}") for n, v in found.items() if v is not None}
        except ProgramError as error:
            raise EvaluationError(str(error)) from None
        return {n: float(v) for n, v in exact.items() if v.is_number}

    def _bounds(self, names: Collection[str]) -> dict[str, Any]:
        """Bounds of each of these constants, "fixed" where a mapping does not name it."""
        given = self.constants_bounds
        named = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
        for name, bounds in named.items():
            if name not in names:
                known = ", ".join(names) or "none"
                raise EvaluationError(f"constants_bounds: `{name}` is no constant with a number; there is {known}.")
            if not (isinstance(bounds, str) and bounds == "fixed") and not _is_interval(bounds):
                raise EvaluationError(
                    f'constants_bounds: {bounds!r} for `{name}`; give a pair of positive numbers, or "fixed".'
                )
        return {name: named.get(name, "fixed") for name in names}

    @property
    def hyperparameters(self) -> list[Any]:
        """One for each constant of the network that has a number."""
        numbers = self._numbers()
        bounds = self._bounds(numbers)
        for name, value in numbers.items():
            if value <= 0 and not isinstance(bounds[name], str):
                raise EvaluationError(
                    f"the constant {name}={value:g} cannot be fitted: hyperparameters are positive, on a logarithmic "
                    'scale. Give constants_bounds="fixed", or bounds by name of other constants.'
                )
        return [Hyperparameter(_CONSTANTS + name, "numeric", bounds[name]) for name in numbers]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments; with `deep` also constants__γ for each constant γ."""
        own: dict[str, Any] = super().get_params(deep=False)
        return {**own, **{_CONSTANTS + n: v for n, v in self._numbers().items()}} if deep else own

    def set_params(self, **params: Any) -> Any:
        """Set arguments, or single constants by constants__γ."""
        single = {k.removeprefix(_CONSTANTS): v for k, v in params.items() if k.startswith(_CONSTANTS)}
        super().set_params(**{k: v for k, v in params.items() if not k.startswith(_CONSTANTS)})
        if single:
            numbers = {k: finite_number(_CONSTANTS + k, v, EvaluationError) for k, v in single.items()}
            self.constants = {**(self.constants or {}), **numbers}
        return self

    def __repr__(self) -> str:
        constants = "".join(f", {name}={value:.3g}" for name, value in self._numbers().items())
        return f"NetworkKernel({kernels_of(self.network).program.name}, {self.kernel!r}{constants})"


def _is_interval(bounds: Any) -> bool:
    """Whether bounds are (low, high), 0 < low ≤ high < ∞."""
    pair = real_array("constants_bounds", bounds)
    return pair.shape == (2,) and bool(0 < pair[0] <= pair[1])
