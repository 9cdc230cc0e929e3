"""Learning rates and decays of parameters, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tplimits.errors import EvaluationError, shown
from tplimits.program.nodes.given import can_be_called, finite_number


@dataclass(frozen=True)
class Rate:
    """A learning rate or a decay at every step: a number, or a function of the step t = 0, 1, …

    It is 0 or more, and below `below`: a decay below 1.
    """

    label: str = field(compare=False)
    value: float | Callable[[int], Any]
    below: float = math.inf

    def __call__(self, t: int) -> float:
        """The number of step t; EvaluationError for what is none, or out of bounds."""
        if not callable(self.value):
            return self.value
        try:
            found = self.value(t)
        except Exception as problem:  # the code of users
            raise EvaluationError(f"{self.label}({t}) failed: {type(problem).__name__}: {problem}") from problem
        return _bounded(f"{self.label}({t})", found, self.below)

    @property
    def is_zero(self) -> bool:
        """Whether it is 0 at every step, which a function of the user's is not known to be."""
        return not callable(self.value) and self.value == 0

    def along(self, steps: int) -> Any:
        """The number, or those of the steps 0, …, steps − 1: two that agree here do the same."""
        return [self(t) for t in range(steps)] if callable(self.value) else self.value


def rates(lr: Any, names: Sequence[str], known: Sequence[str] | None = None) -> dict[str, Rate]:
    """The rate of each parameter in `names`: one for all, or a mapping that names them all.

    A mapping may name any of the parameters `known` besides.  Raises EvaluationError for what is no rate.

    >>> rate = rates({"W": lambda t: 1 / (1 + t)}, ("W",))["W"]
    >>> rate(3)
    0.25
    """
    if not isinstance(lr, Mapping):
        return dict.fromkeys(names, _rate("lr", lr, math.inf))
    missing, unknown = set(names) - set(lr), set(lr) - set(names if known is None else known)
    if missing or unknown:
        wrong = min(missing or unknown, key=str)
        what = "is not given" if missing else "is no trained parameter"
        raise EvaluationError(f"lr={{…}}: `{wrong}` {what}; the parameters are {', '.join(names)}.")
    return {name: _rate(f"lr[{name!r}]", lr[name], math.inf) for name in names}


def decays(weight_decay: Any, names: Sequence[str]) -> dict[str, Rate]:
    """The decay of each parameter in `names`: one for all, or a mapping in which those that do not decay are left out.

    >>> decay = decays({"W": lambda t: 0.1 / (1 + t)}, ("W", "v"))
    >>> decay["W"](1), decay["v"].is_zero
    (0.05, True)
    """
    if not isinstance(weight_decay, Mapping):
        return dict.fromkeys(names, _rate("weight_decay", weight_decay, 1.0))
    return {name: _rate(f"weight_decay[{name!r}]", weight_decay.get(name, 0.0), 1.0) for name in names}


def _rate(label: str, value: Any, below: float) -> Rate:
    if isinstance(value, Rate):  # checked before, and a number stays one
        return value
    if callable(value) and not can_be_called(value, 0):
        raise EvaluationError(f"{label}= is called as {label}(t): give a number, or a function of the step t.")
    return Rate(label, value if callable(value) else _bounded(label, value, below), below)


def _bounded(label: str, value: Any, below: float) -> float:
    number = finite_number(label, value, EvaluationError)
    if 0 <= number < below:
        return number
    if below == math.inf:
        raise EvaluationError(f"{label}={shown(value)}: a learning rate is 0 or more; a negative one climbs the loss.")
    raise EvaluationError(f"{label}={shown(value)}: give a number, 0 or more and below 1.")
