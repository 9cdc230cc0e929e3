"""A gate between what comes in and what is computed from it."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    t = tp.sigmoid(V @ x)
    return v * (t * tp.tanh(W @ x) + (1 - t) * x)


limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("highway.html")
