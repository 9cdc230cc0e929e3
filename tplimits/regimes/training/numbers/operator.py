"""Runs in the operator regime: linear updates by the tangent kernel, others on particles, replicate by replicate."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING

import numpy
import sympy

from tplimits.arrays import Array
from tplimits.errors import NoLimitError
from tplimits.numbers.particles import lies_far_out
from tplimits.program.files.serial import to_json
from tplimits.program.network.loss import error_signal
from tplimits.program.network.schedules import path
from tplimits.program.optimizers.stepping import G
from tplimits.regimes.training.derivation.sign_kernel import sign_kernel
from tplimits.regimes.training.numbers import checkpoint, steep
from tplimits.regimes.training.numbers.averages import mean_and_error
from tplimits.regimes.training.numbers.continued import continued
from tplimits.regimes.training.numbers.divisors import share
from tplimits.regimes.training.numbers.kets import looking, roots, total_of
from tplimits.regimes.training.numbers.moments import operator_squares
from tplimits.regimes.training.numbers.operator_kernels import OutputKernel, initial_path, kernels, sign_gram
from tplimits.regimes.training.numbers.operator_particles import Prepared, TangentReplicate, finite
from tplimits.regimes.training.numbers.output_biases import OutputBiases, output_biases
from tplimits.regimes.training.numbers.replicates import refuse_lost, replicated, whole
from tplimits.regimes.training.numbers.singular import refuse_cancelled
from tplimits.regimes.training.numbers.tangent_clipping import Clipping, clipping

if TYPE_CHECKING:
    from tplimits.progress import Progress
    from tplimits.regimes.training.numbers.operator_request import Group, TangentRequest


def train(asked: TangentRequest, executor: Executor | None, progress: Progress) -> tuple[Array, Array, Array]:
    """f at all times, (steps + 1, inputs, *outputs), its standard errors, and all replicates."""
    with numpy.errstate(all="ignore"):  # outputs that are not finite are refused by name
        return _trained(asked, executor, progress)


def _trained(asked: TangentRequest, executor: Executor | None, progress: Progress) -> tuple[Array, Array, Array]:
    biases = output_biases(asked)
    nngp, ntk = kernels(asked, biases, asked.seed, asked.groups[0].names)
    path = initial_path(asked, nngp, biases)
    if asked.operator.is_by_kernel:
        return _by_kernel(asked, ntk, path, biases)
    # K_sign is one kernel of all parameters at one time
    are_signs = all(g.optimizer.is_entrywise and g.optimizer.output == sympy.sign(G) for g in asked.groups)
    if len(asked.groups) == 1 and asked.times == 1 and are_signs:
        found = _by_signs(asked, path, biases)
        if found is not None:
            return found, numpy.zeros_like(found), found[None]
    exact = roots(asked)
    clipped, squares = clipping(asked, biases, asked.seed), operator_squares(asked, exact)
    prepared = Prepared(path, biases, clipped, exact, squares, lies_far_out(asked.bound))
    begin = partial(TangentReplicate, asked, prepared)
    # a fingerprint costs a hash of all data: only checkpoints ask for it
    runs = replicated(asked, begin, asked.steps, partial(_fingerprint, asked), executor, progress)
    found, signal = numpy.array([run["f"] for run in runs]), error_signal(asked.error)
    refuse_lost(found, lambda t: numpy.array([signal(f, t) for f in found[:, t]]), asked.steps)
    mean, error = mean_and_error(found, numpy.array([run["shares"] for run in runs]))
    total, X = total_of(asked)

    def again(held: steep.Held, which: Sequence[int]) -> Array:
        begin = partial(TangentReplicate, asked, prepared, held=held[0])
        return numpy.array([whole(begin, number)["f"] for number in which])

    # one time is that of the kets, which do not move
    readers, seen = steep.readers(total, continued(total.sized(X))), [run["seen"] for run in runs]
    return mean, numpy.hypot(error, steep.more_errors(readers, partial(looking, asked), seen, found, again)), found


def sign_gram_of(asked: TangentRequest) -> Array:
    """K_sign between the inputs of a request, (trained, evaluated)."""
    return sign_gram(asked, sign_kernel(asked.operator), output_biases(asked))


def _by_signs(asked: TangentRequest, path: Array, biases: OutputBiases) -> Array | None:
    """Sign descent on one training input at a time, by K_sign; None where that does not apply."""
    if asked.outputs or asked.operator.infinite:
        return None
    signal, f = error_signal(asked.error), path[0]
    rate = asked.groups[0].rate
    # looked at before the kernel is derived, which takes longer than a step
    if numpy.count_nonzero(signal(f, 0)) != 1:
        return None
    try:
        gram = sign_gram(asked, sign_kernel(asked.operator), biases)
    except NoLimitError:
        return None
    found = [f]
    for t in range(asked.steps):
        χ = signal(found[-1], t)
        # the sign of a sum over inputs is no product of signs: particles take over
        if numpy.count_nonzero(χ) > 1:
            return None
        found.append(finite(found[-1] - rate(t) * numpy.sign(χ) @ gram, t + 1))
    return numpy.array(found)


def _by_kernel(
    asked: TangentRequest, ntk: OutputKernel, path: Array, biases: OutputBiases
) -> tuple[Array, Array, Array]:
    """Updates linear but for norms: f_{t+1} = f^dec_{t+1} − Σ_s η_s (1 − λ)^(t−s) Θ q_s/ν_s.

    With drawn kernels, once for each draw; with kernels that have errors, once more for each of some that are off by
    their errors.
    """
    clipped = clipping(asked, biases, asked.seed)
    # the first group's kernel came with the NNGP
    ntks = [ntk, *_of_groups(asked, biases, asked.seed, asked.groups[1:])]
    f = linear(asked, ntks, path, clipped)
    if not asked.operator.kernels.is_drawn:
        if all(one.is_exact for one in ntks):
            return f, numpy.zeros_like(f), f[None]
        rng = numpy.random.default_rng(numpy.random.SeedSequence(asked.seed, spawn_key=(2,)))
        off = [linear(asked, [k.disturbed(rng) for k in ntks], path, clipped) - f for _ in range(asked.replicates)]
        return f, numpy.sqrt(numpy.mean(numpy.square(off), axis=0)), f[None]
    # f_0 is that of the first seed in all of them: the draws of the kernels differ, not the start
    seeds = range(asked.seed + 1, asked.seed + 1 + asked.replicates)
    runs = numpy.array([_drawn(asked, biases, seed, path) for seed in seeds])
    return *mean_and_error(runs), runs


def _drawn(asked: TangentRequest, biases: OutputBiases, seed: int, path: Array) -> Array:
    """A run with one draw of the kernels."""
    return linear(asked, _of_groups(asked, biases, seed, asked.groups), path, clipping(asked, biases, seed))


def _of_groups(asked: TangentRequest, biases: OutputBiases, seed: int, groups: Sequence[Group]) -> list[OutputKernel]:
    """The tangent kernel of each group of parameters."""
    return [kernels(asked, biases, seed, group.names)[1] for group in groups]


class _Linear:
    """Parameters with the same update, linear but for a norm: Q_t acts on error signals instead of gradients.

    The square of the norm of Q_t is that of the signals in the kernel of the parameter, times columns/n₀ for a matrix.
    """

    def __init__(self, asked: TangentRequest, group: Group, kernel: OutputKernel) -> None:
        inner = group.optimizer.entry_by_entry("matrix")
        assert inner is not None
        self.shape = (asked.times, *asked.shape)
        self._group, self._stepper = group, inner.stepper()
        self._kernel, self._decay = kernel, asked.kept(group.names[0])
        self._states, self._moved = self._stepper.start(self.shape), numpy.zeros(self.shape)
        self.names, self._columns, self._weight = group.names, asked.columns(group.names[0]), 1.0
        if group.optimizer.divides_by is not None and group.names[0] not in asked.operator.biases:
            self._weight = asked.weight_square(group.names[0])

    def change(self, t: int, χ: Array) -> Array:
        """What is learned by step t, at all times."""
        # a linear Q commutes with the kernel, so that optimizer states are those of signals, not of gradients
        self._states, q = self._stepper.step(t, self._states, χ)
        by_norm = share(self._group.optimizer, lambda: self._square(t, q), lambda: self._weight)
        self._weight *= self._decay**2
        # before the kernel is applied: one product a step, whatever the number of steps behind
        self._moved = self._decay * self._moved + self._group.rate(t) * by_norm * q
        return self._kernel(self._moved.reshape(-1, *self.shape[2:])).reshape(self.shape)

    def _square(self, t: int, q: Array) -> float:
        flat = q.reshape(-1, *self.shape[2:])
        square = self._kernel.square(flat)
        refuse_cancelled(self._group.optimizer, t, square, lambda: self._kernel.magnitude.square(abs(flat)))
        return max(square * self._columns, 0.0)


def linear(asked: TangentRequest, ntks: list[OutputKernel], path: Array, clipped: Clipping) -> Array:
    """A run with linear updates, given the kernel of each group of parameters."""
    signal, shape = error_signal(asked.error), (asked.times, *asked.shape)
    groups = [_Linear(asked, group, kernel) for group, kernel in zip(asked.groups, ntks, strict=True)]
    found = [path[0]]
    for t in range(asked.steps):
        χ = numpy.zeros(shape)
        χ[min(t, asked.times - 1)] = signal(found[-1], t)
        shares = clipped.shares(t, χ)
        change = sum((group.change(t, shares.get(group.names[0], 1.0) * χ) for group in groups), numpy.zeros(shape))
        later = min(t + 1, asked.times - 1)
        found.append(finite(path[later] - change[later], t + 1))
    return numpy.array(found)


def _fingerprint(asked: TangentRequest) -> str:
    """What a run was asked for; the number of replicates may grow."""
    operator = asked.operator
    parts: list[object] = [to_json(operator.whole), sorted(operator.optimizers.items(), key=lambda item: item[0])]
    parts += [
        sorted(operator.weight_decay.items()),
        operator.infinite,
        asked.particles,
        asked.block,
        asked.white,
        asked.seed,
    ]
    parts += [asked.steps, sorted(asked.ratios.items()), sorted(asked.sampling.items())]
    parts += [[(name, rate(t)) for name, rate in sorted(asked.rates.items()) for t in range(asked.steps)]]
    more = {} if asked.f0 is None else {"f0": asked.f0}
    more |= {f"{name}(t)": path(schedule, asked.steps) for name, schedule in asked.schedules.items()}
    return checkpoint.fingerprint(parts, {**asked.X, **asked.given, **more}, asked.error, asked.shape, asked.steps)
