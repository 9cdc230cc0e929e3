"""Embeddings that are read out, too: kernels beside networks of finite width, and what stays refused."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.5, -0.3], [0.2, -0.6, 0.9]])


def network(last):
    """Three tokens embedded by E, read out by E times what `last` makes of x = Σ ξ E, W, V and b."""

    @tp.network
    def net(ξ: tp.Input["token"], E: tp.Vector["token"], V: tp.Matrix, W: tp.Matrix, b: tp.Vector):
        x = tp.sum(E * ξ, over="token")
        return E.rename(token="out") * last(x, V, W, b)

    return net.bind(token=3)


tied = network(lambda x, V, W, b: tp.relu(W @ tp.tanh(V @ x) + b))


def drawn(n, rng):
    """f and the tangent kernel of one network in the NTP, (input, output) by (input, output)."""
    E, b = rng.standard_normal((3, n)), rng.standard_normal(n)
    V, W = rng.standard_normal((2, n, n)) / np.sqrt(n)
    x = X @ E
    a = np.tanh(x @ V.T)
    h = a @ W.T + b
    z = np.maximum(h, 0)
    one, out = np.repeat(np.arange(2), 3), np.tile(np.arange(3), 2)
    dh = ((h > 0)[:, None, :] * E[None]).reshape(6, n)
    da = (dh @ W) * (1 - a * a)[one]
    dx = da @ V

    def gram(u):
        return u @ u.T / n

    kernel = gram(dh) * (gram(a[one]) + 1) + gram(da) * gram(x[one])
    for token in range(3):
        kernel += gram((out == token)[:, None] * z[one] + X[one, token][:, None] * dx)
    return (z @ E.T).ravel() / np.sqrt(n), kernel


def test_kernels_of_tied_readouts_are_those_of_networks():
    """500 networks of width 64: outputs are uncorrelated, with the covariance ⟨x|x′⟩; E is trained in both places."""
    found = tp.derive(tied, tp.Kernels()).evaluate(X)
    rng = np.random.default_rng(0)
    f, ntk = (np.array(many) for many in zip(*(drawn(64, rng) for _ in range(500)), strict=True))

    def z(claim, many):
        mean, error = many.mean(axis=0), many.std(axis=0, ddof=1) / np.sqrt(len(many))
        # networks are off by a few in the width
        return np.abs(np.kron(claim, np.eye(3)) - mean) / np.hypot(error, 2 / 64 * np.abs(claim).max())

    assert z(found.nngp, f[:, :, None] * f[:, None, :]).max() < 4
    assert z(found.ntk, ntk).max() < 4
    # as if E were not trained where it is read out
    assert z(found.ntk - found.nngp, ntk).max() > 10


def test_stable_points_with_tied_readouts_have_limits():
    """UP(s) starts at outputs 0, and follows the same kernel as the NTP."""
    task = {"error": tp.squared_error(np.ones((2, 3))), "lr": 0.1, "steps": 2}
    slow, ntp = (tp.classify(tied, table, tp.SGD()) for table in (tp.UP("1/4"), tp.NTP))
    assert slow.regime == ntp.regime == "operator" and slow.limit().starts_at_zero
    np.testing.assert_allclose(slow.limit().evaluate(X, **task).f, ntp.limit().evaluate(X, f0=0, **task).f)


@pytest.mark.parametrize(
    "last",
    [
        lambda x, V, W, b: tp.tanh(W @ tp.tanh(W @ x)),
        lambda x, V, W, b: tp.tanh(W @ tp.tanh(V @ x)) * tp.avg(b * (W @ x)),
        lambda x, V, W, b: tp.tanh(W.T @ tp.tanh(W @ x)),
        # ⟨E x⟩⟨E tanh x⟩ joins W x at one neuron and Wᵀ tanh x at others: a variance of .13 for ⟨x|x⟩ = .098
        lambda x, V, W, b: tp.relu(W @ x) * tp.relu(W.T @ tp.tanh(x)),
        lambda x, V, W, b: tp.relu(x * (W @ x)),
        lambda x, V, W, b: x + tp.tanh(W @ x),
        lambda x, V, W, b: tp.relu(W @ x) * tp.tanh(tp.sqrt(tp.n) * tp.avg(x * b)),
    ],
    ids=[
        "twice",
        "in a scalar",
        "both ways",
        "both ways side by side",
        "beside the embedding",
        "added to the embedding",
        "a fluctuation",
    ],
)
def test_what_remembers_the_readout_is_refused(last):
    with pytest.raises(tp.NoLimitError, match="fresh readout vectors"):
        tp.derive(network(last), tp.Kernels())
