"""The law of V at the end of a chain of layers: what is claimed of it, and what networks and paths say.

Of the variances V_αα three quantiles are judged, of the correlation ρ = V_αβ/√(V_αα V_ββ) of each pair of tokens the
mean, the standard deviation and three quantiles.  All of them are means of values of influence
(`tplimits.regimes.depth.numbers.influence`), one value a network, so that one fit over widths serves for all.  Means
of V can be claimed too, but have no value in the limit where paths may explode: convergence is local.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array, pairs
from tplimits.errors import CheckError
from tplimits.numbers.number import standard_error
from tplimits.regimes.depth.numbers.influence import LEVELS, QUANTILES, of_deviation, of_quantile
from tplimits.regimes.depth.numbers.paths import DEGREES, estimate
from tplimits.sampling.adaptive import Inquiry
from tplimits.sampling.claims import Claim
from tplimits.sampling.sample import Draws

if TYPE_CHECKING:
    from tplimits.regimes.depth.numbers.paths import Paths


#: draws at each width below which quantiles have no error to speak of
LEAST_DRAWS = 64
#: paths that may leave the range of eigenvalues before the end, as a part of all
MOST_STOPPED = 0.01
#: a standard deviation of a variance over paths below this part of it is none
_HELD = 1e-12


def end_labels(m: int) -> tuple[str, ...]:
    """What a draw holds: `V[α,β]`, then `ρ[α,β]` for different tokens."""
    return (*(f"V[{a},{b}]" for a, b in pairs(m)), *_correlations(m))


def statistic_labels(m: int) -> tuple[str, ...]:
    """What can be claimed: means of V and of ρ², and what paths claim themselves."""
    names = _correlations(m)
    return (*end_labels(m)[: -len(names) or None], *(f"ρ²{name[1:]}" for name in names), *path_labels(m))


def path_labels(m: int) -> tuple[str, ...]:
    """Quantiles such as `5% V[α,α]`, means `ρ[α,β]`, standard deviations `std ρ[α,β]` and quantiles of ρ."""
    names = _correlations(m)
    variances = [f"{level} V[{a},{a}]" for level in LEVELS for a in range(m)]
    quantiles = [f"{level} {name}" for level in LEVELS for name in names]
    return (*variances, *names, *(f"std {name}" for name in names), *quantiles)


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
    V, rho = ends[:, : len(pairs(m))], ends[:, len(pairs(m)) :]
    own = V[:, [i for i, (a, b) in enumerate(pairs(m)) if a == b]]
    of_variances = [(of_quantile(own, q), own) for q in QUANTILES]
    of_correlations = [(rho, rho), (of_deviation(rho), rho), *((of_quantile(rho, q), rho) for q in QUANTILES)]
    parts = [(V, V), (rho**2, rho**2), *of_variances, *of_correlations]
    values, averaged = (numpy.concatenate(side, axis=1) for side in zip(*parts, strict=True))
    return values, (averaged**2).mean(axis=0)


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

    Raises CheckError where paths left the range of eigenvalues before the end, more than one in a hundred.
    """
    assert paths.halved is not None
    stopped = float(paths.halved.stopped.mean())
    if stopped > MOST_STOPPED:
        raise CheckError(
            f"{stopped:.1%} of the paths of the SDE were stopped before T = {paths.T:g}: V has no law at the end "
            "to compare with; take fewer layers, or smaller constants."
        )
    m = paths.V.shape[-1]
    labels = path_labels(m)
    values, squares = (part[..., -len(labels) :] for part in statistics(end_values(paths.halved.V), m))
    coarse = statistics(end_values(paths.V), m)[0].mean(axis=0)[-len(labels) :]
    means, noise = values.mean(axis=0), standard_error(values)
    unknown = stopped * numpy.abs(values - means).max(
        axis=0
    )  # what these paths may move, wherever they would have gone
    drawn, degrees = numpy.zeros(len(labels)), math.inf
    if paths.halved.scrambled is not None:
        each = [statistics(end_values(V), m)[0].mean(axis=0)[-len(labels) :] for V in paths.halved.scrambled]
        drawn, degrees = estimate(numpy.array(each)).error, DEGREES
    errors = numpy.sqrt(noise**2 + (coarse - means) ** 2 + unknown**2 + drawn**2)
    # errors of a variance are judged against its high quantile, those of ρ against its root mean square
    sizes = numpy.concatenate([numpy.tile(means[2 * m : 3 * m], 3), numpy.sqrt(squares[3 * m :])])
    moving = numpy.ones(len(labels), dtype=bool)
    if paths.halved.V[:, 0, -1].std() > 0:
        # variances that layers hold where all else is random: in networks they are off by n^(−1/2), as no series tells
        spread = numpy.diagonal(paths.halved.V, axis1=1, axis2=2).std(axis=0)
        moving[: 3 * m] = numpy.tile(spread > _HELD * means[2 * m : 3 * m], 3)
    found = zip(labels, means.tolist(), errors.tolist(), sizes.tolist(), moving, strict=True)
    return [Claim(label, value, error, size=size, degrees=degrees) for label, value, error, size, told in found if told]
