"""A convolution along positions, then a mean over them."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["at", "d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")))
    x = tp.relu(tp.layers.conv1d(x, W, over={"at": 5}, taps={"tap": 3}) / tp.sqrt(tp.size("tap")))
    return v * tp.mean(x, over="at")


net = net.bind(at=5, tap=3)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("convolution.html")
