"""Two rounds on a graph of four nodes, each a mean over neighbours."""

import numpy as np

import tplimits as tp

EDGES = [[0.5, 0.5, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 0.5, 0.5]]


@tp.network
def net(ξ: tp.Input["node", "d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    A = tp.constant(np.array(EDGES), axes=("node", "other"))
    x = tp.relu(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")))
    x = tp.relu(W @ tp.sum(A * x.rename(node="other"), over="other"))
    return v * tp.mean(x, over="node")


net = net.bind(node=4)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("graph_convolution.html")
