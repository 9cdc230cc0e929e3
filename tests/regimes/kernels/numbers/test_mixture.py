"""Attention with a fixed number of heads: kernels by draws beside means, formulas of moments, finite networks."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tplimits as tp


def attention(ζ):
    @tp.network
    def heads(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        Q: tp.Matrix["k", "n", "head"],
        K: tp.Matrix["k", "n", "head"],
        V: tp.Matrix["m", "n", "head"],
        O: tp.Matrix["n", "m", "head"],  # noqa: E741
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        G = tp.avg((Q @ x) * (K @ x).rename(token="key")) * tp.sqrt(tp.width("k"))
        f = tp.sum(ζ(G) * (V @ x).rename(token="key"), over="key")
        return v * tp.sum(O @ f, over="head") / tp.sqrt(tp.size("head"))

    return heads


def softmax(G):
    return tp.softmax(G, over="key")


IDENTITY = attention(lambda G: G)
RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3, 4)) / 2


def limit(program, heads):
    return tp.derive(program.bind(head=heads), tp.Kernels())


@pytest.mark.long
@pytest.mark.parametrize("heads", (1, 2, 4))
def test_excess_kurtosis_of_identity_attention(heads):
    """6 tr κ⁴/(H (tr κ²)²), the same for every token."""
    found = limit(IDENTITY, heads).excess_kurtosis(X, draws=40000, seed=1)
    for i in range(2):
        κ = X[i] @ X[i].T
        wanted = 6 * np.trace(np.linalg.matrix_power(κ, 4)) / (heads * np.trace(κ @ κ) ** 2)
        assert (np.abs(found.value[i] - wanted) < 4 * found.error[i]).all()
        assert (found.error[i] < 0.15 * wanted).all()


@pytest.mark.parametrize("ζ", (softmax, tp.relu), ids=("softmax", "relu"))
def test_the_mean_over_logits_is_the_kernel_of_many_heads(ζ):
    program = attention(ζ)
    sample = limit(program, 2).sample(X, draws=8000, seed=2)
    many = tp.derive(program, tp.Kernels(infinite=("head",))).evaluate(X, draws=8000, seed=3)
    for kernel in ("nngp", "ntk"):
        drawn = getattr(sample, kernel)
        error = np.hypot(drawn.std(axis=0) / 8000**0.5, getattr(many, kernel + "_error"))
        assert (np.abs(drawn.mean(axis=0) - getattr(many, kernel)) < 5 * error).all()


def test_kernels_of_one_draw_of_the_logits_are_covariances():
    sample = limit(attention(softmax), 2).sample(X, draws=50)
    flat = sample.nngp.transpose(0, 1, 3, 2, 4).reshape(50, 6, 6)
    assert np.linalg.eigvalsh(flat).min() > -1e-12
    assert flat.std(axis=0).min() > 1e-3
    pair = limit(attention(softmax), 2).sample(X[:1], X[1:], draws=50)
    assert pair.nngp.shape == (50, 1, 1, 3, 3)


@pytest.mark.long
def test_outputs_share_their_logits():
    """Independent outputs of one network: E f₁² f₂²/(E f²)² − 1 = Var C/(E C)², a third of the excess kurtosis."""
    found = limit(IDENTITY, 1)
    sample = found.sample(X[:1], draws=40000, seed=4)
    f = sample.outputs(2, seed=5)
    assert f.shape == (40000, 2, 1, 3)
    squares = f[:, :, 0, 0] ** 2
    assert np.isclose(squares.mean(), sample.nngp[:, 0, 0, 0, 0].mean(), rtol=0.1)
    products = squares[:, 0] * squares[:, 1]
    joint = products.mean() / squares.mean() ** 2 - 1
    error = products.std() / 200 / squares.mean() ** 2
    third = found.excess_kurtosis(X[:1], draws=40000, seed=6).value[0, 0] / 3
    assert abs(joint - third) < 5 * error and joint > 10 * error


@pytest.mark.long
@pytest.mark.sampling
def test_finite_networks_have_this_kurtosis():
    """One head at width 300; Gaussian outputs are refuted."""
    n, draws = 300, 1500
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(rng.standard_normal((n, 4)))[0] * n**0.5
    g = X[0] @ basis.T  # layer inputs with the Gram matrix of the limit
    found = []
    for _ in range(draws):
        Q, K, V = rng.standard_normal((3, n, n)).astype(np.float32) / n**0.5
        G = (g @ Q.T) @ (g @ K.T).T / n**0.5
        # outputs W_O and v are Gaussian given the rest: their variance is |f|²/n
        found.append(((G @ (g @ V.T)) ** 2).mean(axis=1))
    C = np.array(found)
    value = 3 * (C**2).mean(axis=0) / C.mean(axis=0) ** 2 - 3
    parts = C.reshape(10, -1, 3)
    split = 3 * (parts**2).mean(axis=1) / parts.mean(axis=1) ** 2 - 3
    error = split.std(axis=0, ddof=1) / 10**0.5
    wanted = limit(IDENTITY, 1).excess_kurtosis(X[:1], draws=40000, seed=8).value[0]
    assert (np.abs(value - wanted) < 4 * error + 0.1 * wanted).all()
    assert (value > 5 * error).all()


def test_what_cannot_be_drawn():
    mixture = limit(attention(softmax), 2)
    for call, message in (
        (lambda: mixture.sample(X, draws=1), "draws=1: the number of draws is a whole number, 2 or more"),
        (lambda: mixture.sample(X, seed=-1), "seed=-1: a seed"),
        (lambda: mixture.sample(X[:, :, 0]), r"X1 has shape \(2, 3\)"),
        (lambda: mixture.sample(X, X, draws=4).outputs(), r"one batch of inputs: .sample\(X\), without X2"),
        (lambda: mixture.sample(X, draws=4).outputs(0), "many=0: the number of independent outputs"),
        (lambda: mixture.evaluate(X), "the limit is a mixture"),
        (lambda: mixture.excess_kurtosis(X, draws="a"), "draws='a'"),
    ):
        with pytest.raises(tp.EvaluationError, match=message):
            call()
    many = tp.derive(attention(softmax), tp.Kernels(infinite=("head",)))
    assert mixture.is_mixture and not many.is_mixture
    with pytest.raises(tp.EvaluationError, match=r"are not random; there is nothing to draw: .evaluate"):
        many.sample(X)


def of_fluctuations(f, g):
    """v·S·T for S = √n·Avg(y f(x)), T = √n·Avg(y g(x)), which share y."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * (tp.sqrt(tp.n) * tp.avg(y * f(x))) * (tp.sqrt(tp.n) * tp.avg(y * g(x)))

    return network


def test_correlated_fluctuations_are_drawn_together():
    """E S²T² = ⟨f|f⟩⟨g|g⟩ + 2⟨f|g⟩², which is 3 times as much for equal f and g as for independent ones."""

    def mean(function):
        return float(mpmath.quad(lambda u: function(u) * mpmath.npdf(u), [-mpmath.inf, 0, mpmath.inf]))

    found = tp.derive(of_fluctuations(lambda x: x, tp.tanh), tp.Kernels(train=("v",))).sample([[0.6, 0.8]], draws=40000)
    squares = 1.0 * mean(lambda u: mpmath.tanh(u) ** 2)
    wanted = squares + 2 * mean(lambda u: u * mpmath.tanh(u)) ** 2
    error = found.nngp.std() / np.sqrt(found.nngp.size)
    assert abs(found.nngp.mean() - wanted) < 4 * error
    assert abs(found.nngp.mean() - squares) > 20 * error  # as if they were independent


def test_fluctuations_that_stand_alone_have_draws_whatever_is_trained():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector["m"], v: tp.Vector["m"]):
        return tp.sum(v * tp.sqrt(tp.n) * tp.avg(tp.sum(U * ξ, over="d") * y), over="m")

    sizes = network.bind(m=3)
    readout, everything = (
        tp.derive(sizes, tp.Kernels(train=t)).sample([[0.6, 0.8]], draws=8000) for t in (("v",), None)
    )
    assert (readout.nngp == readout.ntk).all() and (readout.nngp == everything.nngp).all()
    assert readout.nngp.mean() == pytest.approx(3, abs=4 * readout.nngp.std() / np.sqrt(8000))


def test_a_sample_without_a_tangent_kernel_says_so():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.sign(x) * (tp.sqrt(tp.n) * tp.avg(x * y))

    sample = tp.derive(network, tp.Kernels()).sample([[0.6, 0.8]], draws=2000)
    assert sample.nngp.mean() == pytest.approx(1, abs=0.2)
    with pytest.raises(tp.NoLimitError, match="derivatives of two jumps"):
        sample.ntk  # noqa: B018


def attend(x, Q, K, V):
    logits = tp.avg((Q @ x) * (K @ x).rename(token="key")) * tp.sqrt(tp.n)
    return V @ tp.sum(tp.tanh(logits) * x.rename(token="key"), over="key")


def test_logits_of_two_layers_with_one_pair_of_matrices_are_refused():
    """The second logits are correlated with the first, whose draw the second layer is given."""

    @tp.network
    def tied(ξ: tp.Input["token"], U: tp.Vector, Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, W: tp.Matrix, v: tp.Vector):
        return v * attend(attend(U * ξ, Q, K, V), Q, K, W)

    @tp.network
    def apart(
        ξ: tp.Input["token"],
        U: tp.Vector,
        Q: tp.Matrix,
        K: tp.Matrix,
        V: tp.Matrix,
        W: tp.Matrix,
        A: tp.Matrix,
        B: tp.Matrix,
        v: tp.Vector,
    ):
        return v * attend(attend(U * ξ, Q, K, V), A, B, W)

    with pytest.raises(tp.NoLimitError, match="its fresh factors are not independent of everything else in it"):
        tp.derive(tied, tp.Kernels(train=("v",)))
    assert tp.derive(apart, tp.Kernels(train=("v",))).is_mixture


def test_a_kurtosis_that_one_draw_makes_is_no_number():
    """C = 1/s² of a Gaussian fluctuation s has no mean; C = 1/(1 + s²) has all."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, y: tp.Vector, v: tp.Vector, *, c):
        s = tp.sqrt(tp.n) * tp.avg(a * tp.sum(U * ξ, over="d"))
        return v * y * tp.sqrt(1 / (c + s**2))

    limit = tp.derive(net, tp.Kernels(train=("v",)))
    with pytest.raises(tp.EvaluationError, match=r"one of 2000 draws makes up a large part of E C²"):
        limit.excess_kurtosis([[1.0]], c=1e-9, draws=2000)
    s = np.random.default_rng(0).standard_normal(400_000)
    C = 1 / (1 + s**2)
    found = limit.excess_kurtosis([[1.0]], c=1.0, draws=2000)
    assert abs(found.value - 3 * C.var() / C.mean() ** 2) < 4 * found.error
