"""A gated cell over three steps, with an update gate."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d", "time"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ.sel(time=0), over="d"))
    for t in range(1, 3):
        z = tp.sigmoid(A @ x)
        x = (1 - z) * x + z * tp.tanh(B @ x + tp.sum(U * ξ.sel(time=t), over="d"))
    return v * x


net = net.bind(time=3)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("gated_recurrent.html")
