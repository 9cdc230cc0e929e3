"""Perceptrons, with skips, gates and kinks."""

from tplimits.program.language.annotations import Input, Matrix, Scalar, Vector
from tplimits.program.language.operations import erf, relu, sigmoid, size, sqrt, sum
from tplimits.program.network.network import network, readout


@network
def mlp(ξ: Input["d"], U: Vector["d"], W: Matrix["n", "n", "layer"], b: Vector["depth"], v: Vector, c: Scalar):
    """A perceptron with three hidden layers of ReLU, biases everywhere: the arc-cosine recursion.

    Limit: NNGP → Σ⁴ and NTK → Σ_l Σ^l Π_{m=l…3} 2Σ̇^m, by Σ^{l+1} = 2 E relu(u) relu(u′) + 1/16 and Σ̇^l = P(u > 0, u′
    > 0) for (u, u′) Gaussian with covariance Σ^l, Σ¹ = 2 ξ·ξ′/d + 1/16

    Symbols: ξ and ξ′ are inputs with d entries; matrices W have entries N(0, 1/n), all other parameters N(0, 1).

    Reference: Lee et al. 2018, ICLR; Jacot, Gabriel & Hongler 2018, NeurIPS
    """
    x = relu(sqrt(2) * sum(U * ξ, over="d") / sqrt(size("d")) + b.sel(depth=0) / 4)
    for i in range(2):
        x = relu(sqrt(2) * (W.sel(layer=i) @ x) + b.sel(depth=i + 1) / 4)
    return readout(sqrt(2) * v * x) + c / 4


mlp = mlp.bind(layer=2, depth=3)


@network
def residual_mlp(ξ: Input["d"], U: Vector["d"], W: Matrix["n", "n", "layer"], V: Matrix["n", "n", "layer"], v: Vector):
    """A residual perceptron, x ← x + ½ V erf(W x), three times; every branch ends in a matrix of its own.

    Limit: NNGP → K³, K^{l+1} = K^l + ¼ E erf(u) erf(u′) with (u, u′) Gaussian of covariance K^l, K⁰ = ξ·ξ′/d; NTK → K³
    + Θ³, Θ^{l+1} = Θ^l + ¼ E erf(u) erf(u′) + ¼ (K^l + Θ^l) E erf′(u) erf′(u′), Θ⁰ = K⁰

    Symbols: ξ and ξ′ are inputs with d entries; matrices have entries N(0, 1/n), vectors N(0, 1).

    Reference: Yang & Schoenholz 2017, Mean field residual networks, NeurIPS
    """
    x = sum(U * ξ, over="d") / sqrt(size("d"))
    for i in range(3):
        x = x + (V.sel(layer=i) @ erf(W.sel(layer=i) @ x)) / 2
    return v * x


residual_mlp = residual_mlp.bind(layer=3)


@network
def gated_mlp(ξ: Input["d"], U: Vector["d"], W: Matrix, V: Matrix, v: Vector):
    """A gated linear unit, x = (W h) ⊙ σ(V h): two matrices that see the same features.

    Limit: NNGP → K E σ(u)σ(u′) and NTK → NNGP + 2K E σ(u)σ(u′) + 2K·K E σ′(u)σ′(u′), K = ξ·ξ′/d and (u, u′) Gaussian
    with covariance K

    Symbols: ξ and ξ′ are inputs with d entries; h is a linear layer; σ is the logistic function; matrices have entries
    N(0, 1/n), vectors N(0, 1).

    Reference: Dauphin et al. 2017, Language modeling with gated convolutional networks, ICML
    """
    h = sum(U * ξ, over="d") / sqrt(size("d"))
    x = (W @ h) * sigmoid(V @ h)
    return v * x


@network
def skip_activation(ξ: Input["d"], U: Vector["d"], W: Matrix, v: Vector):
    """Features that are not Gaussian: h + relu(h), then another activation behind a matrix.

    h and relu(h) are correlated, so the skip is no sum of kernels; together they are one function with slopes 2 and 1.

    Limit: NNGP → (2/π) arcsin(2K₁₂/√((1 + 2K₁₁)(1 + 2K₂₂))) with K = E φ(u)φ(u′), φ(u) = u + relu(u), (u, u′) Gaussian
    with covariance ξ·ξ′/d

    Symbols: ξ and ξ′ are inputs with d entries; W has entries N(0, 1/n), U and v have N(0, 1).

    Reference: Williams 1996, NIPS, and Cho & Saul 2009, NIPS, for the two kernels
    """
    h = sum(U * ξ, over="d") / sqrt(size("d"))
    return v * erf(W @ (h + relu(h)))
