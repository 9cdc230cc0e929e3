"""Attention with an embedding of positions added to the tokens."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["token", "d"], U: tp.Vector["d"], Z: tp.Vector["token"], Q: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")) + 0.5 * Z
    q, values = Q @ x, (V @ x).rename(token="key")
    A = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
    return v * tp.mean(x + tp.sum(A * values, over="key"), over="token")


net = net.bind(token=3)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("positions.html")
