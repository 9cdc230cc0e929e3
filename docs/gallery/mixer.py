"""Tokens mixed by a fixed matrix, then channels by a random one of width n."""

import numpy as np

import tplimits as tp

MIXED = [[0, 0.6, 0.8], [0.8, 0, -0.6], [-0.6, 0.8, 0]]


@tp.network
def net(ξ: tp.Input["token", "d"], U: tp.Vector["d"], V: tp.Matrix, W: tp.Matrix, v: tp.Vector):
    M = tp.constant(np.array(MIXED), axes=("token", "other"))
    x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
    x = x + tp.sum(M * (V @ tp.relu(x)).rename(token="other"), over="other")
    x = x + W @ tp.relu(x)
    return v * tp.mean(x, over="token")


net = net.bind(token=3)
limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("mixer.html")
