"""What averages θ_n are off their limits L, as claims: the coefficients b of their means and C of their covariances.

    n (θ_n − L) has mean b + c/n + …      √n θ_n has covariances C + c/n + …

A claim is "b(θ)", "C(θ)" or "C(θ, θ′)".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tplimits.sampling.adaptive import Inquiry
from tplimits.sampling.claims import Claim
from tplimits.sampling.estimate import Series

if TYPE_CHECKING:
    from tplimits.sampling.sample import Draws

#: widths unless others are asked for: the noise of n(θ − L) grows with n
WIDTHS = (16, 32, 64, 128)
#: b + c/n, C + c/n, but where roots of n stand in a program
SERIES = Series((Fraction(1),))
#: errors of claims that are to be found, in shares of √C and C, times 50 (`design.TOLERANCE` is 2 %)
_SIZE = 5.0
#: claims of which it is told what a check finds
_TOLD = 4
_NAME = re.compile(r"(?P<what>[bC])\((?P<names>.+)\)")


class OfOrders(Inquiry):
    """An inquiry that tells what it can find.

    Draws that are enough beside √C and C may leave a small b by half of it: an accepted one is worth as much as this.
    """

    def told(self, samples: Sequence[Draws]) -> list[str]:
        """From which errors on wrong claims are found."""
        rows = sorted(self.judged(samples), key=lambda row: -row.finds / row.tolerance)
        found = [f"{row.claim.name} {row.finds:.2g}" for row in rows[:_TOLD]]
        more = ", ..." if len(rows) > _TOLD else ""
        return [*super().told(samples), f"Found with probability 95 %: errors from {', '.join(found)}{more} on."]


def bias_name(label: str) -> str:
    """How draws of n (θ − L) and claims on their mean are called."""
    return f"b({label})"


def root_name(label: str) -> str:
    """How draws of √n θ are called."""
    return f"√n·{label}"


def parsed(name: Any, labels: Sequence[str]) -> tuple[str, tuple[int, ...]] | None:
    """What a claim is about: "C(a, b)" is "C" and the places of a and b; None for a name of anything else."""
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        return None
    what, inside = found["what"], found["names"]
    # labels hold commas themselves, as K[0, 1]: every cut is tried
    cuts = [i for i in range(len(inside)) if inside.startswith(", ", i)] if what == "C" else []
    # one label first: C(a, b) could also be the variance of one that is called "a, b"
    for names in ([inside], *([inside[:i], inside[i + 2 :]] for i in cuts)):
        if all(x in labels for x in names):
            return what, tuple(labels.index(x) for x in names)
    return None


def bias_claim(label: str, value: float, error: float, variance: float, degrees: float = math.inf) -> Claim:
    """The claim that n (θ − L) has the mean `value`; `variance` is C(θ)."""
    # a bias of n(θ − L) is hidden by noise of size √(n C); relative to b alone a small one would take endless draws
    size = _SIZE * (abs(value) + math.sqrt(variance))
    return Claim(bias_name(label), value, error, size=size or None, degrees=degrees)


def covariance_claim(
    labels: Sequence[str], value: float, error: float, size: float, degrees: float = math.inf
) -> Claim:
    """The claim that √n θ has the variance `value`, or √n θ and √n θ′ that covariance; `size` is √(C(θ) C(θ′))."""
    one, *other = (root_name(label) for label in labels)
    pair = other[0] if other else None
    return Claim(one, value, error, "covariance", pair, _SIZE * size or None, degrees)
