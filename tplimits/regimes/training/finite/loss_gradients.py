"""Gradients of a loss at finite width: Σ χ ∂f/∂W over inputs and outputs, for a parameter W of a network.

From the gradients d of `tplimits.program.network.backward`, for readout n₀^(−a_out) Σ_α x_α plus shift,

    ∂f/∂W = n₀^(−a_out) Σ d z ⊗ x    for matrices,    n₀^(−a_out) d v + d^shift v/n₀    for vectors,
    ∂f/∂c = n₀^(1 − a_out) d c + d^shift c                                             for scalars.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.regimes.kernels.finite.products import Products

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.program.nodes.execution import Execution
    from tplimits.regimes.kernels.finite.gradients import GradientSampler


class LossGradients:
    """The gradients of one execution; χ has shape (draws, inputs, *outputs)."""

    def __init__(self, sampler: GradientSampler, run: Execution, a_out: float, χ: Array) -> None:
        self.sampler, self.run = sampler, run
        self.products = Products(sampler, run, slice(None), slice(None), lambda: run)
        self.χ = χ.reshape(*χ.shape[:2], -1)
        n0 = float(self.products.n0)
        #: what the gradients of the readout and of the shift are multiplied with, for scalars and for others
        self.weights = {True: (n0 ** (1 - a_out), 1.0), False: (n0**-a_out, 1 / n0)}

    def of(self, name: str) -> Array:
        """The gradient with respect to one parameter, of its shape with draws first."""
        program, backward = self.run.program, self.sampler.backward
        s = program[program.initial_names[name]]
        main, shift = self.weights[isinstance(s, InitialScalar)]
        total = numpy.zeros_like(self.run.arrays[program.initial_names[name]])
        flat = total.reshape(len(total), -1, *total.shape[1 + len(s.axes) :])
        filled: set[int] = set()
        for use in backward.gradients[name]:
            self._add(flat, filled, name, use, backward.outputs, main)
        for use in backward.shift_gradients[name]:
            self._add(flat, filled, name, use, backward.shift_outputs, shift)
        return total

    def _add(
        self, total: Array, filled: set[int], name: str, use: Use, outputs: Mapping[str, str], weight: float
    ) -> None:
        rows = self.products.rows_of(name, use, outputs, weight)
        for member in map(int, numpy.unique(rows.family)):
            own, place = rows.family == member, total[:, member]
            left = rows.left[:, :, own] * self.χ[:, :, rows.output[own]][..., None]
            left = left.reshape(len(left), -1, left.shape[-1])
            if rows.right is None:
                place += left.sum(axis=1).reshape(place.shape)
            else:
                right = rows.right[:, :, own]
                left, right = numpy.swapaxes(left, -1, -2), right.reshape(len(right), -1, right.shape[-1])
                if member in filled:
                    place += left @ right
                else:  # nothing stands there yet
                    numpy.matmul(left, right, out=place)
            filled.add(member)
