"""Perceptrons that normalise."""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, relu, size, sqrt, sum
from tplimits.program.layers.norms import rms_norm
from tplimits.program.network.network import network


@network
def pre_ln_mlp(ξ: Input["d"], U: Vector["d"], W: Matrix["n", "n", "layer"], V: Matrix["n", "n", "layer"], v: Vector):
    """A residual perceptron with LayerNorm at the head of each branch, x ← x + V relu(W LN(x)), twice.

    Limit: NNGP → K², K^{l+1} = K^l + E relu(u) relu(u′) with (u, u′) of unit variance and the correlation of K^l, K⁰ =
    ξ·ξ′/d; tangent kernels enter a branch divided by √(K^l(ξ, ξ) K^l(ξ′, ξ′))

    Symbols: ξ and ξ′ are inputs with d entries; matrices have entries N(0, 1/n), vectors N(0, 1); LN subtracts the mean
    over neurons and divides by the standard deviation.

    Reference: Xiong et al. 2020, On layer normalization in the transformer architecture, ICML
    """
    x = sum(U * ξ, over="d") / sqrt(size("d"))
    for i in range(2):
        centred = x - avg(x)
        y = centred / sqrt(avg(centred**2))
        x = x + V.sel(layer=i) @ relu(W.sel(layer=i) @ y)
    return v * x


pre_ln_mlp = pre_ln_mlp.bind(layer=2)


@network
def layer_norm_mlp(ξ: Input["d"], U: Vector["d"], W: Matrix, v: Vector, g: Vector = 1, β: Vector = 0):
    """A layer of ReLU behind LayerNorm with a gain and a bias that are trained.

    The gain stands before the activation, so its gradient relu′(y) y is one neuron's: a mean of four factors, no
    product of two means.

    Limit: NNGP → F(ρ) = E relu(y) relu(y′) and NTK → 2F + (1 + 2ρ) P(y > 0, y′ > 0), y and y′ standard normal with the
    correlation ρ of ξ and ξ′; without the gain F less, without the bias the 1 less

    Symbols: ξ and ξ′ are inputs with d entries; U is a d-tuple of vectors, U and W and v have Gaussian entries, g
    starts at 1 and β at 0.

    Reference: Ba, Kiros & Hinton 2016, arXiv:1607.06450; Yang 2020, Tensor Programs II, arXiv:2006.14548
    """
    h = W @ (sum(U * ξ, over="d") / sqrt(size("d")))
    centred = h - avg(h)
    y = g * centred / sqrt(avg(centred**2)) + β
    return v * relu(y)


@network
def rms_norm_mlp(ξ: Input["d"], U: Vector["d"], v: Vector, g: Vector = 1):
    """RMSNorm of ReLU features, with a trained gain: the mean stays in.

    Limit: NNGP → ρ₁ = E relu(u) relu(u′)/√(E relu(u)² E relu(u′)²) and NTK → 2ρ₁ + K P(u > 0, u′ > 0)/√(E relu(u)² E
    relu(u′)²), (u, u′) Gaussian with covariance K = ξ·ξ′/d

    Symbols: ξ and ξ′ are inputs with d entries; U and v have entries N(0, 1), g starts at 1.

    Reference: Zhang & Sennrich 2019, Root mean square layer normalization, NeurIPS
    """
    x = relu(sum(U * ξ, over="d") / sqrt(size("d")))
    y = rms_norm(x, g)
    return v * y
