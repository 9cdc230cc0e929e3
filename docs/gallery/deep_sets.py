"""One network for every member of a set, then a mean over the set."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d", "member"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))))
    return v * tp.relu(V @ tp.mean(x, over="member"))


net = net.bind(member=3)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("deep_sets.html")
