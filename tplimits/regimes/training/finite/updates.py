"""Steps of training at finite width, from the gradients of a loss: optimizers, norms, rates and decays.

w_(t+1) = (1 − λ) w_t − η n^(−c) Q_t(n^d g_0, …, n^d g_t)        for W = n^(−a) w, g = n^(−a) ∂L/∂W
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.program.nodes.kinds import InitialMatrix
from tplimits.program.optimizers.joint import NORM_POWER
from tplimits.program.optimizers.stepping import Whole

if TYPE_CHECKING:
    from tplimits.regimes.training.finite.recipe import Recipe


@dataclass
class Updates:
    """The optimizers of all parameters with their states, at one width n₀ of the readout.

    `columns` are those of every matrix.  Arrays have draws first.
    """

    recipe: Recipe
    n0: float
    columns: Mapping[str, int]
    states: dict[str, tuple[Array, ...]] = field(default_factory=dict)

    def step(self, t: int, gradient: Callable[[str], Array], held: dict[str, Array]) -> None:
        """Move the parameters `held`, which are W, by their gradients ∂L/∂W; arrays are replaced, not changed."""
        divisors = self._divisors(gradient)
        moved: dict[str, Array] = {}
        for name, stepper in self.recipe.steppers.items():
            optimizer, e = self.recipe.optimizers[name], self.recipe.exponents[name]
            g = _times(gradient(name), self.n0 ** float(e.d - e.a))
            if name not in self.states:
                self.states[name] = stepper.start(g.shape)
            if optimizer.clips_gradient is not None:
                ν = divisors[optimizer.clips_gradient].reshape(-1, *[1] * (g.ndim - 1))
                g = numpy.divide(g, ν, out=numpy.zeros_like(g), where=ν > 0)
            w = held[name]
            more: tuple[Whole, ...] = ()
            if not optimizer.is_entrywise and optimizer.clips_gradient is None:
                # norms are those of w, of which W = n^(−a) w is held
                more = (Whole(self.recipe.kinds[name], self.n0, w * self.n0 ** float(e.a)),)
            self.states[name], q = stepper.step(t, self.states[name], g, *more)
            moved[name] = _times(w, 1 - self.recipe.decays[name](t)) - self.rate(name, t) * q
        held.update(moved)

    def rate(self, name: str, t: int) -> float:
        """What Q_t is multiplied with in the step of W: η n^(−c − a), times n₀/columns for a matrix."""
        e = self.recipe.exponents[name]
        # limits have updates of a matrix divided by its columns, exponents are powers of n₀: both agree where widths do
        more = self.n0 / self.columns[name] if name in self.columns else 1.0
        return self.recipe.rates[name](t) * self.n0 ** -float(e.c + e.a) * more

    def _divisors(self, gradient: Callable[[str], Array]) -> dict[Any, Array]:
        """What gradients that are clipped together are divided by, one number a draw."""
        squares: dict[Any, Array] = {}
        for name, optimizer in self.recipe.optimizers.items():
            key = optimizer.clips_gradient
            if key is not None:
                e, power = self.recipe.exponents[name], NORM_POWER[self.recipe.kinds[name]]
                g = gradient(name) * self.n0 ** float(e.d - e.a - power)
                squares[key] = squares.get(key, 0.0) + (g * g).reshape(len(g), -1).sum(axis=1)
        # one of those with the same key will do: they are clipped by one rule
        optimizers = {o.clips_gradient: o for o in self.recipe.optimizers.values()}
        return {key: optimizers[key].divisor(numpy.sqrt(square)) for key, square in squares.items()}


def _times(array: Array, factor: float) -> Array:
    """An array times a number, which often is 1: arrays of large networks are long."""
    return array if factor == 1 else array * factor


def updates(recipe: Recipe, widths: Mapping[str, int]) -> Updates:
    """The updates of a recipe at some widths, before the first step."""
    net = recipe.net
    columns = {}
    for name in recipe.optimizers:
        s = net[net.initial_names[name]]
        if isinstance(s, InitialMatrix):
            columns[name] = widths[s.columns]
    return Updates(recipe, float(widths[net.output_width]), columns)
