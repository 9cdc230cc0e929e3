"""Training in the limit beside the linear equation it solves, and beside wide networks trained by gradient descent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import erf

import tplimits as tp


@tp.network
def one_layer(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.erf(tp.sum(U * ξ, over="d"))


LIMIT = tp.derive(one_layer, tp.Kernels())
RNG = np.random.default_rng(1)
N = 5
X, X2 = RNG.standard_normal((N, 3)), RNG.standard_normal((3, 3))
Y = RNG.standard_normal((N, 2))
TOGETHER = np.concatenate([X, X2])


def evolved(K, Θ, power, noise=0.0):
    """Mean and covariance after the linear map power(A), A the generator of (a, 1) with f = f₀ + Θ a."""
    # a' = −((Θ + noise) a + f₀ − y)/N: affine in a for each f₀ and y
    many = len(K)
    A = np.zeros((2 * N, 2 * N))
    A[:N, :N] = -(Θ[:N, :N] + noise * np.eye(N)) / N
    A[:N, N:] = np.eye(N) / N
    response = power(A)[:N, N:]  # a = response (y − f₀)
    G = Θ[N:, :N] @ response
    M = np.hstack([-G, np.eye(many - N)])  # f* = G y + M (f₀, f₀*)
    return G @ Y, M @ K @ M.T


@pytest.mark.parametrize("noise", (0.0, 0.3))
def test_gradient_flow(noise):
    K, Θ = LIMIT.evaluate(TOGETHER)
    times = [0.0, 0.4, 7.0, 60.0]
    found = LIMIT.train(X, Y, X2, time=times, noise=noise)
    assert found.mean.shape == (4, 3, 2) and found.covariance.shape == (4, 3, 3) and found.std.shape == (4, 3)
    for i, t in enumerate(times):
        mean, covariance = evolved(K, Θ, lambda A, t=t: expm(A * t), noise)
        np.testing.assert_allclose(found.mean[i], mean, atol=1e-11)
        np.testing.assert_allclose(found.covariance[i], covariance, atol=1e-11)
        one = LIMIT.train(X, Y[:, 0], X2, time=t, noise=noise)
        np.testing.assert_allclose(one.mean, mean[:, 0], atol=1e-11)
        np.testing.assert_allclose(one.covariance, covariance, atol=1e-11)


@pytest.mark.parametrize("noise", (0.0, 0.3))
def test_gradient_descent(noise):
    """Also with learning rates above N/λ, where outputs along the first eigenvector overshoot."""
    K, Θ = LIMIT.evaluate(TOGETHER)
    bound = 2 * N / (np.linalg.eigvalsh(Θ[:N, :N])[-1] + noise)
    for lr in (0.1, 0.8 * bound, bound):
        steps = (0, 1, 2, 7, 50)
        found = LIMIT.train(X, Y, X2, steps=steps, lr=lr, noise=noise)
        for i, k in enumerate(steps):

            def stepped(A, k=k, lr=lr):
                return np.linalg.matrix_power(np.eye(2 * N) + lr * A, k)

            mean, covariance = evolved(K, Θ, stepped, noise)
            np.testing.assert_allclose(found.mean[i], mean, atol=1e-11)
            np.testing.assert_allclose(found.covariance[i], covariance, atol=1e-11)


def test_the_end_of_training():
    """Training data are met whatever the initial outputs; elsewhere the mean is regression with the NTK."""
    found = LIMIT.train(X, Y, X2)
    np.testing.assert_allclose(found.mean, LIMIT.posterior(X, Y, X2, kernel="ntk").mean, rtol=1e-9)
    np.testing.assert_allclose(found.mean, LIMIT.train(X, Y, X2, time=1e9).mean, rtol=1e-9)
    own = LIMIT.train(X, Y)
    np.testing.assert_allclose(own.mean, Y, atol=1e-10)
    np.testing.assert_allclose(own.covariance, 0, atol=1e-10)
    start = LIMIT.train(X, Y, X2, time=0)
    np.testing.assert_allclose(start.mean, 0)
    np.testing.assert_allclose(start.covariance, LIMIT.evaluate(X2).nngp, atol=1e-14)


def test_directions_that_are_never_learnt_stay():
    """A linear network on one dimension, three inputs: two eigenvalues are 0, at finite times that is no obstacle."""

    @tp.network
    def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.sum(U * ξ, over="d")

    x = np.array([[1.0], [2.0], [-1.0]])
    y = np.array([1.0, 0.0, 3.0])
    t = 0.7
    w = (x[:, 0] @ y) / 6 * (1 - math.exp(-6 * t / 3))  # dw/dt = −Σ x (w x − y)/3
    found = tp.derive(linear, tp.Kernels()).train(x, y, [[2.5]], time=t)
    np.testing.assert_allclose(found.mean, [2.5 * w], rtol=1e-12)
    np.testing.assert_allclose(found.covariance, [[(2.5 * math.exp(-6 * t / 3)) ** 2]], rtol=1e-12)


def trained_networks(n: int, draws: int, steps: int, lr: float, train_v: bool = True) -> np.ndarray:
    """Outputs at X2 of finite networks f = n^(−1/2) v·erf(Uξ) after full-batch gradient descent on Σ(f − y)²/(2N)."""
    rng = np.random.default_rng(2)
    y, found = Y[:, 0], []
    for _ in range(draws):
        U, v = rng.standard_normal((n, 3)), rng.standard_normal(n)
        for _ in range(steps):
            h = X @ U.T
            x = erf(h)
            χ = (x @ v / n**0.5 - y) / N
            slope = 2 / math.sqrt(math.pi) * np.exp(-(h**2))
            δU = (χ[:, None] * slope * v).T @ X / n**0.5
            v = v - lr * (χ @ x) / n**0.5
            U = U - lr * δU
        found.append(erf(X2 @ U.T) @ v / n**0.5)
    return np.array(found)


@pytest.mark.long
@pytest.mark.sampling
def test_wide_networks_train_as_predicted():
    """Means within four standard errors and 0.02 for the width, second moments within 6 %.

    The wrong twins: training of v alone, and a spread with Θ in the place of K.
    """
    steps, lr, draws = 40, 0.5, 600
    f = trained_networks(400, draws, steps, lr)
    right = LIMIT.train(X, Y[:, 0], X2, steps=steps, lr=lr)
    wrong = LIMIT.contribution("v").train(X, Y[:, 0], X2, steps=steps, lr=lr)
    error = f.std(axis=0) / draws**0.5
    assert (np.abs(f.mean(axis=0) - right.mean) < 4 * error + 0.02).all()
    assert (np.abs(f.mean(axis=0) - wrong.mean) > 10 * error + 0.02).any()
    spread = np.cov(f.T)
    sizes = np.outer(right.std, right.std)
    slack = 4 * math.sqrt(2 / draws) + 0.06
    assert (np.abs(spread - right.covariance) < slack * sizes).all()
    carried = LIMIT.posterior(X, Y[:, 0], X2, kernel="ntk").covariance
    assert (np.abs(spread - carried) > 2 * slack * sizes).any()


BAD = (
    ({"time": -1}, "time=-1: a time is a number, 0 or more, or math.inf"),
    ({"time": [1, math.nan]}, "a time is a number"),
    ({"time": []}, "a time is a number"),
    ({"time": "late"}, "a time is a number"),
    ({"time": 1, "steps": 3, "lr": 0.1}, "give time=… of gradient flow, or steps=… with lr=…"),
    ({"steps": 3}, "give time=…"),
    ({"lr": 0.1}, "give time=…"),
    ({"steps": 3, "lr": 0}, "lr=0: a learning rate is a positive number"),
    ({"steps": 3, "lr": math.inf}, "lr=inf: a learning rate"),
    ({"steps": 2.5, "lr": 0.1}, "steps=2.5: a number of steps is a whole number"),
    ({"steps": [1, -1], "lr": 0.1}, "a number of steps is a whole number"),
)


@pytest.mark.parametrize(("options", "message"), BAD)
def test_when_training_is_looked_at(options, message):
    with pytest.raises(tp.EvaluationError, match=message):
        LIMIT.train(X, Y, X2, **options)


def test_a_learning_rate_above_the_bound_names_it():
    λ = np.linalg.eigvalsh(LIMIT.evaluate(X).ntk)[-1]
    with pytest.raises(tp.EvaluationError, match=rf"gradient descent diverges above 2N/λ = {2 * N / λ:.6g}"):
        LIMIT.train(X, Y, steps=3, lr=2.001 * N / λ)
