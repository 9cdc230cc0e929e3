"""Functions of size 1/n of logits, with a kink, root or pole at a distance n^(−1/2): means over Gaussian S = √n Y."""

from __future__ import annotations

import bent
import numpy as np
import pytest
from bent import V
from scipy.integrate import quad
from scipy.stats import norm

import tplimits as tp

GIVEN = {"γ": 0.7, "τ0": 0.8, "ratios": {"k": 1.0}}
γ2 = 0.49
#: the deviations of S_αν
ROOT = np.sqrt(np.outer(np.diag(V), np.diag(V))) / 0.8


def root():
    return tp.sqrt(tp.n)


def drift_of(function):
    """γ² Σ_ν E[F(S_αν)] V_νβ and its mirror image."""
    means = np.vectorize(lambda σ: quad(lambda s: function(s) * norm.pdf(s / σ) / σ, -40, 40, points=(-2, 0, 1, 2))[0])
    E = means(ROOT)
    return γ2 * (E @ V + (E @ V).T)


CASES = [
    (lambda Y: Y**2 / (Y**2 + 1 / tp.n) / tp.n, lambda s: s**2 / (s**2 + 1)),
    (lambda Y: 1 / (1 + tp.n * Y**2) / tp.n, lambda s: 1 / (1 + s**2)),
    (lambda Y: tp.sqrt(Y**2 + 1 / tp.n) / root(), lambda s: np.sqrt(s**2 + 1)),
    (lambda Y: tp.sqrt(Y**2 + 1 / tp.n**2) / root(), abs),
    (lambda Y: tp.maximum(Y, 2 / root()) / root(), lambda s: max(s, 2)),
    (lambda Y: tp.minimum(Y, 2 / root()) / root(), lambda s: min(s, 2)),
    (lambda Y: tp.clip(Y, -1 / root(), 2 / root()) / root(), lambda s: min(max(s, -1), 2)),
    (lambda Y: tp.relu(Y + 1 / root()) ** 2, lambda s: max(s + 1, 0) ** 2),
    (lambda Y: tp.abs(Y - 1 / root()) / root(), lambda s: abs(s - 1)),
    (lambda Y: tp.leaky_relu(Y - 1 / root(), 0.1) / root(), lambda s: max(s - 1, 0.1 * (s - 1))),
    (lambda Y: tp.where(Y - 1 / root(), Y, 0) / root(), lambda s: s * (s > 1)),
    (lambda Y: tp.sign(Y - 1 / root()) / tp.n, lambda s: np.sign(s - 1)),
]


@pytest.mark.parametrize(("weights", "function"), CASES)
def test_means(weights, function):
    found = tp.derive(bent.attention(weights), tp.Proportional()).drift_estimate_at(V, **GIVEN)
    assert (np.abs(found.value - drift_of(function)) < 4.5 * found.error + 1e-7).all()
    assert (np.abs(found.value - drift_of(lambda s: function(s) + 0.1)) > 4.5 * found.error + 1e-3).any()


def test_products_of_two_logits():
    """E relu(S S′) = E|S| E|S′|/2 of independent S, S′."""
    block = bent.two_logits(lambda Y, Z: tp.relu(Y * Z))
    found = tp.derive(block, tp.Proportional()).drift_estimate_at(V, **GIVEN)
    E = ROOT**2 / np.pi
    # errors of eight replicates have seven degrees of freedom
    assert (np.abs(found.value - γ2 * (E @ V + (E @ V).T)) < 7 * found.error).all()
    assert (found.error < 0.05 * np.abs(found.value)).all()


def test_the_law_of_one_layer_of_real_weights():
    """n E[V′ − V] of max(Y, 2/√n)/√n at n = k = 200, W_V averaged by hand: 2 γ² Σ F + γ² F F given Q and K."""
    rng, n, draws = np.random.default_rng(2), 200, 8000
    L = np.linalg.cholesky(V)
    q, k = (L @ rng.standard_normal((draws, 3, n)) for _ in range(2))
    F = np.maximum(q @ k.transpose(0, 2, 1) / n / 0.8, 2 / np.sqrt(n)) / np.sqrt(n)
    FV = F @ V
    change = n * γ2 * (FV + FV.transpose(0, 2, 1) + FV @ F.transpose(0, 2, 1))
    error = change.std(axis=0) / np.sqrt(draws)
    sde = tp.derive(bent.attention(lambda Y: tp.maximum(Y, 2 / root()) / root()), tp.Proportional())
    smaller = γ2 * 9 * 4 / n * V.max()  # F F, of the next order
    assert (np.abs(change.mean(axis=0) - sde.drift_at(V, **GIVEN)) < 4 * error + smaller).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda Y: Y**2 / (Y**2 + 1 / tp.n) / root(), r"of order n\^\(-1/2\), where κ"),
        (lambda Y: 1 / (tp.n * Y), "has a pole at y = 0"),
        (lambda Y: tp.sign(Y - 1 / root()) / root(), "passed at random, or where V decides"),
    ],
)
def test_what_is_too_large(weights, message):
    with pytest.raises(tp.NoLimitError, match=message):
        tp.derive(bent.attention(weights), tp.Proportional())
