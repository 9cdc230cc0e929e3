"""Gradient descent and gradient flow on any loss, for a kernel that stays as it is.

In the limit f_t(ξ) = f_0(ξ) − Σ_i Θ(ξ, ξ_i) a_i(t), and a is moved by the error signals χ_i = ∂L/∂f(ξ_i) alone:

    da/dt = χ(f_t),   or   m_(t+1) = μ m_t + χ(f_t),  a_(t+1) = a_t + η m_(t+1)   with momentum μ.

A pull of the parameters to where they started, σ²/(2N) ‖θ − θ₀‖² added to the loss, makes χ − σ² a/N of χ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import scipy.integrate
import scipy.sparse.linalg

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.network.loss import error_signal
from tplimits.program.nodes.given import positive_number, real_array, whole_number
from tplimits.regimes.kernels.regression.blocks import TEST, TRAIN, Blocks
from tplimits.regimes.kernels.regression.targets import Schedule, Targets, read_momentum, read_noise

#: relative and absolute error of a step of gradient flow
_RTOL, _ATOL = 1e-9, 1e-11
#: rows from which the largest eigenvalue is found without the others
_MANY = 64


@dataclass(frozen=True)
class Descended:
    """Where descent has led: a at each moment, (moments, rows, outputs), and outputs at the training inputs."""

    weights: Array
    schedule: Schedule
    #: the shape of outputs in the end: whether there is an axis of independent outputs
    shape: Targets
    train: Array

    def at(self, blocks: Blocks, start: Any) -> Array:
        """Outputs at the test inputs of blocks with the same training inputs, from their outputs at the start."""
        found = -(blocks.gram("ntk", TRAIN, TEST).T @ self.weights)
        outputs = blocks.outputs(TEST)
        found += _start(start, (blocks.many(TEST), *outputs), self.weights.shape[-1], self.shape.single)
        return self.shape.folded(found[0] if self.schedule.single else found, outputs)


def descended(
    blocks: Blocks, error: Any, f0: Any, outputs: Any, schedule: Schedule, momentum: Any, noise: Any
) -> Descended:
    """Outputs at the training inputs and what moves those at others; raises what `descend` of a limit raises."""
    μ, signal, pull = read_momentum(momentum), error_signal(error), read_noise(noise) / blocks.many(TRAIN)
    if schedule.lr is None and (μ or math.inf in schedule.moments):
        raise EvaluationError("give steps=… with lr=… (and momentum=…), or a finite time=… of gradient flow.")
    many = 1 if outputs is None else whole_number(outputs)
    if many is None or many < 1:
        raise EvaluationError(f"outputs={outputs!r}: the number of independent outputs is a whole number, 1 or more.")
    shape = (blocks.many(TRAIN), *blocks.outputs(TRAIN))
    folding = Targets(numpy.empty((0, 0)), outputs is None)
    start = _start(f0, shape, many, outputs is None)
    gram = blocks.gram("ntk", TRAIN, TRAIN)

    def errors(a: Array, t: int) -> Array:
        f = start - gram @ a
        if not numpy.isfinite(f).all():
            raise EvaluationError(
                f"step {t}: the outputs are not finite; descent diverges. Give a smaller lr: max_learning_rate says "
                "what squared errors allow."
            )
        return signal(folding.folded(f, shape[1:]), t).reshape(f.shape) - pull * a

    still = numpy.zeros_like(start)
    with numpy.errstate(all="ignore"):  # what is not finite is told
        weights = _flow(still, errors, schedule) if schedule.lr is None else _steps(still, errors, schedule, μ)
    train = start - gram @ weights
    return Descended(weights, schedule, folding, folding.folded(train[0] if schedule.single else train, shape[1:]))


def _start(start: Any, shape: tuple[int, ...], many: int, single: bool) -> Array:
    """Outputs at the start as a matrix: 0, or an array in the shape of outputs."""
    found = real_array("f0", start)
    wanted = shape if single else (*shape, many)
    if found.ndim and found.shape != wanted:
        raise EvaluationError(f"f0 has shape {found.shape}; the outputs have {wanted}. Give f0=0, or such an array.")
    return numpy.broadcast_to(found, wanted).reshape(math.prod(shape), many)


def _steps(a: Array, errors: Callable[[Array, int], Array], schedule: Schedule, μ: float) -> Array:
    assert schedule.lr is not None
    m, found = numpy.zeros_like(a), {}
    last = int(max(schedule.moments))
    for t in range(last + 1):
        if t in schedule.moments:
            found[t] = a
        if t < last:
            m = μ * m + errors(a, t)
            a = a + schedule.lr * m
    return numpy.stack([found[int(t)] for t in schedule.moments])


def _flow(still: Array, errors: Callable[[Array, int], Array], schedule: Schedule) -> Array:
    """By an integrator that changes to an implicit method where the eigenvalues ask for it."""

    def slope(t: float, a: Array) -> Array:
        return errors(a.reshape(still.shape), 0).ravel()

    moments = numpy.array(schedule.moments)
    end = float(moments.max())
    if end == 0:
        return numpy.zeros((len(moments), *still.shape))
    times, inverse = numpy.unique(moments, return_inverse=True)
    run = scipy.integrate.solve_ivp(slope, (0, end), still.ravel(), "LSODA", t_eval=times, rtol=_RTOL, atol=_ATOL)
    if not run.success:
        raise EvaluationError(f"time={end:g}: gradient flow could not be followed ({run.message}); give a smaller one.")
    return run.y.T[inverse].reshape(len(moments), *still.shape)


def max_learning_rate(blocks: Blocks, momentum: Any, noise: Any, curvature: Any) -> float:
    """2 (1 + μ) N/(c (λ + noise)), with λ the largest eigenvalue of Θ on the training inputs."""
    μ, variance = read_momentum(momentum), read_noise(noise)
    bound = positive_number("curvature", curvature, EvaluationError)
    gram = blocks.gram("ntk", TRAIN, TRAIN)
    return rate_bound(_largest(gram) + variance, blocks.many(TRAIN), μ) / bound


def rate_bound(largest: float, many: int, momentum: float) -> float:
    """Where squared errors of an eigenvector stop to shrink: r² − (1 + μ − ηλ/N) r + μ has the root −1."""
    return 2 * (1 + momentum) * many / largest if largest > 0 else math.inf


def _largest(gram: Array) -> float:
    if len(gram) < _MANY:
        return float(numpy.linalg.eigvalsh(gram)[-1])
    start = numpy.random.default_rng(0).standard_normal(len(gram))
    return float(scipy.sparse.linalg.eigsh(gram, 1, which="LA", v0=start, return_eigenvectors=False)[0])
