"""Which limit stands beside networks of finite width: read off the exponents of their parametrization.

Training sees of a parameter's exponents (a, b, c, d) its size n^(−a−b) at the start, the power n^(−a−c) of a step and
the power n^(d−a) of the gradients that Q sees; the last two come together as n^(k(d−a)−a−c) where Q has degree k.
What agrees in these with the maximal update parametrization has the limit of feature learning, what agrees with the
neural tangent parametrization that of the operator regime.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tplimits.derive import derive
from tplimits.errors import EvaluationError
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.entries import width_symbol
from tplimits.program.nodes.kinds import InitialMatrix, Nonlin
from tplimits.program.optimizers.linear import Frozen
from tplimits.program.parametrization.table import MUP, NTP, Parametrization
from tplimits.regimes.training.feature_learning import MaximalLimit, MaximalUpdate
from tplimits.regimes.training.operator import NeuralTangent, TangentLimit
from tplimits.sampling.powers import has_corner

if TYPE_CHECKING:
    from sympy import Expr

    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.finite.recipe import Recipe


@dataclass(frozen=True)
class LimitOf:
    """The limit of networks that are trained by a recipe."""

    recipe: Recipe

    @property
    def net(self) -> Program:
        """The network."""
        return self.recipe.net

    @cached_property
    def optimizers(self) -> dict[str, Any]:
        """An optimizer for every parameter; what is not trained stays."""
        return {name: self.recipe.optimizers.get(name, Frozen()) for name in parameters(self.net)}

    @cached_property
    def regime(self) -> MaximalUpdate | NeuralTangent:
        """The regime that the parametrization belongs to; EvaluationError for one that belongs to neither."""
        decays = {name: 0.0 if callable(λ.value) else λ.value for name, λ in self.recipe.decays.items()}
        decays = {name: decays.get(name, 0.0) for name in self.optimizers}  # no hypothesis rests on how much decays
        if self._agrees(MUP):
            return MaximalUpdate(self.optimizers, decays)
        if self._agrees(NTP):
            return NeuralTangent(self.optimizers, decays)
        raise EvaluationError(
            f"widths=tp.inf: networks trained in {self.recipe.parametrization.name} with these optimizers have neither "
            "the limit of feature learning nor that of the operator regime. Give parametrization=tp.MUP (or none) or "
            "tp.NTP, adjusted to the optimizer by .adjusted(net, optimizer) where it divides by norms, or leave tp.inf "
            "out; tp.classify tells what a parametrization tends to."
        )

    def _agrees(self, table: Parametrization) -> bool:
        """Whether networks train as in another parametrization, whatever the width."""
        own = self.recipe.parametrization
        other = table.adjusted(self.net, self.recipe.optimizers)
        mine, theirs = own.of(self.net), other.of(self.net)
        return own.a_out == other.a_out and all(self._seen(n, mine[n]) == self._seen(n, theirs[n]) for n in mine)

    def _seen(self, name: str, e: Any) -> tuple[Expr, ...]:
        """What training sees of the exponents of a parameter."""
        optimizer = self.recipe.optimizers.get(name)
        if optimizer is None:
            return (e.a + e.b,)
        degree = optimizer.degree if optimizer.is_entrywise else None
        if degree is None:
            return e.a + e.b, e.a + e.c, e.d - e.a
        return e.a + e.b, degree * (e.d - e.a) - e.a - e.c

    @cached_property
    def derived(self) -> MaximalLimit | TangentLimit:
        """The limit itself; NoLimitError where a hypothesis fails."""
        regime = self.regime
        if isinstance(regime, MaximalUpdate):
            return derive(self.net, regime)
        return derive(self.net, regime)

    @cached_property
    def is_neuronwise(self) -> bool:
        """Whether samples of kets train as neurons do: features move, no matrix mixes them, no power of n stands.

        Where kinks of averages are passed it is not said either: replicates of particles judge whether training
        lands on one.
        """
        if not isinstance(self.derived, MaximalLimit) or any(has_corner(self.net, p) for p in range(len(self.net))):
            return False
        powers = {width_symbol(width) for width in self.net.widths}
        bodies = [s.body for s in self.net if isinstance(s, Nonlin)]
        matrices = any(isinstance(s, InitialMatrix) for s in self.net)
        return not matrices and not any(powers & body.free_symbols for body in bodies)
