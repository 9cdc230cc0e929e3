"""relu(h + a h/|h|), whose argument is c(ξ) h: sums of covariances of two vectors, which are no kernels themselves."""

import numpy as np
import pytest

import tplimits as tp

EPS = 0.1


def of_relu(C):
    """E relu(x) relu(x′) for covariances (N, N) (Cho & Saul 2009)."""
    size = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    angle = np.arccos(np.clip(C / size, -1, 1))
    return size * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi), (np.pi - angle) / (2 * np.pi)


def data(many, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((many, 2)) * rng.uniform(0.3, 2, (many, 1))
    return np.vstack([X, 1.5 * X[:1] + 1e-3, 1e-4 - X[:1]])  # near the first, and near its opposite


@pytest.mark.parametrize("multiple", [1, 2, -1])
@pytest.mark.parametrize("a", [1.0, 0.3, -0.8, -2.0])
@pytest.mark.parametrize("many", [3, 200])
def test_a_vector_and_its_norm(a, many, multiple):
    """The determinants of the parts were added up: by multiples, K was off by a tenth of its diagonal."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.sum(U * ξ, over="d")
        m = multiple * h  # with a name of its own the sum has tables of two vectors, and no factor c(ξ)
        y = m / tp.sqrt(tp.avg(m**2) + multiple**2 * EPS)
        return v * tp.relu(h + np.sign(multiple) * a * y)

    X = data(many)
    G = X @ X.T
    c = 1 + a / np.sqrt(np.diag(G) + EPS)
    pair = tp.derive(net, tp.Kernels()).evaluate(X)
    expected, slope = of_relu(G * np.outer(c, c))
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert pair.nngp / size == pytest.approx(expected / size, abs=1e-10)
    # of U, W and v
    assert pair.ntk / size == pytest.approx((expected + 2 * slope * G * np.outer(c, c)) / size, abs=1e-7)


@pytest.mark.parametrize("multiple", [2, -1])
@pytest.mark.parametrize("a", [1.0, -0.8])
def test_the_same_at_tokens(a, multiple):
    @tp.network
    def net(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.sum(U * ξ, over="d")
        m = multiple * h  # with a name of its own the sum has tables of two vectors, and no factor c(ξ)
        y = m / tp.sqrt(tp.avg(m**2) + multiple**2 * EPS)
        return v * tp.relu(h + np.sign(multiple) * a * y)

    X = data(4)
    G = X @ X.T
    c = 1 + a / np.sqrt(np.diag(G) + EPS)
    found = tp.derive(net, tp.Kernels()).evaluate(X.reshape(2, 3, 2)).nngp
    expected = of_relu(G * np.outer(c, c))[0].reshape(2, 3, 2, 3).transpose(0, 2, 1, 3)
    assert found == pytest.approx(expected, rel=1e-9)


def test_constants_that_multiply_a_kernel():
    """(1 + γ) h as h + γ h, near inputs: γ K is a kernel for γ > 0 alone."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, v: tp.Vector, *, γ):
        h = tp.sum(U * ξ, over="d")
        return v * tp.relu(h + γ * h + tp.sqrt(γ**2) * b)

    X = data(3)
    for γ in (0.5, -0.4):
        pair = tp.derive(net, tp.Kernels()).evaluate(X, γ=γ)
        expected, _ = of_relu((1 + γ) ** 2 * X @ X.T + γ**2)
        assert pair.nngp == pytest.approx(expected, rel=1e-9)
