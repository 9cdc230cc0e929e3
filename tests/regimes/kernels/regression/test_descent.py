"""Training on any loss beside networks linearised by hand, SciPy and the operator regime."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize
from scipy.special import expit

import tplimits as tp

RNG = np.random.default_rng(2)
N = 6
X, X_TEST = RNG.standard_normal((N, 3)), RNG.standard_normal((4, 3))
SIGNS = np.sign(RNG.standard_normal(N))
LABELS = RNG.integers(0, 3, N)


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
    return tp.sum(U * ξ, over="d")


@tp.network
def deep(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))


@tp.network
def several(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector["out"]):
    return v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))


@tp.network
def outputs_of(ξ: tp.Input["token", "d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * tp.relu(x + 0.5 * tp.mean(x.rename(token="other"), over="other"))


LINEAR, DEEP = tp.derive(linear, tp.Kernels()), tp.derive(deep, tp.Kernels())


def logistic(f):
    """The derivative of the mean of log(1 + exp(−y f))."""
    return -SIGNS * expit(-SIGNS * f) / N


def by_hand(signal, steps, lr, momentum=0.0, pull=0.0, columns=()):
    """Weights of the linear network after each step: f = X w, trained from w = 0."""
    w = m = np.zeros((3, *columns))
    found = [w]
    for _ in range(steps):
        m = momentum * m + X.T @ signal(X @ w) + pull / N * w
        w = w - lr * m
        found.append(w)
    return np.array(found)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_steps_on_a_logistic_loss(momentum, noise):
    run = LINEAR.descend(X, logistic, steps=[0, 1, 5, 40], lr=0.3, momentum=momentum, noise=noise)
    w = by_hand(logistic, 40, 0.3, momentum, noise)[[0, 1, 5, 40]]
    np.testing.assert_allclose(run.train, w @ X.T, atol=1e-12)
    np.testing.assert_allclose(run.at(X_TEST), w @ X_TEST.T, atol=1e-12)
    other = by_hand(logistic, 40, 0.3, 0.5 if momentum == 0 else 0.0, noise)[[0, 1, 5, 40]]
    assert abs(run.train - other @ X.T).max() > 0.1


def test_steps_on_the_cross_entropy():
    error = tp.cross_entropy(LABELS)
    run = LINEAR.descend(X, error, outputs=3, steps=25, lr=0.5, momentum=0.5)
    w = by_hand(error, 25, 0.5, 0.5, columns=(3,))[-1]
    assert run.train.shape == (N, 3) and run.at(X_TEST).shape == (4, 3)
    np.testing.assert_allclose(run.at(X_TEST), X_TEST @ w, atol=1e-12)


def test_gradient_flow_on_a_logistic_loss():
    times = [0.0, 0.3, 7.0, 7.0, 2.0]
    run = LINEAR.descend(X, logistic, time=times, noise=0.1)
    slope = lambda t, w: -(X.T @ logistic(X @ w) + 0.1 / N * w)  # noqa: E731
    exact = solve_ivp(slope, (0, 7), np.zeros(3), "DOP853", dense_output=True, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(run.at(X_TEST), exact.sol(times).T @ X_TEST.T, atol=1e-7)


def test_the_end_of_training_is_the_minimum():
    rate = LINEAR.max_learning_rate(X, noise=0.5, curvature=0.25)
    run = LINEAR.descend(X, logistic, steps=3000, lr=rate / 2, noise=0.5)
    loss = lambda w: np.log1p(np.exp(-SIGNS * (X @ w))).mean() + 0.5 / (2 * N) * w @ w  # noqa: E731
    best = minimize(loss, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(run.at(X_TEST), X_TEST @ best, atol=1e-5)


@pytest.mark.parametrize("schedule", [{"steps": [1, 30], "lr": 0.4}, {"time": [0.5, 9.0]}])
@pytest.mark.parametrize("limit", [DEEP, LINEAR])
def test_squared_errors_are_those_of_train(limit, schedule):
    y, f0 = RNG.standard_normal((N, 2)), np.zeros((N, 2))
    run = limit.descend(X, tp.squared_error(y), outputs=2, f0=f0, noise=0.2, **schedule)
    wanted = limit.train(X, y, X_TEST, noise=0.2, covariance=False, **schedule).mean
    np.testing.assert_allclose(run.at(X_TEST), wanted, atol=1e-7)


def test_the_operator_regime_gives_the_same_outputs():
    """Descent on all inputs together, where those of the test have no loss."""
    labels = np.concatenate([LABELS, np.zeros(4, dtype=int)])
    everything, mask = np.concatenate([X, X_TEST]), np.arange(N + 4) < N
    error = tp.cross_entropy(labels, train=mask)
    f0 = RNG.standard_normal((N + 4, 3))
    tangent = tp.derive(several.bind(out=3), tp.NeuralTangent(tp.SGD(momentum=0.6)))
    wanted = tangent.evaluate(everything, error=error, lr=0.2, steps=12, f0=f0).f
    run = DEEP.descend(X, tp.cross_entropy(LABELS), outputs=3, steps=[3, 12], lr=0.2, momentum=0.6, f0=f0[:N])
    np.testing.assert_allclose(run.train, wanted[[3, 12], :N], atol=1e-10)
    np.testing.assert_allclose(run.at(X_TEST, f0=f0[N:]), wanted[[3, 12], N:], atol=1e-10)


def test_outputs_with_axes_of_their_own():
    limit = tp.derive(outputs_of, tp.Kernels())
    data, other, y = RNG.standard_normal((3, 2, 4)), RNG.standard_normal((2, 2, 4)), RNG.standard_normal((3, 2))
    run = limit.descend(data, lambda f: (f - y) / 3, steps=20, lr=0.1)
    wanted = limit.train(data, y, other, steps=20, lr=0.1, covariance=False).mean
    assert run.train.shape == (3, 2)
    np.testing.assert_allclose(run.at(other), wanted, atol=1e-11)


@pytest.mark.parametrize("momentum", [0.3, 0.95])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_momentum_on_squared_errors(momentum, noise):
    """Means and covariances, beside the linear recursion of outputs and momenta together."""
    K, Θ = DEEP.evaluate(np.concatenate([X, X_TEST]))
    y, lr = RNG.standard_normal(N), 0.5
    steps = (0, 1, 2, 30)
    found = DEEP.train(X, y, X_TEST, steps=steps, lr=lr, momentum=momentum, noise=noise)
    for i, k in enumerate(steps):
        response = m = np.zeros((N, N))  # a = response (f₀ − y)
        for _ in range(k):
            m = momentum * m + (np.eye(N) - (Θ[:N, :N] + noise * np.eye(N)) @ response) / N
            response = response + lr * m
        M = np.hstack([-Θ[N:, :N] @ response, np.eye(4)])
        np.testing.assert_allclose(found.mean[i], Θ[N:, :N] @ response @ y, atol=1e-11)
        np.testing.assert_allclose(found.covariance[i], M @ K @ M.T, atol=1e-11)
    # a direction that is never learnt: Θ = x x′ on three inputs has two eigenvalues 0
    one = np.array([[1.0], [2.0], [-1.0]])
    linear_in_one = tp.derive(linear, tp.Kernels()).train(one, [1.0, 0, 3], [[2.5]], steps=9, lr=0.1, momentum=momentum)
    w = m = 0.0
    for _ in range(9):
        m = momentum * m + (one[:, 0] * (one[:, 0] * w - [1, 0, 3])).sum() / 3
        w -= 0.1 * m
    np.testing.assert_allclose(linear_in_one.mean, [2.5 * w], rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_largest_learning_rate(momentum):
    """Just below it errors shrink, just above it they grow."""
    bound = DEEP.max_learning_rate(X, momentum=momentum, noise=0.1)
    error = tp.squared_error(RNG.standard_normal(N))
    sizes = [
        abs(DEEP.descend(X, error, steps=[500, 4000], lr=c * bound, momentum=momentum, noise=0.1).train).max(axis=1)
        for c in (0.995, 1.005)
    ]
    assert sizes[0][1] < 1.5 * sizes[0][0] < 100 and sizes[1][1] > 1e3 * sizes[1][0]
    λ = np.linalg.eigvalsh(DEEP.evaluate(X).ntk)[-1]
    assert bound == pytest.approx(2 * (1 + momentum) * N / (λ + 0.1), rel=1e-12)
    assert DEEP.max_learning_rate(X, curvature=0.25) == pytest.approx(8 * N / λ, rel=1e-12)
    y = RNG.standard_normal(N)
    DEEP.train(X, y, steps=3, lr=0.999 * bound, momentum=momentum, noise=0.1)
    with pytest.raises(tp.EvaluationError, match="gradient descent diverges above 2"):
        DEEP.train(X, y, steps=3, lr=1.001 * bound, momentum=momentum, noise=0.1)


def test_the_largest_learning_rate_of_many_inputs():
    many = RNG.standard_normal((90, 3))
    λ = np.linalg.eigvalsh(DEEP.evaluate(many).ntk)[-1]
    assert DEEP.max_learning_rate(many) == pytest.approx(180 / λ, rel=1e-10)
    assert LINEAR.max_learning_rate(np.zeros((2, 3))) == math.inf


BAD = (
    ({}, "give steps=… with lr=…"),
    ({"time": math.inf}, "a finite time=…"),
    ({"time": 1, "momentum": 0.5}, "a finite time=…"),
    ({"steps": 3, "lr": 0.1, "momentum": 1}, "momentum=1: a momentum is a number from 0 to below 1"),
    ({"steps": 3, "lr": 0.1, "outputs": 0}, "outputs=0: the number of independent outputs"),
    ({"steps": 3, "lr": 0.1, "f0": np.zeros(2)}, r"f0 has shape \(2,\); the outputs have \(6,\)"),
    ({"steps": 900, "lr": 1e9}, "step .*: the outputs are not finite; descent diverges"),
    ({"steps": 3, "lr": 0.1, "noise": -1}, "noise=-1"),
)


@pytest.mark.parametrize(("options", "message"), BAD)
def test_what_is_refused(options, message):
    with pytest.raises(tp.EvaluationError, match=message):
        LINEAR.descend(X, tp.squared_error(np.ones(N)), **options)


def test_what_else_is_refused():
    with pytest.raises(tp.EvaluationError, match="give a function of the outputs"):
        LINEAR.descend(X, 3.0, steps=1, lr=0.1)
    with pytest.raises(tp.EvaluationError, match="error= gave an array of shape"):
        LINEAR.descend(X, lambda f: f[:2], steps=1, lr=0.1)
    with pytest.raises(tp.EvaluationError, match="curvature=0: give a positive"):
        LINEAR.max_learning_rate(X, curvature=0)
    with pytest.raises(tp.EvaluationError, match="gradient flow has no momentum"):
        LINEAR.train(X, np.ones(N), time=1.0, momentum=0.5)
