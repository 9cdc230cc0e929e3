"""Linear layers, embeddings, norms and attention at width 64, against NumPy."""

import numpy as np
import pytest

import tplimits as tp

L = tp.layers
N = 64


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def draw(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s) for s in shapes]


def test_linear():
    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, c: tp.Vector["token"]):
        return L.linear(L.linear(ξ, U, c), W, b)

    ξ, U, W, b, c = draw((3, 5), (3, N), (N, N), (N,), (5, N))
    close(net.run(n=N, ξ=ξ, U=U, W=W, b=b, c=c)["return"], (ξ.T @ U + c) @ W.T + b)


def test_linear_of_all_axes_and_of_a_transpose():
    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d", "token"], W: tp.Matrix):
        return L.linear(L.linear(ξ, U), W.T)

    ξ, U, W = draw((3, 5), (3, 5, N), (N, N))
    close(net.run(n=N, ξ=ξ, U=U, W=W)["return"], np.einsum("dt,dta->a", ξ, U) @ W)


@pytest.mark.parametrize("kind", [tp.Vector, tp.Scalar])
def test_embedding(kind):
    @tp.network
    def net(x: tp.Input["token"].of("vocab"), E: kind["vocab", "d"], v: tp.Vector["d"]):
        return tp.sum(v * L.embedding(x, E), over="d")

    x = np.array([2, 0, 2, 1])
    E, v = draw((3, 2, N) if kind is tp.Vector else (3, 2), (2, N))
    rows = E[x] if kind is tp.Vector else E[x][:, :, None]
    close(net.run(n=N, x=x, E=E, v=v)["return"], (rows * v).sum(axis=1))


@pytest.mark.parametrize("eps", [0, 0.25])
def test_norms(eps):
    @tp.program
    def net(x: tp.Vector["token"], g: tp.Vector, b: tp.Vector):
        return L.layer_norm(x, g, b, eps=eps), L.rms_norm(x, g, b, eps=eps), L.layer_norm(x), L.rms_norm(x)

    x, g, b = draw((5, N), (N,), (N,))
    centred = x - x.mean(axis=1, keepdims=True)
    deviation, root = (np.sqrt((y**2).mean(axis=1, keepdims=True) + eps) for y in (centred, x))
    ran = net.run(n=N, x=x, g=g, b=b)
    layer, rms, *_ = found = [ran[f"return[{i}]"] for i in range(4)]
    close(layer, g * centred / deviation + b)
    close(rms, g * x / root + b)
    if eps == 0:
        close(found[2], centred / deviation)
        close(found[3], x / root)


def weights(logits, mask=1.0):
    e = np.exp(logits) * mask
    return e / e.sum(axis=-1, keepdims=True)


MASK = np.tril(np.ones((5, 5)))


@pytest.mark.parametrize("mask", [None, MASK], ids=["open", "causal"])
@pytest.mark.parametrize("root", [False, True])
def test_attention_with_heads(mask, root):
    @tp.program
    def net(
        x: tp.Vector["token"],
        Q: tp.Matrix["n", "n", "head"],
        K: tp.Matrix["n", "n", "head"],
        V: tp.Matrix["n", "n", "head"],
        O: tp.Matrix["n", "n", "head"],  # noqa: E741
    ):
        y = L.attention(Q @ x, K @ x, V @ x, mask=mask, scale=tp.sqrt(tp.n) if root else 1)
        return tp.sum(O @ y, over="head")

    x, Q, K, V, out = draw((5, N), *[(3, N, N)] * 4)
    Q, K = Q / N**0.5, K / N**0.5
    wanted = np.zeros((5, N))
    for h in range(3):
        q, k, v = (x @ M[h].T for M in (Q, K, V))
        wanted += weights(q @ k.T / N ** (0.5 if root else 1), 1.0 if mask is None else mask) @ v @ out[h].T
    np.testing.assert_allclose(net.run(n=N, x=x, Q=Q, K=K, V=V, O=out)["return"], wanted, rtol=1e-12, atol=1e-10)


def test_attention_to_another_sequence_with_padding():
    @tp.network
    def net(ξ: tp.Input["d", "token"], η: tp.Input["d", "key"], m: tp.Input["key"], U: tp.Vector["d"]):
        x, y = L.linear(ξ, U), L.linear(η, U)
        return L.attention(x, y, y, mask=m)

    ξ, η, U = draw((3, 5), (3, 4), (3, N))
    x, y, m = ξ.T @ U, η.T @ U, np.array([1, 1, 0, 1.0])
    got = net.run(n=N, ξ=ξ, η=η, m=m, U=U)["return"]
    close(got, weights(x @ y.T / N, m) @ y)
    η[:, 2] = 9
    np.testing.assert_array_equal(got, net.run(n=N, ξ=ξ, η=η, m=m, U=U)["return"])


def test_a_mask_of_tokens_hides_keys():
    @tp.network
    def net(ξ: tp.Input["d", "token"], m: tp.Input["token"], U: tp.Vector["d"]):
        x = L.linear(ξ, U)
        return L.attention(x, x, x, mask=m)

    ξ, U = draw((3, 4), (3, N))
    x, m = ξ.T @ U, np.array([1, 0, 1, 1.0])
    close(net.run(n=N, ξ=ξ, m=m, U=U)["return"], weights(x @ x.T / N, m) @ x)
