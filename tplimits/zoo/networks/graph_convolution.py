"""Two graph convolutions on a path of four nodes: each node averages itself and its neighbours; one output a node.

Limit: NNGP → E relu(u_i) relu(u′_j) with covariance A K A^T, K = E relu(u) relu(u′) with covariance A (ξ·ξ′/d) A^T

Symbols: ξ and ξ′ are inputs with d features at four nodes; A has rows of equal weights on a node and its neighbours;
W has entries N(0, 1/n), U and v have N(0, 1).

Reference: Du et al. 2019, Graph neural tangent kernel, NeurIPS
"""

import numpy

from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import constant, relu, size, sqrt, sum
from tplimits.program.network.network import network

_LINKS = numpy.eye(4) + numpy.eye(4, k=1) + numpy.eye(4, k=-1)
#: the weight of a neighbour (columns) at a node (rows)
A = _LINKS / _LINKS.sum(axis=1, keepdims=True)


@network
def graph_convolution(ξ: Input["d", "node"], U: Vector["d"], W: Matrix, v: Vector):
    weights = constant(A, axes=("node", "neighbour"))
    h = sum(U * ξ, over="d") / sqrt(size("d"))
    x = relu(sum(weights * h.rename(node="neighbour"), over="neighbour"))
    y = relu(W @ sum(weights * x.rename(node="neighbour"), over="neighbour"))
    return v * y


graph_convolution = graph_convolution.bind(node=4)
