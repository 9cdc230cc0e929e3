"""Programs whose limits print every kind of line."""

from __future__ import annotations

import tplimits as tp
from tplimits import zoo


@tp.program
def unnamed(W: tp.Matrix, V: tp.Matrix, x: tp.Vector, y: tp.Vector):
    h = tp.tanh(W @ tp.relu(x + y)) + V.T @ y
    z = tp.tanh(W @ tp.relu(x + y + tp.tanh(V @ (x * y * 2 + x**3 + tp.relu(x - 3 * y)))))
    s = tp.avg(x * y)
    return tp.avg(z * h) * s + tp.avg((W @ x) * (V @ tp.tanh(x))) + tp.avg(z * (V @ z))


@tp.program
def same_twice(W: tp.Matrix, x: tp.Vector):
    return tp.avg((W @ x) * tp.tanh(W @ x) + tp.tanh(W @ tp.relu(W @ (x + 1)) + W @ tp.relu(W @ (x + 1))))


@tp.program
def tied(W: tp.Matrix, x: tp.Vector, s: tp.Scalar):
    h = W @ tp.tanh(x)
    z = W.T @ (h * tp.tanh(h) + 0.1 * x)
    return tp.avg(z * tp.tanh(z - h)) - tp.avg(tp.tanh(W @ tp.tanh(z)) * h), tp.avg(z**2) - 0.3, s * tp.avg(tp.relu(z))


@tp.program
def deep(W: tp.Matrix["n", "n", "layer"], x: tp.Vector["token"]):
    for k in range(4):
        y = W.sel(layer=k) @ tp.tanh(x)
        x = x + y / 2
    return tp.avg(tp.mean(x, over="token") * x.sel(token=1))


@tp.program
def at_random(x: tp.Vector, v: tp.Vector["out"], W: tp.Matrix):
    s = tp.sqrt(tp.n) * tp.avg(tp.relu(W @ x) * v)
    β = tp.neuron("β")
    y = tp.avg(tp.tanh(x - x[β] ** 3), over=β)
    return tp.tanh(s) * y, tp.avg(y * tp.sigmoid(x))


@tp.program
def wide(x: tp.Vector["token"], c: tp.Scalar):
    y = tp.tanh(x - c)
    return tp.avg(y * y), tp.avg(y.sel(token=0) * x.sel(token=7))


@tp.network
def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.relu(W @ tp.tanh(tp.sum(U * ξ, over="d") + 0.5))
    return v * (x + tp.tanh(V @ x))


LIMITS = {
    "unnamed": lambda: tp.derive(unnamed),
    "same_twice": lambda: tp.derive(same_twice),
    "tied": lambda: tp.derive(tied),
    "deep": lambda: tp.derive(deep.bind(layer=4, token=2)),
    "at_random": lambda: tp.derive(at_random.bind(out=2)),
    "wide": lambda: tp.derive(wide.bind(token=8)),
    "kernels": lambda: tp.derive(network, tp.Kernels()),
    "feature learning": lambda: tp.derive(network, tp.MaximalUpdate(tp.SGD())),
    "operator": lambda: tp.derive(network, tp.NeuralTangent(tp.Adam(eps=1e-4))),
    **{
        name: lambda name=name: tp.derive(zoo.get(name).program)
        for name in ("gram_power_2", "tied_gelu", "relu_kernel", "batch_norm", "scalar_gate", "attention", "backprop")
    },
}
