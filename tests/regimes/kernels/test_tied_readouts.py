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


def normed(h, mean=np.mean):
    """h over the root of its mean square."""
    return h / mean(h * h) ** 0.5


#: what is read out, as a program and in NumPy
NESTED = {
    "one matrix twice": (
        lambda x, V, W, b: tp.relu(W @ tp.tanh(W @ x) + b),
        lambda x, V, W, b: np.maximum(W @ np.tanh(W @ x) + b, 0),
    ),
    "two blocks": (
        lambda x, V, W, b: (h := V @ x) + W @ tp.relu(V @ tp.tanh(h)) + tp.relu(h) / 2,
        lambda x, V, W, b: (h := V @ x) + W @ np.maximum(V @ np.tanh(h), 0) + np.maximum(h, 0) / 2,
    ),
    "a norm before the readout": (
        lambda x, V, W, b: normed(W @ tp.relu(V @ normed(x, tp.avg)) + b, tp.avg),
        lambda x, V, W, b: normed(W @ np.maximum(V @ normed(x), 0) + b),
    ),
    "a scalar of the embedding": (
        lambda x, V, W, b: tp.relu(W @ tp.tanh(W @ x)) * tp.avg(x * x + b * (W @ x)),
        lambda x, V, W, b: np.maximum(W @ np.tanh(W @ x), 0) * np.mean(x * x + b * (W @ x)),
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_readouts_that_images_of_images_hold_are_fresh(name):
    """Outputs of 4000 networks of width 100, beside the limit and half as much again."""
    program, written = NESTED[name]
    claim = tp.derive(network(program), tp.Kernels()).evaluate(X).nngp
    rng, n = np.random.default_rng(1), 100
    found = []
    for _ in range(4000):
        E, b = rng.standard_normal((3, n)), rng.standard_normal(n)
        V, W = rng.standard_normal((2, n, n)) / np.sqrt(n)
        found.append([E @ written(ξ @ E, V, W, b) / np.sqrt(n) for ξ in X])
    f = np.array(found)
    products = np.einsum("rao,rbp->rabop", f, f)
    mean, error = products.mean(axis=0), products.std(axis=0, ddof=1) / np.sqrt(len(f))
    error = np.hypot(error, 2 / n * np.abs(claim).max())  # networks are off by a few in the width
    assert np.abs((mean - claim[:, :, None, None] * np.eye(3)) / error).max() < 4.5
    assert np.abs((mean - 1.5 * claim[:, :, None, None] * np.eye(3)) / error).max() > 6


def test_tangent_kernels_of_readouts_that_images_of_images_hold():
    limit = tp.derive(network(NESTED["one matrix twice"][0]), tp.Kernels())
    how = {"X1": X, "widths": (32, 64, 128), "draws": (600, 400, 200), "seed": 0}
    assert tp.check(limit, **how).accepted
    frozen = tp.derive(network(NESTED["one matrix twice"][0]), tp.Kernels(train=("E", "V", "b"))).evaluate(X)
    assert not tp.check(limit, claims={"ntk": frozen.ntk}, **how).accepted


def test_matrices_that_are_not_normal_are_no_images_of_images():
    @tp.network
    def net(ξ: tp.Input["token"], E: tp.Vector["token"], W: tp.Matrix.signs()):
        return E.rename(token="out") * tp.tanh(W @ tp.tanh(W @ tp.sum(E * ξ, over="token")))

    with pytest.raises(tp.NoLimitError, match="fresh readout vectors"):
        tp.derive(net.bind(token=3), tp.Kernels())


@pytest.mark.parametrize(
    "last",
    [
        lambda x, V, W, b: tp.tanh(W.T @ tp.tanh(W @ x)),
        # ⟨E x⟩⟨E tanh x⟩ joins W x at one neuron and Wᵀ tanh x at others: a variance of .13 for ⟨x|x⟩ = .098
        lambda x, V, W, b: tp.relu(W @ x) * tp.relu(W.T @ tp.tanh(x)),
        lambda x, V, W, b: tp.relu(x * (W @ x)),
        lambda x, V, W, b: x + tp.tanh(W @ x),
        lambda x, V, W, b: tp.relu(W @ x) * tp.tanh(tp.sqrt(tp.n) * tp.avg(x * b)),
        lambda x, V, W, b: tp.relu(W @ tp.tanh(W @ (x * tp.tanh(tp.sqrt(tp.n) * tp.avg(x * b))))),
        lambda x, V, W, b: tp.relu(W @ tp.tanh(V @ x) + V.T @ tp.tanh(W @ b)),
        lambda x, V, W, b: tp.relu(W @ tp.tanh(W @ x)) + x * tp.avg(x * x),
    ],
    ids=[
        "both ways",
        "both ways side by side",
        "beside the embedding",
        "added to the embedding",
        "a fluctuation",
        "a fluctuation inside",
        "another both ways",
        "a part beside the embedding",
    ],
)
def test_what_remembers_the_readout_is_refused(last):
    with pytest.raises(tp.NoLimitError, match="fresh readout vectors"):
        tp.derive(network(last), tp.Kernels())
