"""Two hidden layers of ReLU."""

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d")))
    return v * tp.relu(W @ x)


limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("perceptron.html")
