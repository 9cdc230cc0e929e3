"""Readouts without fresh vectors: odd functions of images, beside networks of finite width with gradients by hand."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.4], [-0.3, 0.9]])
C = X @ X.T / 2
SHIFTED = tp.init(mean=1)


def inputs(U, ξ):
    return tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))


@tp.network
def shifted(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector = SHIFTED):
    return v * tp.tanh(W @ inputs(U, ξ))


def drawn(n, rng):
    """f f′ and the tangent kernel of one network v·tanh(W x), E v = 1."""
    U, W, v = rng.standard_normal((n, 2)), rng.standard_normal((n, n)) / np.sqrt(n), 1 + rng.standard_normal(n)
    x = U @ X.T / np.sqrt(2)
    y = np.tanh(W @ x)
    back = v[:, None] * (1 - y * y)
    inner = W.T @ back
    f = v @ y / np.sqrt(n)
    kernel = y.T @ y / n + (back.T @ back / n) * (x.T @ x / n) + (inner.T @ inner / n) * C
    return np.outer(f, f), kernel


def test_kernels_of_a_readout_with_a_mean_are_those_of_networks():
    found = tp.derive(shifted, tp.Kernels()).evaluate(X)
    rng = np.random.default_rng(0)
    squares, kernels = (np.array(many) for many in zip(*(drawn(128, rng) for _ in range(1500)), strict=True))

    def z(claim, many):
        error = many.std(axis=0, ddof=1) / np.sqrt(len(many))
        return np.abs(claim - many.mean(axis=0)) / np.hypot(error, 2 / 128 * np.abs(claim).max())

    assert z(found.nngp, squares).max() < 4
    assert z(found.ntk, kernels).max() < 4
    # that of v without its mean
    assert z(found.nngp / 2, squares).max() > 8
    assert z(found.ntk - found.nngp / 2, kernels).max() > 8


def refused(body):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix):
        return body(inputs(U, ξ), W, V)

    try:
        tp.derive(network, tp.Kernels())
    except tp.NoLimitError as error:
        assert "fresh readout vectors" in str(error)
        return True
    return False


@pytest.mark.parametrize(
    "body",
    [
        lambda x, W, V: tp.tanh(W @ x),
        lambda x, W, V: tp.tanh(W @ x) * tp.relu(V @ x) * tp.avg(x**2),
        lambda x, W, V: tp.relu(W @ x) - tp.relu(-(W @ x)),
        lambda x, W, V: x * tp.tanh(x * (W @ x)),
        lambda x, W, V: tp.tanh(x),
    ],
)
def test_odd_functions_are_read_out(body):
    assert not refused(body)


@pytest.mark.parametrize(
    "body",
    [
        lambda x, W, V: tp.relu(W @ x),  # its mean grows
        lambda x, W, V: tp.tanh(W @ tp.tanh(W @ x)),
        lambda x, W, V: tp.tanh(W @ x) * tp.avg(V @ x * (W @ x)),
        lambda x, W, V: V @ tp.tanh(W @ x) + tp.tanh(W @ x),
        lambda x, W, V: tp.tanh(W.T @ tp.tanh(W @ x)),
        lambda x, W, V: (W @ x) ** 2 - tp.avg((W @ x) ** 2),
        lambda x, W, V: tp.tanh(W @ x) + x**2 - tp.avg(x**2),
    ],
)
def test_what_is_not_odd_or_remembers_its_matrix_is_refused(body):
    assert refused(body)
