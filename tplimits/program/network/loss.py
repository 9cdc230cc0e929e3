"""Error signals χ_t = ε_t(f_t): what a loss sends back from the outputs of a network, one number an output.

They are those of losses by name (`losses`), or functions that users give.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy
import sympy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, TplimitsError, shown
from tplimits.program.language.tracing import exact
from tplimits.program.network.losses import Loss
from tplimits.program.nodes.given import can_be_called

#: ε_t: outputs f (inputs, *outputs) to χ of the same shape, as error(f) or error(f, t)
ErrorSignal = Callable[..., Any]


def exact_signal(error: Any) -> Callable[[numpy.ndarray, int], numpy.ndarray]:
    """A user's error signal on arrays of expressions, as a function of (f, t).

    Raises EvaluationError for what is no function, or gives something else than one expression for each output.
    """
    if isinstance(error, Loss):
        return lambda f, t: error.exact(f)
    error_signal(error)
    timed = _takes_time(error)

    def signal(f: numpy.ndarray, t: int) -> numpy.ndarray:
        found = _told(error, f.copy(), t, timed, object)
        if found.shape != f.shape:
            raise EvaluationError(f"error= gave shape {found.shape} for outputs of shape {f.shape} at step {t}.")
        for index, value in numpy.ndenumerate(found):
            expr = value if isinstance(value, sympy.Expr) else exact(value)
            found[index] = expr.xreplace({x: sympy.Rational(x) for x in expr.atoms(sympy.Float)})
        return found

    return signal


def error_signal(error: Any) -> Callable[[Array, int], Array]:
    """A user's error signal as a checked function of (f, t).

    Raises EvaluationError for what is no function, and later for values of another shape or that are not finite.
    """
    if not callable(error):
        raise EvaluationError(
            f"error={shown(error, 60)}: give a function of the outputs, as tp.squared_error(y), or lambda f: f - y."
        )
    if not (can_be_called(error, None, 0) or can_be_called(error, None)):
        raise EvaluationError(
            "error= is called as error(f) or error(f, t), with the outputs f and the number t of the step: "
            "give a function of one or two arguments."
        )
    timed, is_ours = _takes_time(error), isinstance(error, Loss)

    def signal(f: Array, t: int) -> Array:
        # a function of a user may change what it is given
        found = _told(error, f if is_ours else f.copy(), t, timed)
        if found.shape != f.shape or found.dtype.kind not in "biuf":
            raise EvaluationError(
                f"error= gave an array of shape {found.shape} and type {found.dtype} at step {t}; "
                f"it takes outputs of shape {f.shape} and gives one number for each."
            )
        if not numpy.isfinite(found).all():
            raise EvaluationError(f"error= gave NaN or infinite numbers at step {t}.")
        return found.astype(numpy.float64, copy=not is_ours)

    return signal


def _told(error: ErrorSignal, f: Any, t: int, timed: bool, dtype: Any = None) -> Any:
    """What a user's function says at a step; its own failure as an error that names the step, and is led to by it."""
    try:
        return numpy.asarray(error(f, t) if timed else error(f), dtype)
    except TplimitsError:
        raise
    except Exception as problem:  # the code of users
        raise EvaluationError(f"error= failed at step {t}: {type(problem).__name__}: {problem}") from problem


def _takes_time(error: ErrorSignal) -> bool:
    """Whether an error signal asks for the number of the step; a default of another name is no place for it."""
    if not can_be_called(error, None, 0):
        return False
    second = list(inspect.signature(error).parameters.values())[:2][-1]
    return second.name == "t" or second.kind is second.VAR_POSITIONAL or not can_be_called(error, None)
