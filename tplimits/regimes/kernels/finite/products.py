"""Products of gradients, from one execution of a total program on many inputs; formulas in `gradients`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.program.network.gradient_rows import Rows, returned_values, rows_of_use
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.finite.gradients import GradientSampler


@dataclass(frozen=True)
class FiniteKernels:
    """Kernels between inputs at one width, one of each a draw: (draws, N1, N2, *outputs, *outputs).

    `nngp` is ⟨x|x'⟩ plus the covariance of the shift, `ntk` the sum of `ntk_of` over the parameters that are trained;
    `outputs` is f itself on all inputs, those of X1 first: (draws, N1 + N2, *outputs), `shift` the covariance of the
    shift alone.
    """

    nngp: Array
    ntk_of: Mapping[str, Array]
    outputs: Array
    shift: Array

    def below(self, readout: str, variance: float) -> Array:
        """The covariance of outputs given all but the readout and the shift: they are linear in a trained readout."""
        return variance * self.ntk_of[readout] + self.shift

    @property
    def ntk(self) -> Array:
        """The sum over the parameters that are trained."""
        return self.weighted({})

    def weighted(self, rates: Mapping[str, float]) -> Array:
        """The same with a factor for each parameter, 1 where none is given."""
        total = numpy.zeros_like(self.nngp)
        for name, part in self.ntk_of.items():
            total = total + rates.get(name, 1.0) * part
        return total


class Products:
    """The kernels of one execution."""

    def __init__(
        self, sampler: GradientSampler, run: Execution, rows: slice, columns: slice, again: Callable[[], Execution]
    ) -> None:
        self.sampler, self.run, self.rows, self.columns, self.again = sampler, run, rows, columns, again
        network = sampler.network
        self.n0 = run.width[network.output_width]
        self.inputs = run.size(sampler.axis)
        self.shape = run.shape(sampler.output_axes)
        self.outputs = int(numpy.prod(self.shape, dtype=int))

    def kernels(self) -> FiniteKernels:
        """Everything there is to know of this execution."""
        parts = {name: self._shaped(self._tangent(name)) for name in self.sampler.trained}
        x, shift = self.readout_values()
        outputs = x.sum(axis=-1) / numpy.sqrt(self.n0) + shift
        nngp = numpy.einsum("dion,djpn->dijop", x[:, self.rows], x[:, self.columns], optimize=True) / self.n0
        of_shift = self._shift_covariance(shift)
        outputs = outputs.reshape(*outputs.shape[:2], *self.shape)
        return FiniteKernels(self._shaped(nngp + of_shift), parts, outputs, self._shaped(0 * nngp + of_shift))

    def _shaped(self, kernel: Array) -> Array:
        return kernel.reshape(*kernel.shape[:3], *self.shape, *self.shape)

    def readout_values(self) -> tuple[Array, Array]:
        """The readout (draws, inputs, outputs, n₀), and the shift (draws, inputs, outputs)."""
        return returned_values(self.sampler, self.run)

    def _shift_covariance(self, shift: Array) -> Any:
        """Cov(shift, shift') over random parameters: exact where the shift is affine in scalars, else from pairs."""
        network = self.sampler.network
        if len(network.returns) == 1:
            return 0.0
        random = {p for p, s in enumerate(network) if _is_random(network, p)}
        behind, backward = network.behind(network.returns[1:]) & random, self.sampler.backward
        slopes = (u.gradient.source for uses in backward.shift_gradients.values() for u in uses)
        curved = backward.program.behind(slopes) & random
        if not curved and all(isinstance(network[p], InitialScalar) for p in behind):
            total: Any = 0.0
            for position in behind:
                scalar = network[position]
                assert isinstance(scalar, InitialScalar)
                factors = self._factors(scalar.name, readout=False)
                variance = float(evaluate(scalar.law.std, self.run.leaves)) ** 2
                total = total + (
                    variance * _product(factors, self.rows, self.columns, self.outputs) if factors else 0.0
                )
            return total
        second = Products(self.sampler, self.again(), self.rows, self.columns, self.again).readout_values()[1]
        # two independent draws: the mean drops out, and the product has the covariance for its mean
        difference = (shift - second) / numpy.sqrt(2.0)
        return numpy.einsum("dio,djp->dijop", difference[:, self.rows], difference[:, self.columns])

    def _tangent(self, name: str) -> Array:
        """The contribution of one parameter to Θ: (draws, N1, N2, outputs, outputs)."""
        s = self.run.program[self.run.program.initial_names[name]]
        factors = self._factors(name)
        if factors is None:
            count = (len(range(*part.indices(self.inputs))) for part in (self.rows, self.columns))
            return numpy.zeros((self.run.draws, *count, self.outputs, self.outputs))
        weight = 1.0 / self.n0
        if isinstance(s, InitialMatrix):
            weight /= self.run.width[s.columns]
        elif isinstance(s, InitialScalar):
            weight = float(self.n0)
        return weight * _product(factors, self.rows, self.columns, self.outputs)

    def _factors(self, name: str, readout: bool = True) -> Rows | None:
        """The rows of all uses of a parameter; gradients of the shift weigh n₀^(−1/2) beside those of the readout."""
        backward = self.sampler.backward
        weighted = [
            (u, backward.shift_outputs, self.n0**-0.5 if readout else 1.0) for u in backward.shift_gradients[name]
        ]
        if readout:
            weighted += [(u, backward.outputs, 1.0) for u in backward.gradients[name]]
        found = [self.rows_of(name, use, outputs, weight) for use, outputs, weight in weighted]
        found = [f for f in found if len(f.family)]
        if not found:
            return None
        right = (
            None
            if found[0].right is None
            else numpy.concatenate([f.right for f in found if f.right is not None], axis=2)
        )
        return Rows(
            numpy.concatenate([f.left for f in found], axis=2),
            right,
            numpy.concatenate([f.family for f in found]),
            numpy.concatenate([f.output for f in found]),
        )

    def rows_of(self, name: str, use: Use, outputs: Mapping[str, str], weight: float) -> Rows:
        """One use as rows of all draws, times a weight."""
        rows = rows_of_use(self.sampler, name, use, outputs, self.run)
        return replace(rows, left=rows.left * weight)


def _is_random(network: Program, position: int) -> bool:
    """Whether an instruction is a parameter that is drawn."""
    s = network[position]
    if position in network.inputs or s.name not in parameters(network):
        return False
    return not (isinstance(s, InitialScalar) and s.value is not None)


def _product(factors: Rows, rows: slice, columns: slice, outputs: int) -> Array:
    """Σ (left·left')(right·right') over pairs of rows of the same family: (draws, N1, N2, outputs, outputs)."""
    total: Any = 0.0
    for member in numpy.unique(factors.family):
        chosen = factors.family == member
        output = numpy.eye(outputs)[factors.output[chosen]]
        products = _gram(factors.left[:, :, chosen], rows, columns)
        if factors.right is not None:
            products = products * _gram(factors.right[:, :, chosen], rows, columns)
        total = total + numpy.einsum("dikjl,ko,lp->dijop", products, output, output, optimize=True)
    return numpy.asarray(total)


def _gram(x: Array, rows: slice, columns: slice) -> Array:
    """Inner products of all rows of some inputs with all rows of others: (draws, N1, rows, N2, rows)."""
    one, other = x[:, rows], x[:, columns]
    flat = one.reshape(len(x), -1, x.shape[-1]) @ other.reshape(len(x), -1, x.shape[-1]).swapaxes(1, 2)
    return flat.reshape(len(x), one.shape[1], one.shape[2], other.shape[1], other.shape[2])
