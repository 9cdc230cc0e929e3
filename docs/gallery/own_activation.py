"""An activation that is not in the library, x + sin² x, by its name."""

import tplimits as tp

snake = tp.elementwise(lambda z: z + tp.sin(z) ** 2)


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * snake(W @ snake(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))))


limit = tp.derive(net, tp.Kernels())

if __name__ == "__main__":
    print(limit)
    limit.report().save("own_activation.html")
