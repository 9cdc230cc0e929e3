"""Arrays of b and C for all pairs of inputs of a perceptron."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.given import whole_from
from tplimits.regimes.kernels.first_order.means import Activation
from tplimits.regimes.kernels.first_order.recursion import Coefficients, Weights, coefficients
from tplimits.regimes.kernels.numbers.request import GramRequest, KernelPair, NNGPAlone

if TYPE_CHECKING:
    from tplimits.regimes.kernels.first_order.perceptron import Perceptron, Share

#: inputs are the same where entries of their kernels differ by less than this share
_SAME = 1e-12
#: errors of b and C above this share of what networks vary by, √C and C, say nothing
_KNOWN = 0.01


@dataclass(frozen=True)
class FirstOrder(KernelPair):
    """Both kernels in the limit, and the coefficients of 1/n in their means and variances over networks of width n.

    Of the NNGP it is the covariance of outputs given all layers below the readout; outputs f have
    E f² = K + `nngp_bias`/n and the fourth cumulant 3 `nngp_variance`/n.  Arrays have the shape of the kernels, and
    `…_error` is what errors of means make of each.
    """

    nngp_bias: Array = field(default_factory=lambda: numpy.empty(0), repr=False)
    nngp_variance: Array = field(default_factory=lambda: numpy.empty(0), repr=False)
    ntk_bias: Array = field(default_factory=lambda: numpy.empty(0), repr=False)
    ntk_variance: Array = field(default_factory=lambda: numpy.empty(0), repr=False)
    nngp_bias_error: Array = field(default_factory=lambda: numpy.empty(0), repr=False)
    nngp_variance_error: Array = field(default_factory=lambda: numpy.empty(0), repr=False)
    ntk_bias_error: Array = field(default_factory=lambda: numpy.empty(0), repr=False)
    ntk_variance_error: Array = field(default_factory=lambda: numpy.empty(0), repr=False)

    def at(self, n: int) -> KernelPair:
        """Means over networks of width n, to order 1/n; errors are their standard deviations."""
        width = whole_from("n", n, 1, EvaluationError)
        return KernelPair(
            self.nngp + self.nngp_bias / width,
            self.ntk + self.ntk_bias / width,
            numpy.sqrt(numpy.maximum(self.nngp_variance, 0.0) / width),
            numpy.sqrt(numpy.maximum(self.ntk_variance, 0.0) / width),
        )


@dataclass(frozen=True)
class Rates:
    """The factor of the squared gradients of each trained parameter."""

    of: Mapping[str, float]

    def weights(self, matrix: Share, biases: tuple[Share, ...], numbers: Mapping[Expr, float]) -> Weights:
        """One layer in numbers."""
        number = lambda e: float(evaluate(e, numbers))  # noqa: E731
        rate = lambda s: self.of.get(s.name, 0.0) * number(s.factor) ** 2  # noqa: E731
        square = lambda s: (number(s.factor) * number(s.std)) ** 2  # noqa: E731
        return Weights(square(matrix), sum(map(square, biases)), rate(matrix), sum(map(rate, biases)))


@lru_cache(maxsize=128)
def _activation(body: Expr) -> Activation:
    """Formulas of an activation are made once."""
    return Activation(body)


def first_order(
    network: Perceptron, asked: GramRequest, pair: KernelPair | NNGPAlone, rates: Mapping[str, float]
) -> FirstOrder:
    """b and C beside the kernels of a request; NoLimitError where there is no tangent kernel."""
    if isinstance(pair, NNGPAlone):
        raise NoLimitError(pair.reason)
    numbers = asked.constants
    of = Rates(rates)
    values = {s: float(numbers[s]) for layer in network.layers for s in layer.activation.free_symbols & set(numbers)}
    layers = [
        (_activation(layer.activation.xreplace(values)), of.weights(layer.matrix, layer.biases, numbers))
        for layer in network.layers
    ]
    readout = of.weights(network.readout, (), numbers)
    one, other = (s.arrays[network.data].reshape(s.many, -1).astype(float) for s in (asked.one, asked.other))
    i, j = numpy.triu_indices(len(one)) if asked.symmetric else numpy.indices((len(one), len(other))).reshape(2, -1)
    a, b = one[i], other[j]
    data = numpy.stack([(a * a).sum(axis=1), (a * b).sum(axis=1), (b * b).sum(axis=1)], axis=-1)
    scale = _SAME * data[:, [0]]
    same = (numpy.abs(data - data[:, [0]]) <= scale).all(axis=1)
    found: dict[str, Array] = {}
    # where both inputs are the same the covariance is singular: one variable, with formulas of its own
    for alone in (True, False):
        chosen = same if alone else ~same
        if chosen.any():
            parts = coefficients(layers, readout, data[chosen][:, :1] if alone else data[chosen], alone)
            for f, (part, suffix) in itertools.product(fields(Coefficients), zip(parts, ("", "_error"), strict=True)):
                array = found.setdefault(f.name + suffix, numpy.zeros((len(one), len(other))))
                array[i[chosen], j[chosen]] = getattr(part, f.name)
                if asked.symmetric:
                    array[j[chosen], i[chosen]] = getattr(part, f.name)
    for name, array in found.items():
        if not numpy.isfinite(array).all():
            raise EvaluationError(f"tp.Kernels(order=1): {name} is not finite for some pairs of inputs.")
    _refuse_the_unknown(found)
    return FirstOrder(pair.nngp, pair.ntk, pair.nngp_error, pair.ntk_error, **found)


def _refuse_the_unknown(found: Mapping[str, Array]) -> None:
    """Coefficients that are not known: means of steep functions, or of inputs that nearly agree."""
    for kernel in ("nngp", "ntk"):
        variance = abs(found[f"{kernel}_variance"])
        sizes = {"bias": abs(found[f"{kernel}_bias"]) + numpy.sqrt(variance), "variance": variance}
        for what, size in sizes.items():
            name = f"{kernel}_{what}"
            error = found[f"{name}_error"]
            if (error > _KNOWN * size).any():
                i, j = numpy.unravel_index(numpy.argmax(error - _KNOWN * size), size.shape)
                raise EvaluationError(
                    f"tp.Kernels(order=1): {name} of the inputs {i} and {j} is {found[name][i, j]:.3g} with an error "
                    f"of {error[i, j]:.1g}: terms that cancel where inputs nearly agree, or means of derivatives of a "
                    "steep activation, leave no more digits. Leave one input out, or take a smoother activation."
                )
