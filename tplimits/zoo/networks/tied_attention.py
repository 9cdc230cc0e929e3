"""Softmax attention with logits q·q/n through one matrix, on ReLU features, and the mean over tokens.

The logits converge to K(ξ, ξ), the weights to numbers ζ; with a matrix each for queries and keys the weights would be
uniform.

Limit: NNGP → mean of C = ζ K ζ′^T and NTK → mean of 3C + ζ Θ ζ′^T over tokens, ζ = softmax K(ξ, ξ), K and Θ the
kernels of the features

Symbols: ξ and ξ′ are inputs of four tokens with d entries; matrices have entries N(0, 1/n), vectors N(0, 1).

Reference: Yang 2019, Tensor Programs I, NeurIPS; Hron et al. 2020, Infinite attention, ICML
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, mean, relu, size, softmax, sqrt, sum
from tplimits.program.network.network import network


@network
def tied_attention(ξ: Input["d", "token"], U: Vector["d"], WQ: Matrix, WV: Matrix, WO: Matrix, v: Vector):
    x = relu(sum(U * ξ, over="d") / sqrt(size("d")))
    q, values = WQ @ x, (WV @ x).rename(token="key")
    A = softmax(avg(q * q.rename(token="key")), over="key")
    y = WO @ sum(A * values, over="key")
    return v * mean(y, over="token")


tied_attention = tied_attention.bind(token=4)
