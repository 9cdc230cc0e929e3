"""Means of functions of several logits that grow steeply: against exact tilting and Gauss–Hermite quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import erf, expit

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 1.2]])


def weighed(function, **more):
    """x + Σ f(S) v/√n with S = √n avg(q k)."""

    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        S = tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key"))
        return x + tp.sum(function(S, **more) * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    return tp.derive(block, tp.Proportional())


def of_pairs(V, first, second=None, tilt=1.0, nodes=80):
    """Σ_νκ V_νκ E e^(c S_αν + c S_βκ) f(S_α) g(S_β), the law shifted by the covariances with the exponent."""
    x, w = hermegauss(nodes)
    grid, weight = np.stack(np.meshgrid(x, x, indexing="ij")), np.multiply.outer(w, w) / w.sum() ** 2
    found = np.zeros((2, 2))
    law = np.einsum("ac,gd->agcd", V, V)
    for α, β, ν, κ in np.ndindex(2, 2, 2, 2):
        slope = np.zeros((2, 2))
        slope[α, ν] += tilt
        slope[β, κ] += tilt
        shift, size = np.einsum("agcd,cd->ag", law, slope), np.einsum("ag,agcd,cd->", slope, law, slope)
        # what the functions read: differences D_α = S_α0 − S_α1, of covariance V_αβ (V_00 − 2 V_01 + V_11)
        rows = V[np.ix_([α, β], [α, β])] * (V[0, 0] - 2 * V[0, 1] + V[1, 1])
        values, vectors = np.linalg.eigh(rows)
        D = np.tensordot(vectors * np.sqrt(values.clip(0)), grid, 1) + (shift[:, 0] - shift[:, 1])[[α, β], None, None]
        found[α, β] += V[ν, κ] * np.exp(size / 2) * (weight * first(D[0], ν) * (second or first)(D[1], κ)).sum()
    return found


def softmax(D, key):
    return expit(D if key == 0 else -D)


def soft(S):
    return tp.exp(S) * tp.softmax(S, over="key")


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0, 3.0])
def test_exponentials_times_weights_are_drawn_where_their_means_are_made(scale):
    W = scale * V
    value, error = weighed(soft).drift_estimate_at(W)
    wanted = of_pairs(W, softmax)
    assert (np.abs(value - wanted) < 5 * error).all() and (error < 5e-3 * value).all()
    # 19155(1911) for 40388 at a scale of 2 is what draws without a shift had made of it
    assert (np.abs(value - of_pairs(W, softmax, tilt=0.97)) > 5 * error).all()


def wide(weights, V, count=1 << 19, deviation=1.7):
    """E[A V Aᵀ] with its standard error by draws of a wider law, which see far out whatever grows there."""
    G = deviation * np.random.default_rng(11).standard_normal((count, 2, 2))
    share = deviation**4 * np.exp(-(1 - deviation**-2) / 2 * (G**2).sum(axis=(1, 2)))
    L = np.linalg.cholesky(V)
    A = weights(L @ G @ L.T)
    values = share[:, None, None] * (A @ V @ np.swapaxes(A, 1, 2))
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(count)


def total(function):
    """A function of a logit and of the sum of those of its query."""
    return lambda S: function(S, tp.sum(S.rename(key="other"), over="other"))


def plain(function):
    return lambda S: function(S, S.sum(axis=-1, keepdims=True))


def shares(S):
    A = np.exp(S - S.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)


LEVELS = np.array([0.5, -1.5])
GROWING = {
    "falling": (total(lambda s, r: tp.exp(-s) * tp.tanh(r)), plain(lambda s, r: np.exp(-s) * np.tanh(r))),
    "even": (total(lambda s, r: (tp.exp(s) + tp.exp(-s)) * tp.sin(r)), plain(lambda s, r: 2 * np.cosh(s) * np.sin(r))),
    "modulus": (total(lambda s, r: tp.exp(abs(s) - r / 2)), plain(lambda s, r: np.exp(abs(s) - r / 2))),
    "rectified": (
        lambda S: tp.exp(S) * tp.relu(S) * tp.softmax(S, over="key"),
        lambda S: np.exp(S) * np.maximum(S, 0) * shares(S),
    ),
    "larger": (
        total(lambda s, r: tp.exp(tp.maximum(s, r - s))),
        plain(lambda s, r: np.exp(np.maximum(s, r - s))),
    ),
    "slopes of constants": (
        lambda S: tp.exp(tp.constant(LEVELS, axes=("key",)) * S) * tp.softmax(S, over="key"),
        lambda S: np.exp(LEVELS * S) * shares(S),
    ),
    "softened": (total(lambda s, r: tp.exp(tp.softplus(s)) * tp.erf(r)), plain(lambda s, r: (1 + np.exp(s)) * erf(r))),
    "under a root": (
        lambda S: tp.exp(tp.sqrt(1 + S**2)) * tp.softmax(S, over="key"),
        lambda S: np.exp(np.sqrt(1 + S**2)) * shares(S),
    ),
    "damped": (total(lambda s, r: tp.exp(s * tp.tanh(r))), plain(lambda s, r: np.exp(s * np.tanh(r)))),
    "over what grows": (
        total(lambda s, r: tp.exp(2 * s) / (1 + tp.exp(s) + r**2)),
        plain(lambda s, r: np.exp(2 * s) / (1 + np.exp(s) + r**2)),
    ),
    "shares": (lambda S: tp.exp(S * tp.softmax(S, over="key")), lambda S: np.exp(S * shares(S))),
    "of a share": (lambda S: S * tp.exp(tp.softmax(S, over="key")), lambda S: S * np.exp(shares(S))),
    "high powers": (lambda S: S**6 * tp.softmax(S, over="key"), lambda S: S**6 * shares(S)),
    "powers of sums": (total(lambda s, r: (s + tp.relu(r)) ** 5), plain(lambda s, r: (s + np.maximum(r, 0)) ** 5)),
    "logarithms": (
        lambda S: tp.exp(tp.log(1 + tp.sum(tp.exp(S.rename(key="other")), over="other"))) * tp.tanh(S),
        lambda S: (1 + np.exp(S).sum(axis=-1, keepdims=True)) * np.tanh(S),
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_is_met_by_draws_whatever_makes_it_grow(name):
    function, of_arrays = GROWING[name]
    W = 1.4 * V
    value, error = weighed(function).drift_estimate_at(W)
    wanted, spread = wide(of_arrays, W)
    assert (spread < 0.1 * np.abs(wanted).max()).all()
    assert (np.abs(value - wanted) < 4.5 * np.hypot(error, spread)).all()
    assert error.max() < 0.01 * np.abs(value).max()


def test_masks_hold_no_weight_from_below():
    """A_α1 = e^(S_α1)/(e^(S_α0) + e^(S_α1)), or over e^(S_α1) alone where key 0 is masked."""
    mask = np.array([[0.0, 0.0], [-1e9, 0.0]])

    def masked(S):
        return tp.exp(S) * tp.softmax(S + tp.constant(mask, axes=("token", "key")), over="key")

    W = 1.4 * V
    value, error = weighed(masked).drift_estimate_at(W)
    wanted, spread = wide(lambda S: np.exp(S) * shares(S + mask), W)
    assert (np.abs(value - wanted) < 4.5 * np.hypot(error, spread)).all() and (error < 0.01 * value).all()


def test_equal_tokens_and_heads_are_led_alike():
    """Of two equal tokens the weights are halves: b = V E e^(S + S′)/4 summed over keys, e^(2 V²) each."""
    one = weighed(soft)
    value, error = one.drift_estimate_at(np.full((2, 2), 1.5))
    wanted = 1.5 * np.exp(2 * 1.5**2)
    assert (np.abs(value - wanted) < 5 * error).all() and (error < 0.01 * wanted).all()

    @tp.block
    def heads(x: tp.State["token"], Q: tp.Matrix["n", "n", "head"], K: tp.Matrix["n", "n", "head"],
              U: tp.Matrix["n", "n", "head"]):  # fmt: skip
        S = tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key"))
        A = tp.sum(soft(S) * (U @ x).rename(token="key"), over="key")
        return x + tp.sum(A, over="head") / tp.sqrt(tp.n)

    value, error = tp.derive(heads, tp.Proportional()).drift_estimate_at(1.4 * V, head=3)
    wanted = 3 * of_pairs(1.4 * V, softmax)
    assert (np.abs(value - wanted) < 5 * error).all() and (error < 0.01 * wanted).all()


def unknown(S):
    """Of order exp(|S|^0.8), which no rule of growth reads."""
    return tp.exp((1 + S**2) ** tp.sqrt(0.16)) * tp.softmax(S, over="key")


def test_what_is_not_known_to_be_seen_is_refused_where_draws_do_not_settle_it():
    sde = weighed(unknown)
    value, error = sde.drift_estimate_at(V / 2)
    wanted, spread = wide(lambda S: np.exp((1 + S**2) ** 0.4) * shares(S), V / 2)
    assert (np.abs(value - wanted) < 4.5 * np.hypot(error, spread)).all() and (error < 0.01 * value).all()
    with pytest.raises(tp.EvaluationError, match="rests on the few largest of 8192 draws"):
        sde.drift_at(6 * V)


def test_what_is_bounded_or_of_low_degree_is_drawn_as_ever():
    for function in (lambda S: tp.softmax(S, over="key"), total(lambda s, r: tp.step(s - 6) * r**3)):
        sde = weighed(function)
        assert np.isfinite(sde.drift_at(9 * V)).all()
