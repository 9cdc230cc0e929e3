"""One layer of a network as deep as wide: ReLU with slopes 1 ± c/√n, normalised."""

import tplimits as tp


@tp.block
def net(x: tp.State["token"], W: tp.Matrix, *, c_plus, c_minus):
    def shaped(h):
        return (1 + c_plus / tp.sqrt(tp.n)) * tp.relu(h) - (1 + c_minus / tp.sqrt(tp.n)) * tp.relu(-h)

    return shaped(W @ x) / tp.sqrt(tp.expect(lambda g: shaped(g) ** 2))


limit = tp.derive(net, tp.Proportional())

if __name__ == "__main__":
    print(limit)
    limit.report().save("shaped_layer.html")
