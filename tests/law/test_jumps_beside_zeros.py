"""A jump at a scalar that tends to 0, times what vanishes there, is no jump: u step(u) is relu(u)."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

CONTINUOUS = {
    "factor": lambda u, x: x + u * tp.step(u) * x,
    "of both sides": lambda u, x: tp.tanh(x + u * tp.sign(u)),
    "alternative": lambda u, x: x * tp.where(u, 1 + u, 1),
    "square": lambda u, x: x + tp.step(u) * tp.step(-u) * u**2 * x,
    "two": lambda u, x: x + u * tp.step(u * tp.step(u)) * x,
    "clip at its upper end": lambda u, x: x * tp.where(-u, tp.where(u + 2, u + 1, -1), 1),
    "clip at its lower end": lambda u, x: x * tp.where(2 - u, tp.where(u, u - 1, -1), 1),
    "where in a condition": lambda u, x: x * tp.where(tp.where(u, u, 0) - 1, 5, 1),
}
JUMPING = {
    "no factor": lambda u, x: x + tp.step(u) * x,
    "of the other side": lambda u, x: x * tp.where(u, 1 + u, 2),
    "clip of another height": lambda u, x: x * tp.where(-u, tp.where(u + 2, u + 1, -1), 2),
    "clip that jumps inside": lambda u, x: x * tp.where(2 - u, tp.where(u, u - 1, 1), 1),
    "inside": lambda u, x: x + u * x + tp.tanh(tp.step(u) + u * tp.step(u)),
    "divided by": lambda u, x: x + u / (u + 1.5 - tp.step(u)) + tp.sign(u) / 2 * x,
    "pole": lambda u, x: x + u * tp.step(u) / (1 - tp.step(u) + u**2) * x,
}


def program(function):
    @tp.program
    def found(W: tp.Matrix, x: tp.Vector):
        u = tp.avg(x * (W @ x))
        return tp.avg(function(u, x) ** 2)

    return found


def network(function):
    @tp.network
    def found(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * function(tp.avg(x * (W @ x)), x)

    return found


@pytest.mark.parametrize("function", CONTINUOUS.values(), ids=CONTINUOUS)
def test_functions_without_a_jump_have_their_limits(function):
    """E x² = 1, or E tanh(x)²; in kernels as well."""
    plain = tp.tanh if function is CONTINUOUS["of both sides"] else lambda x: x
    found = tp.derive(program(function)).evaluate()["return"]
    expected = tp.derive(program(lambda u, x: plain(x))).evaluate()["return"]
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    X = np.array([[0.6, 0.8], [1.0, 0.5]])
    mine, other = (tp.derive(network(f), tp.Kernels()).evaluate(X) for f in (function, lambda u, x: plain(x)))
    assert np.allclose(mine.nngp, other.nngp, atol=1e-12) and np.allclose(mine.ntk, other.ntk, atol=1e-12)


@pytest.mark.parametrize("function", JUMPING.values(), ids=JUMPING)
@pytest.mark.parametrize(
    "derived",
    [lambda f: tp.derive(program(f)), lambda f: tp.derive(network(f), tp.Kernels())],
    ids=["width", "kernels"],
)
def test_functions_with_a_jump_are_refused(derived, function):
    with pytest.raises(tp.NoLimitError, match=r"lands on a jump|is not finite at the limit"):
        derived(function)


def test_a_power_of_n_brings_the_jump_out():
    """√n u step(u) is relu of the fluctuation, in one line and in two."""

    @tp.program
    def one(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        u = tp.avg(x * y)
        return tp.sqrt(tp.n) * u * tp.step(u)

    @tp.program
    def two(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        u = tp.avg(x * y)
        z = u * tp.step(u)
        return tp.sqrt(tp.n) * z

    for found in (one, two):
        number = tp.derive(found).evaluate()["return"]
        assert number.value == pytest.approx((2 * np.pi) ** -0.5, abs=1e-9)


#: functions of y and of what is 0 for half of the neurons, moved by what vanishes
MOVED = {
    "jump": lambda y, v: tp.step(v),
    "alternative": lambda y, v: tp.where(v, y * y, 0),
    "quotient": lambda y, v: tp.relu(y) / v,
    "quotient of a sum": lambda y, v: v / (v + tp.relu(y)),
}
SHIFTS = {"1/n": lambda x: 1 / tp.n, "a mean over n": lambda x: tp.avg(x * x) / tp.n, "entries": lambda x: x * x / tp.n}


@pytest.mark.parametrize("named", [True, False], ids=["named", "inline"])
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("case", MOVED)
def test_zeros_of_a_share_of_neurons_that_are_moved_are_no_zeros(case, shift, named):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        moved = tp.relu(y) + SHIFTS[shift](x)
        return tp.avg(MOVED[case](y, moved.named("v") if named else moved))

    @tp.program
    def still(x: tp.Vector, y: tp.Vector):
        return tp.avg(MOVED[case](y, tp.relu(y) + 1e-9))

    # for half of the neurons the sign of 1/n decides, as that of any positive number does
    network, known = program.run(n=100000, seed=0)["return"], tp.derive(still).evaluate()["return"]
    assert network == pytest.approx(known.value, abs=0.02)
    with pytest.raises(tp.TplimitsError, match=r"share of neurons|0 within its error"):
        tp.derive(program).evaluate()


@pytest.mark.parametrize("named", [True, False], ids=["named", "inline"])
@pytest.mark.parametrize("shift", [*SHIFTS, "a mean"])
def test_kernels_have_none_there(shift, named):
    """The kernel of step(relu(h) + 1/n) is 1 and not 1/2."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Vector):
        moved = tp.relu(tp.sum(U * ξ, over="d")) + (SHIFTS | {"a mean": tp.avg})[shift](b)
        return v * tp.step(moved.named("q") if named else moved)

    outputs = [net.run(n=1000, seed=seed, ξ=np.ones(2))["return"] for seed in range(20)]
    assert shift == "a mean" or np.mean(np.square(outputs)) == pytest.approx(1, abs=0.05)
    with pytest.raises(tp.EvaluationError, match="lands on a jump"):
        tp.derive(net, tp.Kernels()).evaluate(np.ones((1, 2)))


def test_a_factor_that_moves_no_zero_is_none():
    @tp.program
    def program(y: tp.Vector):
        return tp.avg(tp.step(tp.relu(y) * (1 + 1 / tp.n)))

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(0.5)
    assert program.run(n=100000, seed=0)["return"] == pytest.approx(0.5, abs=0.01)


def test_a_mean_is_seen_by_name_beside_what_is_0_for_a_share():
    """step(relu(y) + a) is 1 for a > 0, and step(y − |a|) for a < 0."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        a = tp.avg(x)
        v = tp.relu(y) + a
        return tp.avg(tp.step(v))

    runs = [program.run(n=10000, seed=seed)["return"] for seed in range(20)]
    assert max(runs) == 1 and min(runs) < 0.52
    with pytest.raises(tp.TplimitsError, match="lands on a jump"):
        tp.derive(program).evaluate()
