"""Heads whose logits stay random, with masks: kernels as means over draws of a sampler of its own, and finite width."""

import numpy as np
import place_recursion as by_hand
import pytest
from checks import check_kernels

import tplimits as tp

L = tp.layers
TOKENS = np.random.default_rng(7).standard_normal((2, 2, 3)) * [0.3, 1.6, 0.5] / 2**0.5
SEEN = np.array([[1, 1, 1.0], [1, 1, 0]])


@tp.network
def drawn_heads(
    ξ: tp.Input["d", "token"],
    m: tp.Input["token"],
    U: tp.Vector["d"],
    Q: tp.Matrix["n", "n", "head"],
    P: tp.Matrix["n", "n", "head"],
    V: tp.Matrix["n", "n", "head"],
    O: tp.Matrix["n", "n", "head"],  # noqa: E741
    v: tp.Vector,
):
    x = tp.relu(L.linear(ξ, U))
    y = L.attention(L.linear(x, Q), L.linear(x, P), L.linear(x, V), mask=m, scale=tp.sqrt(tp.n))
    y = tp.sum(L.linear(y, O), over="head") / tp.sqrt(tp.size("head"))
    return v * tp.sum(m * y, over="token") / tp.sum(m, over="token")


def of_draws(seen: np.ndarray, many: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Draws of K and Θ (2, draws, i, j): logits G_ab = L_a Z L_bᵀ, L Lᵀ the features' kernel, one Z for both inputs."""
    x = by_hand.data(TOKENS).through([[(0, t)] for t in range(3)], 1.0).relu()
    values, vectors = np.linalg.eigh(x.K.reshape(6, 6))
    rows = (vectors * np.sqrt(np.maximum(values, 0))).reshape(2, 3, 6)
    Z = np.random.default_rng(1).standard_normal((many, 6, 6))
    e = np.exp(np.einsum("iar,zrs,ibs->ziab", rows, Z, rows)) * seen[:, None, :]
    z = e / e.sum(axis=-1, keepdims=True)
    mean = SEEN / SEEN.sum(axis=1, keepdims=True)
    found = np.zeros((2, many, 2, 2))
    for i, j in np.ndindex(2, 2):
        K, T, left, right = x.K[i, :, j], x.T[i, :, j], z[:, i], np.swapaxes(z[:, j], 1, 2)

        def both(A: np.ndarray, M: np.ndarray, left=left, right=right) -> np.ndarray:
            """Σ A_ce M_df ∂z_ac/∂G_ad ∂z_be/∂G_bf, with ∂z_c/∂G_d = z_c (δ_cd − z_d)."""
            sides = left @ (A * M) @ right + (left @ A @ right) * (left @ M @ right)
            return sides - ((left @ A) * (left @ M)) @ right - left @ ((A @ right) * (M @ right))

        κ = left @ K @ right
        through = left @ T @ right + (2 * K + T) * both(K, K) + K * both(K, T)
        for kernel, entries in enumerate((κ, 3 * κ + through)):
            found[kernel, :, i, j] = np.einsum("a,zab,b->z", mean[i], entries, mean[j])
    return found[0], found[1]


@pytest.mark.long
def test_drawn_logits_with_masks_against_a_sampler_of_its_own():
    limit = tp.derive(drawn_heads, tp.Kernels(infinite=("head",)))
    found = limit.evaluate({"ξ": TOKENS, "m": SEEN}, draws=4096, replicates=32)
    for value, error, draws in zip(found, (found.nngp_error, found.ntk_error), of_draws(SEEN), strict=True):
        off = np.abs(value - draws.mean(axis=0)) / np.hypot(error, draws.std(axis=0) / len(draws) ** 0.5)
        assert off.max() < 4.5, off
        assert (np.hypot(error, draws.std(axis=0) / len(draws) ** 0.5) < 0.02 * value).all()


@pytest.mark.long
@pytest.mark.sampling
def test_networks_with_four_heads_accept_them_and_reject_heads_that_see_padding(seed):
    how = {"given": {"head": 4}, "widths": (12, 24, 48), "draws": (500, 300, 200), "seed": seed, "level": 1e-3}
    data = {"ξ": TOKENS, "m": SEEN}
    for seen, accepted in ((SEEN, True), (np.ones((2, 3)), False)):
        draws = of_draws(seen)
        stated = {
            name: (d.mean(axis=0), d.std(axis=0) / len(d) ** 0.5)
            for name, d in zip(("nngp", "ntk"), draws, strict=True)
        }
        verdict = check_kernels(drawn_heads, data, claims=stated, **how)
        assert verdict.accepted == accepted, verdict
