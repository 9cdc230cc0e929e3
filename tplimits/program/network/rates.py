"""Learning rates of parameters, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import can_be_called, finite_number


@dataclass(frozen=True)
class Rate:
    """A learning rate at every step: a number, or a function of the step t = 0, 1, …"""

    label: str = field(compare=False)
    value: float | Callable[[int], Any]

    def __call__(self, t: int) -> float:
        """The rate of step t."""
        return _not_negative(f"{self.label}({t})", self.value(t)) if callable(self.value) else self.value


def rates(lr: Any, names: Sequence[str], known: Sequence[str] | None = None) -> dict[str, Rate]:
    """The rate of each parameter in `names`: one for all, or a mapping that names them all.

    A mapping may name any of the parameters `known` besides.  Raises EvaluationError for what is no rate.

    >>> rate = rates({"W": lambda t: 1 / (1 + t)}, ("W",))["W"]
    >>> rate(3)
    0.25
    """
    if not isinstance(lr, Mapping):
        return dict.fromkeys(names, _rate("lr", lr))
    missing, unknown = set(names) - set(lr), set(lr) - set(names if known is None else known)
    if missing or unknown:
        wrong = min(missing or unknown, key=str)
        what = "is not given" if missing else "is no trained parameter"
        raise EvaluationError(f"lr={{…}}: `{wrong}` {what}; the parameters are {', '.join(names)}.")
    return {name: _rate(f"lr[{name!r}]", lr[name]) for name in names}


def _rate(label: str, value: Any) -> Rate:
    if isinstance(value, Rate):  # checked before, and a number stays one
        return value
    if callable(value) and not can_be_called(value, 0):
        raise EvaluationError(f"{label}= is called as {label}(t): give a number, or a function of the step t.")
    return Rate(label, value if callable(value) else _not_negative(label, value))


def _not_negative(label: str, value: Any) -> float:
    number = finite_number(label, value, EvaluationError)
    if number < 0:
        raise EvaluationError(f"{label}={value!r}: a learning rate is 0 or more; a negative one climbs the loss.")
    return number
