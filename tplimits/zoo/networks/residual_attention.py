"""A skip beside linear attention whose queries and keys see encodings of positions alone.

Limit: NNGP → mean of αK + (1 − α)B, B = R K R^T, and NTK → NNGP + mean of αΘ + (1 − α)(2B + R Θ R^T) over tokens

Symbols: ξ and ξ′ are inputs of four tokens with d entries; K and Θ are the kernels of ReLU features; E has covariance
R_st = exp(−2 (s − t)²/16) over tokens; α = 1/2; matrices have entries N(0, 1/n), vectors N(0, 1).

Reference: Hron et al. 2020, Infinite attention, ICML, with its Table 1 corrected
"""

import numpy

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import avg, constant, mean, relu, size, sqrt, sum
from tplimits.program.network.network import network

_AT = numpy.arange(4) / 4
#: covariance of the encodings of two positions
R = numpy.exp(-2 * (_AT[:, None] - _AT[None, :]) ** 2)
_FACTOR = numpy.linalg.cholesky(R)


@network
def residual_attention(
    ξ: Input["d", "token"], U: Vector["d"], E: Vector["position"], WQ: Matrix, WV: Matrix, WO: Matrix, v: Vector
):
    x = relu(sum(U * ξ, over="d") / sqrt(size("d")))
    encoding = sum(constant(_FACTOR, axes=("token", "position")) * E, over="position")
    q, values = WQ @ encoding, (WV @ x).rename(token="key")
    branch = WO @ sum(avg(q * q.rename(token="key")) * values, over="key")
    return v * mean((x + branch) / sqrt(2), over="token")


residual_attention = residual_attention.bind(token=4)
