"""Networks whose kernels are printed: plain, attention, tied, a deep transformer."""

import functools

import tplimits as tp


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h1 = tp.sum(U * ξ, over="d")
    x1 = tp.relu(h1)
    h2 = W @ x1
    return v * tp.relu(h2)


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x1 = tp.relu(tp.sum(U * ξ, over="d"))
    x2 = tp.tanh(W @ x1)
    return v * tp.relu(W.T @ x2)


@tp.network
def attention(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    WQ: tp.Matrix["n", "n", "head"],
    WK: tp.Matrix["n", "n", "head"],
    WV: tp.Matrix["n", "n", "head"],
    WO: tp.Matrix["n", "n", "head"],
    v: tp.Vector,
):
    h = tp.sum(U * ξ, over="d")
    q, k, u = WQ @ h, (WK @ h).rename(token="key"), (WV @ h).rename(token="key")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg(q * k), over="key")
    o = tp.sum(A * u, over="key")
    y = tp.sum(WO @ o, over="head") / tp.sqrt(tp.size("head"))
    return v * tp.relu(y)


@tp.program
def normed(x: tp.Vector["token"]):
    c = x - tp.avg(x)
    return c / tp.sqrt(tp.avg(c**2) + 1e-5)


@tp.program
def attend(x: tp.Vector["token"], W: tp.Matrix["k", "n"], WV: tp.Matrix["m", "n"], WO: tp.Matrix["n", "m"]):
    q = W @ x
    k = (W @ x).rename(token="key")
    A = tp.softmax(tp.avg(q * k), over="key")
    v = (WV @ x).rename(token="key")
    return WO @ tp.sum(A * v, over="key")


@tp.program
def feed(x: tp.Vector["token"], W1: tp.Matrix["m", "n"], W2: tp.Matrix["n", "m"]):
    return W2 @ tp.relu(W1 @ x)


@tp.program
def block(x: tp.Vector["token"]):
    y = x + attend(normed(x))
    return y + feed(normed(y))


def transformer(blocks):
    """A pre-LN transformer with its tokens averaged."""

    @tp.network
    def net(ξ: tp.Input["token", "d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for _ in range(blocks):
            x = block(x)
        return v * tp.mean(normed(x), over="token")

    return net


def chain(depth):
    """A plain network of some depth with biases."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector["layer"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        x = tp.relu(tp.sum(U * ξ, over="d"))
        for layer in range(depth):
            h = W.sel(layer=layer) @ x + b.sel(layer=layer)
            x = tp.relu(h)
        return v * x

    return net.bind(layer=depth)


@functools.cache
def limit(name):
    """The kernel limit of one of these networks, derived once."""
    made = {
        "mlp": lambda: tp.derive(mlp, tp.Kernels()),
        "tied": lambda: tp.derive(tied, tp.Kernels()),
        "attention": lambda: tp.derive(attention, tp.Kernels(infinite=("head",))),
        "transformer": lambda: tp.derive(transformer(24), tp.Kernels()),
        "chain": lambda: tp.derive(chain(6), tp.Kernels()),
    }
    return made[name]()
