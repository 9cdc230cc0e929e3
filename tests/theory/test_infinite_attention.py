"""Formulas printed in Hron et al. 2020 (arXiv:2006.10540) that finite networks contradict, and what holds instead.

Networks are plain NumPy with gradients by hand, in the NTK parametrisation: matrices have N(0, 1/n) entries and their
inner products of gradients are divided by n.  A claim is compared with the mean over networks: within four standard
errors plus 2 % for the finite width if it is right, ten standard errors away if it is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytestmark = pytest.mark.sampling

Array = np.ndarray
WIDTH, SLACK = 200, 0.02


def holds(draws: Array, claim: Array) -> bool:
    """Whether the mean of the draws is the claim, entry by entry."""
    error = draws.std(axis=0) / len(draws) ** 0.5
    return bool((np.abs(draws.mean(axis=0) - claim) <= 4 * error + SLACK * np.abs(claim)).all())


def refuted(draws: Array, claim: Array) -> bool:
    """Whether some entry is ten standard errors away, and more than the slack."""
    error = draws.std(axis=0) / len(draws) ** 0.5
    return bool((np.abs(draws.mean(axis=0) - claim) > 10 * error + SLACK * np.abs(claim)).any())


def matrices(rng: np.random.Generator, count: int, n: int = WIDTH) -> Array:
    return rng.standard_normal((count, n, n)) / n**0.5


# -- LayerNorm ----------------------------------------------------------------------------------------


def normalised(h: Array) -> tuple[Array, Array]:
    """LayerNorm of the rows, and their standard deviations."""
    centred = h - h.mean(axis=-1, keepdims=True)
    sd = np.sqrt((centred**2).mean(axis=-1, keepdims=True))
    return centred / sd, sd


def layer_norm_network(rng: np.random.Generator, ξ: Array) -> tuple[Array, Array]:
    """Kernels of LayerNorm(W relu(U ξ)) for the rows of ξ: of the features, and of their gradients in U and W."""
    n, d = WIDTH, ξ.shape[1]
    U, W, v = rng.standard_normal((n, d)), matrices(rng, 1)[0], rng.standard_normal(n)
    a = ξ @ U.T / d**0.5
    x = np.maximum(a, 0)
    y, sd = normalised(x @ W.T)
    δy = v[None, :]
    δh = (δy - δy.mean(axis=-1, keepdims=True) - y * (δy * y).mean(axis=-1, keepdims=True)) / sd
    δa = (a > 0) * (δh @ W)
    ntk = (δh @ δh.T / n) * (x @ x.T / n) + (δa @ δa.T / n) * (ξ @ ξ.T / d)
    return y @ y.T / n, ntk


def relu_moments(K: Array) -> tuple[Array, Array]:
    """The arc-cosine kernels of order 1 and 0."""
    s = np.sqrt(np.diag(K))
    θ = np.arccos(np.clip(K / np.outer(s, s), -1, 1))
    return np.outer(s, s) / (2 * np.pi) * (np.sin(θ) + (np.pi - θ) * np.cos(θ)), (np.pi - θ) / (2 * np.pi)


def test_layer_norm_divides_by_variances_of_its_input():
    """Table 1 divides the tangent kernel by tangent kernels, and one variance is printed for the pair (x, x′)."""
    rng = np.random.default_rng(1)
    ξ = np.array([[1.0, 0.5, -1.0, 0.25], [1.5, 2.0, 0.5, -0.5]])
    K0 = ξ @ ξ.T / 4
    K, D = relu_moments(K0)  # the layer W relu(·) has NNGP K and tangent kernel T
    T = K + D * K0
    k, t = np.diag(K), np.diag(T)
    nngp, ntk = (np.array(m) for m in zip(*(layer_norm_network(rng, ξ) for _ in range(300)), strict=True))
    assert holds(nngp, K / np.sqrt(np.outer(k, k)))
    assert refuted(nngp, K / np.sqrt(k[:, None] * K))  # κ_aa of (x, x), κ_bb of (x, x′)
    assert holds(ntk, T / np.sqrt(np.outer(k, k)))
    assert refuted(ntk, T / np.sqrt(np.outer(t, t)))


# -- attention at 1/d -----------------------------------------------------------------------------------


def softmax(G: Array) -> Array:
    e = np.exp(G - G.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_back(A: Array, δA: Array) -> Array:
    return A * (δA - (δA * A).sum(axis=-1, keepdims=True))


IDENTITY = (lambda G: G, lambda A, δA: δA)
SOFTMAX = (softmax, softmax_back)


def attention(
    W: Array, seen: Array, values: Array, δ: Array, weights: tuple[Callable, Callable]
) -> tuple[Array, Array, Array, float]:
    """Output, gradients in what queries and keys see and in the values, and the squared gradient in the matrices.

    W[0] makes queries and keys, W[1] values, W[2] stands after them; logits q·k/n; δ is the gradient of the output.
    """
    n = W.shape[-1]
    q, u = seen @ W[0].T, values @ W[1].T
    A = weights[0](q @ q.T / n)
    o = A @ u
    δo = δ @ W[2]
    δG, δu = weights[1](A, δo @ u.T), A.T @ δo
    δq = (δG + δG.T) @ q / n
    pairs = ((δ, o), (δu, values), (δq, seen))
    squared = sum(float(((g @ g.T) * (x @ x.T)).sum()) for g, x in pairs) / n
    return o @ W[2].T, δq @ W[0], δu @ W[1], squared


def decay(s: int) -> Array:
    at = np.arange(s) / s
    return np.exp(-3 * (at[:, None] - at[None, :]) ** 2)


def test_residual_attention_counts_its_branch_twice():
    """Table 1 has 2(1 − α)κ with κ the kernel of the sum; the branch's own matrices see the branch alone."""
    rng, α, s, d, a = np.random.default_rng(2), 0.65, 3, 5, 1
    ξ, R = rng.standard_normal((s, d)), decay(s)
    K = ξ @ ξ.T / d
    branch = R @ K @ R.T
    κ = α * K + (1 - α) * branch
    L = np.linalg.cholesky(R)

    def draw() -> float:
        """The squared gradient of n^(−1/2) v·f_a in everything but v and the encoding."""
        x, E = ξ @ rng.standard_normal((d, WIDTH)) / d**0.5, L @ rng.standard_normal((s, WIDTH))
        δ = np.zeros((s, WIDTH))
        δ[a] = rng.standard_normal(WIDTH) / WIDTH**0.5
        W = matrices(rng, 3)
        _, _, δvalues, squared = attention(W, E, x, (1 - α) ** 0.5 * δ, IDENTITY)
        δx = α**0.5 * δ + δvalues
        return squared + float(((δx @ δx.T) * K).sum())

    draws = np.array([draw() for _ in range(400)])
    through = α * K + (1 - α) * branch  # what is trained before, T = K
    assert holds(draws, (2 * (1 - α) * branch + through)[a, a])
    assert refuted(draws, (2 * (1 - α) * κ + through)[a, a])


@pytest.mark.parametrize("factor", (False, True))
def test_tangent_kernel_of_trained_positions(factor):
    """E trained itself adds S = I (appendix C.2), E = L Ẽ with Ẽ trained adds S = R (Table 1)."""
    rng, α, s, d, a = np.random.default_rng(3 + factor), 0.6, 3, 5, 0
    ξ, R = rng.standard_normal((s, d)), decay(s)
    L = np.linalg.cholesky(R)
    P = α * ξ @ ξ.T / d + (1 - α) * R
    A = softmax(P)

    def draw() -> float:
        """The squared gradient of n^(−1/2) v·f_a in the encoding."""
        x, E = ξ @ rng.standard_normal((d, WIDTH)) / d**0.5, L @ rng.standard_normal((s, WIDTH))
        y = α**0.5 * x + (1 - α) ** 0.5 * E
        δ = np.zeros((s, WIDTH))
        δ[a] = rng.standard_normal(WIDTH) / WIDTH**0.5
        _, δseen, δvalues, _ = attention(matrices(rng, 3), y, y, δ, SOFTMAX)
        δE = (1 - α) ** 0.5 * (δseen + δvalues)
        δE = L.T @ δE if factor else δE
        return float((δE**2).sum())

    draws = np.array([draw() for _ in range(400)])
    with_R, with_I = ((1 - α) * (A @ S @ A.T)[a, a] for S in (R, np.eye(s)))
    right, wrong = (with_R, with_I) if factor else (with_I, with_R)
    assert holds(draws, right)
    assert refuted(draws, wrong)


# -- attention at 1/√d ----------------------------------------------------------------------------------


@pytest.mark.long
def test_the_factor_of_identity_attention_survives_layer_norm():
    """Section 4.2.1: the scalar ‖κ‖² is said to go away; it does for one input, not for a pair."""
    rng, n, H, k, s = np.random.default_rng(5), 100, 100, 100, 2
    X = rng.standard_normal((2, s, 3))
    K = np.einsum("iad,jbd->iajb", X, X) / 3
    frobenius = np.sqrt((K**2).sum(axis=(1, 3)))
    plain = K[0, :, 1] / np.sqrt(np.outer(np.diag(K[0, :, 0]), np.diag(K[1, :, 1])))
    surviving = plain * frobenius[0, 1] ** 2 / (frobenius[0, 0] * frobenius[1, 1])
    # layer inputs whose Gram matrix is K exactly
    basis = np.linalg.qr(rng.standard_normal((n, 3)))[0] * n**0.5
    g = X @ basis.T / 3**0.5

    def draw() -> Array:
        f = np.zeros((2, s, n))
        for _ in range(H):
            Q, M = rng.standard_normal((2, k, n)) / n**0.5
            to_value, back = rng.standard_normal(n) / n**0.5, rng.standard_normal(n) / H**0.5  # values of width 1
            G = (g @ Q.T) @ (g @ M.T).transpose(0, 2, 1) / k**0.5
            f += np.einsum("iab,ib->ia", G, g @ to_value)[:, :, None] * back
        y, _ = normalised(f)
        return y[0] @ y[1].T / n

    draws = np.array([draw() for _ in range(60)])
    assert holds(draws, surviving)
    assert refuted(draws, plain)
