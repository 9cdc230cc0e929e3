"""Kernels of networks with discrete inputs: as with one-hot vectors, by another derivation, and at finite width."""

import numpy as np
import pytest
import scipy

import tplimits as tp

RNG = np.random.default_rng(0)
TOKENS = RNG.integers(0, 3, (4, 5))
ONE_HOT = np.eye(3)[TOKENS]
#: windows of three tokens around each place; −1 is beyond the ends
WINDOWS = np.array([[-1, 0, 1, 2, 3], [0, 1, 2, 3, 4], [1, 2, 3, 4, -1]])


def looked(x, Z):
    """Z[x[t], t] by data, or by a sum over one-hot vectors."""
    return Z.sel(vocab=x) if not hasattr(x, "width") else tp.sum(Z * x, over="vocab")


def table(x, E, P, W, v):
    h = W @ looked(x, tp.tanh(E + P))
    return v * tp.mean(tp.relu(h), over="token")


def attention(x, E, P, W, v):
    z = looked(x, E) + P
    k = W @ z
    s = tp.softmax(tp.avg(z * k.rename(token="key")) + tp.avg(z * z.rename(token="key")), over="key")
    return v * tp.mean(tp.relu(tp.sum(s * k.rename(token="key"), over="key")), over="token")


def windows(x, E, P, W, v):
    z = looked(x, E).take(token=WINDOWS, axes=("tap", "token"))
    return v * tp.mean(tp.relu(W @ tp.sum(z, over="tap") + P), over="token")


def places(x, E, P, W, v):
    z = looked(x, tp.relu(E) + P)
    return v * tp.tanh(W @ (z.sel(token=0) - 2 * z.sel(token=3)))


def pair(body):
    @tp.network
    def by_data(
        x: tp.Input["token"].of("vocab"), E: tp.Vector["vocab"], P: tp.Vector["token"], W: tp.Matrix, v: tp.Vector
    ):
        return body(x, E, P, W, v)

    @tp.network
    def one_hot(
        x: tp.Input["token", "vocab"], E: tp.Vector["vocab"], P: tp.Vector["token"], W: tp.Matrix, v: tp.Vector
    ):
        return body(x, E, P, W, v)

    return by_data.bind(vocab=3, token=5), one_hot.bind(vocab=3, token=5)


@pytest.mark.parametrize("body", [table, attention, windows, places])
def test_kernels_are_those_of_one_hot_vectors(body):
    by_data, one_hot = (tp.derive(net, tp.Kernels()) for net in pair(body))
    found, known = by_data.evaluate(TOKENS, TOKENS[1:3]), one_hot.evaluate(ONE_HOT, ONE_HOT[1:3])
    assert np.allclose(found.nngp, known.nngp, rtol=1e-12) and np.allclose(found.ntk, known.ntk, rtol=1e-12)
    moved = by_data.evaluate((TOKENS + 1) % 3, TOKENS[1:3])
    assert not np.allclose(found.nngp, moved.nngp, rtol=1e-3), "tokens matter"
    assert "x[" in str(by_data) and "x_{" in by_data.latex().replace("{x}", "x")


def test_a_table_of_two_indices():
    """A bigram model: which entry is read says which came before, and which comes now."""

    @tp.network
    def by_data(x: tp.Input["token"].of("vocab"), B: tp.Vector["before", "vocab"], v: tp.Vector):
        first, second, third = (x.sel(token=t) for t in range(3))
        return v * tp.relu(B.sel(before=first, vocab=second) + B.sel(before=second, vocab=third))

    @tp.network
    def one_hot(x: tp.Input["token", "vocab"], B: tp.Vector["before", "vocab"], v: tp.Vector):
        def read(before, now):
            weights = x.sel(token=before).rename(vocab="before") * x.sel(token=now)
            return tp.sum(B * weights, over=("before", "vocab"))

        return v * tp.relu(read(0, 1) + read(1, 2))

    found = tp.derive(by_data.bind(vocab=3, token=5), tp.Kernels()).evaluate(TOKENS)
    known = tp.derive(one_hot.bind(vocab=3, before=3, token=5), tp.Kernels()).evaluate(ONE_HOT)
    # relu(h) with h of variance 2 (4 where both pairs are the same one): K = variance/2 for equal inputs
    pairs = [[(a, b), (b, c)] for a, b, c in TOKENS[:, :3]]
    variance = np.array([sum(p == q for p in own for q in own) for own in pairs])
    assert np.allclose(np.diag(found.nngp), variance / 2)
    assert np.allclose(found.nngp, known.nngp, rtol=1e-12) and np.allclose(found.ntk, known.ntk, rtol=1e-12)


@pytest.mark.sampling
def test_finite_networks_agree_and_reject_the_kernel_of_other_tokens():
    limit = tp.derive(pair(table)[0], tp.Kernels())
    few = {"widths": (32, 64, 128), "draws": 400}
    assert tp.check(limit, X1=TOKENS[:2], **few).accepted
    other = limit.evaluate(TOKENS[2:]).ntk
    assert not tp.check(limit, X1=TOKENS[:2], **few, claims={"Θ[0,1]": float(other[0, 1])}).accepted


def test_tokens_that_are_none_are_refused():
    limit = tp.derive(pair(table)[0], tp.Kernels())
    for wrong, what in (
        (TOKENS + 1, "holds 3; it takes indices of `vocab`, which has 3 entries"),
        (TOKENS - 0.5, "holds 1.5|holds -0.5|holds 0.5"),
        (TOKENS[:, :4], "4 entries along `token`"),
        (ONE_HOT, r"shape \(4, 5, 3\)"),
    ):
        with pytest.raises(tp.EvaluationError, match=what):
            limit.evaluate(wrong)


@tp.network
def taken(y: tp.Input["v"], E: tp.Vector["vocab"], W: tp.Matrix, u: tp.Vector):
    z = E.take(vocab=np.array([2, -1, -1]), axes="v") * y
    return u * tp.sum(tp.relu(W @ z), over="v")


def test_entries_that_a_table_lacks_are_zero_in_kernels_too():
    """relu(W E₂ y₀) alone is left of the sum: K = y y′/2, Θ = 3 y y′/2; where y₀ = 0 everything is zero."""
    found = tp.derive(taken.bind(vocab=3), tp.Kernels()).evaluate([[1.0, 2, 3], [2, 1, 1], [0, 1, 1]])
    expected = np.outer([1, 2, 0], [1, 2, 0]) / 2
    assert np.allclose(found.nngp, expected) and np.allclose(found.ntk, 3 * expected)


def test_second_moments_alone_decide_behind_a_matrix():
    """h = W (E[x] + P) is Gaussian whatever the law of E; uniform in ±√3 has the moments of a standard normal."""

    @tp.network
    def uniform(
        x: tp.Input["token"].of("vocab"),
        E: tp.Vector["vocab"].uniform(-(3**0.5), 3**0.5),
        P: tp.Vector["token"],
        W: tp.Matrix,
        v: tp.Vector.truncated(1, 2),
    ):
        return v * tp.mean(tp.relu(W @ (E.sel(vocab=x) + P)), over="token")

    @tp.network
    def normal(
        x: tp.Input["token"].of("vocab"), E: tp.Vector["vocab"], P: tp.Vector["token"], W: tp.Matrix, v: tp.Vector
    ):
        return v * tp.mean(tp.relu(W @ (E.sel(vocab=x) + P)), over="token")

    found, known = (tp.derive(net.bind(vocab=3, token=5), tp.Kernels()).evaluate(TOKENS) for net in (uniform, normal))
    assert np.allclose(found.nngp, scipy.stats.truncnorm(-2, 2).var() * known.nngp, rtol=1e-8)


@pytest.mark.parametrize("size", [None, 13])
def test_a_nonlinear_function_of_a_long_sum_of_uniform_entries_is_refused(size):
    """Sums of a few that are known are integrated (tests/theory/test_other_entries.py)."""

    @tp.network
    def shallow(ξ: tp.Input["d"], U: tp.Vector["d"].uniform(-1, 1), v: tp.Vector):
        return v * tp.relu(tp.sum(U * ξ, over="d"))

    with pytest.raises(tp.NoLimitError, match="Put a matrix between the two"):
        tp.derive(shallow if size is None else shallow.bind(d=size), tp.Kernels())
