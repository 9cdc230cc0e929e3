"""Orthogonal matrices: drawn at finite width; limits of programs that apply them one way, and of no others."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.files.serial import from_json, to_json
from tplimits.regimes.training.trainer.trainer import Trainer


@tp.program
def one_way(W: tp.Matrix.orthogonal(), V: tp.Matrix["n", "n"].orthogonal(), x: tp.Vector, y: tp.Vector):
    h = tp.relu(W @ x)
    g = W @ (tp.abs(h + y) + x)  # the same matrix again, on what depends on its first image
    return tp.avg(tp.relu(W @ x) * tp.relu(g)), tp.avg((V.T @ h) ** 2), tp.avg(g**2 * (W @ x) ** 2)


@tp.program
def both_ways(W: tp.Matrix.orthogonal(), x: tp.Vector):
    return tp.avg((W.T @ (W @ x)) ** 2)


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix.orthogonal(), v: tp.Vector):
    return v * tp.tanh(W @ tp.sum(U * ξ, over="d"))


def test_networks_draw_them():
    W = one_way.run(n=40, seed=1)["W"]
    np.testing.assert_allclose(W @ W.T, np.eye(40), atol=1e-13)
    many = np.array([one_way.run(n=2, seed=s)["W"] for s in range(400)])
    turns = np.linalg.det(many) > 0  # reflections are as many, and angles uniform: no sign is preferred
    angles = np.arctan2(many[:, 1, 0], many[:, 0, 0])
    assert abs(turns.mean() - 0.5) < 0.1 and abs(np.exp(1j * angles).mean()) < 0.15
    assert abs(np.exp(2j * angles).mean()) < 0.15 and abs(np.exp(4j * angles).mean()) < 0.15
    run = Trainer(net, tp.squared_error([1.0]), tp.SGD(), 0.1).start([[1.0, 0.0]], width=16)
    np.testing.assert_allclose(run.parameters["W"] @ run.parameters["W"].T, np.eye(16), atol=1e-13)
    assert "of a uniformly distributed orthogonal matrix" in repr(one_way)
    assert from_json(to_json(one_way)) == one_way


@pytest.mark.long
@pytest.mark.sampling
def test_one_way_they_have_the_limits_of_independent_entries():
    limit = tp.derive(one_way)
    assert "W is orthogonal, and applied in one direction alone" in limit.steps[0].conclusion
    few = (32, 64, 128, 256)  # drawing one takes the cube of its width
    assert tp.check(limit, few, draws=400).accepted
    # ⟨(Vᵀh)²⟩ = ⟨h²⟩ = 1/2
    assert limit.scalar("return[1]") == sympy.Rational(1, 2)
    assert not tp.check(limit, few, claims={"return[1]": 0.51, "return[0]": 0.7}, draws=400).accepted


def test_both_ways_they_have_others():
    """WᵀW x is x, and for independent entries has twice the square: the limit of those would be wrong."""
    with pytest.raises(tp.NoLimitError, match="`W` is orthogonal, and the program applies Wᵀ beside W"):
        tp.derive(both_ways)

    @tp.program
    def normal(W: tp.Matrix, x: tp.Vector):
        return tp.avg((W.T @ (W @ x)) ** 2)

    assert tp.derive(normal).scalar("return") == 2
    x = np.ones(64)
    assert both_ways.run(n=64, x=x)["return"] == pytest.approx(1.0)


@tp.network
def twice(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix.orthogonal(), v: tp.Vector):
    h = W @ tp.sum(U * ξ, over="d")
    return v * (W @ h + h) * tp.sign(W @ (W @ h))


@pytest.mark.sampling
def test_kernels_are_those_of_independent_entries():
    """W²x and W³x beside Wx are independent: K = 2c·1, and Θ = K of v, W through W W x and W x, and U."""
    X = np.array([[1.0, 0.5], [0.2, -0.8]])
    C = X @ X.T
    signs = 2 / np.pi * np.arcsin(C / np.sqrt(np.outer(np.diag(C), np.diag(C))))
    found = tp.derive(twice, tp.Kernels(train=("v", "W"))).evaluate(X[:1])
    with pytest.raises(tp.NoLimitError, match="derivatives of two jumps"):
        _ = found.ntk
    limit = tp.derive(twice, tp.Kernels(train=("v",)))
    np.testing.assert_allclose(limit.evaluate(X).ntk, 2 * C * signs, atol=1e-12)
    assert "W is orthogonal, and applied in one direction alone" in limit.assumptions[-1]
    how = {"X1": X, "widths": (32, 64, 128), "draws": (800, 600, 400), "seed": 0}
    whole = tp.derive(net, tp.Kernels())
    assert tp.check(whole, **how).accepted
    frozen = tp.derive(net, tp.Kernels(train=("U", "v"))).evaluate(X)
    assert not tp.check(whole, claims={"ntk": frozen.ntk}, **how).accepted


def test_kernels_to_order_one_over_n_and_of_both_ways_are_refused():
    @tp.network
    def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix.orthogonal(), v: tp.Vector):
        return v * tp.relu(W.T @ tp.relu(W @ tp.sum(U * ξ, over="d")))

    with pytest.raises(tp.NoLimitError, match="the program applies Wᵀ beside W"):
        tp.derive(tied, tp.Kernels(train=("v",)))
    with pytest.raises(tp.NoLimitError, match="not normal"):
        tp.derive(net, tp.Kernels(order=1))


@pytest.mark.parametrize("regime", [tp.MaximalUpdate(tp.SGD()), tp.NeuralTangent(tp.SGD())])
def test_updates_apply_them_both_ways(regime):
    with pytest.raises(tp.NoLimitError, match="gradients apply Wᵀ beside W"):
        tp.derive(net, regime)
    with pytest.raises(tp.NoLimitError, match="gradients apply Wᵀ beside W"):
        regime.derive(net)


def test_recordings_have_networks_alone():
    how = {"error": tp.squared_error([1.0, -1.0]), "optimizer": tp.SGD(), "lr": 0.1, "steps": 2}
    assert tp.watch(net, np.eye(2), widths=8, **how).run().frames == 3
    with pytest.raises(tp.NoLimitError, match="gradients apply Wᵀ beside W"):
        tp.watch(net, np.eye(2), widths=(8, tp.inf), **how)


def test_fluctuations_and_layers_of_the_order_one_over_n_have_none():
    @tp.program
    def fluctuation(W: tp.Matrix.orthogonal(), x: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg((W @ x) * x)

    @tp.block
    def layer(x: tp.State, W: tp.Matrix.orthogonal()):
        return x + W @ tp.tanh(x) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="fluctuations"):
        tp.derive(fluctuation)
    with pytest.raises(tp.NoLimitError, match="of the order 1/n"):
        tp.derive(layer, tp.Proportional())
