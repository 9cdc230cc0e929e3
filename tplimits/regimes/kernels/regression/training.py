"""Outputs of an infinitely wide network in training: gradient flow and gradient descent on squared errors.

With the loss 1/(2N) Σ (f(ξ_i) − y_i)² + σ²/(2N) ‖θ − θ₀‖² the outputs at test inputs are, from initial outputs f₀,

    f* = f₀* + G (y − f₀),   G = Θ*ᵀ g(Θ + σ²),   g(λ) = (1 − e^(−λt/N))/λ  or  (1 − (1 − ηλ/N)^k)/λ,

and f₀ is Gaussian with covariance K.  So the mean over initialisations is G y, and the covariance
K** − G K* − K*ᵀ Gᵀ + G K Gᵀ.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.regimes.kernels.regression.blocks import TEST, TRAIN, Blocks
from tplimits.regimes.kernels.regression.descent import rate_bound
from tplimits.regimes.kernels.regression.factor import eigen, refuse_singular
from tplimits.regimes.kernels.regression.regression import Prediction, predicted
from tplimits.regimes.kernels.regression.targets import Schedule, read_momentum, read_noise, read_schedule, read_targets


def trained(
    blocks: Blocks, y: Any, time: Any, steps: Any, lr: Any, noise: Any, momentum: Any, covariance: bool
) -> Prediction:
    """The mean of f* over initialisations and its covariance, at each moment asked for."""
    schedule, variance, μ = read_schedule(time, steps, lr), read_noise(noise), read_momentum(momentum)
    if μ and schedule.lr is None:
        raise EvaluationError(f"momentum={momentum!r}: give steps=… with lr=…; gradient flow has no momentum.")
    targets = read_targets(y, blocks.many(TRAIN), blocks.outputs(TRAIN))
    # one eigensystem for all moments: each then costs products alone
    values, vectors = eigen(blocks.gram("ntk", TRAIN, TRAIN), variance, "ntk")
    reached = _reached(values, schedule, blocks.many(TRAIN), variance, μ)
    projected = blocks.gram("ntk", TRAIN, TEST).T @ vectors
    with numpy.errstate(over="ignore", invalid="ignore"):  # what is not finite is told
        means = numpy.stack([(projected * g) @ (vectors.T @ targets.matrix) for g in reached])
    mean = targets.folded(means[0] if schedule.single else means, blocks.outputs(TEST))
    if not covariance:
        return Prediction(mean)
    gains = numpy.concatenate([(projected * g) @ vectors.T for g in reached])
    rows = projected.shape[0]
    through = blocks.product(gains, "nngp").reshape(len(reached), rows, -1)
    gains = gains.reshape(len(reached), rows, -1)
    cross = gains @ blocks.gram("nngp", TRAIN, TEST)
    spread = through @ gains.transpose(0, 2, 1)
    spread -= cross
    spread -= cross.transpose(0, 2, 1)
    spread += blocks.gram("nngp", TEST, TEST)
    # G K Gᵀ is symmetric up to the order of its sums
    spread = (spread + spread.transpose(0, 2, 1)) / 2
    return predicted(blocks, mean, spread[0] if schedule.single else spread)


def _reached(values: Array, schedule: Schedule, many: int, noise: float, momentum: float) -> list[Array]:
    """g(λ) at each moment."""
    rates = values / many
    if schedule.lr is not None:
        bound = rate_bound(values[-1], many, momentum)
        # the bound itself, as `max_learning_rate` gives it, is allowed
        if schedule.lr > bound * (1 + 1e-12):
            raise EvaluationError(
                f"lr={schedule.lr:g}: gradient descent diverges above {'2(1 + momentum)N' if momentum else '2N'}/λ = "
                f"{bound:.6g}, where λ = {values[-1]:.6g} is the largest eigenvalue of the NTK "
                f"{'with the noise ' if noise else ''}on the N = {many} inputs."
            )
        if momentum:
            return [_with_momentum(values, schedule.lr / many, momentum, int(k)) for k in schedule.moments]
        return [_divided(_descended(schedule.lr * rates, k), values, schedule.lr * k / many) for k in schedule.moments]
    # at finite times a direction of eigenvalue 0 does not move; at ∞ its prediction is 0/0
    if math.inf in schedule.moments:
        refuse_singular(values, noise, "ntk")
    with numpy.errstate(over="ignore"):
        return [_divided(-numpy.expm1(-rates * t), values, t / many) for t in schedule.moments]


def _with_momentum(values: Array, step: float, μ: float, k: int) -> Array:
    """g(λ) after k steps: g ← g + step·m, m ← μ m + 1 − λ g, as a power of one matrix for each eigenvalue."""
    matrix = numpy.zeros((len(values), 3, 3))
    # the new m put into g ← g + step·m: one linear map of (g, m, 1)
    matrix[:, 0] = numpy.stack([1 - step * values, numpy.full_like(values, step * μ), numpy.full_like(values, step)], 1)
    matrix[:, 1] = numpy.stack([-values, numpy.full_like(values, μ), numpy.ones_like(values)], 1)
    matrix[:, 2, 2] = 1
    return numpy.linalg.matrix_power(matrix, k)[:, 0, 2]


def _descended(step: Array, k: float) -> Array:
    """1 − (1 − step)^k for steps in [0, 2]."""
    small = step < 1
    with numpy.errstate(divide="ignore", invalid="ignore"):
        # for small steps 1 − (1 − step)^k cancels
        accurate = -numpy.expm1(k * numpy.log1p(-numpy.where(small, step, 0.0)))
    # beyond 1 the base is negative, which has no logarithm
    return numpy.where(small, accurate, 1 - numpy.power(1 - step, k))


def _divided(reached: Array, values: Array, slope: float) -> Array:
    """reached/λ, and its limit where λ = 0."""
    return numpy.divide(reached, values, out=numpy.full_like(values, slope), where=values > 0)
