"""A residual perceptron with LayerNorm at the head of each branch, x ← x + V relu(W LN(x)), twice.

Limit: NNGP → K², K^{l+1} = K^l + E relu(u) relu(u′) with (u, u′) of unit variance and the correlation of K^l, K⁰ =
ξ·ξ′/d; tangent kernels enter a branch divided by √(K^l(ξ, ξ) K^l(ξ′, ξ′))

Symbols: ξ and ξ′ are inputs with d entries; matrices have entries N(0, 1/n), vectors N(0, 1); LN subtracts the mean
over neurons and divides by the standard deviation.

Reference: Xiong et al. 2020, On layer normalization in the transformer architecture, ICML
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, relu, size, sqrt, sum
from tplimits.program.network.network import network


@network
def pre_ln_mlp(ξ: Input["d"], U: Vector["d"], W: Matrix["n", "n", "layer"], V: Matrix["n", "n", "layer"], v: Vector):
    x = sum(U * ξ, over="d") / sqrt(size("d"))
    for i in range(2):
        centred = x - avg(x)
        y = centred / sqrt(avg(centred**2))
        x = x + V.sel(layer=i) @ relu(W.sel(layer=i) @ y)
    return v * x


pre_ln_mlp = pre_ln_mlp.bind(layer=2)
