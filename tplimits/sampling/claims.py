"""What is claimed about a program's limit, and which quantities of the program it is about."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy
from numpy.typing import NDArray

from tplimits.errors import CheckError, EvaluationError, shown
from tplimits.program.nodes.given import real_array

if TYPE_CHECKING:
    from tplimits.law.observables import Observable

Statistic = Literal["mean", "covariance"]


@dataclass(frozen=True)
class Claim:
    """A number that a statistic of one or two scalars is said to tend to as n → ∞.

    `statistic="mean"` is about E[label]; `statistic="covariance"` about Cov(label, other) over draws
    (`other=None`: the variance), which is what a fluctuation scalar has in place of a limit.
    `error` is the standard error of the stated value itself, from the evaluation of the limit, and `degrees` how many
    degrees of freedom it has: few replicates of particles tell it badly.  `size` is what errors
    of the claim that have to be found are relative to, the value itself unless given.
    """

    label: str
    value: float
    error: float = 0.0
    statistic: Statistic = "mean"
    other: str | None = None
    size: float | None = None
    degrees: float = math.inf

    @property
    def labels(self) -> tuple[str, ...]:
        """The scalars it is about: one for a mean, two for a covariance."""
        if self.statistic == "mean":
            return (self.label,)
        return (self.label, self.label if self.other is None else self.other)

    @property
    def name(self) -> str:
        """How tables and sentences call the quantity."""
        if self.statistic == "mean":
            return self.label
        first, second = self.labels
        return f"Var({first})" if first == second else f"Cov({first}, {second})"


def checked(claims: Iterable[Claim], known: Sequence[Observable]) -> tuple[Claim, ...]:
    """The claims with their labels found among the observables.

    `return` also stands for ⟨return|return⟩.  Raises CheckError where a label is not known, a value
    is no finite number, or there is nothing to judge.
    """
    labels = {o.label: o.label for o in known}
    for o in known:
        if o.label.startswith("⟨"):
            left, right = o.label[1:-1].split("|")
            if left == right:
                labels.setdefault(left, o.label)
    found = tuple(_checked(claim, labels) for claim in claims)
    if not found:
        raise CheckError(f"there is no claim to judge; claim a value of one of {', '.join(o.label for o in known)}.")
    return found


def _checked(claim: Claim, labels: dict[str, str]) -> Claim:
    try:
        value, error = float(claim.value), float(claim.error)
    except Exception:  # among others the code of users
        raise CheckError(
            f"the claim on `{claim.label}` is {shown(claim.value)} ± {shown(claim.error)}; give numbers."
        ) from None
    if not math.isfinite(value):
        raise CheckError(f"the claim {claim.name} = {value} is not a finite number; a check needs one.")
    if not 0 <= error < math.inf:
        raise CheckError(f"the claim {claim.name} = {value} has error {error}; give a standard error, finite and ≥ 0.")
    if claim.statistic not in ("mean", "covariance"):
        raise CheckError(f"the claim on `{claim.label}` has statistic={claim.statistic!r}; use 'mean' or 'covariance'.")
    if claim.statistic == "mean" and claim.other is not None:
        raise CheckError(
            f"a mean is about one scalar, not `{claim.label}` and `{claim.other}`; use statistic='covariance'."
        )
    other = None if claim.other is None else _label(claim.other, labels)
    return replace(claim, label=_label(claim.label, labels), value=value, error=error, other=other)


def _label(label: str, labels: dict[str, str]) -> str:
    if label in labels:
        return labels[label]
    known = list(dict.fromkeys(labels.values()))
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    near = difflib.get_close_matches(label, labels, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else "."
    raise CheckError(f"there is no observable `{label}` to check; the program has {shown}{hint}")


def stated_array(what: str, value: Any) -> NDArray[numpy.float64]:
    """Numbers that are claimed; CheckError where they are none."""
    try:
        return real_array(what, value)
    except EvaluationError as error:
        raise CheckError(str(error)) from None


def on_one_number(label: str, value: Any) -> Claim:
    """The claim on one entry."""
    number = stated_array(f"claims[{label!r}]", value)
    if number.ndim:
        raise CheckError(f"the claim on `{label}` has shape {number.shape}; it is about one number.")
    return Claim(label, float(number))
