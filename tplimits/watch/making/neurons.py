"""Networks that are trained neuron by neuron: those of finite width, and limits without matrices on samples of kets.

Without matrices the maximal update parametrization moves every neuron by n ∂L/∂w, whatever the width, and averages over
neurons are averages over samples: n samples of the initial kets train as a network of n neurons that starts at them.

The largest eigenvalue of the Hessian of the loss is found by Lanczos on differences of gradients.  In a parametrization
by widths a step of plain gradient descent moves each parameter W by η p ∂L/∂W, p a power of the width.  The Hessian is
that of the coordinates W/√p, in which it moves all parameters by η ∂L: its largest eigenvalue λ means the same at every
width, gradient descent being stable as long as η λ < 2.

Where functions have kinks the Hessian is that between them, and a difference of gradients that steps over one is wrong
by a jump over the length of the step.  Shorter steps pass fewer kinks, and are wronger by each: what two lengths agree
on passed none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
import scipy.sparse.linalg

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.threads import one_thread
from tplimits.program.network.losses import Loss
from tplimits.program.nodes.kinds import InitialVector
from tplimits.sampling.powers import has_kink
from tplimits.watch.making.engine import Engine

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked

#: differences of gradients are taken over this part of the length of all parameters, over shorter ones at kinks
_STEP, _SHORTER = 1e-6, (1e-7, 1e-8, 1e-9, 1e-10)
#: how near two lengths come to one another
_NEAR = 2e-3
#: with so few parameters the whole matrix is made
_FEW = 24


def sharpness(
    gradients: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    parameters: Mapping[str, Array],
    speeds: Mapping[str, float],
    where: str,
    kinks: bool = False,
) -> float:
    """λ at some parameters; `speeds` are the powers p of each, `kinks` says whether gradients may jump.

    `where` is said in the EvaluationError of Lanczos, and where every step passes a kink.
    """
    roots = {name: math.sqrt(speeds[name]) for name in parameters}
    center = numpy.concatenate([(w / roots[name]).ravel() for name, w in parameters.items()])

    def gradient(u: Array) -> Array:
        at, found = 0, {}
        for name, w in parameters.items():
            found[name] = roots[name] * u[at : at + w.size].reshape(w.shape)
            at += w.size
        g = gradients(found)
        return numpy.concatenate([(roots[name] * g[name]).ravel() for name in parameters])

    before = _largest(gradient, center, _STEP, where)
    for step in _SHORTER if kinks else ():
        found = _largest(gradient, center, step, where)
        if abs(found - before) <= _NEAR * abs(found):
            return found
        before = found
    if kinks:
        raise EvaluationError(
            f"the largest eigenvalue of the Hessian was not found {where}: every step around the parameters passes a "
            "kink. Give sharpness=False, or smooth functions such as tp.gelu and tp.softplus."
        )
    return before


def _largest(gradient: Callable[[Array], Array], center: Array, step: float, where: str) -> float:
    """The largest eigenvalue of the matrix of differences of gradients."""
    length = step * (1 + float(numpy.linalg.norm(center)))

    def times(v: Array) -> Array:
        v = numpy.ravel(v)
        size = float(numpy.linalg.norm(v))
        if size == 0:
            return v
        h = length / size
        return (gradient(center + h * v) - gradient(center - h * v)) / (2 * h)

    if len(center) <= _FEW:
        matrix = numpy.array([times(e) for e in numpy.eye(len(center))])
        return float(numpy.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])
    start = numpy.random.default_rng(0).standard_normal(len(center))
    operator = scipy.sparse.linalg.LinearOperator((len(center),) * 2, matvec=times, dtype=numpy.float64)
    try:
        found = scipy.sparse.linalg.eigsh(operator, k=1, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)
    except scipy.sparse.linalg.ArpackError:  # with it, no convergence
        raise EvaluationError(
            f"the largest eigenvalue of the Hessian was not found {where}: give sharpness=False."
        ) from None
    return float(found[0])


class Neurons(Engine):
    """One network in training, at a step; width `math.inf` stands for samples of the limit's kets."""

    def __init__(self, asked: Asked, width: float, seed: int) -> None:
        self.asked, self.limit, self.n = asked, math.isinf(width), asked.neurons(width, seed)
        neurons = {"particles" if self.limit else "width": self.n}
        given = {**asked.given_to(width, seed), **asked.recipe.schedules}
        trainer = asked.limit_trainer if self.limit else asked.trainer
        self._seen: tuple[int, Array, dict[str, Array]] | None = None
        self.run = trainer.start(asked.X, seed=seed, parameters=given, ratios=asked.ratios, **neurons)
        self._threads = self.run.multiplies_matrices

    def advance(self, step: int) -> None:
        """Go on to a step."""
        with one_thread() if self._threads else nullcontext():
            self.run.advance(step - self.run.step)

    def parameters(self) -> dict[str, Array]:
        """As they stand in the program; in a limit, samples of kets."""
        return {name: self._thinned(name, w) for name, w in self.run.parameters.items()}

    def _thinned(self, name: str, w: Array) -> Array:
        s = self.asked.net[self.asked.net.initial_names[name]]
        return w[..., : self.asked.samples_of(s.over)] if self.limit and isinstance(s, InitialVector) else w

    def outputs(self) -> Array:
        """f on all inputs."""
        return self._looked()[0] if self.asked.detail.gradients else self.run.outputs()

    def _looked(self) -> tuple[Array, dict[str, Array]]:
        """Outputs and gradients on all inputs, found together: it halves what a frame costs."""
        if self._seen is None or self._seen[0] != self.run.step:
            self._seen = (self.run.step, *self.run.outputs_and_gradients())
        return self._seen[1:]

    def on_probes(self) -> Array | None:
        """f on the probes by all samples, of which some are kept."""
        return self.run.outputs(self.asked.probes) if self.limit else None

    def norms(self) -> dict[str, float]:
        """Norms of gradients where plain gradient descent has one rate, √p ‖∂L/∂W‖, and the sharpness there."""
        found: dict[str, float] = {}
        if self.asked.detail.gradients:
            gradients = self._looked()[1]
            for name, p in self._speeds.items():
                found[f"gradient {name}"] = math.sqrt(p * float(numpy.vdot(gradients[name], gradients[name])))
        return found | ({"sharpness": self._sharpness()} if self.asked.detail.sharpness else {})

    @cached_property
    def _speeds(self) -> dict[str, float]:
        return {name: self.asked.speed(name, self.n) for name in self.asked.trained}

    def _sharpness(self) -> float:
        here = self.run.state()

        def gradients(parameters: Mapping[str, Array]) -> Mapping[str, Array]:
            self.run.restore({**here, **{f"parameter {name}": w for name, w in parameters.items()}})
            return self.run.gradients()

        # error signals of users may have any
        jumps = has_kink(self.asked.net) or not isinstance(self.asked.error, Loss)
        try:
            held = {name: here[f"parameter {name}"] for name in self._speeds}
            return sharpness(gradients, held, self._speeds, f"at step {self.run.step}", jumps)
        finally:
            self.run.restore(here)

    def state(self) -> dict[str, Array]:
        """All that is needed to go on."""
        return self.run.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Back to what `state` gave."""
        self.run.restore(state)
