"""A hidden layer and back by the transpose of its matrix: the same weights twice."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    return v * (W.T @ tp.tanh(W @ x))


limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("tied_autoencoder.html")
