"""Features that are not Gaussian: h + relu(h), then another activation behind a matrix.

h and relu(h) are correlated, so the skip is no sum of kernels; together they are one function with slopes 2 and 1.

Limit: NNGP → (2/π) arcsin(2K₁₂/√((1 + 2K₁₁)(1 + 2K₂₂))) with K = E φ(u)φ(u′), φ(u) = u + relu(u), (u, u′) Gaussian
with covariance ξ·ξ′/d

Symbols: ξ and ξ′ are inputs with d entries; W has entries N(0, 1/n), U and v have N(0, 1).

Reference: Williams 1996, NIPS, and Cho & Saul 2009, NIPS, for the two kernels
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import erf, relu, size, sqrt, sum
from tplimits.program.network.network import network


@network
def skip_activation(ξ: Input["d"], U: Vector["d"], W: Matrix, v: Vector):
    h = sum(U * ξ, over="d") / sqrt(size("d"))
    return v * erf(W @ (h + relu(h)))
