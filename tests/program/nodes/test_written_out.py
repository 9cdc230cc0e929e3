"""A function is one function whatever its parts are called, and however it is spelled: numbers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import tplimits as tp

X = np.array([[0.6, 0.8]])
ASKED = {"error": lambda f: f - 1, "lr": 0.1, "steps": 1, "particles": 2**15, "replicates": 4}


def network(function):
    """v times a function of h = ⟨U|ξ⟩, which is standard normal at X."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        return v * function(h)

    return net


def over_normal(function):
    """E f(z), each half by SciPy."""
    return sum(integrate.quad(lambda x: function(x) * stats.norm.pdf(x), a, b)[0] for a, b in ((-12, 0), (0, 12)))


@tp.program
def share(h: tp.Vector):
    above = tp.exp(h)
    below = above + tp.exp(2 * h)
    return above / below


@tp.program
def modulus(h: tp.Vector):
    size = tp.abs(h)
    logarithm = tp.log(size)
    return tp.exp(logarithm)


@tp.program
def length(h: tp.Vector):
    other = h * tp.tanh(h)
    square = other**2
    total = h**2 + square
    return tp.sqrt(total)


@tp.program
def linear_unit(h: tp.Vector):
    steep = tp.exp(h) - 1
    return tp.where(h, h, steep)


def below_one(x):
    return 1 / (1 + np.exp(x))


#: functions with every part named, what they are and their slopes, by NumPy
NAMED = {
    share: (below_one, lambda x: -below_one(x) * below_one(-x)),
    modulus: (np.abs, np.sign),
    length: (
        lambda x: np.abs(x) * np.sqrt(1 + np.tanh(x) ** 2),
        lambda x: (
            np.sign(x)
            * (np.sqrt(1 + np.tanh(x) ** 2) + x * np.tanh(x) / np.cosh(x) ** 2 / np.sqrt(1 + np.tanh(x) ** 2))
        ),
    ),
    linear_unit: (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), lambda x: np.exp(np.minimum(x, 0))),
}


@pytest.mark.parametrize(
    "function", [pytest.param(f, marks=pytest.mark.long if f is length else (), id=f.name) for f in NAMED]
)
def test_kernels_are_those_of_the_whole_function(function):
    value, slope = NAMED[function]
    square, slopes = over_normal(lambda x: value(x) ** 2), over_normal(lambda x: slope(x) ** 2)
    found = tp.derive(network(function), tp.Kernels()).evaluate(X)
    assert found.nngp.item() == pytest.approx(square, rel=1e-6)
    assert found.ntk.item() == pytest.approx(square + slopes, rel=1e-6)
    assert found.ntk.item() != pytest.approx(1.001 * (square + slopes), rel=1e-5)


def trained(function):
    """The first step of both parameters by SGD, from f = 0."""
    regime = tp.MaximalUpdate(tp.SGD())
    return tp.derive(network(function), regime).evaluate(X, **ASKED)


@pytest.mark.parametrize("function", [pytest.param(share, marks=pytest.mark.long), linear_unit], ids=lambda f: f.name)
def test_a_step_of_training(function):
    """v ← v + η φ(h), h ← h + η v φ'(h) |ξ|²: f₁ = E (v + η φ(h)) φ(h + η v φ'(h)), by a grid over v and h."""
    value, slope = NAMED[function]
    run = trained(function)
    step = 0.1
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    v, h = np.meshgrid(nodes, np.linspace(-10, 10, 8001), indexing="ij")
    mass = weights[:, None] / weights.sum() * stats.norm.pdf(h) * 20 / 8000
    exact = (mass * (v + step * value(h)) * value(h + step * v * slope(h))).sum()
    assert abs(run.f[1].item() - exact) < 5 * run.stderr[1].item() + 1e-4
    assert abs(run.f[1].item() - 1.2 * exact) > 5 * run.stderr[1].item() + 1e-4


def test_what_takes_an_exponential_away_may_read_its_argument_by_a_name():
    """v eʰ e⁻ʰ = v, whose step by SGD is η; each exponential alone has no mean after it."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        opposite = -h
        above, below = tp.exp(h), tp.exp(opposite)
        both = above * below
        return v * both

    found = tp.derive(net, tp.MaximalUpdate(tp.SGD())).evaluate(X, **ASKED)
    assert found.f[1].item() == pytest.approx(0.1, abs=1e-12)


def half_root(y):
    """√y for y > 0: its slope is y^(−½)/2, whose square has no mean."""
    above, below = tp.relu(y), tp.relu(-y)
    both = above - below
    return tp.relu(both) ** 0.5


def test_what_is_beside_two_steps_are_no_terms_that_cancel():
    """The NNGP stands, E y 1{y > 0} = 1/√(2π), and no NTK."""
    limit = tp.derive(network(half_root), tp.Kernels())
    with pytest.raises(tp.NoLimitError, match="moment not established"):
        _ = limit.evaluate(X).ntk
    first = tp.derive(network(half_root), tp.Kernels(train=("v",))).evaluate(X)
    assert first.nngp.item() == pytest.approx(1 / np.sqrt(2 * np.pi), rel=1e-6)


def quotient(y):
    return tp.abs(y) / y


#: behind sign, written as such, parameters are at rest
JUMPING = {
    "maximal, quotient": (tp.MaximalUpdate(tp.SGD()), quotient),
    "tangent, quotient": (tp.NeuralTangent(tp.SGD()), quotient),
}


@pytest.mark.parametrize(("regime", "jump"), JUMPING.values(), ids=JUMPING.keys())
def test_jumps_in_a_mean_over_tokens_stop_training(regime, jump):
    @tp.network
    def net(ξ: tp.Input["token", "d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.mean(jump(tp.sum(U * ξ, over="d")), over="token")

    with pytest.raises(tp.NoLimitError, match="jumps where"):
        tp.derive(net.bind(token=2), regime)


def test_two_sums_of_the_same_do_not_hide_a_root():
    """√h·√h is no number at half of the neurons, whether the sum has a name or is written twice."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * (tp.sqrt(tp.sum(U * ξ, over="d")) * tp.sqrt(tp.sum(ξ * U, over="d")))

    for regime in (tp.Kernels(), tp.MaximalUpdate(tp.SGD())):
        with pytest.raises(tp.TplimitsError, match="not real with positive probability"):
            limit = tp.derive(net, regime)
            limit.evaluate(X, **({} if isinstance(regime, tp.Kernels) else ASKED))


def test_an_exponential_that_is_read_where_it_is_large_stops_training():
    """After a step it is an exponential of an exponential."""

    def steep(h):
        above = tp.exp(h)
        return above * tp.tanh(h)

    with pytest.raises(tp.TplimitsError, match="exponential of an exponential"):
        trained(steep)


def test_what_is_asked_for_by_its_name_keeps_it():
    """Means over an axis, factors of what is independent of them, and what nothing reads."""

    @tp.program
    def program(x: tp.Vector["token"], a: tp.Vector):
        mean = tp.mean(x, over="token")
        scaled = (x - mean) / tp.sqrt(mean**2 + 1)
        alone = tp.exp(mean)  # noqa: F841 - what nothing reads keeps its name
        factor = tp.exp(-(mean**2))
        product = a * factor
        return tp.avg(scaled.sel(token=0)), tp.avg(product)

    names = set(program.names)
    assert {"mean", "alone", "factor"} <= names
