"""Attention with logits q·k/√n, random at any width, and infinitely many heads."""

import tplimits as tp


@tp.network
def net(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    Q: tp.Matrix["n", "n", "head"],
    K: tp.Matrix["n", "n", "head"],
    V: tp.Matrix["n", "n", "head"],
    P: tp.Matrix["n", "n", "head"],
    v: tp.Vector,
):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    keys, values = ((M @ x).rename(token="key") for M in (K, V))
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * keys), over="key")
    z = tp.sum(P @ tp.sum(A * values, over="key"), over="head") / tp.sqrt(tp.size("head"))
    return v * tp.mean(x + z, over="token")


net = net.bind(token=2)
limit = tp.derive(net, tp.Kernels(infinite=("head",)))

if __name__ == "__main__":
    print(limit)
    limit.report().save("many_heads.html")
