"""A recurrent cell over four steps: one matrix, used four times."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d", "time"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ.sel(time=0), over="d"))
    for t in range(1, 4):
        x = tp.tanh(W @ x + tp.sum(U * ξ.sel(time=t), over="d"))
    return v * x


net = net.bind(time=4)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("recurrent.html")
