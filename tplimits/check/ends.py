"""The law of V at the end of a chain of layers: what is claimed of it, and what networks and paths say.

Of V itself the mean is judged, of the correlation ρ = V_αβ/√(V_αα V_ββ) of each pair of tokens the mean, the standard
deviation and three quantiles.  All of them are means of values of influence (`tplimits.numeric.sde.influence`), one
value a network, so that one fit over widths serves for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from tplimits.check.adaptive import Inquiry
from tplimits.check.claims import Claim
from tplimits.check.sample import Draws
from tplimits.errors import CheckError
from tplimits.numeric.sde.influence import of_deviation, of_quantile
from tplimits.numeric.sde.paths import Paths

Array = NDArray[numpy.float64]

#: levels of the quantiles of ρ
QUANTILES = (0.05, 0.5, 0.95)
#: draws at each width below which quantiles have no error to speak of
LEAST_DRAWS = 64


def pairs(m: int) -> list[tuple[int, int]]:
    """The pairs α ≤ β in row order."""
    return [(a, b) for a in range(m) for b in range(a, m)]


def end_labels(m: int) -> tuple[str, ...]:
    """What a draw holds: `V[α,β]`, then `ρ[α,β]` for different tokens."""
    return (*(f"V[{a},{b}]" for a, b in pairs(m)), *_correlations(m))


def statistic_labels(m: int) -> tuple[str, ...]:
    """What can be claimed: means of V and ρ, `std ρ[α,β]`, quantiles such as `5% ρ[α,β]`, and means of `ρ²[α,β]`.

    >>> statistic_labels(2)[3:]
    ('ρ[0,1]', 'std ρ[0,1]', '5% ρ[0,1]', '50% ρ[0,1]', '95% ρ[0,1]', 'ρ²[0,1]')
    """
    names = _correlations(m)
    levels = [f"{100 * q:.0f}% {name}" for q in QUANTILES for name in names]
    return (*end_labels(m), *(f"std {name}" for name in names), *levels, *(f"ρ²{name[1:]}" for name in names))


def _correlations(m: int) -> list[str]:
    return [f"ρ[{a},{b}]" for a, b in pairs(m) if a != b]


def end_values(V: Array) -> Array:
    """What `end_labels` name, for covariances of shape (draws, m, m): (draws, labels)."""
    a, b = numpy.triu_indices(V.shape[-1])
    c, d = numpy.triu_indices(V.shape[-1], 1)
    rho = V[:, c, d] / numpy.sqrt(V[:, c, c] * V[:, d, d])
    return numpy.concatenate([V[:, a, b], rho], axis=1)


def statistics(ends: Array, m: int) -> tuple[Array, Array]:
    """Values whose means are what `statistic_labels` name, (draws, labels), and the mean squares of V and ρ in them."""
    rho = ends[:, len(pairs(m)) :]
    values = [ends, of_deviation(rho), *(of_quantile(rho, q) for q in QUANTILES), rho**2]
    squares = (ends**2).mean(axis=0)
    size = squares[len(pairs(m)) :]
    return numpy.concatenate(values, axis=1), numpy.concatenate([squares, *[size] * 4, size**2])


@dataclass(frozen=True)
class EndInquiry(Inquiry):
    """Claims on the law of V at the end of a chain."""

    tokens: int = 0

    @property
    def least(self) -> int:
        return LEAST_DRAWS

    @property
    def columns(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(statistic_labels(self.tokens))}

    def measured(self, samples: Sequence[Draws]) -> tuple[Draws, ...]:
        """One column for each statistic."""
        return tuple(Draws(s.n, *statistics(s.values, self.tokens)) for s in samples)


def end_claims(paths: Paths) -> list[Claim]:
    """What simulated paths say about a chain of layers, with the errors of sampling and of the size of the step.

    The paths bring those in steps half as long (`simulate(…, halve=True)`): these are the claim, and how far the longer
    steps are from them is their error, for schemes of weak order 1.

    Raises CheckError where paths left the range of eigenvalues before the end: there is no law of V then.
    """
    assert paths.halved is not None
    stopped = int(paths.halved.stopped.sum())
    if stopped:
        raise CheckError(
            f"{stopped} of {len(paths.V)} paths of the SDE were stopped before T = {paths.T:g}, where V has no law to "
            "compare with; take fewer layers, or smaller constants."
        )
    m = paths.V.shape[-1]
    values, squares = statistics(end_values(paths.halved.V), m)
    coarse = statistics(end_values(paths.V), m)[0].mean(axis=0)
    means, noise = values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))
    errors = numpy.hypot(noise, coarse - means)
    sizes = numpy.sqrt(squares)
    labels = statistic_labels(m)
    count = len(labels) - len(_correlations(m))  # ρ² says what mean and deviation say
    return [
        Claim(label, float(v), float(e), size=None if label.startswith("V") else float(s))
        for label, v, e, s in zip(labels[:count], means, errors, sizes, strict=False)
    ]
