"""No limit depends on what a constant is called: symbols of derivations are others, whatever their names are."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = [[1.0, 0.2], [0.5, -0.7]]
V = [[1.0, 0.3], [0.3, 2.0]]
#: what variables, moments and parameters of derivations are called, and states and steps of optimizers
NAMES = [
    "u",
    "u0",
    "u1",
    "z1",
    "z2",
    "g",
    "h",
    "w",
    "y",
    "x1",
    "c1",
    "c11",
    "c12",
    "argument",
    "p0",
    "p1",
    "v1",
    "m1",
    "t",
    "S",
    "E",
    "det",
]


def called(name, function, kind, *arguments):
    """The program of a function of a constant, under a name."""
    scope = {"tp": tp, "function": function}
    given, read = ", ".join(arguments), ", ".join(a.split(":")[0] for a in arguments)
    exec(f"def program({given}, *, {name}):\n    return function({read}, {name})", scope)
    return kind(scope["program"])


def width(name):
    made = called(
        name,
        lambda W, x, c: tp.avg(W.T @ tp.tanh(c * (W @ x)) * x * c) + c * tp.avg(tp.tanh(W @ x) ** 2),
        tp.program,
        "W: tp.Matrix",
        "x: tp.Vector",
    )
    return tp.derive(made).evaluate(**{name: 0.7})["return"].value


def finite(name):
    made = called(name, lambda W, x, c: tp.avg(tp.gelu(c * (W @ x)) ** 2), tp.program, "W: tp.Matrix", "x: tp.Vector")
    found = tp.derive(made, tp.FiniteWidth()).evaluate(**{name: 0.7})["return"]
    return [found.limit.value, found.bias.value, found.variance.value]


def net(ξ, A, B, C, r, c):
    x = tp.tanh(c * tp.sum(A * ξ, over="d"))
    return r * tp.softplus(c * (B @ x)) * tp.sigmoid(C @ x + c)


def kernels(name):
    arguments = ('ξ: tp.Input["d"]', 'A: tp.Vector["d"]', "B: tp.Matrix", "C: tp.Matrix", "r: tp.Vector")
    return tp.derive(called(name, net, tp.network, *arguments), tp.Kernels()).evaluate(X, **{name: 0.7}).nngp


def first_order(name):
    arguments = ('ξ: tp.Input["d"]', 'A: tp.Vector["d"]', "B: tp.Matrix", "r: tp.Vector")
    made = called(
        name,
        lambda ξ, A, B, r, c: r * tp.tanh(c * (B @ tp.tanh(tp.sum(A * ξ, over="d")))),
        tp.network,
        *arguments,
    )
    return tp.derive(made, tp.Kernels(order=1)).evaluate(X, **{name: 0.7}).nngp


def depth(name):
    made = called(
        name,
        lambda x, W, U, c: x + c * (U @ tp.gelu(c * (W @ x))) / tp.sqrt(tp.n),
        tp.block,
        'x: tp.State["token"]',
        "W: tp.Matrix",
        "U: tp.Matrix",
    )
    return tp.derive(made, tp.Proportional()).drift_at(V, **{name: 0.7})


def attention(x, Q, K, W, c):
    v = W @ x
    Y = tp.avg((Q @ x) * (K @ x).rename(token="key"))
    F = tp.tanh(c * Y + c) - tp.tanh(c)
    return tp.sqrt(0.5) * (x + v + tp.sum(F * v.rename(token="key"), over="key"))


def logits(name):
    """A function of small logits, by its series around a number that the constant is."""
    made = called(name, attention, tp.block, 'x: tp.State["token"]', "Q: tp.Matrix", "K: tp.Matrix", "W: tp.Matrix")
    return tp.derive(made, tp.Proportional()).drift_at(V, **{name: 0.7})


ENGINES = {
    "width": width,
    "order 1/n": finite,
    "kernels": kernels,
    "kernels of order 1/n": first_order,
    "depth": depth,
    "small logits": logits,
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_name_has_no_say(engine):
    expected = ENGINES[engine]("number")
    # kernels of order 1/n take a second each
    for name in NAMES[1:8:2] if engine == "kernels of order 1/n" else NAMES:
        np.testing.assert_allclose(ENGINES[engine](name), expected, rtol=1e-9, err_msg=name)
