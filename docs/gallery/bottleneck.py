"""A layer of another width between two of width n."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["k", "n"], V: tp.Matrix["n", "k"], v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")))
    return v * tp.relu(V @ tp.relu(W @ x))


limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("bottleneck.html")
