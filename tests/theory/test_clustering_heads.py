"""Odonnat, Bouaziz & Cabannes, Clustering Head: gradients, stationary points, bounds, and the networks as they widen.

The oracle is `tests/support/clustering_heads.py`, plain NumPy.  Tolerances stand beside what they were found to be.
"""

import math

import clustering_heads as by_hand
import numpy as np
import pytest

L, K = 12, 5
X = by_hand.every_sequence(2, L)
Y = by_hand.target(X, 2, K)


def models(count, dimensions=(2, 3, 8), vocabularies=(2, 3), h=16):
    """Random models without biases, at one random input each."""
    rng = np.random.default_rng(0)
    for i in range(count):
        d, p = dimensions[i % len(dimensions)], vocabularies[i % len(vocabularies)]
        θ = by_hand.pytorch_draw(rng, d, h, p, L)
        yield by_hand.without(θ, "b", "c"), rng.integers(0, p, (8, L)), p


# -- the oracle itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "vocab", "m", "radius"), [(2, 2, 1.0, 1.0), (3, 3, 0.25, math.sqrt(3))])
def test_the_oracle_differentiates(d, vocab, m, radius):
    rng = np.random.default_rng(1)
    θ = by_hand.pytorch_draw(rng, d, 8, vocab, L)
    x = rng.integers(0, vocab, (20, L))
    y = by_hand.target(x, vocab, K)
    _, g = by_hand.loss_gradient(θ, x, y, m, radius)
    for name, value in θ.items():
        way, ε = rng.standard_normal(value.shape), 1e-5
        ends = [by_hand.loss_gradient({**θ, name: value + s * ε * way}, x, y, m, radius)[0] for s in (1, -1)]
        by_differences = (ends[0] - ends[1]) / (2 * ε)
        found = (g[name] * way).sum() * (m if name in by_hand.OF_NEURONS else 1)
        assert abs(by_differences - found) < 1e-7 * max(1, abs(found)), name


# -- (1) clusters ----------------------------------------------------------------------------------------


def distinct(ξ, digits=9):
    return len(np.unique(np.round(ξ, digits), axis=0))


def test_finite_weights_can_make_an_exact_head_of_six_clusters():
    θ = by_hand.exact_head()
    run = by_hand.forward({**θ, "w": np.zeros((1, 2)), "b": np.zeros(1), "u": np.zeros((1, 2))}, X)
    assert distinct(run.ξ) == math.comb(K + 2 - 1, K) == 6
    angles = np.unique(np.round(np.degrees(np.arctan2(run.ξ[:, 1], run.ξ[:, 0])), 1))
    assert angles.tolist() == [42.3, 55.1, 73.4, 95.8, 116.6, 132.0]
    mass = run.attention.reshape(-1, 2, L).sum(axis=1)[:, :K].sum(axis=1)
    assert mass[0] == pytest.approx(0.935, abs=5e-4)
    # the wrong twin: suffixes count as soon as E(0) + P(t) leaves the line through E(1) − E(0)
    off = {**θ, "P": θ["P"] + np.where(np.arange(L)[:, None] == 7, [0.0, 0.1], 0.0)}
    run = by_hand.forward({**off, "w": np.zeros((1, 2)), "b": np.zeros(1), "u": np.zeros((1, 2))}, X)
    assert distinct(run.ξ) == 12


def test_positions_that_coincide_give_permutation_invariance_whatever_follows():
    rng = np.random.default_rng(3)
    θ = by_hand.pytorch_draw(rng, 2, 16, 2, L)
    θ["P"][:K] = θ["P"][0]
    swapped = X.copy()
    swapped[:, [0, 3, 4]] = X[:, [4, 0, 3]]
    same = by_hand.forward(θ, X).ζ - by_hand.forward(θ, swapped).ζ
    assert abs(same).max() < 1e-12
    θ["P"][0] += 0.1
    assert abs(by_hand.forward(θ, X).ζ - by_hand.forward(θ, swapped).ζ).max() > 1e-3


# -- (2) gradients, (3) bounds ---------------------------------------------------------------------------


def of_one_logit(θ, x, j):
    run = by_hand.forward(θ, x[None])
    G = np.zeros_like(run.ζ)
    G[0, j] = 1
    return by_hand.backward(θ, run, G)


def test_the_closed_form_of_the_gradients():
    worst = wrong = 0.0
    for θ, x, p in models(60):
        lemma = by_hand.Lemma(θ, x[0])
        assert np.allclose(lemma.logits, by_hand.forward(θ, x[:1]).ζ[0], rtol=1e-12)
        for j in range(p):
            g = of_one_logit(θ, x[0], j)
            for name, found in lemma.of_logit(θ["E"][j]).items():
                worst = max(worst, abs(found - g[name]).max() / abs(g[name]).max())
            # the wrong twin: no gradient through the norm, Q = 0
            straight = np.outer(θ["E"][j], lemma.z @ lemma.s)
            wrong = max(wrong, abs(straight - g["V"]).max() / abs(g["V"]).max())
    assert worst < 1e-10  # found 3e-13
    assert wrong > 1e-2


def test_the_query_sees_a_covariance_of_tokens():
    for θ, x, _ in models(6):
        lemma = by_hand.Lemma(θ, x[0])
        z, s, d = lemma.z, lemma.s, len(lemma.ξ)
        covariance = (z * s) @ z.T - np.outer(z @ s, z @ s)
        e = θ["E"][0]
        wanted = covariance @ θ["V"].T @ (np.eye(d) + lemma.Q.T) @ e / np.sqrt(d)
        assert np.allclose(lemma.of_logit(e)["q"], wanted, rtol=1e-10, atol=1e-14)


def norms(θ):
    return {name: np.linalg.norm(θ[name], 2) for name in "Vwu"}


def bounds(θ, x, y):
    """(gradients, the bound as printed, the bound that holds): squares of norms, parameter by parameter for the last."""
    d, p = θ["E"].shape[1], len(θ["E"])
    run = by_hand.forward(θ, x)
    off = run.probabilities - np.eye(p)[y]
    _, g = by_hand.loss_gradient(θ, x, y)
    op, B = norms(θ), abs(θ["E"]).max()
    variation = abs(off).sum(axis=1).mean() / 2
    query = 2 * L * math.sqrt(d) * op["V"] * (1 + math.sqrt(2 / math.pi) * op["w"] ** 2 * op["u"])
    others = d * (1 + 2 * op["w"] * op["u"]) ** 2 + 4 * op["u"] ** 2 + op["w"] ** 2
    printed = 4 * d * B**2 * (query**2 + others) * variation
    C = np.linalg.norm(off @ θ["E"], axis=1)
    κ = by_hand.gelu_slope(np.array(math.sqrt(2)))
    a = 1 + κ * op["u"] * op["w"] / np.linalg.norm(run.ξ, axis=1)
    corrected = {
        "q": op["V"] / math.sqrt(d) * (a * C).mean(),
        "V": (a * C).mean(),
        "w": κ * op["u"] * C.mean(),
        "u": op["w"] * C.mean(),
    }
    return {name: np.linalg.norm(g[name]) for name in corrected}, printed, corrected


def test_the_printed_bound_fails_where_the_norm_is_steep_and_the_corrected_one_holds():
    rng = np.random.default_rng(0)
    θ = by_hand.without(by_hand.pytorch_draw(rng, 2, 32, 2, L), "b", "c")
    printed_ratios = []
    for shrink in (1, 1e-1, 1e-2, 1e-3, 1e-4):
        small = {**θ, "V": θ["V"] * shrink}
        g, printed, corrected = bounds(small, X, Y)
        printed_ratios.append(sum(v**2 for v in g.values()) / printed)
        assert all(g[name] <= corrected[name] for name in g)
    assert printed_ratios[0] < 1e-2
    assert printed_ratios[-1] > 1.5, printed_ratios
    assert all(np.diff(np.log(printed_ratios)) > 0)


def test_the_corrected_bound_holds_for_random_models():
    worst = 0.0
    for i, (θ, x, p) in enumerate(models(120)):
        small = {**θ, "V": θ["V"] * 10.0 ** -(i % 5)}
        g, _, corrected = bounds(small, x, by_hand.target(x, p, K))
        worst = max(worst, max(g[name] / corrected[name] for name in g))
    assert 0.3 < worst <= 1  # found 0.73: not vacuous
    slopes = by_hand.gelu_slope(np.linspace(-10, 10, 200_001))
    assert slopes.max() <= by_hand.gelu_slope(np.array(math.sqrt(2))) < 1.129


# -- stationary points -----------------------------------------------------------------------------------


def test_heads_are_stationary_as_logits_grow_and_only_then():
    """C_x → 0 with the margin of the logits, and the gradient with it; at finite logits it does not vanish."""
    θ = by_hand.exact_head(24)
    rng = np.random.default_rng(2)
    θ |= {"w": rng.uniform(-6, 6, (24, 2)), "b": rng.uniform(-3, 3, 24)}
    counts = X[:, :K].sum(axis=1)
    first = np.array([np.flatnonzero(counts == c)[0] for c in range(K + 1)])
    run = by_hand.forward(θ, X[first])
    want = np.where(np.arange(K + 1)[:, None] % 2, [1.0, 0.0], [-1.0, 0.0])  # E(y) for every count
    norms, discrepancies = [], []
    for size in (2.0, 4.0, 8.0, 16.0):
        θ["u"] = np.linalg.lstsq(run.act, size * want - run.ξ, rcond=None)[0]
        whole = by_hand.forward(θ, X)
        assert whole.accuracy(Y) == 1
        off = whole.probabilities - np.eye(2)[Y]
        _, g = by_hand.loss_gradient(θ, X, Y)
        norms.append(math.sqrt(sum((g[name] ** 2).sum() for name in "qVwu")))
        discrepancies.append(np.linalg.norm(off @ θ["E"], axis=1).max())
    assert all(n > 0 for n in norms)
    assert discrepancies[-1] < 1e-12 and norms[-1] < 1e-10
    assert all(np.diff(np.log(norms)) < -1)


# -- (4) the standard parametrisation diverges -------------------------------------------------------------


def change_of_one_step(h, base=None, seeds=4):
    """Root mean square change of ψ by one Adam step, networks of width h; base None is the parametrisation as published."""
    moved = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        θ = by_hand.pytorch_draw(rng, 2, h, 2, L)
        m = 1.0
        if base is not None:
            m = base / h
            θ["u"] *= math.sqrt(h / base)  # uniform at ±h₀^(−1/2)
        x = X[rng.integers(0, len(X), 64)]
        y = by_hand.target(x, 2, K)
        first, last = by_hand.train(θ, x, y, by_hand.Adam(3e-3), 1, m)
        moved.append(((by_hand.forward(last, x, m).ψ - by_hand.forward(first, x, m).ψ) ** 2).mean())
    return math.sqrt(np.mean(moved))


def test_one_step_of_the_standard_parametrisation_grows_like_the_width_and_of_mup_does_not():
    widths = (512, 2048, 8192)
    standard = [change_of_one_step(h) for h in widths]
    maximal = [change_of_one_step(h, base=32) for h in widths]
    slope = np.polyfit(np.log(widths), np.log(standard), 1)[0]
    assert slope > 0.8, standard
    assert abs(np.polyfit(np.log(widths), np.log(maximal), 1)[0]) < 0.1, maximal
    assert change_of_one_step(32) == pytest.approx(change_of_one_step(32, base=32), rel=1e-12)
