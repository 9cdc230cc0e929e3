"""Networks with attention."""

import numpy

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, constant, gelu, mean, relu, size, softmax, sqrt, sum, width
from tplimits.program.layers.norms import layer_norm
from tplimits.program.network.network import network


@network
def tied_attention(ξ: Input["d", "token"], U: Vector["d"], WQ: Matrix, WV: Matrix, WO: Matrix, v: Vector):
    """Softmax attention with logits q·q/n through one matrix, on ReLU features, and the mean over tokens.

    The logits converge to K(ξ, ξ), the weights to numbers ζ; with a matrix each for queries and keys the weights would
    be uniform.

    Limit: NNGP → mean of C = ζ K ζ′^T and NTK → mean of 3C + ζ Θ ζ′^T over tokens, ζ = softmax K(ξ, ξ), K and Θ the
    kernels of the features

    Symbols: ξ and ξ′ are inputs of four tokens with d entries; matrices have entries N(0, 1/n), vectors N(0, 1).

    Reference: Yang 2019, Tensor Programs I, NeurIPS; Hron et al. 2020, Infinite attention, ICML
    """
    x = relu(sum(U * ξ, over="d") / sqrt(size("d")))
    q, values = WQ @ x, (WV @ x).rename(token="key")
    A = softmax(avg(q * q.rename(token="key")), over="key")
    y = WO @ sum(A * values, over="key")
    return v * mean(y, over="token")


tied_attention = tied_attention.bind(token=4)


@network
def many_heads(
    ξ: Input["d", "token"],
    U: Vector["d"],
    WQ: Matrix["k", "n", "head"],
    WK: Matrix["k", "n", "head"],
    WV: Matrix["k", "n", "head"],
    WO: Matrix["n", "k", "head"],
    v: Vector,
):
    """Attention with logits q·k/√d, independent matrices, no softmax, and infinitely many heads.

    Logits stay random; the mean over heads makes the output Gaussian. With a fixed number of heads it is a mixture.

    Limit: NNGP → mean of C = K ⟨K, K⟩ and NTK → mean of 5C + 2K⟨K, Θ⟩ + Θ⟨K, K⟩ over tokens, ⟨ , ⟩ the sum of products
    of entries of blocks of the pair (ξ, ξ′), Θ = K = ξ·ξ′/d

    Infinite: head

    Symbols: ξ and ξ′ are inputs of three tokens with d entries; WQ, WK and WV have entries N(0, 1/n), WO N(0, 1/k),
    vectors N(0, 1).

    Reference: Hron et al. 2020, Infinite attention, ICML
    """
    x = sum(U * ξ, over="d") / sqrt(size("d"))
    q, k, values = WQ @ x, WK @ x, (WV @ x).rename(token="key")
    G = sqrt(width("k")) * avg(q * k.rename(token="key"))
    y = sum(WO @ sum(G * values, over="key"), over="head") / sqrt(size("head"))
    return v * mean(y, over="token")


many_heads = many_heads.bind(token=3)


_AT = numpy.arange(4) / 4
#: covariance of the encodings of two positions
R = numpy.exp(-2 * (_AT[:, None] - _AT[None, :]) ** 2)
_FACTOR = numpy.linalg.cholesky(R)


@network
def residual_attention(
    ξ: Input["d", "token"], U: Vector["d"], E: Vector["position"], WQ: Matrix, WV: Matrix, WO: Matrix, v: Vector
):
    """A skip beside linear attention whose queries and keys see encodings of positions alone.

    Limit: NNGP → mean of αK + (1 − α)B, B = R K R^T, and NTK → NNGP + mean of αΘ + (1 − α)(2B + R Θ R^T) over tokens

    Symbols: ξ and ξ′ are inputs of four tokens with d entries; K and Θ are the kernels of ReLU features; E has
    covariance R_st = exp(−2 (s − t)²/16) over tokens; α = 1/2; matrices have entries N(0, 1/n), vectors N(0, 1).

    Reference: Hron et al. 2020, Infinite attention, ICML, with its Table 1 corrected
    """
    x = relu(sum(U * ξ, over="d") / sqrt(size("d")))
    encoding = sum(constant(_FACTOR, axes=("token", "position")) * E, over="position")
    q, values = WQ @ encoding, (WV @ x).rename(token="key")
    branch = WO @ sum(avg(q * q.rename(token="key")) * values, over="key")
    return v * mean((x + branch) / sqrt(2), over="token")


residual_attention = residual_attention.bind(token=4)


@network
def positional_encoding(
    ξ: Input["d", "token"], U: Vector["d"], E: Vector["position"], WQ: Matrix, WV: Matrix, WO: Matrix, v: Vector
):
    """Softmax attention on features plus encodings of positions, which are trained through a factor of their
    covariance.

    Limit: NNGP → mean of C = ζ P ζ′^T and NTK → mean of 3C + ζ (½Θ + ½S) ζ′^T over tokens, P = ½K + ½R, ζ = softmax
    P(ξ, ξ); S = R as here, S = 0 if E is not trained, S = 1 for encodings trained themselves

    Symbols: ξ and ξ′ are inputs of four tokens with d entries; K and Θ are the kernels of ReLU features; R_st = exp(−2
    (s − t)²/16) over tokens; matrices have entries N(0, 1/n), vectors N(0, 1).

    Reference: Hron et al. 2020, Infinite attention, ICML
    """
    x = relu(sum(U * ξ, over="d") / sqrt(size("d")))
    y = (x + sum(constant(_FACTOR, axes=("token", "position")) * E, over="position")) / sqrt(2)
    q, values = WQ @ y, (WV @ y).rename(token="key")
    A = softmax(avg(q * q.rename(token="key")), over="key")
    return v * mean(WO @ sum(A * values, over="key"), over="token")


positional_encoding = positional_encoding.bind(token=4)


@network
def transformer_block(
    ξ: Input["d", "token"], U: Vector["d"], WQ: Matrix, WV: Matrix, WO: Matrix, W: Matrix, V: Matrix, v: Vector
):
    """A pre-LN transformer block, x ← x + attention(LN x), x ← x + V gelu(W LN x), and the mean over tokens.

    Limit: NNGP → mean of K² over tokens, K¹ = K⁰ + ζ N(K⁰) ζ′^T and K² = K¹ + E gelu(u) gelu(u′), K⁰ = ξ·ξ′/d, N the
    division by standard deviations, ζ = softmax N(K⁰)(ξ, ξ), (u, u′) Gaussian with covariance N(K¹)

    Symbols: ξ and ξ′ are inputs of four tokens with d entries; matrices have entries N(0, 1/n), vectors N(0, 1); LN is
    LayerNorm over neurons.

    Reference: Vaswani et al. 2017, NIPS; Xiong et al. 2020, ICML; Hron et al. 2020, ICML, for the kernel
    """
    x = sum(U * ξ, over="d") / sqrt(size("d"))
    y = layer_norm(x)
    q, values = WQ @ y, (WV @ y).rename(token="key")
    A = softmax(avg(q * q.rename(token="key")), over="key")
    x = x + WO @ sum(A * values, over="key")
    x = x + V @ gelu(W @ layer_norm(x))
    return v * mean(x, over="token")


transformer_block = transformer_block.bind(token=4)
