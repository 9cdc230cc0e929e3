"""Zeros in disguise in networks in training: means over other neurons at poles, roots and kinks of both passes."""

from __future__ import annotations

import numpy
import pytest

import tplimits as tp

X = numpy.array([[0.9, -0.4], [-0.2, 1.3]])
TASK = {"error": tp.squared_error([1.0, -0.8]), "lr": 0.5, "steps": 2, "particles": 256, "replicates": 3}


def of_two(g, x):
    """0 by Stein's identity at every x: a function of two neurons."""
    β = tp.neuron("β")
    return tp.avg(g[β] * tp.tanh(g[β] + x) - (1 - tp.tanh(g[β] + x) ** 2), over=β)


def of_one(g, x):
    """0 times a function of x: the mean is a number."""
    β = tp.neuron("β")
    return tp.avg((g[β] * tp.tanh(g[β]) - (1 - tp.tanh(g[β]) ** 2)) * tp.exp(-x * x), over=β)


def of_scalar(g, x):
    """The same as an average and a product."""
    return tp.avg(g * tp.tanh(g) - (1 - tp.tanh(g) ** 2)) * tp.exp(-x * x)


MEANS = {"of two": of_two, "of one": of_one, "of a scalar": of_scalar}
AT_ZERO = {
    "a pole": lambda x, p: x / p,
    "a pole of order two": lambda x, p: x / (p * p),
    "a pole inside": lambda x, p: tp.tanh(x / p),
    "a logarithm": lambda x, p: x * tp.log(p),
    "a root": lambda x, p: x * tp.sqrt(p),
    "a root of its size": lambda x, p: x * tp.sqrt(abs(p)),
    "a step": lambda x, p: x * tp.step(p),
    "a sign": lambda x, p: x * x * tp.sign(p),
    "a kink": lambda x, p: tp.relu(p) + x,
    "a kink of its image": lambda x, p: tp.maximum(x, x + 2 * p),
}


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("place", AT_ZERO)
def test_training_has_no_number_at_a_mean_that_is_zero(mean, place):
    @tp.network
    def network(ξ: tp.Input["d"], g: tp.Vector, U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return (v + 1) * AT_ZERO[place](x, MEANS[mean](g, x))

    with pytest.raises(
        tp.TplimitsError, match=r"within its error|not told from|moment not established|crosses 0|not clear of 0"
    ):
        tp.derive(network, tp.MaximalUpdate(tp.SGD())).evaluate(X, **TASK)


@pytest.mark.parametrize("mean", MEANS)
def test_a_step_from_there_is_not_exact(mean):
    @tp.network
    def network(ξ: tp.Input["d"], g: tp.Vector, U: tp.Vector["d"], v: tp.Vector):
        return (v + 1) * tp.relu(MEANS[mean](g, tp.sum(U * ξ, over="d")))

    with pytest.raises(tp.NoLimitError, match="the argument of step is 0 within its error"):
        tp.derive(network, tp.MaximalUpdate(tp.SGD())).exact([[1, 0]], error=tp.squared_error([1]), lr=0.5, steps=1)


@tp.network
def image(ξ: tp.Input["d"], g: tp.Vector, U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return (v + 1) * tp.relu(W @ (x * tp.avg(g * tp.tanh(g) - (1 - tp.tanh(g) ** 2))))


def test_an_image_of_what_is_zero_is_zero():
    with pytest.raises(tp.EvaluationError, match=r"the argument of step is 0 within its error"):
        tp.derive(image, tp.MaximalUpdate(tp.SGD())).evaluate(X, **TASK)


@tp.network
def beside(ξ: tp.Input["d"], g: tp.Vector, U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * tp.relu(x + of_two(g, x))


@tp.network
def without(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * ξ, over="d"))


@tp.network
def positive(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x, β = tp.tanh(tp.sum(U * ξ, over="d")), tp.neuron("β")
    return v * tp.relu(W @ (x / tp.avg(tp.sigmoid(x * x[β]), over=β)))


@tp.network
def adapted(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector.constant(0), c: tp.Vector, W: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * (tp.relu(W @ x) + tp.relu(b * (1 + tp.avg(c * x)) * x))


@tp.network
def gated(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    s = tp.avg(x * x)
    return v * tp.relu((W @ x) * (1 + s) - s)


def test_what_is_added_to_such_a_mean_decides():
    run = tp.derive(beside, tp.MaximalUpdate(tp.SGD())).evaluate(X, **TASK)
    plain = tp.derive(without, tp.MaximalUpdate(tp.SGD())).evaluate(X, **TASK)
    # up to what the mean gets from g and U as these move
    assert abs(run.f - plain.f).max() < 0.15 and abs(plain.f[-1]).max() > 0.3
    with pytest.raises(tp.EvaluationError, match="the argument of step is 0"):
        tp.derive(beside, tp.MaximalUpdate(tp.SGD())).evaluate([[0.0, 0.0], *X[:1]], **TASK)


@pytest.mark.parametrize("network", [positive, adapted, gated])
def test_what_is_zero_at_every_width_has_numbers(network):
    """Vectors that start at 0 and inputs that are 0 make zeros with one derivative at every width."""
    data, error = numpy.vstack([X, [0.0, 0.0]]), tp.squared_error([1.0, -0.8, 0.0])
    limit = tp.derive(network, tp.MaximalUpdate(tp.SGD()))
    run = limit.evaluate(data, **{**TASK, "error": error, "lr": 0.3})
    assert numpy.isfinite(run.f).all() and abs(run.f[-1]).max() > 0.05


def test_of_data_that_are_indices_they_are_taken_on():
    @tp.network
    def network(t: tp.Input.of("word"), E: tp.Vector["word"], v: tp.Vector):
        x, β = E.sel(word=t), tp.neuron("β")
        return v * x * tp.log(0.5 + tp.avg(tp.exp(-((x - x[β]) ** 2)), over=β))

    limit = tp.derive(network.bind(word=3), tp.MaximalUpdate(tp.SGD()))
    with pytest.raises(tp.EvaluationError, match="the mean of a function of two neurons"):
        limit.evaluate(numpy.array([0, 2]), **TASK)
    names = [line.partition(": ")[2] for line in limit.assumptions if line.startswith("not established")]
    assert numpy.isfinite(limit.assuming(names).evaluate(numpy.array([0, 2]), **TASK).f).all()


def test_quotients_of_squares_are_judged_without_multiplying_denominators_out():
    """On a sphere h² has mean 1/3, h⁴ 1/5: of v·h²/(h² + x² + y²) the readout alone learns η χ/5."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, x: tp.Vector, y: tp.Vector, v: tp.Vector):
        h = W @ tp.sum(U * ξ, over="d")
        return v * (h**2 / (h**2 + x**2 + y**2))

    limit = tp.derive(network, tp.MaximalUpdate(tp.SGD()))
    rates = dict.fromkeys(("U", "W", "x", "y"), 0.0) | {"v": 0.5}
    found = limit.evaluate([[0.6, 0.8]], error=tp.squared_error([1.0]), lr=rates, steps=1, particles=4096)
    assert abs(found.f[1, 0] - 0.5 / 5) < 4 * found.stderr[1, 0] + 1e-9


def test_an_exponential_that_is_cut_off_keeps_its_moments():
    """Beside neurons that train by the same rule; where exp(b) is read as it is, a step leaves it without a mean."""

    @tp.network
    def cut(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Vector = tp.init(mean=0.5, std=1)):  # noqa: B008
        y = tp.exp(b)
        return v * tp.clip(y, -1, 0.5) + v * tp.sum(U * ξ, over="d")

    @tp.network
    def whole(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Vector = tp.init(mean=0.5, std=1)):  # noqa: B008
        y = tp.exp(b)
        return v * tp.clip(y, -1, 0.5) + v * tp.sum(U * ξ, over="d") + v * y

    task = {"error": tp.squared_error([1.0]), "lr": 0.5, "steps": 2}
    found = tp.derive(cut, tp.MaximalUpdate(tp.SGD())).evaluate([[1.0]], **task)
    rng, n, outputs = numpy.random.default_rng(0), 400_000, []
    u, v, b = rng.standard_normal(n), rng.standard_normal(n), 0.5 + rng.standard_normal(n)
    for _ in range(3):
        y = numpy.exp(b)
        x = numpy.clip(y, -1, 0.5) + u
        outputs.append((v * x).mean())
        χ = outputs[-1] - 1
        u, v, b = u - 0.5 * χ * v, v - 0.5 * χ * x, b - 0.5 * χ * v * (y < 0.5) * y
    assert found.f[:, 0] == pytest.approx(outputs, abs=0.01)
    with pytest.raises(tp.EvaluationError, match="exponential of an exponential"):
        tp.derive(whole, tp.MaximalUpdate(tp.SGD())).evaluate([[1.0]], **task)
