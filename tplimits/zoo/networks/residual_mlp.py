"""A residual perceptron, x ← x + ½ V erf(W x), three times; every branch ends in a matrix of its own.

Limit: NNGP → K³, K^{l+1} = K^l + ¼ E erf(u) erf(u′) with (u, u′) Gaussian of covariance K^l, K⁰ = ξ·ξ′/d; NTK → K³ +
Θ³, Θ^{l+1} = Θ^l + ¼ E erf(u) erf(u′) + ¼ (K^l + Θ^l) E erf′(u) erf′(u′), Θ⁰ = K⁰

Symbols: ξ and ξ′ are inputs with d entries; matrices have entries N(0, 1/n), vectors N(0, 1).

Reference: Yang & Schoenholz 2017, Mean field residual networks, NeurIPS
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import erf, size, sqrt, sum
from tplimits.program.network.network import network


@network
def residual_mlp(ξ: Input["d"], U: Vector["d"], W: Matrix["n", "n", "layer"], V: Matrix["n", "n", "layer"], v: Vector):
    x = sum(U * ξ, over="d") / sqrt(size("d"))
    for i in range(3):
        x = x + (V.sel(layer=i) @ erf(W.sel(layer=i) @ x)) / 2
    return v * x


residual_mlp = residual_mlp.bind(layer=3)
