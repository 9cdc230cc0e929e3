"""Softmax attention on features plus encodings of positions, which are trained through a factor of their covariance.

Limit: NNGP → mean of C = ζ P ζ′^T and NTK → mean of 3C + ζ (½Θ + ½S) ζ′^T over tokens, P = ½K + ½R, ζ = softmax P(ξ,
ξ); S = R as here, S = 0 if E is not trained, S = 1 for encodings trained themselves

Symbols: ξ and ξ′ are inputs of four tokens with d entries; K and Θ are the kernels of ReLU features; R_st = exp(−2 (s
− t)²/16) over tokens; matrices have entries N(0, 1/n), vectors N(0, 1).

Reference: Hron et al. 2020, Infinite attention, ICML
"""

import numpy

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, constant, mean, relu, size, softmax, sqrt, sum
from tplimits.program.network.network import network

_AT = numpy.arange(4) / 4
#: covariance of the encodings of two positions
R = numpy.exp(-2 * (_AT[:, None] - _AT[None, :]) ** 2)
_FACTOR = numpy.linalg.cholesky(R)


@network
def positional_encoding(
    ξ: Input["d", "token"], U: Vector["d"], E: Vector["position"], WQ: Matrix, WV: Matrix, WO: Matrix, v: Vector
):
    x = relu(sum(U * ξ, over="d") / sqrt(size("d")))
    y = (x + sum(constant(_FACTOR, axes=("token", "position")) * E, over="position")) / sqrt(2)
    q, values = WQ @ y, (WV @ y).rename(token="key")
    A = softmax(avg(q * q.rename(token="key")), over="key")
    return v * mean(WO @ sum(A * values, over="key"), over="token")


positional_encoding = positional_encoding.bind(token=4)
