"""Hron et al. 2020: attention and convolution (Propositions 2 and 4), appended encodings, strings of unequal length."""

import numpy as np
import pytest
from checks import check_kernels

import tplimits as tp

L = tp.layers
PLACES, TAPS = 5, 3
READS = (np.arange(PLACES) + np.arange(TAPS)[:, None] - 1) % PLACES
#: weights of the heads of Proposition 4: each looks at one tap of every place
ONE_HOT = np.eye(PLACES)[READS]


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def heads(ζ, activation=tp.relu):
    """Heads with given weights (head, token, key); an output for each place."""

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        V: tp.Matrix["n", "n", "head"],
        O: tp.Matrix["n", "n", "head"],  # noqa: E741
        v: tp.Vector,
    ):
        x = activation(L.linear(ξ, U))
        seen = tp.sum(tp.constant(ζ, axes=("head", "token", "key")) * (V @ x).rename(token="key"), over="key")
        return v * tp.sum(O @ seen, over="head") / tp.sqrt(len(ζ))

    return net


def convolution(activation=tp.relu):
    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
        x = activation(L.linear(ξ, U))
        y = L.conv1d(x, W, over={"token": PLACES}, taps={"tap": TAPS}, padding="CIRCULAR")
        return v * y / tp.sqrt(TAPS)

    return net


def coefficients(network):
    """C with K_ab = Σ_ij C_abij κ̃_ij: kernels of inputs whose block κ̃ is 1 at (i, j) alone."""
    X = np.eye(PLACES)[None]
    Y = np.zeros((PLACES,) * 4)
    for i, j in np.ndindex(PLACES, PLACES):
        Y[i, j, i, j] = 1  # token j of x′ is token i of x
    found = tp.derive(network, tp.Kernels(train=())).evaluate(X, Y.reshape(-1, PLACES, PLACES)).nngp
    return found.reshape((PLACES,) * 4).transpose(2, 3, 0, 1)


def linear(x):
    return x


def test_proposition_2_one_set_of_weights_is_no_convolution():
    of_convolution, rank = coefficients(convolution(linear)), np.linalg.matrix_rank
    assert (rank(of_convolution) == TAPS).all()
    for seed in range(3):
        ζ = draw(seed, 1, PLACES, PLACES)
        C = coefficients(heads(ζ, linear))
        np.testing.assert_allclose(C, np.einsum("ai,bj->abij", ζ[0], ζ[0]), atol=1e-14)
        assert (rank(C) == 1).all()
        off = np.linalg.norm(C - of_convolution, axis=(2, 3)) / np.linalg.norm(of_convolution, axis=(2, 3))
        assert (off >= np.sqrt(1 - 1 / TAPS) - 1e-12).all()
    one_tap = coefficients(heads(ONE_HOT[:1], linear))  # a convolution with one tap is such a layer
    np.testing.assert_array_equal(one_tap, np.einsum("ai,bj->abij", ONE_HOT[0], ONE_HOT[0]))


def test_proposition_4_heads_that_look_at_one_tap_are_a_convolution():
    X, conv = draw(0, 3, 2, PLACES), tp.derive(convolution(), tp.Kernels())
    wanted, own = conv.evaluate(X), conv.contribution("W").evaluate(X).ntk
    found = tp.derive(heads(ONE_HOT), tp.Kernels()).evaluate(X)
    np.testing.assert_allclose(found.nngp, wanted.nngp, rtol=1e-13)
    np.testing.assert_allclose(found.ntk, wanted.ntk + own, rtol=1e-13)  # O and V in the place of W
    frozen = tp.derive(heads(ONE_HOT), tp.Kernels(train=("U", "O", "v"))).evaluate(X)
    np.testing.assert_allclose(frozen.ntk, wanted.ntk, rtol=1e-13)


@pytest.mark.sampling
def test_networks_of_finite_width_agree_and_reject_taps_drawn_for_each_place(seed):
    X = draw(1, 1, 2, PLACES)
    taps = np.stack(np.meshgrid(*[np.arange(TAPS)] * PLACES, indexing="ij"), axis=-1).reshape(-1, PLACES)
    apart = np.eye(PLACES)[READS[taps, np.arange(PLACES)]]  # every choice of a tap for each place, a head each
    wrong = tp.derive(heads(apart), tp.Kernels(train=())).evaluate(X).nngp
    right = tp.derive(convolution(), tp.Kernels(train=())).evaluate(X).nngp
    np.testing.assert_allclose(*(np.einsum("iiaa->ia", K) for K in (wrong, right)), rtol=1e-12)
    how = {"train": (), "widths": (16, 32, 64), "draws": (900, 600, 400), "seed": seed, "level": 1e-3}
    assert check_kernels(heads(ONE_HOT), X, None, right, **how).accepted
    assert not check_kernels(heads(ONE_HOT), X, None, wrong, **how).accepted


# -- encodings and lengths --------------------------------------------------------------------------------

TOKENS = 3
FACTOR = np.linalg.cholesky(np.exp(-3 * (np.arange(TOKENS)[:, None] / TOKENS - np.arange(TOKENS) / TOKENS) ** 2))
r = tp.width("m") / tp.n


def encoding(E):
    return tp.sum(tp.constant(FACTOR, axes=("token", "source")) * E, over="source")


@tp.network
def appended(
    ξ: tp.Input["d", "token"],
    U: tp.Vector["d"],
    E: tp.Vector["source", "m"],
    Q: tp.Matrix,
    QE: tp.Matrix["n", "m"],
    V: tp.Matrix,
    VE: tp.Matrix["n", "m"],
    v: tp.Vector,
):
    g, code = tp.relu(L.linear(ξ, U)), encoding(E)
    q, values = (tp.sqrt(1 / (1 + r)) * (A @ g) + tp.sqrt(r / (1 + r)) * (B @ code) for A, B in ((Q, QE), (V, VE)))
    return v * L.attention(q, q, values)


@tp.network
def added(
    ξ: tp.Input["d", "token"],
    U: tp.Vector["d"],
    E: tp.Vector["source"],
    Q: tp.Matrix,
    V: tp.Matrix,
    v: tp.Vector,
    *,
    α,
):
    g = tp.sqrt(α) * tp.relu(L.linear(ξ, U)) + tp.sqrt(1 - α) * encoding(E)
    q = Q @ g
    return v * L.attention(q, q, V @ g)


def sized(network):
    return tp.derive(network.bind(source=TOKENS), tp.Kernels())


@pytest.mark.parametrize("ratio", [0.25, 1.0, 3.0])
def test_appended_encodings_are_added_ones(ratio):
    X = draw(2, 3, 2, TOKENS)
    found, wanted = sized(appended).evaluate(X, ratios={"m": ratio}), sized(added).evaluate(X, α=1 / (1 + ratio))
    np.testing.assert_allclose(found.nngp, wanted.nngp, rtol=1e-12)
    np.testing.assert_allclose(found.ntk, wanted.ntk, rtol=1e-12)


@pytest.mark.long
@pytest.mark.sampling
def test_networks_with_appended_encodings_have_the_share_of_the_features(seed):
    X = draw(2, 1, 2, TOKENS)
    right, wrong = (dict(zip(("nngp", "ntk"), sized(added).evaluate(X, α=α), strict=True)) for α in (0.8, 0.2))
    network = appended.bind(source=TOKENS)
    how = {"ratios": {"m": 0.25}, "widths": (16, 32, 64), "draws": (900, 600, 400), "seed": seed, "level": 1e-3}
    assert check_kernels(network, X, claims=right, **how).accepted
    assert not check_kernels(network, X, claims=wrong, **how).accepted


@tp.network
def strings(
    ξ: tp.Input["d", "token"],
    c: tp.Input["token", "term"],
    m: tp.Input["token"],
    U: tp.Vector["d"],
    E: tp.Vector["term"],
    Q: tp.Matrix,
    V: tp.Matrix,
    v: tp.Vector,
):
    """Attention that sees relative positions in queries and keys, and the mean of each string."""
    g = L.linear(ξ, U)
    q = Q @ (g + tp.sum(c * E, over="term"))
    y = L.attention(q, q, V @ g, mask=m)
    return v * tp.sum(m * y, over="token") / tp.sum(m, over="token")


def relative(s):
    """Encodings of s positions a/s, with covariance exp(−φ (t − t′)²) between those of any two strings: φ = 1/2."""
    t, rows = np.arange(1, s + 1) / s, []
    for k in range(16):
        rows.append(np.exp(-(t**2) / 2) * t**k / np.sqrt(float(np.prod(np.arange(1, k + 1)))))
    return np.stack(rows, axis=1)


def block(x, y):
    """NNGP and NTK of strings (d, s) and (d, s′) as they are."""
    ζ = []
    for z in (x, y):
        s = z.shape[1]
        t = np.arange(1, s + 1) / s
        e = np.exp(z.T @ z + np.exp(-((t[:, None] - t) ** 2) / 2))
        ζ.append(e / e.sum(axis=1, keepdims=True))
    nngp = (ζ[0] @ (x.T @ y) @ ζ[1].T).mean()
    return nngp, 3 * nngp  # v, V, U: queries, keys and encodings do not count


@pytest.mark.parametrize("fill", [0.0, 7.0])
@pytest.mark.parametrize("most", [6, 8])
def test_strings_of_unequal_length_are_padded_without_a_trace(fill, most):
    lengths = (2, 6, 5)
    texts = [draw(10 + s, 2, s) / 2 for s in lengths]
    ξ, c, m = np.full((3, 2, most), fill), np.full((3, most, 16), fill), np.zeros((3, most))
    for i, (s, text) in enumerate(zip(lengths, texts, strict=True)):
        ξ[i, :, :s], c[i, :s], m[i, :s] = text, relative(s), 1
    wanted = np.array([[block(x, y) for y in texts] for x in texts])
    found = tp.derive(strings, tp.Kernels(train=("U", "Q", "V", "v"))).evaluate({"ξ": ξ, "c": c, "m": m})
    np.testing.assert_allclose(found.nngp, wanted[..., 0], rtol=1e-12)
    np.testing.assert_allclose(found.ntk, wanted[..., 1], rtol=1e-12)
    seen = tp.derive(strings, tp.Kernels(train=())).evaluate({"ξ": ξ, "c": c, "m": np.ones_like(m)}).nngp
    assert np.abs(seen / wanted[..., 0] - 1).max() > 0.01
