"""Norms of whole gradients in the operator regime: |G_t|² = Σ_w (columns/n₀) χ_t·Θ_w χ_t, sums over parameters w.

Θ_w is the tangent kernel of a parameter by the weights of that time, and columns/n₀ belongs to matrices: what an
optimizer sees of a matrix is n^d ∂f/∂w with n that of the readout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tplimits.arrays import Array
from tplimits.regimes.training.numbers.divisors import inverse
from tplimits.regimes.training.numbers.operator_kernels import OutputKernel, kernels
from tplimits.regimes.training.numbers.singular import refuse_cancelled

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.numbers.operator_request import TangentRequest
    from tplimits.regimes.training.numbers.output_biases import OutputBiases


@dataclass(frozen=True)
class WholeGradient:
    """The gradient of the parameters that one optimizer clips together: kernels, each with its factor."""

    optimizer: Optimizer
    parts: tuple[tuple[OutputKernel, float], ...]

    def share(self, t: int, χ: Array) -> float:
        """1/ν for error signals (times, inputs, *outputs) that are 0 but at the time of step t."""
        flat = χ.reshape(-1, *χ.shape[2:])
        square = sum(factor * kernel.square(flat) for kernel, factor in self.parts)
        refuse_cancelled(self.optimizer, t, square, lambda: self._size(abs(flat)), whole=True)
        return inverse(self.optimizer, square)

    def _size(self, flat: Array) -> float:
        return sum(factor * kernel.magnitude.square(flat) for kernel, factor in self.parts)


@dataclass(frozen=True)
class Clipping:
    """What divides the error signals that each parameter sees."""

    gradients: Mapping[str, WholeGradient]

    def shares(self, t: int, χ: Array) -> dict[str, float]:
        """1/ν of every parameter whose gradient is clipped with others."""
        # once for all parameters that are clipped together
        found = {id(whole): whole.share(t, χ) for whole in self.gradients.values()}
        return {name: found[id(whole)] for name, whole in self.gradients.items()}


def clipping(asked: TangentRequest, biases: OutputBiases, seed: int) -> Clipping:
    """The whole gradients of a request; kernels of the same factor and decay are taken together."""
    members: dict[Any, dict[tuple[float, float], tuple[str, ...]]] = {}
    optimizers: dict[Any, Optimizer] = {}
    for name, optimizer in asked.operator.optimizers.items():
        key = optimizer.clips_gradient
        if key is not None:
            optimizers[key], alike = optimizer, members.setdefault(key, {})
            kind = (asked.columns(name), asked.operator.weight_decay[name])
            alike[kind] = (*alike.get(kind, ()), name)
    found: dict[str, WholeGradient] = {}
    for key, alike in members.items():
        parts = tuple((kernels(asked, biases, seed, names)[1], factor) for (factor, _), names in alike.items())
        whole = WholeGradient(optimizers[key], parts)
        found |= {name: whole for names in alike.values() for name in names}
    return Clipping(found)
