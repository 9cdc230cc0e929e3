"""Gaussian process regression with a kernel of a network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.regimes.kernels.regression.blocks import TEST, TRAIN, Blocks, kernel_name, unfolded
from tplimits.regimes.kernels.regression.factor import factored
from tplimits.regimes.kernels.regression.targets import read_noise, read_targets

Array = NDArray[numpy.float64]


@dataclass(frozen=True)
class Prediction:
    """Mean (N′, …) of the outputs at test inputs, covariance (N′, N′, …) of each of them, and its root on the diagonal.

    Unpacks into mean and covariance.  At several times or steps of training these are the first axis.
    """

    mean: Array
    covariance: Array | None = None
    std: Array | None = None

    def __iter__(self) -> Iterator[Array | None]:
        return iter((self.mean, self.covariance))


def posterior(blocks: Blocks, y: Any, noise: Any, kernel: Any, covariance: bool) -> Prediction:
    """K*ᵀ(K + σ²)⁻¹y and K** − K*ᵀ(K + σ²)⁻¹K*."""
    name, variance = kernel_name(kernel), read_noise(noise)
    targets = read_targets(y, blocks.many(TRAIN), blocks.outputs(TRAIN))
    factor = factored(blocks.gram(name, TRAIN, TRAIN), variance, name)
    cross = blocks.gram(name, TRAIN, TEST)
    mean = targets.folded(cross.T @ factor.solve(targets.matrix), blocks.outputs(TEST))
    if not covariance:
        return Prediction(mean)
    half = factor.half(cross)
    spread = blocks.gram(name, TEST, TEST)
    spread -= half.T @ half
    return predicted(blocks, mean, spread)


def predicted(blocks: Blocks, mean: Array, spread: Array) -> Prediction:
    """The prediction with a covariance matrix (…, rows, rows) in the shape of kernels."""
    outputs = blocks.outputs(TEST)
    variances = numpy.maximum(numpy.diagonal(spread, axis1=-2, axis2=-1), 0.0)
    std = numpy.sqrt(variances).reshape(*spread.shape[:-2], -1, *outputs)
    return Prediction(mean, unfolded(spread, outputs, outputs), std)


def log_marginal_likelihood(blocks: Blocks, y: Any, noise: Any, kernel: Any) -> float:
    """Σ over outputs of −½ yᵀ(K + σ²)⁻¹y − ½ log det(K + σ²) − (N/2) log 2π."""
    name, variance = kernel_name(kernel), read_noise(noise)
    targets = read_targets(y, blocks.many(TRAIN), blocks.outputs(TRAIN)).matrix
    factor = factored(blocks.gram(name, TRAIN, TRAIN), variance, name)
    quadratic = float((targets * factor.solve(targets)).sum())
    if not math.isfinite(quadratic):
        raise EvaluationError("the targets are too large: yᵀ(K + σ²)⁻¹y leaves the range of double precision.")
    rows, outputs = targets.shape
    return -0.5 * (quadratic + outputs * (factor.log_determinant + rows * math.log(2 * math.pi)))
