"""Two 2-d convolutions of 3 × 3 taps with zero padding, ReLU, and a readout of every position.

Limit: NNGP → (1/9) Σ_p E relu(u_p) relu(u′_p) over Σ², by Σ² = (1/taps) Σ_t E relu(u) relu(u′) at the positions that
tap t reads, Σ¹ = (1/taps) Σ_t ξ·ξ′/d at these, (u, u′) Gaussian with covariance Σ¹; taps outside count as 0

Symbols: ξ and ξ′ are inputs with d channels at the positions of a 3 × 3 image; W has entries N(0, 1/n), all other
parameters N(0, 1).

Reference: Novak et al. 2019, ICLR; Arora et al. 2019, On exact computation with an infinitely wide neural net,
NeurIPS
"""

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import relu, size, sqrt, sum
from tplimits.program.layers.convolution import conv2d
from tplimits.program.network.network import network


@network
def conv2d_flatten(ξ: Input["d", "at"], U: Vector["d", "tap"], W: Matrix["n", "n", "tap"], v: Vector["at"]):
    seen = conv2d(ξ, U, over={"at": (3, 3)}, taps={"tap": (3, 3)})
    x = relu(seen / (3 * sqrt(size("d"))))
    y = relu(conv2d(x, W, over={"at": (3, 3)}, taps={"tap": (3, 3)}) / 3)
    return sum(v * y, over="at") / sqrt(size("at"))
