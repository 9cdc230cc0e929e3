"""Readouts inside of a function: n^(−1/2) Σ F(v, h) is Gaussian where F changes its sign with a fresh vector v."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.0], [0.6, 0.8], [0.3, -0.5]])


def network(read):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Vector):
        return read(tp.sum(U * ξ, over="d"), W, v, b)

    return net


def sech2(x):
    return 1 / np.cosh(x) ** 2


def nodes(c11, c12, c22, count=60):
    """v ~ N(0, 1) and (h, h′) ~ N(0, C) at the nodes of Gauss and Hermite, and their weights."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    v, a, b = np.meshgrid(z, z, z, indexing="ij")
    h = np.sqrt(c11) * a
    other = c12 / np.sqrt(c11) * a + np.sqrt(max(c22 - c12**2 / c11, 0)) * b
    weights = np.einsum("i,j,k->ijk", w, w, w) / w.sum() ** 3
    return v, h, other, weights


def test_a_product_with_the_readout_inside_of_a_function():
    """K = E tanh(v h) tanh(v h′), and Θ adds E h h′ ṫ ṫ′ of v and K_h E v² ṫ ṫ′ of U."""
    K = tp.derive(network(lambda x, W, v, b: tp.tanh(v * x)), tp.Kernels()).evaluate(X[:2])
    for i, j in ((0, 0), (0, 1)):
        c = X[i] @ X[i], X[i] @ X[j], X[j] @ X[j]
        v, h, g, w = nodes(*c)
        slopes = sech2(v * h) * sech2(v * g)
        nngp = (w * np.tanh(v * h) * np.tanh(v * g)).sum()
        ntk = (w * h * g * slopes).sum() + c[1] * (w * v**2 * slopes).sum()
        assert abs(K.nngp[i, j] - nngp) < 1e-4 + 5 * K.nngp_error[i, j]
        assert abs(K.ntk[i, j] - ntk) < 1e-4 + 5 * K.ntk_error[i, j]
        # the readout outside of the function, v tanh h, is another network
        assert abs(K.nngp[i, j] - (w * v**2 * np.tanh(h) * np.tanh(g)).sum()) > 0.02


@pytest.mark.long
def test_networks_of_two_layers_have_these_kernels():
    """tanh(v (W tanh x)): means of 3000 networks at two widths, extrapolated, to five errors."""
    K = tp.derive(network(lambda x, W, v, b: tp.tanh(v * (W @ tp.tanh(x)))), tp.Kernels()).evaluate(X)
    rng, means, errors = np.random.default_rng(2), [], []
    for n in (32, 64):
        found = []
        for _ in range(3000):
            U, W, v = rng.standard_normal((n, 2)), rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal(n)
            x = U @ X.T
            y = np.tanh(x)
            h = W @ y
            slope = sech2(v[:, None] * h)
            dh = v[:, None] * slope
            dx = (W.T @ dh) * sech2(x)
            own = (h * slope).T @ (h * slope) / n
            found.append(own + y.T @ y / n * (dh.T @ dh / n) + X @ X.T * (dx.T @ dx / n))
        means.append(np.mean(found, axis=0))
        errors.append(np.std(found, axis=0) / np.sqrt(len(found)))
    limit, error = 2 * means[1] - means[0], np.hypot(2 * errors[1], errors[0])
    assert (np.abs(limit - K.ntk) < 5 * np.hypot(error, K.ntk_error)).all() and error.max() < 0.05


@pytest.mark.parametrize(
    "read",
    [
        lambda x, W, v, b: tp.relu(v * x),
        lambda x, W, v, b: tp.tanh(v * x + b),
        lambda x, W, v, b: tp.tanh(v * x) + tp.relu(b),
        lambda x, W, v, b: tp.tanh(v * x) * tp.avg(v * v),
        lambda x, W, v, b: tp.tanh(v * (W @ tp.relu(x))) + (W.T @ v) * b,
        lambda x, W, v, b: tp.tanh(v * x) ** 2,
    ],
)
def test_what_does_not_change_its_sign_with_a_fresh_vector_is_refused(read):
    with pytest.raises(tp.NoLimitError, match="Gaussian with covariance"):
        tp.derive(network(read), tp.Kernels())
