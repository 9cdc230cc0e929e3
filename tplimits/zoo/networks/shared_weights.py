"""Networks that use one matrix at many places: recurrent, convolutional and on graphs."""

import numpy

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import constant, erf, relu, size, sqrt, sum
from tplimits.program.layers.convolution import conv1d, conv2d
from tplimits.program.layers.pooling import global_pool
from tplimits.program.network.network import network


@network
def recurrent(ξ: Input["d", "time"], U: Vector["d"], W: Matrix, b: Vector, v: Vector):
    """A recurrent network, h_t = W x_{t−1} + U ξ_t/√d + ½b with one W for all steps, read out after the last of three.

    Gradients at steps s and t correlate when equally many matrices lie behind them; pairs of unequal lag vanish.

    Limit: NNGP → K_33 and NTK → K_33 + Θ_33 D_33, Θ_st = C_st + D_{s−1,t−1} Θ_{s−1,t−1}, by C_st = K_{s−1,t−1} +
    ξ_s·ξ′_t/d + ¼, K_st = E erf(u) erf(u′) and D_st = E erf′(u) erf′(u′) over (u, u′) Gaussian with covariance C_st

    Symbols: ξ and ξ′ are inputs of three steps with d entries; W has entries N(0, 1/n), U, b and v have N(0, 1); x_0 =
    0.

    Reference: Alemohammad et al. 2021, The recurrent neural tangent kernel, ICLR
    """
    drive = sum(U * ξ, over="d") / sqrt(size("d")) + b / 2
    x = erf(drive.sel(time=0))
    for t in range(1, 3):
        x = erf(W @ x + drive.sel(time=t))
    return v * x


recurrent = recurrent.bind(time=3)


@network
def conv1d_pool(ξ: Input["d", "at"], U: Vector["d", "tap"], W: Matrix["n", "n", "tap"], v: Vector):
    """Two 1-d convolutions of width three with zero padding, ReLU, and the mean over positions.

    Limit: NNGP → (1/25) Σ_pq E relu(u_p) relu(u′_q) over Σ², by Σ² = (1/taps) Σ_t E relu(u) relu(u′) at the positions
    that tap t reads, Σ¹ = (1/taps) Σ_t ξ·ξ′/d at these, (u, u′) Gaussian with covariance Σ¹; taps outside count as 0

    Symbols: ξ and ξ′ are inputs with d channels at five positions; W has entries N(0, 1/n), all other parameters N(0,
    1).

    Reference: Novak et al. 2019, ICLR; Arora et al. 2019, On exact computation with an infinitely wide neural net,
    NeurIPS
    """
    seen = conv1d(ξ, U, over={"at": 5}, taps={"tap": 3})
    x = relu(seen / sqrt(3 * size("d")))
    y = relu(conv1d(x, W, over="at", taps="tap") / sqrt(3))
    return v * global_pool(y, over="at")


@network
def conv2d_flatten(ξ: Input["d", "at"], U: Vector["d", "tap"], W: Matrix["n", "n", "tap"], v: Vector["at"]):
    """Two 2-d convolutions of 3 × 3 taps with zero padding, ReLU, and a readout of every position.

    Limit: NNGP → (1/9) Σ_p E relu(u_p) relu(u′_p) over Σ², by Σ² = (1/taps) Σ_t E relu(u) relu(u′) at the positions
    that tap t reads, Σ¹ = (1/taps) Σ_t ξ·ξ′/d at these, (u, u′) Gaussian with covariance Σ¹; taps outside count as 0

    Symbols: ξ and ξ′ are inputs with d channels at the positions of a 3 × 3 image; W has entries N(0, 1/n), all other
    parameters N(0, 1).

    Reference: Novak et al. 2019, ICLR; Arora et al. 2019, On exact computation with an infinitely wide neural net,
    NeurIPS
    """
    seen = conv2d(ξ, U, over={"at": (3, 3)}, taps={"tap": (3, 3)})
    x = relu(seen / (3 * sqrt(size("d"))))
    y = relu(conv2d(x, W, over={"at": (3, 3)}, taps={"tap": (3, 3)}) / 3)
    return sum(v * y, over="at") / sqrt(size("at"))


_LINKS = numpy.eye(4) + numpy.eye(4, k=1) + numpy.eye(4, k=-1)
#: the weight of a neighbour (columns) at a node (rows)
A = _LINKS / _LINKS.sum(axis=1, keepdims=True)


@network
def graph_convolution(ξ: Input["d", "node"], U: Vector["d"], W: Matrix, v: Vector):
    """Two graph convolutions on a path of four nodes: each node averages itself and its neighbours; one output a node.

    Limit: NNGP → E relu(u_i) relu(u′_j) with covariance A K A^T, K = E relu(u) relu(u′) with covariance A (ξ·ξ′/d) A^T

    Symbols: ξ and ξ′ are inputs with d features at four nodes; A has rows of equal weights on a node and its
    neighbours; W has entries N(0, 1/n), U and v have N(0, 1).

    Reference: Du et al. 2019, Graph neural tangent kernel, NeurIPS
    """
    weights = constant(A, axes=("node", "neighbour"))
    h = sum(U * ξ, over="d") / sqrt(size("d"))
    x = relu(sum(weights * h.rename(node="neighbour"), over="neighbour"))
    y = relu(W @ sum(weights * x.rename(node="neighbour"), over="neighbour"))
    return v * y


graph_convolution = graph_convolution.bind(node=4)
