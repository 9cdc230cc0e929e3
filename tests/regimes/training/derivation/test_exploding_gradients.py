"""Functions that are tame while their gradients grow exponentially, as x sin(exp x): inline and by names alike."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import tplimits as tp

LR = 0.05


@tp.network
def inline(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * (x * tp.sin(tp.exp(x)))


@tp.network
def by_name(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    e = tp.exp(x)
    s = tp.sin(e)
    return v * x * s


@tp.network
def behind_a_matrix(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    e = tp.exp(h)
    return v * h * tp.sin(e)


def run(net: Any, steps: int, **given: Any) -> Any:
    common: dict[str, Any] = {"error": tp.squared_error([1.0, -1.0]), "lr": LR, "steps": steps, "particles": 4096}
    return tp.derive(net, tp.MaximalUpdate(tp.SGD())).evaluate(numpy.eye(2), **common, **given)


def after_a_step() -> float:
    """f_1 of the first input by the trapezoidal rule: error signals are ∓½, and u, v are independent normals."""
    u, width = numpy.linspace(-6, 6, 24001, retstep=True)
    weights = numpy.exp(-u * u / 2) / numpy.sqrt(2 * numpy.pi) * width
    f = lambda x: x * numpy.sin(numpy.exp(x))  # noqa: E731
    slope, other = numpy.sin(numpy.exp(u)) + u * numpy.cos(numpy.exp(u)) * numpy.exp(u), f(u) @ weights
    values = numpy.linspace(-6, 6, 481)
    parts = [(v + LR / 2 * (f(u) - other)) * f(u + LR / 2 * v * slope) @ weights for v in values]
    return float(numpy.sum(parts * numpy.exp(-(values**2) / 2)) / numpy.sqrt(2 * numpy.pi) * (values[1] - values[0]))


@pytest.mark.parametrize("net", [inline, by_name], ids=["inline", "by name"])
def test_the_first_step_has_a_number(net: Any) -> None:
    right = after_a_step()
    found = run(net, 1)
    assert abs(found.f[1, 0] - right) < 4 * float(found.stderr[1, 0])
    # one of twice the rate is told from it
    assert abs(found.f[1, 0] - 1.25 * right) > 4 * float(found.stderr[1, 0])


@pytest.mark.parametrize("net", [inline, by_name, behind_a_matrix], ids=["inline", "by name", "behind a matrix"])
def test_the_second_step_has_none(net: Any) -> None:
    with pytest.raises(tp.EvaluationError, match="a gradient that is an exponential of an exponential"):
        run(net, 2)


@tp.network
def nameless(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.sin(tp.exp(tp.sum(U * ξ, over="d")))


def slow(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.sin(tp.exp(tp.sum(U * ξ, over="d") / 30)))


def test_sums_without_a_name_are_vectors_as_well() -> None:
    assert numpy.isfinite(run(nameless, 1).f).all()
    with pytest.raises(tp.EvaluationError, match="a gradient that is an exponential of an exponential"):
        run(nameless, 2)


def test_how_far_out_gradients_are_looked_at_goes_by_the_data() -> None:
    """exp(x/30) at inputs of length 20 is exp(2g/3): some of the networks are no number after two or three steps."""
    net = tp.network(slow)
    for length, lr in ((20.0, 1.0), (1.0, 1.0)):
        common: dict[str, Any] = {"error": tp.squared_error([1.0, 0.0]), "lr": lr, "particles": 512, "replicates": 4}
        limit = tp.derive(net, tp.MaximalUpdate(tp.SGD()))
        X = length * numpy.array([[0.6, 0.8], [1.0, 0.0]])
        assert numpy.isfinite(limit.evaluate(X, steps=1, **common).f).all()
        networks = [slow_network(X, lr, 400, seed) for seed in range(12)]
        if length == 1.0:
            found = limit.evaluate(X, steps=4, **common).f[-1, 0]
            assert abs(numpy.mean(networks) - found) < 0.01 < abs(numpy.mean(networks) - found / 2)
            continue
        assert not numpy.isfinite(networks).all()
        with pytest.raises(tp.EvaluationError, match="a gradient that is an exponential of an exponential"):
            limit.evaluate(X, steps=4, **common)


def slow_network(X: Any, lr: float, n: int, seed: int) -> float:
    """f of the first input after four steps in μP."""
    draw, target = numpy.random.default_rng(seed), numpy.array([1.0, 0.0])
    U, v, W = draw.standard_normal((n, 2)), draw.standard_normal(n), draw.standard_normal((n, n)) / numpy.sqrt(n)
    with numpy.errstate(all="ignore"):
        for _ in range(5):
            e = numpy.exp(U @ X.T / 30)
            x, z = numpy.sin(e), numpy.tanh(W @ numpy.sin(e))
            f = v @ z / n
            χ = (f - target) / 2
            dh = v[:, None] * (1 - z * z) * χ
            dU = (W.T @ dh * numpy.cos(e) * e / 30) @ X
            v, U, W = v - lr * z @ χ, U - lr * dU, W - lr * dh @ x.T / n
    return float(f[0])


def test_networks_have_none() -> None:
    # f_2 of wide networks: x is an exponential of an exponential at some neurons
    found = []
    for seed in range(4):
        u, v = numpy.random.default_rng(seed).standard_normal((2, 2, 200_000))
        v = v[0]
        with numpy.errstate(all="ignore"):
            for _ in range(2):
                e, x = numpy.exp(u), u * numpy.sin(numpy.exp(u))
                chi = ((v * x).mean(axis=1) - [1.0, -1.0]) / 2
                slope = numpy.sin(e) + u * numpy.cos(e) * e
                u, v = u - 2 * LR * chi[:, None] * v * slope, v - 2 * LR * (chi[:, None] * x).sum(axis=0)
            found.append((v * u[0] * numpy.sin(numpy.exp(u[0]))).mean())
    assert not numpy.isfinite(found).any() or numpy.nanstd(found) > 1


@pytest.mark.parametrize(
    "tame",
    [
        lambda x: x * tp.tanh(tp.exp(x)),
        lambda x: (tp.exp(x) - tp.exp(-x)) / (tp.exp(x) + tp.exp(-x)),
        lambda x: tp.exp(-tp.exp(-x)),
        lambda x: tp.where(x, x, tp.exp(x) - 1),
    ],
)
@pytest.mark.parametrize("length", [1.0, 4.0])
def test_gradients_that_are_bounded_keep_their_numbers(tame: Any, length: float) -> None:
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tame(W @ tame(tp.sum(U * ξ, over="d")))

    common: dict[str, Any] = {"error": tp.squared_error([1.0, -1.0]), "lr": LR, "steps": 2, "particles": 256}
    assert numpy.isfinite(tp.derive(net, tp.MaximalUpdate(tp.SGD())).evaluate(length * numpy.eye(2), **common).f).all()


def test_softplus_by_the_name_of_its_exponential_trains() -> None:
    @tp.network
    def named(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        e = tp.exp(tp.sum(U * ξ, over="d"))
        g = tp.log(1 + e)
        return v * g

    @tp.network
    def known(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.softplus(tp.sum(U * ξ, over="d"))

    assert numpy.allclose(run(named, 2).f, run(known, 2).f, atol=1e-9)
