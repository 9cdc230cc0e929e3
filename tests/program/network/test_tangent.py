"""Tangents of networks against differences of outputs, with what each direction is multiplied by."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.network.tangent import tangent
from tplimits.program.nodes.laws import NORMAL, Law

SHAPES = {"U": (2, 5), "W": (10, 5), "V": (10, 10), "v": (10,), "b": ()}
SCALES = {"U": sympy.Integer(2), "W": sympy.Integer(3), "v": sympy.Rational(1, 2)}
DATA = [0.7, -1.2]


@tp.network
def net(
    ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["k", "n"], V: tp.Matrix["k", "k"], v: tp.Vector["k"], b: tp.Scalar
):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    g = h + tp.cos(V @ h)
    return tp.readout(v * g) + b * tp.avg(h**2)


def by_hand(U, W, V, v, b):
    h = W @ np.tanh(np.array(DATA) @ U)
    return v * (h + np.cos(V @ h)), b * (h**2).mean()


@pytest.mark.parametrize("train", ["W", "U", "v", "b", "V", "VW", "UW", "UWVvb"])
def test_tangents_are_derivatives_along_scaled_directions(train):
    rng = np.random.default_rng(5)
    weights, moves = ({name: rng.standard_normal(shape) for name, shape in SHAPES.items()} for _ in range(2))
    found = tangent(net.bind(d=2), train, {name: SCALES[name] for name in train if name in SCALES})
    directions = {f"δ{name}": moves[name] for name in train}
    ran = found.program.run(n=5, ratios={"k": 2}, ξ=DATA, **weights, **directions)
    # vectors are drawn with their scale, matrices multiplied by it where they are read
    by = {name: 3.0 if name == "W" else 1.0 for name in train}
    up, down = (
        by_hand(**{w: value + sign * (by[w] * moves[w] if w in train else 0) for w, value in weights.items()})
        for sign in (1e-6, -1e-6)
    )
    for name, one, other in zip(("return", "shift"), up, down, strict=True):
        slope = ran.get(f"δ{name}", 0.0)
        np.testing.assert_allclose(slope, (one - other) / 2e-6, rtol=1e-7, atol=1e-8)
    assert set(found.program.returns[2:]) == {found.program.position(n) for n in ("δreturn", "δshift") if n in ran}


def test_laws_of_directions_carry_the_scales_of_vectors():
    network = net.bind(d=2)
    found = tangent(network, "UWv", SCALES)
    laws = {name: found.program[found.program.position(f"δ{name}")].law for name in "UWv"}
    assert laws == {"U": Law(std=sympy.Integer(2)), "W": NORMAL, "v": Law(std=sympy.Rational(1, 2))}
    assert found.size == len(network)
    # an output that nothing trained reaches has no tangent, and brings none along
    alone = tangent(network, "v")
    shift, output = network.returns[1], network.returns[0]
    assert alone.behind(None) == list(range(len(alone.program)))
    assert shift in alone.behind([shift]) and output not in alone.behind([shift])
    assert max(alone.behind([shift])) < alone.size and alone.of[output] in alone.behind([output])
