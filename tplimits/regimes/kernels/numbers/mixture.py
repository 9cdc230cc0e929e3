"""Networks whose outputs are Gaussian given random logits: kernels and outputs by draws, and how far from Gaussian.

Given the logits 𝒢 of finitely many heads, outputs are centred Gaussian with covariance C(𝒢); independent outputs share
𝒢.  Of f ~ N(0, C) with random C, E f⁴ = 3 E C², so the excess kurtosis is 3 Var(C)/(E C)².
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError, shown
from tplimits.numbers.number import standard_error
from tplimits.numbers.roots import root
from tplimits.program.nodes.given import seed_number, whole_number
from tplimits.regimes.kernels.numbers.drawn import sampled
from tplimits.regimes.kernels.numbers.request import GramRequest, shape_of

#: numbers in the arrays of one batch of draws
_BATCH = 1 << 22
#: a share of E C² that no draw of C has where C² has a variance, unless there are only so many draws
_ONE_DRAW, _FEW = 0.25, 16


@dataclass(frozen=True)
class KernelSample:
    """Kernels given draws of the logits, (draws, N1, N2, *axes, *axes): `nngp` is C(𝒢), `ntk` is E[Θ | 𝒢].

    `no_ntk` says why there is no tangent kernel: asking for `ntk` then raises NoLimitError.
    """

    nngp: Array
    tangent: Array = field(repr=False)
    symmetric: bool = field(default=True, repr=False)
    no_ntk: str = field(default="", repr=False)

    @property
    def ntk(self) -> Array:
        """E[Θ | 𝒢]."""
        if self.no_ntk:
            raise NoLimitError(self.no_ntk)
        return self.tangent

    def outputs(self, many: int = 1, seed: int = 0) -> Array:
        """Outputs at initialisation: for each draw of the logits `many` independent ones, (draws, many, N, *axes).

        Raises EvaluationError where the kernels were drawn for two different batches of inputs.
        """
        count = whole_number(many)
        if count is None or count < 1:
            raise EvaluationError(f"many={many!r}: the number of independent outputs is a positive whole number.")
        if not self.symmetric:
            raise EvaluationError("outputs are drawn for one batch of inputs: .sample(X), without X2.")
        outputs = self.nngp.shape[3 : 3 + (self.nngp.ndim - 3) // 2]
        draws, inputs, *_ = self.nngp.shape
        rows = inputs * math.prod(outputs)
        order = (0, 1, *range(3, 3 + len(outputs)), 2, *range(3 + len(outputs), self.nngp.ndim))
        roots = root(self.nngp.transpose(order).reshape(draws, rows, rows))
        rng = numpy.random.default_rng(seed_number(seed, EvaluationError))
        white = rng.standard_normal((draws, count, rows))
        return numpy.einsum("dij,dcj->dci", roots, white).reshape(draws, count, inputs, *outputs)


@dataclass(frozen=True)
class Kurtosis:
    """Excess kurtosis of the outputs, (N, *axes), with standard errors; 0 is Gaussian."""

    value: Array
    error: Array


def sample(asked: GramRequest, draws: int, seed: int) -> KernelSample:
    """Kernels given so many draws of the logits."""
    parts = list(_batches(asked, draws, seed))
    nngp, ntk = (numpy.concatenate([p[i] for p in parts]) for i in (0, 1))
    return KernelSample(nngp, ntk, asked.symmetric, asked.derivation.no_ntk)


def excess_kurtosis(asked: GramRequest, draws: int, seed: int) -> Kurtosis:
    """3 Var(C)/(E C)² for C the variance of each output given the logits."""
    axes = len(asked.derivation.kept)
    letters = "abcefgh"[:axes]
    own = f"dii{letters}{letters}->di{letters}"
    C = numpy.concatenate([numpy.einsum(own, nngp) for nngp, _ in _batches(asked, draws, seed)])
    m1, m2 = C.mean(axis=0), (C**2).mean(axis=0)
    if ((C**2).max(axis=0) > max(_ONE_DRAW * len(C), _FEW) * m2).any():
        raise EvaluationError(
            f"excess_kurtosis(): one of {len(C)} draws makes up a large part of E C² of an output's variance C, so "
            "that their spread is no error. Take more draws; where that does not help the kurtosis may be infinite, "
            "as where a fluctuation is divided by."
        )
    with numpy.errstate(invalid="ignore", divide="ignore"):
        influence = 3 * ((C**2 - m2) / m1**2 - 2 * m2 * (C - m1) / m1**3)
        return Kurtosis(3 * (m2 / m1**2 - 1), standard_error(influence))


def _batches(asked: GramRequest, draws: int, seed: int) -> Iterator[tuple[Array, Array]]:
    count, base = whole_number(draws), seed_number(seed, EvaluationError)
    if count is None or count < 2:
        raise EvaluationError(f"draws={shown(draws)}: the number of draws is a whole number, 2 or more.")
    if not asked.derivation.is_mixture:
        raise EvaluationError(
            f"the kernels of `{asked.derivation.network.name}` are not random; there is nothing to draw: .evaluate(X) "
            "gives them. A mixture needs 1/√n logits and a fixed number of heads."
        )
    step = max(2, _BATCH // math.prod(shape_of(asked, asked.derivation.axes)))
    for number, start in enumerate(range(0, count, step)):
        one = int(numpy.random.SeedSequence([base, number]).generate_state(1)[0])
        yield sampled(asked, min(step, count - start), one)
