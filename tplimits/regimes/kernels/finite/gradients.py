"""Kernels of a network at finite width: its outputs, and the products of their gradients, draw by draw.

In the NTP (Yang & Littwin, Table of abcd-parametrizations: a = ½ for matrices and the readout) the output of a network
with readout x on a width of size n₀ is f = n₀^(−1/2) Σ_α x_α + shift.  A matrix is W = w/√columns, and w, the vectors
and the scalars are trained at rate 1, so that with the gradients d of `tplimits.program.network.backward`

    Θ(ξ, ξ') = Σ_W (n₀ columns)^(−1) ⟨Σ d z ⊗ x, Σ d z' ⊗ x'⟩ + Σ_v n₀^(−1) Σ_α d v_α d v'_α + Σ_c n₀ d c · d c',

in the limit ⟨dh|dh'⟩⟨x|x'⟩ for each pair of uses of a matrix and ⟨dv|dv'⟩ for a vector, where widths agree.  Gradients
of the shift are added to those of the readout.  The covariance of f given the forward pass is ⟨x|x'⟩ plus that of shift
and shift'.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.program.network.data import inputs_of
from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.execution import Execution
from tplimits.regimes.kernels.finite.products import FiniteKernels, Products


class GradientSampler(TotalProgram):
    """A network with its gradients, ready to be run on many inputs at once."""

    def execute(
        self,
        X: Mapping[str, Array],
        n: int,
        draws: int,
        rng: numpy.random.Generator,
        ratios: Mapping[str, float] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> Execution:
        """The total program on all inputs, with the same parameters for all inputs of a draw."""
        return Execution(self.program, n, draws, rng, ratios, {**(given or {}), **X}).run()

    def kernels(
        self,
        X1: Any,
        X2: Any = None,
        n: int = 64,
        draws: int = 1,
        rng: numpy.random.Generator | int = 0,
        ratios: Mapping[str, float] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> FiniteKernels:
        """Kernels between the inputs X1 (N1, *axes) and X2 (N2, *axes; None: X1), one of each a draw.

        With several inputs in the signature X1 and X2 map their names to arrays.
        """
        first, second = inputs_of(self.network, X1, "X1"), inputs_of(self.network, X1 if X2 is None else X2, "X2")
        together = first if X2 is None else {p: numpy.concatenate([first[p], second[p]]) for p in first}
        rng = numpy.random.default_rng(rng)
        count = len(next(iter(first.values())))
        rows = slice(0, count)
        columns = rows if X2 is None else slice(count, None)
        with numpy.errstate(all="ignore"):
            again = partial(self.execute, together, n, draws, rng, ratios, given)
            return Products(self, again(), rows, columns, again).kernels()
