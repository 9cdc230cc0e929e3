"""A perceptron with three hidden layers of ReLU, biases everywhere: the arc-cosine recursion.

Limit: NNGP → Σ⁴ and NTK → Σ_l Σ^l Π_{m=l…3} 2Σ̇^m, by Σ^{l+1} = 2 E relu(u) relu(u′) + 1/16 and Σ̇^l = P(u > 0, u′ >
0) for (u, u′) Gaussian with covariance Σ^l, Σ¹ = 2 ξ·ξ′/d + 1/16

Symbols: ξ and ξ′ are inputs with d entries; matrices W have entries N(0, 1/n), all other parameters N(0, 1).

Reference: Lee et al. 2018, ICLR; Jacot, Gabriel & Hongler 2018, NeurIPS
"""

from tplimits.program.language.annotations import Input, Matrix, Scalar, Vector
from tplimits.program.language.operations import relu, size, sqrt, sum
from tplimits.program.network.network import network, readout


@network
def mlp(ξ: Input["d"], U: Vector["d"], W: Matrix["n", "n", "layer"], b: Vector["depth"], v: Vector, c: Scalar):
    x = relu(sqrt(2) * sum(U * ξ, over="d") / sqrt(size("d")) + b.sel(depth=0) / 4)
    for i in range(2):
        x = relu(sqrt(2) * (W.sel(layer=i) @ x) + b.sel(depth=i + 1) / 4)
    return readout(sqrt(2) * v * x) + c / 4


mlp = mlp.bind(layer=2, depth=3)
