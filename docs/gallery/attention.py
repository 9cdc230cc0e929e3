"""Attention whose logits are averages over neurons: they tend to numbers."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["token", "d"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    keys, values = ((M @ x).rename(token="key") for M in (K, V))
    A = tp.softmax(tp.avg((Q @ x) * keys), over="key")
    return v * tp.mean(x + tp.sum(A * values, over="key"), over="token")


net = net.bind(token=3)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("attention.html")
