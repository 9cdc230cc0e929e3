"""Two layers of attention and feed-forward, LayerNorm before each."""

import tplimits as tp


@tp.network
def net(
    ξ: tp.Input["d", "token"],
    U: tp.Vector["d"],
    Q: tp.Matrix["n", "n", "layer"],
    V: tp.Matrix["n", "n", "layer"],
    W: tp.Matrix["n", "n", "layer"],
    v: tp.Vector,
):
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    for k in range(2):
        y = tp.layers.layer_norm(x)
        q, values = Q.sel(layer=k) @ y, (V.sel(layer=k) @ y).rename(token="key")
        A = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
        x = x + tp.sum(A * values, over="key")
        x = x + W.sel(layer=k) @ tp.relu(tp.layers.layer_norm(x))
    return v * tp.mean(x, over="token")


net = net.bind(layer=2, token=3)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("transformer.html")
