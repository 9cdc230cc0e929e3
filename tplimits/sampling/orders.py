"""What averages θ_n are off their limits L, as claims: the coefficients b of their means and C of their covariances.

    n (θ_n − L) has mean b + c/n + …      √n θ_n has covariances C + c/n + …

A claim is "b(θ)", "C(θ)" or "C(θ, θ′)".

Where averages fluctuate strongly these series are slow: a b may be half as large at n = 16, and whoever fits b + c/n
there finds another b, with an error that says nothing of it.  So the draws are asked how fast terms grow: what a mean
moves from the smallest width to the largest is c/n, which beside its scale s makes a radius ρ = c/s, and the terms
after it about s (ρ/n)², s (ρ/n)³, ...  All scalars of a program are made of the same fluctuations: ρ is the largest of
all.  These terms are random effects of the fit (`tplimits.sampling.estimate`), and the draws are chosen for it.
Means that happen to move little may hide ρ: what is rejected is asked once more of networks four times as wide.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tplimits.errors import CheckError
from tplimits.sampling.adaptive import Inquiry
from tplimits.sampling.claims import Claim
from tplimits.sampling.design import TOLERANCE
from tplimits.sampling.estimate import RADIUS, SampleMoments, Series
from tplimits.sampling.rows import beyond_misfit, moments_of

if TYPE_CHECKING:
    from tplimits.sampling.rows import Row
    from tplimits.sampling.sample import Draws

#: widths unless others are asked for: the noise of n(θ − L) grows with n
WIDTHS = (16, 32, 64, 128)
#: b + c/n, C + c/n, but where roots of n stand in a program
SERIES = Series((Fraction(1),))
#: widths that a rejection has to hold at as well
WIDER = (64, 128, 256, 512)
#: how much larger terms may grow than the first one shows, and how many of them are random effects
_GROWTH, _FURTHER = 2.0, 2
#: standard errors of what a mean moves that are noise
_NOISE = 2.0
#: errors of claims that are to be found, in shares of √C and C, times 50 (`design.TOLERANCE` is 2 %)
_SIZE = 5.0
#: claims of which it is told what a check finds
_TOLD = 4
_NAME = re.compile(r"(?P<what>[bC])\((?P<names>.+)\)")


@dataclass(frozen=True)
class OfOrders(Inquiry):
    """An inquiry that knows how far its series reach, and tells what it can find.

    Draws that are enough beside √C and C may leave a small b by half of it: an accepted one is worth as much as this.
    A rejection has to hold at the widths of `wider`, too, where there are any.
    """

    wider: OfOrders | None = None
    #: radius of convergence that is known from other draws
    radius: float = RADIUS

    def judged(self, samples: Sequence[Draws]) -> tuple[Row, ...]:
        """One row a claim, by series with the radius that the draws show; undecided where widths are no larger."""
        known = self._reaching(samples)
        rows = Inquiry.judged(known, samples)
        if not known.falls_short:
            return rows
        # where terms do not fall, no fit is evidence: only what no approach to a limit explains
        sure = self.level / len(rows)
        return tuple(
            replace(r, accepted=None) if r.accepted is False and beyond_misfit(r.moments, r.claim) > sure else r
            for r in rows
        )

    @property
    def falls_short(self) -> bool:
        """Whether terms of the series do not fall by a half at least from one to the next at the smallest width."""
        return 2 * self.radius > self.widths[0]

    def required(self, samples: Sequence[Draws]) -> tuple[int, ...]:
        """Draws at each width that find every wrong claim, terms after the next one included."""
        return Inquiry.required(self._reaching(samples), samples)

    def beyond(self, samples: Sequence[Draws]) -> OfOrders | None:
        """The same question of wider networks, which have to tell errors as large as what is rejected is off."""
        if self.wider is None:
            return None
        rows = self.judged(samples)
        off = [math.inf if r.accepted else abs(r.intercept - r.claim.value) / TOLERANCE for r in rows]
        claims = [replace(c, size=max(c.size or 0.0, o)) for c, o in zip(self.wider.claims, off, strict=True)]
        return replace(self.wider, claims=tuple(claims), radius=self._reaching(samples).radius)

    def told(self, samples: Sequence[Draws]) -> list[str]:
        """From which errors on wrong claims are found."""
        rows = sorted(self.judged(samples), key=lambda row: -row.finds / row.tolerance)
        known = self._reaching(samples)
        short = []
        if known.falls_short and any(row.accepted is None for row in rows):
            first = 2 ** math.ceil(math.log2(2 * known.radius))
            short = [f"Terms beyond c/n count up to these widths: use widths=({first}, {2 * first}, {4 * first}, …)."]
        found = [f"{row.claim.name} {row.finds:.2g}" for row in rows[:_TOLD]]
        more = ", ..." if len(rows) > _TOLD else ""
        return [
            *super().told(samples),
            *short,
            f"Found with probability 95 %: errors from {', '.join(found)}{more} on.",
        ]

    def _reaching(self, samples: Sequence[Draws]) -> OfOrders:
        columns = self.columns
        # series in 1/√n move by their first term further than they are from converging
        whole = [s.step == 1 for s in self.series]
        grown = [radius(moments_of(c, columns, samples)) for c, w in zip(self.claims, whole, strict=True) if w]
        largest = max((self.radius, *grown))
        if largest <= RADIUS:
            return self
        longer = [
            replace(s, radius=largest, further=_FURTHER) if w else s for s, w in zip(self.series, whole, strict=True)
        ]
        return replace(self, series=tuple(longer), radius=largest)


def confirmed_by_wider(inquiry: OfOrders, at: Callable[[Sequence[int]], OfOrders]) -> OfOrders:
    """The same, whose rejections have to hold for wider networks; `at` asks it of given widths."""
    try:
        wider = at(WIDER)
    except CheckError:  # networks as wide do not fit
        return inquiry
    return replace(inquiry, wider=wider) if wider.widths[0] > inquiry.widths[0] else inquiry


def radius(moments: SampleMoments) -> float:
    """From which n on the terms of a series fall, by how far its means move beyond their noise.

    >>> import numpy
    >>> widths, variances = (16, 32, 64), numpy.zeros(3)
    >>> means = 1 + 6 / numpy.array(widths)
    >>> round(radius(SampleMoments(widths, (9, 9, 9), means, variances, 1.0)), 6)
    12.0
    """
    noise = _NOISE * math.sqrt(float(moments.noise[0] + moments.noise[-1]))
    moved = max(0.0, abs(float(moments.means[0] - moments.means[-1])) - noise)
    slope = moved / (1 / moments.widths[0] - 1 / moments.widths[-1])
    return _GROWTH * slope / moments.scale


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


def covariance_claim(draws: Sequence[str], value: float, error: float, size: float, degrees: float = math.inf) -> Claim:
    """The claim that draws, as of √n θ, have the variance `value`, or two of them that covariance.

    `size` is √(C(θ) C(θ′)).
    """
    one, *other = draws
    pair = other[0] if other else None
    return Claim(one, value, error, "covariance", pair, _SIZE * size or None, degrees)
