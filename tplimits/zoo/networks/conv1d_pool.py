"""Two 1-d convolutions of width three with zero padding, ReLU, and the mean over positions.

Limit: NNGP → (1/25) Σ_pq E relu(u_p) relu(u′_q) over Σ², by Σ² = (1/taps) Σ_t E relu(u) relu(u′) at the positions
that tap t reads, Σ¹ = (1/taps) Σ_t ξ·ξ′/d at these, (u, u′) Gaussian with covariance Σ¹; taps outside count as 0

Symbols: ξ and ξ′ are inputs with d channels at five positions; W has entries N(0, 1/n), all other parameters N(0, 1).

Reference: Novak et al. 2019, ICLR; Arora et al. 2019, On exact computation with an infinitely wide neural net,
NeurIPS
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import relu, size, sqrt
from tplimits.program.layers.convolution import conv1d
from tplimits.program.layers.pooling import global_pool
from tplimits.program.network.network import network


@network
def conv1d_pool(ξ: Input["d", "at"], U: Vector["d", "tap"], W: Matrix["n", "n", "tap"], v: Vector):
    seen = conv1d(ξ, U, over={"at": 5}, taps={"tap": 3})
    x = relu(seen / sqrt(3 * size("d")))
    y = relu(conv1d(x, W, over="at", taps="tap") / sqrt(3))
    return v * global_pool(y, over="at")
