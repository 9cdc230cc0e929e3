"""Jumps whose argument tends to 0 from one side alone: numbers of networks in NumPy, in widths, kernels and blocks."""

import numpy as np
import pytest

import tplimits as tp

#: functions of a scalar s → 0 and of r → 1, and the same in NumPy
SETTLED = {
    "step(s²)": (lambda s, r, y: tp.step(s**2), lambda s, r: s**2 > 0),
    "sign(s² + s⁴)": (lambda s, r, y: tp.sign(s**2 + s**4), lambda s, r: np.sign(s**2 + s**4)),
    "step(−|s|)": (lambda s, r, y: tp.step(-tp.abs(s)), lambda s, r: -np.abs(s) > 0),
    "a choice": (lambda s, r, y: tp.where((r - 1) ** 2, 3, 2), lambda s, r: np.where((r - 1) ** 2 > 0, 3, 2)),
}
#: either side is taken, or neither: 0 at every width, or for half of the networks
OPEN = {
    "step(r − 1)": lambda s, r, y: tp.step(r - 1),
    "step(relu(s))": lambda s, r, y: tp.step(tp.relu(s)),
    "step of a square that is 0": lambda s, r, y: tp.step((tp.avg(tp.relu(y)) - tp.avg(tp.relu(-y)) - tp.avg(y)) ** 2),
}


def derived(function, regime):
    if regime == "width":

        @tp.program
        def program(x: tp.Vector, y: tp.Vector):
            return function(tp.avg(x * y), tp.avg(x * x), y)

        return tp.derive(program).evaluate(only=("return",))["return"].value

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, y: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * y * function(tp.avg(x * y), tp.avg(y * y), y)

    return np.sqrt(tp.derive(network, tp.Kernels()).evaluate([[1.0, 2.0]]).nngp[0, 0])


@pytest.mark.parametrize("regime", ["width", "kernels"])
@pytest.mark.parametrize("name", SETTLED)
def test_a_jump_that_is_touched_from_one_side_has_its_value_there(name, regime):
    function, by_hand = SETTLED[name]
    x, y = np.random.default_rng(0).standard_normal((2, 200, 50))
    values = np.unique(by_hand((x * y).mean(axis=1), (x * x).mean(axis=1)))
    assert derived(function, regime) == pytest.approx(float(values.item()))


@pytest.mark.parametrize("regime", ["width", "kernels"])
@pytest.mark.parametrize("name", OPEN)
def test_others_stay_open(name, regime):
    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match="the limit lands on a jump"):
        derived(OPEN[name], regime)
