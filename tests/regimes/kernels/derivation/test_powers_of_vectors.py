"""Vectors that a power of n makes small, and that a later one makes of order 1 again."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.3], [-0.4, 1.2]])
n = tp.n


def kernels(function, **options):
    """Those of v · f(x, y, W)."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], T: tp.Vector["d"], W: tp.Matrix, a: tp.Vector, v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"), tp.sum(T * ξ, over="d"), W, a)

    return tp.derive(net, tp.Kernels(**options))


#: what is written with powers of n, and the same function without
TWINS = {
    "inside a kink": (lambda x, y, W, a: tp.sqrt(n) * tp.relu(x / tp.sqrt(n) + 1 / n), lambda x, y, W, a: tp.relu(x)),
    "a vector of its own": (lambda x, y, W, a: n * tp.relu(x / n), lambda x, y, W, a: tp.relu(x)),
    "an image": (lambda x, y, W, a: n * tp.maximum(W @ x / n, 0), lambda x, y, W, a: tp.relu(W @ x)),
    "an image of it": (
        lambda x, y, W, a: tp.sqrt(n) * tp.relu(W @ (x / tp.sqrt(n))),
        lambda x, y, W, a: tp.relu(W @ x),
    ),
    "an image of it through the transpose": (
        lambda x, y, W, a: n * (W.T @ tp.relu(W @ (x / n))),
        lambda x, y, W, a: W.T @ tp.relu(W @ x),
    ),
    "inside of a wave": (
        lambda x, y, W, a: tp.sin(tp.sqrt(n) * (W @ x / tp.sqrt(n))),
        lambda x, y, W, a: tp.sin(W @ x),
    ),
    "inside of a smooth function": (
        lambda x, y, W, a: tp.sqrt(n) * tp.tanh(W @ x / tp.sqrt(n)),
        lambda x, y, W, a: W @ x,
    ),
    "curvature": (lambda x, y, W, a: y * n * (1 - tp.cos(x / tp.sqrt(n))), lambda x, y, W, a: y * x**2 / 2),
    "a remainder": (
        lambda x, y, W, a: tp.relu(y + n * (tp.exp(x / tp.sqrt(n)) - 1 - x / tp.sqrt(n)) - x**2 / 2),
        lambda x, y, W, a: tp.relu(y),
    ),
    "through a kink": (lambda x, y, W, a: tp.sqrt(n) * tp.relu(tp.sin(x / tp.sqrt(n))), lambda x, y, W, a: tp.relu(x)),
    "an image of what is small": (
        lambda x, y, W, a: tp.sqrt(n) * (W @ tp.tanh(x / tp.sqrt(n))),
        lambda x, y, W, a: W @ x,
    ),
    "what is left of a difference": (lambda x, y, W, a: tp.sqrt(n) * (x + y / tp.sqrt(n) - x), lambda x, y, W, a: y),
    "a mean of squares": (lambda x, y, W, a: y * tp.avg((x / n) ** 2) * n**2, lambda x, y, W, a: y * tp.avg(x * x)),
    "shifts": (lambda x, y, W, a: tp.tanh(x + y / tp.sqrt(n)) * (1 + 1 / n), lambda x, y, W, a: tp.tanh(x)),
}


@pytest.mark.parametrize("name", TWINS)
def test_they_are_what_they_are_without_powers(name):
    found, plain = (kernels(f).evaluate(X) for f in TWINS[name])
    assert found.nngp == pytest.approx(plain.nngp)
    assert found.ntk == pytest.approx(plain.ntk)


def test_a_root_of_n_brings_out_the_mean_of_what_is_small():
    """√n avg((x + a/√n) a) is S + avg(a²): E (S + 1)² = 1 + E x²; S alone was half of it."""
    limit = kernels(lambda x, y, W, a: y * (tp.sqrt(n) * tp.avg((x + a / tp.sqrt(n)) * a)), train=("v",))
    drawn = limit.sample(X[:1], draws=20_000, seed=0).nngp.reshape(-1)
    size = float(X[0] @ X[0])
    assert drawn.mean() == pytest.approx(size * (1 + size), abs=5 * drawn.std() / np.sqrt(len(drawn)))
    assert abs(drawn.mean() - size * size) > 20 * drawn.std() / np.sqrt(len(drawn))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, W, a: y * (tp.sqrt(n) * tp.avg(tp.tanh(x + a / tp.sqrt(n)) * a)),
        lambda x, y, W, a: tp.sqrt(n) * (tp.tanh(x + y / tp.sqrt(n)) - tp.tanh(x)),
        lambda x, y, W, a: n * tp.relu(x / tp.sqrt(n)),
    ],
    ids=["mean of a function of both", "difference of functions", "too large a power"],
)
def test_what_is_not_derived_is_refused(function):
    with pytest.raises(tp.NoLimitError, match=r"power of n"):
        kernels(function, train=("v",))


def test_gradients_of_what_is_beside_a_root_of_n_are_random():
    """s/(|s| + n^(−1/2)) is S/(|S| + 1) with slope √n/(|S| + 1)², times a δs of order n^(−1/2): nothing diverges."""

    def mixture(x, y, W, a):
        s = tp.avg(x * y)
        return y * s / (tp.abs(s) + 1 / tp.sqrt(n))

    limit = kernels(mixture, train=("U", "T", "v"))
    assert limit.is_mixture
    with pytest.raises(tp.EvaluationError, match="with fluctuations √n·Avg that stay"):
        limit.evaluate(X[:1])
    found = limit.sample(X[:1], draws=20_000, seed=0)
    # q = |ξ|²; S = √n s and Z = √n avg(v y), R = avg(v x) √n are independent of each other: x, y, v are initial vectors
    q, rng = float(X[0] @ X[0]), np.random.default_rng(1)
    S, Z = q * rng.standard_normal(200_000), np.sqrt(q) * rng.standard_normal(200_000)
    g, slope = S / (abs(S) + 1), 1 / (abs(S) + 1) ** 2
    ntk = q * g**2 + q * (g**2 + 2 * slope**2 * Z**2 * q)
    error = np.hypot(ntk.std() / len(ntk) ** 0.5, found.ntk.std() / len(found.ntk) ** 0.5)
    assert found.ntk.mean() == pytest.approx(ntk.mean(), abs=5 * error)


def test_a_mean_that_data_decide_is_told_in_the_words_of_all_engines():
    with pytest.raises(tp.NoLimitError, match=r"unless the means of the term .* cancel it grows without bound"):
        kernels(lambda x, y, W, a: tp.sqrt(n) * (tp.avg(x**2) - 1) * y)


@pytest.mark.parametrize(
    ("beside", "of_u"),
    [(lambda u, root: tp.cos(u / root), 0), (lambda u, root: root * tp.tanh(u / root), 1)],
    ids=["cos", "tanh"],
)
def test_sums_over_axes_that_hold_n_stand_beside_functions_of_n(beside, of_u):
    """Σ (y + w/√n) is Σ y, of covariance ⟨Σ ξ, Σ ξ′⟩; the function is 1 or u, and adds 1 to K and what moves u to Θ.

    The sum once stood for a power of n, and was lost: K was 1.
    """

    @tp.network
    def network(ξ: tp.Input["token", "d"], U: tp.Vector["d"], w: tp.Vector["token"], u: tp.Vector, v: tp.Vector):
        y = tp.sum(U * ξ, over="d")
        return v * (tp.sum(y + w / tp.sqrt(tp.n), over="token") + beside(u, tp.sqrt(tp.n)))

    tokens = np.array([[[1.0, 0.5], [-0.3, 0.8]], [[0.2, -1.0], [0.7, 0.1]]])
    gram = tokens.sum(1) @ tokens.sum(1).T
    found = tp.derive(network, tp.Kernels()).evaluate(tokens)
    np.testing.assert_allclose(found.nngp, gram + 1, rtol=1e-12)
    np.testing.assert_allclose(found.ntk, 2 * gram + 1 + of_u, rtol=1e-12)
    assert abs(found.nngp - 1).min() > 0.1
