"""Two 1-d convolutions of width three with zero padding, ReLU, and the mean over positions.

Limit: NNGP → (1/25) Σ_pq E relu(u_p) relu(u′_q) over Σ², by Σ² = (1/taps) Σ_t E relu(u) relu(u′) at the positions
that tap t reads, Σ¹ = (1/taps) Σ_t ξ·ξ′/d at these, (u, u′) Gaussian with covariance Σ¹; taps outside count as 0

Symbols: ξ and ξ′ are inputs with d channels at five positions; W has entries N(0, 1/n), all other parameters N(0, 1).

Reference: Novak et al. 2019, ICLR; Arora et al. 2019, On exact computation with an infinitely wide neural net,
NeurIPS
"""

import numpy

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import mean, relu, size, sqrt, sum
from tplimits.program.network.network import network

#: the position that each tap (rows) reads at each place (columns); −1 is outside
TAPS = numpy.array([[-1, 0, 1, 2, 3], [0, 1, 2, 3, 4], [1, 2, 3, 4, -1]])


@network
def conv1d_pool(ξ: Input["d", "at"], U: Vector["d", "tap"], W: Matrix["n", "n", "tap"], v: Vector):
    seen = sum(U * ξ.take(at=TAPS, axes=("tap", "at")), over=("d", "tap"))
    x = relu(seen / sqrt(3 * size("d")))
    y = relu(sum(W @ x.take(at=TAPS, axes=("tap", "at")), over="tap") / sqrt(3))
    return v * mean(y, over="at")


conv1d_pool = conv1d_pool.bind(at=5)
