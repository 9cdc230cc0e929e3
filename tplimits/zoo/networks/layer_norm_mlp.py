"""A layer of ReLU behind LayerNorm with a gain and a bias that are trained.

The gain stands before the activation, so its gradient relu′(y) y is one neuron's: a mean of four factors, no product
of two means.

Limit: NNGP → F(ρ) = E relu(y) relu(y′) and NTK → 2F + (1 + 2ρ) P(y > 0, y′ > 0), y and y′ standard normal with the
correlation ρ of ξ and ξ′; without the gain F less, without the bias the 1 less

Symbols: ξ and ξ′ are inputs with d entries; U is a d-tuple of vectors, U and W and v have Gaussian entries, g starts
at 1 and β at 0.

Reference: Ba, Kiros & Hinton 2016, arXiv:1607.06450; Yang 2020, Tensor Programs II, arXiv:2006.14548
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, relu, size, sqrt, sum
from tplimits.program.network.network import network


@network
def layer_norm_mlp(ξ: Input["d"], U: Vector["d"], W: Matrix, v: Vector, g: Vector = 1, β: Vector = 0):
    h = W @ (sum(U * ξ, over="d") / sqrt(size("d")))
    centred = h - avg(h)
    y = g * centred / sqrt(avg(centred**2)) + β
    return v * relu(y)
