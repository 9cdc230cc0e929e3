"""Networks on multiples of their weights: the number behind each group, wherever its vectors are read."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.network.decayed import decayed
from tplimits.program.nodes.execution import Execution


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["k", "n"], V: tp.Matrix["k", "k"], v: tp.Vector["k"]):
    h = W @ tp.sum(U * ξ, over="d")
    g = V @ (V @ h)
    return tp.readout(v * tp.tanh(g) + tp.avg(h) * h)


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["k", "n"]):
    return tp.readout(W @ tp.sum(U * ξ, over="d"))


def weights():
    rng = np.random.default_rng(2)
    shapes = {"U": (2, 3), "W": (6, 3), "V": (6, 6), "v": (6,)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("groups", [[["U", "W", "V", "v"]], [["W"]], [["V"], ["U"]], [["v", "V"], ["W"], ["U"]]])
def test_outputs_are_those_on_multiplied_weights(groups):
    drawn, found = weights(), decayed(net.bind(d=2), groups)
    given = dict(zip(found.scales, (0.5, 0.7, 1.3), strict=False))
    ran = found.program.run(n=3, ratios={"k": 2}, ξ=[1.0, -2.0], **drawn, **given)
    by = {name: given[scale] for scale, names in zip(found.scales, groups, strict=True) for name in names}
    U, W, V, v = (by.get(name, 1.0) * value for name, value in drawn.items())
    h = W @ (np.array([1.0, -2.0]) @ U)
    np.testing.assert_allclose(ran["return"], v * np.tanh(V @ (V @ h)) + h.mean() * h, rtol=1e-12)


def test_a_product_that_is_returned_gets_its_factors_on_its_own_width():
    found = decayed(linear.bind(d=2), [["W"], ["U"]])
    last = found.program[found.program.returns[0]]
    assert (last.name, last.over) == ("return′", "k")
    U, W, *_ = weights().values()
    given = {"ξ": [1.0, -2.0], "U": U, "W": W, "decay": 0.5, "decay_": 0.25}
    ran = Execution(found.program, 3, 1, np.random.default_rng(0), {"k": 2}, given).run()
    expected = 0.125 * W @ (np.array([1.0, -2.0]) @ U)
    np.testing.assert_allclose(ran.arrays[found.program.returns[0]][0], expected, rtol=1e-12)
    plain = decayed(linear.bind(d=2), [[]])
    assert plain.program[plain.program.returns[0]].name == "return"


def test_names_of_the_factors_are_free():
    @tp.network
    def taken(decay: tp.Input["d"], U: tp.Vector["d"]):
        return tp.readout(tp.sum(U * decay, over="d"))

    found = decayed(taken, [["U"], []])
    assert found.scales == ("decay_", "decay__")
    assert [found.program[p].name for p in found.program.inputs] == ["decay_", "decay__", "decay"]
    assert [found.program[p].name for p in found.program.arguments] == ["decay_", "decay__", "decay", "U"]
