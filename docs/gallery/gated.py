"""A gated linear unit behind LayerNorm."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    y = tp.layers.layer_norm(x)
    return v * (x + tp.sigmoid(W @ y) * (V @ y))


limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("gated.html")
