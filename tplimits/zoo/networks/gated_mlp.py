"""A gated linear unit, x = (W h) ⊙ σ(V h): two matrices that see the same features.

Limit: NNGP → K E σ(u)σ(u′) and NTK → NNGP + 2K E σ(u)σ(u′) + 2K·K E σ′(u)σ′(u′), K = ξ·ξ′/d and (u, u′) Gaussian with
covariance K

Symbols: ξ and ξ′ are inputs with d entries; h is a linear layer; σ is the logistic function; matrices have entries
N(0, 1/n), vectors N(0, 1).

Reference: Dauphin et al. 2017, Language modeling with gated convolutional networks, ICML
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import sigmoid, size, sqrt, sum
from tplimits.program.network.network import network


@network
def gated_mlp(ξ: Input["d"], U: Vector["d"], W: Matrix, V: Matrix, v: Vector):
    h = sum(U * ξ, over="d") / sqrt(size("d"))
    x = (W @ h) * sigmoid(V @ h)
    return v * x
