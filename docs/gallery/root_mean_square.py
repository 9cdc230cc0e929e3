"""RMSNorm before each of two layers."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    x = tp.gelu(W @ tp.layers.rms_norm(x))
    return v * tp.gelu(V @ tp.layers.rms_norm(x))


limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("root_mean_square.html")
