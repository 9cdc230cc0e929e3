"""Kets of the operator regime: exact covariances of images, and halves of particles with opposite signs."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.numbers.columns import AntitheticPopulation
from tplimits.program.network.run_asked import RunAsked
from tplimits.regimes.training.numbers import kets
from tplimits.regimes.training.numbers.operator_request import tangent_request

X = np.random.default_rng(5).standard_normal((4, 3))
ADAM = tp.Adam(eps=0.05)


@tp.network
def relus(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix["k", "n"], B: tp.Matrix["n", "k"], v: tp.Vector):
    return v * tp.relu(B @ tp.relu(A @ tp.relu(tp.sum(U * ξ, over="d"))))


@tp.network
def odd(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.relu(W @ tp.relu(W @ tp.sum(U * ξ, over="d")))


def asked(network, particles=512, ratios=None, decay=0.0, **more):
    operator = tp.derive(network, tp.NeuralTangent(ADAM, weight_decay=decay)).operator
    run = RunAsked(X, lambda f: f, 0.1, 2, {}, ratios, particles, 2, 0, 64)
    return tangent_request(operator, run, None)


def test_fresh_columns_are_odd_and_orthogonal_to_what_is_seen():
    population = AntitheticPopulation(64, True, np.random.default_rng(1))
    x = np.abs(np.random.default_rng(2).standard_normal((3, 64)))
    even = np.concatenate([x[:1, :32], x[:1, :32]], axis=1)
    first = population.fresh(2)
    population.see(np.concatenate([x, even, np.maximum(first, 0)]))
    found = np.concatenate([first, population.fresh(4)])
    assert (found[:, :32] == -found[:, 32:]).all()
    np.testing.assert_allclose(found @ found.T / 64, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(found[2:] @ np.concatenate([x, even, np.ones((1, 64))]).T, 0, atol=1e-11)


@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_images_have_the_covariance_of_the_limit(decay):
    """Those of kernels, derived and evaluated for smaller networks; κ = k/n and n/k for transposes."""
    request = asked(relus, ratios={"k": 0.5}, decay=decay)
    run = kets.drawn(request, kets.roots(request), 0)
    names = {run.program[p].name: run.arrays[p][0] for p in range(len(run.program)) if len(run.arrays[p])}
    gram = {name: array @ array.T / array.shape[-1] for name, array in names.items() if array.ndim == 2}

    @tp.network
    def below(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.relu(tp.sum(U * ξ, over="d"))

    @tp.network
    def middle(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, v: tp.Vector):
        return v * tp.relu(A @ tp.relu(tp.sum(U * ξ, over="d")))

    first, second = (tp.derive(p, tp.Kernels()).evaluate(X).nngp for p in (below, middle))
    C = second / np.sqrt(np.outer(np.diag(second), np.diag(second)))
    angles = 1 - np.arccos(np.clip(C, -1, 1)) / np.pi
    images = [s.name for s in run.program if isinstance(s, kets.MatMul)]
    found = [gram[name][:4, :4] for name in images[:3]]
    np.testing.assert_allclose(found[0], first, rtol=1e-7)
    np.testing.assert_allclose(found[1], second, rtol=1e-7)
    np.testing.assert_allclose(found[2], angles, rtol=1e-6)  # (n/k) E v² 1[h] 1[h′]


def test_which_functions_gain_from_halves_and_which_images_are_drawn_so():
    for network, halved, images in ((relus, True, 4), (odd, False, 2), (tied, True, 0)):
        request = asked(network)
        run = kets.drawn(request, kets.roots(request), 0)
        assert isinstance(run, kets.HalvedExecution) == halved
        assert len(kets.roots(request)) == images


@pytest.mark.sampling
def test_errors_are_smaller_than_without(monkeypatch):
    """At least twice, at the same number of particles; and the same limit."""
    limit = tp.derive(relus, tp.NeuralTangent(ADAM))
    settings = {"error": lambda f: f - 1, "lr": 0.05, "steps": 3, "f0": np.zeros(4), "particles": 512, "replicates": 24}
    found = limit.evaluate(X, **settings, block=64)
    monkeypatch.setattr("tplimits.regimes.training.numbers.operator.roots", lambda asked: {})
    monkeypatch.setattr(kets, "_gains_from_halves", lambda *_: False)
    plain = limit.evaluate(X, **settings, block=64)
    assert np.sqrt((plain.stderr[1:] ** 2).mean() / (found.stderr[1:] ** 2).mean()) > 2
    z = (plain.f - found.f)[1:] / np.hypot(plain.stderr, found.stderr)[1:]
    assert np.sqrt((z**2).mean()) < 3


def test_what_nobody_uses_is_not_drawn():
    @tp.network
    def plain(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.tanh(x)

    @tp.network
    def with_unused(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        unused = tp.exp(tp.sqrt(tp.n) * tp.avg((W @ x) * x)) * x  # noqa: F841 (has no ket)
        return v * tp.tanh(x)

    asked = {"X": [[0.3, -0.4], [-1.1, 0.1]], "error": tp.squared_error([1.0, -0.8]), "lr": 0.1, "steps": 1}
    asked |= {"f0": [0.2, -0.1], "particles": 256, "replicates": 2}
    found, same = (
        tp.derive(net, tp.NeuralTangent(tp.NAdam(eps=0.1))).evaluate(**asked).f for net in (with_unused, plain)
    )
    assert found == pytest.approx(same, abs=1e-12)


@tp.network
def through_poles(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    h = W @ x
    s = tp.avg(x * h)
    return v * h * tp.sin(s) / s + v * x * tp.log(1 + s) / s


@pytest.mark.parametrize("decay", [0, 0.05])
def test_poles_that_are_removable_are_none_on_particles(decay):
    """Adam with an ε above all gradients is descent, which kernels train; gradients pass the slope of log(1 + s)/s."""
    task = {"error": tp.squared_error([1.0, -0.5]), "steps": 2, "f0": 0.0}
    X = [[0.9, -0.4], [-0.2, 1.3]]
    descent = tp.derive(through_poles, tp.NeuralTangent(tp.SGD(), decay)).evaluate(X, lr=0.3, **task)
    adam = tp.derive(through_poles, tp.NeuralTangent(tp.Adam(0, 0, eps=1e4), decay))
    found = adam.evaluate(X, lr=3e3, particles=4096, replicates=4, **task)
    assert found.f[2] == pytest.approx(descent.f[2], abs=0.004) and abs(descent.f[2]).min() > 0.1
