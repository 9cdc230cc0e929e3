"""Three experts, weighted by functions of the same features."""

import tplimits as tp


@tp.network
def net(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    W: tp.Matrix["n", "n", "expert"],
    V: tp.Matrix["n", "n", "expert"],
    v: tp.Vector,
):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    return v * tp.mean(tp.sigmoid(V @ x) * tp.tanh(W @ x), over="expert")


net = net.bind(expert=3)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("mixture_of_experts.html")
