"""Error signals χ_t = ε_t(f_t): what a loss sends back from the outputs of a network, one number an output.

The squared loss over a batch of B training inputs is Σ (f − y)²/2B, so that χ = (f − y)/B there and 0 elsewhere.
The factor 1/B matters: an optimizer with an ε, such as Adam, sees the size of the gradient.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import sympy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.language.tracing import exact
from tplimits.program.nodes.given import can_be_called

Array = NDArray[numpy.float64]
#: ε_t: outputs f (inputs, *outputs) to χ of the same shape, as error(f) or error(f, t)
ErrorSignal = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class SquaredError:
    """χ = (f − y)/B on the B training inputs, 0 on the others; made by `squared_error`."""

    targets: Array
    train: NDArray[numpy.bool_]

    @property
    def batch(self) -> int:
        """The number B of training inputs."""
        return int(self.train.sum())

    def __call__(self, f: Any, t: int = 0) -> Array:
        """χ for outputs of shape (inputs, *outputs), the same at all times."""
        outputs = numpy.asarray(f, dtype=numpy.float64)
        if outputs.shape != self.targets.shape:
            raise EvaluationError(
                f"squared_error: the targets have shape {self.targets.shape}, the outputs {outputs.shape}."
            )
        found = numpy.zeros_like(outputs)
        found[self.train] = (outputs[self.train] - self.targets[self.train]) / self.batch
        return found

    def exact(self, f: numpy.ndarray) -> numpy.ndarray:
        """The same for an array of expressions, with the targets as exact numbers."""
        if f.shape != self.targets.shape:
            raise EvaluationError(f"squared_error: the targets have shape {self.targets.shape}, the outputs {f.shape}.")
        found = numpy.full(f.shape, sympy.S.Zero, dtype=object)
        for index in numpy.ndindex(*f.shape):
            if self.train[index[0]]:
                found[index] = (f[index] - exact(float(self.targets[index]))) / self.batch
        return found


def exact_signal(error: Any) -> Callable[[numpy.ndarray, int], numpy.ndarray]:
    """A user's error signal on arrays of expressions, as a function of (f, t).

    Raises EvaluationError for what is no function, or gives something else than one expression for each output.
    """
    if isinstance(error, SquaredError):
        return lambda f, t: error.exact(f)
    error_signal(error)
    timed = _takes_time(error)

    def signal(f: numpy.ndarray, t: int) -> numpy.ndarray:
        found = numpy.asarray(error(f.copy(), t) if timed else error(f.copy()), dtype=object)
        if found.shape != f.shape:
            raise EvaluationError(f"error= gave shape {found.shape} for outputs of shape {f.shape} at step {t}.")
        for index, value in numpy.ndenumerate(found):
            expr = value if isinstance(value, sympy.Expr) else exact(value)
            found[index] = expr.xreplace({x: sympy.Rational(x) for x in expr.atoms(sympy.Float)})
        return found

    return signal


def squared_error(y: Any, train: Any = None) -> SquaredError:
    """The error signal of the squared loss: χ = (f − y)/B on the B training inputs, 0 on the others.

    `y` has shape (inputs, *outputs); `train` marks training inputs by True, or lists their numbers; None trains on all.
    Targets of inputs that are not trained on are ignored and may be NaN.

    >>> χ = squared_error([1.0, float("nan"), 3.0], train=[True, False, True])
    >>> χ([0.0, 5.0, 0.0]).tolist()
    [-0.5, 0.0, -1.5]

    Raises EvaluationError for targets that are no numbers or not finite where they are needed, and for a mask that
    does not fit or selects nothing.
    """
    try:
        targets = numpy.array(y, dtype=numpy.float64)
    except (TypeError, ValueError):
        raise EvaluationError(f"squared_error(y): y is of type {type(y).__name__}; give an array of numbers.") from None
    if targets.ndim == 0 or not len(targets):
        raise EvaluationError("squared_error(y): give one target for each input.")
    mask = _mask(train, len(targets))
    if not mask.any():
        raise EvaluationError("squared_error(train=…): the mask selects no input; there is nothing to train on.")
    if not numpy.isfinite(targets[mask]).all():
        wrong = int(numpy.flatnonzero(mask & ~numpy.isfinite(targets.reshape(len(targets), -1)).all(axis=1))[0])
        raise EvaluationError(
            f"squared_error(y): the target of training input {wrong} is NaN or infinite; leave it out by train=."
        )
    targets.setflags(write=False)
    mask.setflags(write=False)
    return SquaredError(targets, mask)


def _mask(train: Any, inputs: int) -> NDArray[numpy.bool_]:
    """Which inputs are trained on, from a mask or from their numbers."""
    if train is None:
        return numpy.ones(inputs, dtype=bool)
    try:
        given = numpy.asarray(train)
    except ValueError:
        given = numpy.empty((0, 0))
    if given.dtype == bool and given.shape == (inputs,):
        return given.copy()
    if given.ndim == 1 and (given.dtype.kind in "iu" or not given.size):
        numbers = given.astype(numpy.int64)
        if ((numbers >= -inputs) & (numbers < inputs)).all():
            mask = numpy.zeros(inputs, dtype=bool)
            mask[numbers] = True
            return mask
    raise EvaluationError(
        f"squared_error(train={train!r:.60}): give True or False for each of the {inputs} inputs, or numbers of inputs."
    )


def error_signal(error: Any) -> Callable[[Array, int], Array]:
    """A user's error signal as a checked function of (f, t).

    >>> error_signal(lambda f: f - 1)(numpy.zeros(2), 0).tolist()
    [-1.0, -1.0]
    >>> error_signal(lambda f, t: t * f)(numpy.ones(2), 3).tolist()
    [3.0, 3.0]
    >>> error_signal(lambda f, y=1: f - y)(numpy.ones(2), 3).tolist()
    [0.0, 0.0]

    Raises EvaluationError for what is no function, and later for values of another shape or that are not finite.
    """
    if not callable(error):
        raise EvaluationError(
            f"error={error!r:.60}: give a function of the outputs, such as tp.squared_error(y), or lambda f: f - y."
        )
    if not (can_be_called(error, None, 0) or can_be_called(error, None)):
        raise EvaluationError(
            "error= is called as error(f) or error(f, t), with the outputs f and the number t of the step: "
            "give a function of one or two arguments."
        )
    timed = _takes_time(error)

    def signal(f: Array, t: int) -> Array:
        found = numpy.asarray(error(f.copy(), t) if timed else error(f.copy()))
        if found.shape != f.shape or found.dtype.kind not in "biuf":
            raise EvaluationError(
                f"error= gave an array of shape {found.shape} and type {found.dtype} at step {t}; "
                f"it takes outputs of shape {f.shape} and gives one number for each."
            )
        if not numpy.isfinite(found).all():
            raise EvaluationError(f"error= gave NaN or infinite numbers at step {t}.")
        return found.astype(numpy.float64)

    return signal


def _takes_time(error: ErrorSignal) -> bool:
    """Whether an error signal asks for the number of the step; a default of another name is no place for it."""
    if not can_be_called(error, None, 0):
        return False
    second = list(inspect.signature(error).parameters.values())[:2][-1]
    return second.name == "t" or second.kind is second.VAR_POSITIONAL or not can_be_called(error, None)
