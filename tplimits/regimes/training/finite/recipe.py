"""How networks of finite width are trained: parametrization, optimizers, rates and decays, once for all widths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.program.network.parameters import parameters, refuse_others
from tplimits.program.network.schedules import Rate, Schedule, decays, rates
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.roles import roles
from tplimits.regimes.kernels.finite.gradients import GradientSampler

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.exponents import Exponents
    from tplimits.program.parametrization.table import Parametrization


@dataclass(frozen=True)
class Recipe:
    """A network, its parametrization, and for each trained parameter by name an optimizer, a rate and a decay."""

    net: Program
    parametrization: Parametrization
    optimizers: Mapping[str, Optimizer]
    rates: Mapping[str, Rate]
    decays: Mapping[str, Rate]
    #: scalars of the network that move with the step
    schedules: Mapping[str, Schedule] = field(default_factory=dict)

    @cached_property
    def sampler(self) -> GradientSampler:
        """The network with its gradients."""
        return GradientSampler(self.net, tuple(self.optimizers))

    @cached_property
    def exponents(self) -> dict[str, Exponents]:
        """(a, b, c, d) of every parameter."""
        return self.parametrization.of(self.net)

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """What every parameter is: a matrix, a vector, a scalar or a readout."""
        return roles(self.net).kinds

    @cached_property
    def steppers(self) -> dict[str, Any]:
        """The optimizers on arrays."""
        return {name: optimizer.stepper() for name, optimizer in self.optimizers.items()}

    @property
    def a_out(self) -> float:
        """The power of the output, f = n₀^(−a_out) Σ_α x_α."""
        return float(self.parametrization.a_out)

    @property
    def decaying(self) -> bool:
        """Whether initial weights shrink."""
        return not all(decay.is_zero for decay in self.decays.values())

    @property
    def drifting(self) -> bool:
        """Whether outputs change at rate 0, too."""
        return self.decaying or bool(self.schedules)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "steppers"}  # these hold functions, made again elsewhere


def recipe(
    net: Program,
    parametrization: Parametrization,
    optimizer: Any,
    lr: Any,
    weight_decay: Any = 0.0,
    only: Iterable[str] | None = None,
    schedules: Mapping[str, Schedule] | None = None,
) -> Recipe:
    """Everything checked; optimizer, lr and weight_decay are one for all parameters, or by name."""
    sampler = GradientSampler(net, None if only is None else tuple(only))
    parametrization.of(net)
    if parametrization.symbols:
        raise EvaluationError(f"{parametrization} has symbols; .substituted({{…}}) gives them numbers.")
    names = sampler.trained
    optimizers = {name: _optimizer_of(optimizer, name) for name in names}
    known = parameters(net)
    refuse_others(net, optimizer if isinstance(optimizer, Mapping) else (), "optimizer={…}", EvaluationError)
    speeds, shrinking = rates(lr, optimizers, known), decays(weight_decay, optimizers, known)
    return Recipe(net, parametrization, optimizers, speeds, shrinking, schedules or {})


def _optimizer_of(optimizer: Any, name: str) -> Optimizer:
    """The optimizer of one parameter."""
    found = optimizer.get(name) if isinstance(optimizer, Mapping) else optimizer
    if not isinstance(found, Optimizer):
        where = f" for `{name}`" if isinstance(optimizer, Mapping) else ""
        raise EvaluationError(f"optimizer={found!r}{where}: give an optimizer such as tp.Adam(), or one by parameter.")
    return found
