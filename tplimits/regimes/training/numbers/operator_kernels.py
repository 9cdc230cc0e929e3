"""NNGP and NTK of a network between its inputs at all multiples of its weights, as operators on outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.roots import root, spectrum
from tplimits.regimes.kernels.numbers.evaluation import evaluate
from tplimits.regimes.kernels.numbers.request import KernelPair, request
from tplimits.regimes.kernels.numbers.symmetry import as_matrix

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.training.numbers.operator_request import TangentRequest
    from tplimits.regimes.training.numbers.output_biases import OutputBiases

#: eigenvalues of a covariance below this, relative to the largest, are zero
_ROUNDING = 1e-11
#: errors of a kernel below this, relative to its largest entry, are those of rounding and quadrature
_NOTHING = 1e-9


@dataclass(frozen=True)
class OutputKernel:
    """A kernel (inputs, inputs, *kept, *kept) on outputs (inputs, *axes); it is the identity along the other axes.

    `biases` are pairs of what biases add (outputs, outputs) for every pair of inputs, and of weights (inputs, inputs);
    `error` are standard errors of its entries.
    """

    array: Array
    kept: tuple[int, ...]
    biases: tuple[tuple[Array, Array], ...]
    error: Array

    @property
    def is_exact(self) -> bool:
        """Whether its errors are nothing beside its entries."""
        return bool(abs(self.error).max(initial=0.0) <= _NOTHING * abs(self.array).max(initial=0.0))

    def disturbed(self, rng: numpy.random.Generator) -> OutputKernel:
        """The kernel, off by its errors: symmetric, as errors of pairs of inputs are."""
        inputs, _, *places = self.array.shape
        sizes = (inputs, *places[: len(self.kept)])
        upper = numpy.triu(rng.standard_normal((math.prod(sizes), math.prod(sizes))))
        symmetric = (upper + numpy.triu(upper, 1).T).reshape(*sizes, *sizes)
        return replace(self, array=self.array + self.error * numpy.moveaxis(symmetric, len(sizes), 1))

    def __call__(self, χ: Array) -> Array:
        """Σ over inputs and outputs of the kernel times χ (inputs, *axes)."""
        front = numpy.moveaxis(χ, [1 + k for k in self.kept], range(1, 1 + len(self.kept)))
        shape = front.shape
        flat = front.reshape(math.prod(shape[: 1 + len(self.kept)]), -1)
        found = (self.matrix @ flat).reshape(shape)
        moved = numpy.moveaxis(found, range(1, 1 + len(self.kept)), [1 + k for k in self.kept])
        for added, weights in self.biases:
            moved = moved + (weights @ χ.reshape(len(χ), -1) @ added).reshape(χ.shape)
        return numpy.asarray(moved)

    def square(self, χ: Array) -> float:
        """χ·Θ χ."""
        return float((χ * self(χ)).sum())

    @property
    def magnitude(self) -> OutputKernel:
        """The kernel with the absolute values of all that it is made of."""
        biases = tuple((abs(added), abs(weights)) for added, weights in self.biases)
        return replace(self, array=abs(self.array), biases=biases)

    @property
    def matrix(self) -> Array:
        """The kernel between (input, kept axes) pairs."""
        return as_matrix(self.array)

    def full(self, outputs: tuple[int, ...]) -> Array:
        """The covariance between all (input, output) pairs."""
        count = len(self.array) * math.prod(outputs)
        columns = numpy.eye(count).reshape(count, len(self.array), *outputs)
        return numpy.array([self(column).ravel() for column in columns])


def kernels(
    asked: TangentRequest, biases: OutputBiases, seed: int, names: tuple[str, ...]
) -> tuple[OutputKernel, OutputKernel]:
    """NNGP, and NTK of parameters with one decay by the weights as they are, between all inputs at all times."""
    operator = asked.operator
    static = asked.times == 1
    derivation: KernelTables = operator.kernels_of(names, static)
    data: Any = dict(asked.X) if static else asked.at_all_times()
    wanted = request(derivation, data, None, asked.without_biases(asked.given), asked.ratios)
    sampling = dict(asked.sampling) if derivation.is_drawn else {}
    pair = evaluate(wanted, **sampling, seed=seed)
    both = _multiples(asked, names[0])
    ones = numpy.ones_like(both)
    kept = tuple(derivation.axes.index(a) for a in derivation.kept)
    apart = (..., *(None,) * (2 * len(kept)))
    nngp, ntk = pair
    assert isinstance(pair, KernelPair)  # others have no second kernel to unpack
    # one number for all entries where there are none
    nngp_error, ntk_error = (numpy.broadcast_to(e, nngp.shape) for e in (pair.nngp_error, pair.ntk_error))
    if not static:
        ntk, ntk_error = ntk / both[apart], ntk_error / both[apart]
    starts = tuple((biases.of((name,)).covariance, _multiples(asked, name)) for name in dict.fromkeys(biases.owners))
    moved = biases.of(names).kernel
    return (OutputKernel(nngp, kept, starts, nngp_error), OutputKernel(ntk, kept, ((moved, ones),), ntk_error))


def _multiples(asked: TangentRequest, name: str) -> Array:
    """(1 − λ)^(s + t) of a parameter between all inputs at all times."""
    scales = numpy.repeat(asked.scales(name), asked.inputs)
    return numpy.multiply.outer(scales, scales)


def sign_gram(asked: TangentRequest, derivation: KernelTables, biases: OutputBiases) -> Array:
    """K_sign, (trained inputs, evaluated inputs)."""
    given = asked.without_biases(asked.given)
    again = {name: x.copy() for name, x in asked.X.items()}  # a second batch: the kernel is not symmetric
    wanted = request(derivation, dict(asked.X), again, given, asked.ratios)
    return evaluate(wanted).nngp + numpy.abs(biases.slopes).sum()


def initial_path(asked: TangentRequest, nngp: OutputKernel, biases: OutputBiases) -> Array:
    """f^dec at all times, (times, inputs, *outputs): drawn from its Gaussian law, given f_0 where that is given."""
    shape = (asked.times, *asked.shape)
    if asked.f0 is not None and asked.f0.shape == shape:
        return asked.f0
    if asked.f0 is not None and asked.times == 1:
        return asked.f0[None]
    mean = numpy.broadcast_to(biases.constant, (asked.times * asked.inputs, len(biases.constant)))
    for name in dict.fromkeys(biases.owners):
        mean = mean + numpy.repeat(asked.scales(name), asked.inputs)[:, None] * biases.of((name,)).mean
    rng = numpy.random.default_rng(numpy.random.SeedSequence(asked.seed, spawn_key=(0,)))
    z = rng.standard_normal(mean.shape)
    first = None if asked.f0 is None else asked.f0.reshape(asked.inputs, -1)
    found = numpy.empty(mean.shape)
    if nngp.kept or any(numpy.count_nonzero(added - numpy.diag(numpy.diag(added))) for added, _ in nngp.biases):
        start = None if first is None else first.reshape(-1, 1)
        whole = _drawn(mean.reshape(-1, 1), z.reshape(-1, 1), nngp.full(asked.outputs), start)
        return whole.reshape(shape)
    own = numpy.array([numpy.diag(added) for added, _ in nngp.biases]).reshape(-1, len(biases.constant))
    # one root for all outputs with the same biases: most often one for all
    for variances in numpy.unique(own, axis=1).T:  # outputs are independent
        alike = (own == variances[:, None]).all(axis=0)
        start = None if first is None else first[:, alike]
        covariance = nngp.array + sum(v * weights for v, (_, weights) in zip(variances, nngp.biases, strict=True))
        found[:, alike] = _drawn(mean[:, alike], z[:, alike], covariance, start)
    return found.reshape(shape)


def _drawn(mean: Array, z: Array, covariance: Array, first: Array | None) -> Array:
    """Gaussian columns with one covariance from standard normals z, given their first rows if these are known."""
    if first is not None:
        mean, covariance = _conditioned(mean, covariance, first)
    return mean + root(covariance) @ z


def _conditioned(mean: Array, covariance: Array, first: Array) -> tuple[Array, Array]:
    """Means and covariance of Gaussian columns whose first rows are known."""
    k = len(first)
    values, vectors = spectrum(covariance[:k, :k])
    # combinations without variance are known already, and no f0 may give them another value
    kept = values > _ROUNDING * max(values[-1], 0.0)
    off = vectors[:, ~kept].T @ (first - mean[:k])
    if numpy.linalg.norm(off) > 1e-5 * (1 + numpy.linalg.norm(first)):
        raise EvaluationError(
            "f0 cannot be the outputs of this network: some combination of the outputs has no variance at the start, "
            "and f0 gives it another value (an input given twice?)."
        )
    gain = (covariance[:, :k] @ vectors[:, kept]) / values[kept] @ vectors[:, kept].T
    found = mean + gain @ (first - mean[:k])
    # to the last bit, whatever the rounding of the gain
    found[:k] = first
    rest = covariance - gain @ covariance[:k]
    # nothing is left to draw where f0 is given
    rest[:k] = rest[:, :k] = 0
    return found, rest
