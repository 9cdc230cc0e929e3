"""√n times a difference of functions of vectors that tends to zero: the slope times what fluctuates."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tplimits as tp


def mean(function):
    """E of a function of a standard normal."""
    return float(mpmath.quad(lambda z: function(z) * mpmath.npdf(z), [-12, -3, 0, 3, 12]))


def slope(z):
    return 1 / mpmath.cosh(z) ** 2


@tp.program
def in_one_line(x: tp.Vector, y: tp.Vector):
    s = tp.avg(x)
    return tp.avg(tp.sqrt(tp.n) * (tp.tanh(y + s) - tp.tanh(y)))


@tp.program
def in_two_lines(x: tp.Vector, y: tp.Vector):
    s = tp.avg(x)
    z = tp.tanh(y + s)
    return tp.avg(tp.sqrt(tp.n) * (z - tp.tanh(y))), tp.avg(z)


@tp.program
def of_an_image(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
    s, h = tp.avg(x * y), W @ x
    z = tp.sqrt(tp.n) * (tp.tanh(h + s * y) - tp.tanh(h))
    return tp.avg(z * y)


@pytest.mark.parametrize("program", [in_one_line, in_two_lines, of_an_image], ids=lambda p: p.name)
def test_a_difference_is_the_slope_times_the_fluctuation(program):
    """S E sech²(y), S standard normal, however the difference is written."""
    found = next(iter(tp.derive(program).evaluate().values()))
    assert found.value == pytest.approx(0, abs=1e-12)
    assert found.variance == pytest.approx(mean(slope) ** 2, abs=1e-12)


def test_a_scalar_with_another_limit():
    """√n (tanh(s y) − tanh y) y with s → 1: S E y² sech²(y), Var S = 2."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x * x)
        return tp.avg(tp.sqrt(tp.n) * (tp.tanh(y * s) - tp.tanh(y)) * y)

    found = tp.derive(program).evaluate()["return"]
    assert found.variance == pytest.approx(2 * mean(lambda z: z**2 * slope(z)) ** 2, abs=1e-12)
    runs = [program.run(n=800, seed=seed)["return"] ** 2 for seed in range(800)]
    error = (2 / 800) ** 0.5 * found.variance
    assert abs(sum(runs) / 800 - found.variance) < 4 * error + 0.01 * found.variance


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda y: 1 / (y**2 + 3), lambda z: -2 * z / (z**2 + 3) ** 2 + 1 / (z**2 + 3)),
        (
            lambda y: tp.sqrt(tp.exp(y) + 1),
            lambda z: (mpmath.exp(z) / 2 + mpmath.exp(z) + 1) / mpmath.sqrt(mpmath.exp(z) + 1),
        ),
        (lambda y: y / tp.log(3 + y**2), None),
    ],
    ids=["quotient", "root", "logarithm"],
)
def test_functions_with_poles_and_roots_that_vectors_do_not_reach(function, derivative):
    """√n (F(y + s) (1 + s) − F(y)) is S (F′ + F)(y)."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x)
        return tp.avg(tp.sqrt(tp.n) * (function(y + s) * (1 + s) - function(y)))

    def sloped(z):
        log = mpmath.log(3 + z**2)
        return (1 + z) / log - 2 * z**2 / (3 + z**2) / log**2

    found = tp.derive(program).evaluate()["return"]
    assert found.variance == pytest.approx(mean(derivative or sloped) ** 2, rel=1e-9)


def test_differences_that_vanish_by_an_identity():
    """tanh y is 2 σ(2 y) − 1."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x)
        return tp.avg(tp.sqrt(tp.n) * (tp.tanh(y + s) + 1 - 2 * tp.sigmoid(2 * y)))

    assert tp.derive(program).evaluate()["return"].variance == pytest.approx(mean(slope) ** 2, abs=1e-12)


def test_what_is_left_of_second_order():
    """n (softplus(y + s) − softplus(y) − s σ(y)) is S²/2 E σ′(y)."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x)
        return tp.avg(tp.n * (tp.softplus(y + s) - tp.softplus(y) - s * tp.sigmoid(y)))

    half = mean(lambda z: slope(z / 2) / 4) / 2
    found = tp.derive(program).evaluate()["return"]
    assert (found.value, found.variance) == pytest.approx((half, 2 * half**2), abs=1e-12)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda y, s: tp.relu(y + s) - tp.relu(y), "tends to 0, and it is not seen how fast"),
        (lambda y, s: 1 / (y + 3 + s) - 1 / (y + 3), "tends to 0, and it is not seen how fast"),
        (lambda y, s: 1 / (tp.relu(y) / tp.sqrt(tp.n) + s), r"the term 1/\(.*relu\(y\)"),
        (lambda y, s: tp.tanh(y + s) - tp.tanh(y) + 1, "grows with n and nothing of order 1/√n absorbs it"),
        (lambda y, s: tp.sqrt(tp.n) * (tp.tanh(y + s) - tp.tanh(y)), "tends to 0, and it is not seen how fast|grows"),
    ],
    ids=["kink", "pole", "names", "offset", "n"],
)
def test_others_are_refused_for_their_reason(function, reason):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.sqrt(tp.n) * function(y, tp.avg(x)))

    with pytest.raises(tp.NoLimitError, match=reason):
        tp.derive(program)


@pytest.mark.parametrize("in_lines", [False, True], ids=["one line", "named"])
@pytest.mark.parametrize(
    "regime", [tp.Kernels(), tp.Kernels(train=("v",)), tp.NeuralTangent(tp.SGD())], ids=["NTK", "of v", "NTP"]
)
def test_kernels_tell_the_same_reason(regime, in_lines):
    """√n (relu(y + s) − relu(y)) of a network, and √n times what does not vanish."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, w: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        y, s = W @ x, tp.avg(x * w)
        z = tp.relu(y + s) - tp.relu(y)
        root = tp.sqrt(tp.n) * z if in_lines else tp.sqrt(tp.n) * (tp.relu(y + s) - tp.relu(y))
        return v * root

    @tp.network
    def offset(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, w: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        y, s = W @ x, tp.avg(x * w)
        return v * (tp.sqrt(tp.n) * (tp.relu(y + s) - tp.relu(y) + 1))

    with pytest.raises(tp.NoLimitError, match="tends to 0, and it is not seen how fast"):
        tp.derive(net, regime)
    with pytest.raises(tp.NoLimitError, match="grows with n and nothing of order 1/√n absorbs it"):
        tp.derive(offset, regime)


SHIFTED = {
    "√(y² − 1/n)": lambda y: tp.sqrt(y**2 - 1 / tp.n),
    "log(|y| − 1/√n)": lambda y: tp.log(tp.abs(y) - 1 / tp.sqrt(tp.n)),
    "(y⁴ − 1/n²)^¼": lambda y: (y**4 - 1 / tp.n**2) ** 0.25,
    "√(relu y − 1/√n)": lambda y: tp.sqrt(tp.relu(y) - 1 / tp.sqrt(tp.n)),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_ends_of_domains_at_finite_width_are_asked_where_the_limit_has_none(name):
    """√(y² − 1/n) tends to |y|, and is no number for some of n neurons at every width; shifted inwards it is one."""

    @tp.program
    def program(y: tp.Vector):
        return tp.avg(SHIFTED[name](y))

    with np.errstate(all="ignore"):
        assert not any(np.isfinite(program.run(n=n, seed=n)["return"]) for n in (1000, 30_000))
    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match=r"root not established.*negative at finite width"):
        tp.derive(program).evaluate()


def test_ends_of_domains_that_no_neuron_comes_near_are_left():
    @tp.program
    def program(y: tp.Vector):
        return (
            tp.avg(tp.sqrt(1 + y**2 - 1 / tp.n)),
            tp.avg(tp.sqrt(y**2 + 1 / tp.n)),
            tp.avg(tp.log(2 + y**2 - 1 / tp.n)),
        )

    found, run = tp.derive(program).evaluate(), program.run(n=1_000_000, seed=1)
    for name in ("return[0]", "return[1]", "return[2]"):
        assert found[name].value == pytest.approx(float(run[name]), abs=5e-3)
