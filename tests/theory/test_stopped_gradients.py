"""Stopped gradients in every engine: hand-written gradients, kernels, both training limits, depth, recordings."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.loops.lowering import forward, training
from tplimits.program.nodes.functions import stop_gradient
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.watch.page.javascript import source

X, Y = np.array([[1.0, 0.5], [0.3, -1.0]]), np.array([1.0, -1.0])
ERROR = tp.squared_error(Y)


@tp.network
def held(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """Two layers whose skip connection sends no gradient back."""
    h = tp.tanh(tp.sum(U * ξ, over="d"))
    return v * (tp.tanh(W @ h) + 2 * tp.stop_gradient(h))


@tp.network
def open_(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """The same values; gradients pass."""
    h = tp.tanh(tp.sum(U * ξ, over="d"))
    return v * (tp.tanh(W @ h) + 2 * h)


@tp.network
def straight_through(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """sign(g) forward, the identity backward; and a scalar that gradients do not see."""
    h = tp.tanh(tp.sum(U * ξ, over="d"))
    g = W @ h
    return v * (g + tp.stop_gradient(tp.sign(g) - g)) * (1 + tp.stop_gradient(tp.avg(h * h)))


# -- the language ---------------------------------------------------------------------------------


def test_values_are_the_same_and_files_keep_it():
    assert (held.run(n=7, seed=3, ξ=X[0])["return"] == open_.run(n=7, seed=3, ξ=X[0])["return"]).all()
    assert tp.from_json(tp.to_json(held)) == held
    assert "2*stop_gradient(h)" in str(held)
    assert tp.stop_gradient(3) == 3


def test_a_stop_inside_a_stop_is_one():
    x = sympy.Symbol("x", real=True)
    assert stop_gradient(stop_gradient(x)) == stop_gradient(x) and stop_gradient(x).diff(x) == 0


def test_a_matrix_is_refused():
    def of_matrix(W: tp.Matrix, x: tp.Vector):
        return tp.stop_gradient(W) @ x

    with pytest.raises(tp.ProgramError, match=r"tp\.stop_gradient of a matrix; matrices only multiply vectors"):
        tp.program(of_matrix)


# -- finite width ---------------------------------------------------------------------------------


def by_hand(U, W, v, error):
    """Outputs and gradients of `held`, written out; `error` is χ of f = Σ v x."""
    h = np.tanh(X @ U)
    z = np.tanh(h @ W.T)
    χ = error((z + 2 * h) @ v)
    dg = (1 - z**2) * v * χ[:, None]
    dh = (dg @ W) * (1 - h**2)  # nothing comes back through the skip connection
    return {"U": X.T @ dh, "W": dg.T @ h, "v": χ @ (z + 2 * h)}


@pytest.mark.parametrize("n", [3, 8])
def test_gradients_of_networks_are_those_written_by_hand(n):
    rng = np.random.default_rng(n)
    weights = {"U": rng.standard_normal((2, n)), "W": rng.standard_normal((n, n)), "v": rng.standard_normal(n)}
    run = Trainer(held, ERROR, tp.SGD(), 1.0, parametrization=tp.SP).start({"ξ": X}, width=n, parameters=weights)
    expected = by_hand(*weights.values(), ERROR)
    for name, gradient in run.gradients().items():
        assert np.abs(gradient - expected[name]).max() <= 1e-13 * np.abs(expected[name]).max()


def test_pages_of_recordings_hold_values_alone():
    sized = held.bind(d=2)
    for loops in (forward(sized), training(sized, sympy.S.One)):
        assert "stop" not in source(loops)


# -- limits ---------------------------------------------------------------------------------------


def test_the_kernel_of_a_straight_through_estimator():
    """Θ = s s′ (K_sign + Θ_g): the jump has no derivative, and s = 1 + E h² none either."""
    found = tp.derive(straight_through, tp.Kernels()).evaluate(X)
    u, w = np.polynomial.hermite_e.hermegauss(60)
    root = np.linalg.cholesky(X @ X.T)
    z = np.stack(np.meshgrid(u, u), -1) @ root.T
    weight = np.outer(w, w) / (2 * np.pi)

    def mean(f):
        return np.einsum("xy,xyi,xyj->ij", weight, f(z), f(z))

    K_h, Θ_h = mean(np.tanh), mean(lambda z: 1 - np.tanh(z) ** 2) * (X @ X.T)
    s, size = 1 + np.diag(K_h), np.sqrt(np.diag(K_h))
    signs = 2 / np.pi * np.arcsin(np.clip(K_h / np.outer(size, size), -1, 1))
    assert np.allclose(found.nngp, np.outer(s, s) * signs, rtol=1e-6)
    assert np.allclose(found.ntk, np.outer(s, s) * (signs + K_h + Θ_h), rtol=1e-6)


@pytest.mark.sampling
def test_networks_agree_with_the_kernel_and_not_with_that_of_open_gradients():
    options = {"X1": X, "widths": (32, 64, 128), "draws": (400, 300, 200)}
    limit = tp.derive(held, tp.Kernels())
    assert tp.check(limit, **options).accepted
    twin = tp.derive(open_, tp.Kernels()).evaluate(X)
    assert np.allclose(twin.nngp, limit.evaluate(X).nngp)
    assert not tp.check(limit, claims={"ntk": twin.ntk}, **options).accepted


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_training_limits_agree_with_networks_and_those_of_open_gradients_do_not(regime):
    options = {"X": X, "error": ERROR, "lr": 0.3, "steps": 2, "widths": (64, 128, 256), "draws": (200, 150, 100)}
    limit = tp.derive(held, regime(tp.SGD()))
    assert tp.check(limit, **options).accepted
    twin = {row.claim.label: row.claim.value for row in tp.check(tp.derive(open_, regime(tp.SGD())), **options).rows}
    assert not tp.check(limit, claims=twin, **options).accepted


def test_jumps_without_gradients_are_learned_through():
    """A sign that gradients do not pass has a feature-learning limit; one whose argument they move has none."""

    @tp.network
    def jumps(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * (tp.sign(x) + tp.tanh(x))

    with pytest.raises(tp.NoLimitError, match="jumps where"):
        tp.derive(jumps, tp.MaximalUpdate(tp.SGD()))
    assert tp.derive(straight_through, tp.MaximalUpdate(tp.Adam()))


def test_width_and_depth_do_not_see_it():
    @tp.program
    def wide(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.stop_gradient(tp.relu(W @ x)) * (W @ x))

    assert tp.derive(wide).scalar("return") == sympy.Rational(1, 2)

    def block(stopped):
        @tp.block
        def layer(x: tp.State["token"], V: tp.Matrix, W: tp.Matrix):
            h = W @ tp.relu(V @ x)
            return x + (tp.stop_gradient(h) if stopped else h) / tp.sqrt(tp.n)

        return tp.derive(layer, tp.Proportional())

    assert str(block(True).drift) == str(block(False).drift) and str(block(True)) == str(block(False))


def test_classification_counts_only_what_gradients_reach():
    """Behind a stop nothing is trained: the same verdict as with these parameters frozen."""

    def perceptron(stopped):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            x = tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))
            return v * (tp.stop_gradient(x) if stopped else x)

        return net

    rest = {"U": tp.Frozen(), "W": tp.Frozen(), "v": tp.SGD()}
    for found in (tp.classify(perceptron(True), tp.MUP, tp.SGD()), tp.classify(perceptron(False), tp.MUP, rest)):
        assert found.regime == "operator" and found.feature_kernels_evolve is False
        assert [i.about for i in found.inequalities if i.group == "training"] == ["v"]
    assert tp.classify(perceptron(False), tp.MUP, {**rest, "W": tp.SGD()}).regime == "feature"
    # what would grow does not where it rests
    fast = {**rest, "v": tp.SignSGD()}
    assert "W" not in str(tp.classify(perceptron(False), tp.SP, fast).breaks)


def test_recordings_of_networks_whose_gradients_stop():
    how = {"error": ERROR, "optimizer": tp.SGD(), "lr": 0.1, "steps": 2, "widths": 6}
    mine, other = (tp.watch(net, X, **how, sharpness=False) for net in (held, open_))
    assert str(mine).splitlines()[1] != str(other).splitlines()[1]
    with pytest.raises(tp.EvaluationError, match="gradient of no function, which has no Hessian"):
        tp.watch(held, X, **how, sharpness=True)
