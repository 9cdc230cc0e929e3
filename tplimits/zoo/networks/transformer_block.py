"""A pre-LN transformer block, x ← x + attention(LN x), x ← x + V gelu(W LN x), and the mean over tokens.

Limit: NNGP → mean of K² over tokens, K¹ = K⁰ + ζ N(K⁰) ζ′^T and K² = K¹ + E gelu(u) gelu(u′), K⁰ = ξ·ξ′/d, N the
division by standard deviations, ζ = softmax N(K⁰)(ξ, ξ), (u, u′) Gaussian with covariance N(K¹)

Symbols: ξ and ξ′ are inputs of four tokens with d entries; matrices have entries N(0, 1/n), vectors N(0, 1); LN is
LayerNorm over neurons.

Reference: Vaswani et al. 2017, NIPS; Xiong et al. 2020, ICML; Hron et al. 2020, ICML, for the kernel
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, gelu, mean, size, softmax, sqrt, sum
from tplimits.program.layers.norms import layer_norm
from tplimits.program.network.network import network


@network
def transformer_block(
    ξ: Input["d", "token"],
    U: Vector["d"],
    WQ: Matrix,
    WV: Matrix,
    WO: Matrix,
    W: Matrix,
    V: Matrix,
    v: Vector,
):
    x = sum(U * ξ, over="d") / sqrt(size("d"))
    y = layer_norm(x)
    q, values = WQ @ y, (WV @ y).rename(token="key")
    A = softmax(avg(q * q.rename(token="key")), over="key")
    x = x + WO @ sum(A * values, over="key")
    x = x + V @ gelu(W @ layer_norm(x))
    return v * mean(x, over="token")


transformer_block = transformer_block.bind(token=4)
