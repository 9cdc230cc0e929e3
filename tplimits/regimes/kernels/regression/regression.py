"""Gaussian process regression with a kernel of a network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.pages.curves import Curve, drawn
from tplimits.pages.matrices import coloured, report_of
from tplimits.pages.report import Report, Reported
from tplimits.program.nodes.given import true_or_false, word_of
from tplimits.regimes.kernels.numbers.request import KERNELS
from tplimits.regimes.kernels.regression.blocks import TEST, TRAIN, Blocks, unfolded
from tplimits.regimes.kernels.regression.factor import Factor, factored
from tplimits.regimes.kernels.regression.targets import Targets, read_noise, read_targets


@dataclass(frozen=True)
class Prediction(Reported):
    """Mean (N′, …) of the outputs at test inputs, covariance (N′, N′, …) of each of them, and its root on the diagonal.

    Unpacks into mean and covariance.  At several times or steps of training these are the first axis.
    """

    mean: Array
    covariance: Array | None = None
    std: Array | None = None

    def __iter__(self) -> Iterator[Array | None]:
        return iter((self.mean, self.covariance))

    def report(self) -> Report:
        """Means with two standard deviations, and the covariance as a picture."""
        mean = numpy.asarray(self.mean, dtype=float)
        one = self.covariance is not None and self.covariance.ndim == 2
        shown = {"mean": (mean, 0.0)} | ({"covariance": (self.covariance, 0.0)} if one else {})
        answer = f"Outputs at test inputs, of shape {mean.shape}{' with their covariance' if one else ''}."
        found = report_of("tplimits prediction", "Prediction", shown, repr(self), answer=answer)
        if mean.ndim != 1:
            return found
        bars = () if self.std is None else tuple((2 * numpy.ravel(self.std)).tolist())
        curve = Curve("mean ± 2 std", tuple(map(float, range(len(mean)))), tuple(mean.tolist()), bars)
        picture = drawn([curve], "test input") + (coloured({"covariance": self.covariance}) if one else "")
        return replace(found, picture=picture)


@dataclass(frozen=True)
class Conditioned:
    """What regression keeps of its training data: the factor of K + σ², the targets, and (K + σ²)⁻¹y."""

    kernel: str
    factor: Factor
    targets: Targets
    weights: Array

    def at(self, blocks: Blocks, covariance: bool) -> Prediction:
        """K*ᵀ(K + σ²)⁻¹y and K** − K*ᵀ(K + σ²)⁻¹K* at the test inputs of blocks with the same training inputs."""
        cross = blocks.gram(self.kernel, TRAIN, TEST)
        mean = self.targets.folded(cross.T @ self.weights, blocks.outputs(TEST))
        if not true_or_false("covariance", covariance, EvaluationError):
            return Prediction(mean)
        # K*ᵀ(K + σ²)⁻¹K* = (L⁻¹K*)ᵀ(L⁻¹K*): one triangular solve, and a symmetric product
        half = self.factor.half(cross)
        spread = blocks.gram(self.kernel, TEST, TEST)
        spread -= half.T @ half
        return predicted(blocks, mean, spread)


def conditioned(blocks: Blocks, y: Any, noise: Any, kernel: Any) -> Conditioned:
    """The outputs given those at the training inputs; raises what `posterior` of a limit raises."""
    name, variance = word_of("kernel", kernel, KERNELS, EvaluationError), read_noise(noise)
    targets = read_targets(y, blocks.many(TRAIN), blocks.outputs(TRAIN))
    factor = factored(blocks.gram(name, TRAIN, TRAIN), variance, name)
    return Conditioned(name, factor, targets, factor.solve(targets.matrix))


def predicted(blocks: Blocks, mean: Array, spread: Array) -> Prediction:
    """The prediction with a covariance matrix (…, rows, rows) in the shape of kernels."""
    outputs = blocks.outputs(TEST)
    # at training inputs without noise the variance is 0, and below it by rounding
    variances = numpy.maximum(numpy.diagonal(spread, axis1=-2, axis2=-1), 0.0)
    std = numpy.sqrt(variances).reshape(*spread.shape[:-2], -1, *outputs)
    return Prediction(mean, unfolded(spread, outputs, outputs), std)


def log_marginal_likelihood(blocks: Blocks, y: Any, noise: Any, kernel: Any) -> float:
    """Σ over outputs of −½ yᵀ(K + σ²)⁻¹y − ½ log det(K + σ²) − (N/2) log 2π."""
    given = conditioned(blocks, y, noise, kernel)
    targets = given.targets.matrix
    quadratic = float((targets * given.weights).sum())
    if not math.isfinite(quadratic):
        raise EvaluationError("the targets are too large: yᵀ(K + σ²)⁻¹y leaves the range of double precision.")
    rows, outputs = targets.shape
    return -0.5 * (quadratic + outputs * (given.factor.log_determinant + rows * math.log(2 * math.pi)))
