"""One layer with real weights: n·E[V′ − V] and n·Cov(V′) at three widths against the derived coefficients.

Drifts are measured with control variates: products of weights whose mean is zero exactly, regressed out.  Means over
draws are fitted by L + b/n (attention) or L + b/√n + c/n (shaped ReLU, whose expansion has odd powers) and the
intercept L is compared entry by entry, all entries together at the family-wise level LEVEL by Bonferroni.  Beside each
true coefficient stands a wrong one that must be rejected.
"""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped
from scipy.stats import norm

import tplimits as tp
from tplimits.program.nodes.execution import Execution

LEVEL = 1e-3
WIDTHS = {80: 6000, 200: 1800, 500: 240}
#: a fit with odd powers has one unknown more
ODD_WIDTHS = {40: 40000, 80: 12000, 200: 3600, 500: 480}
V0 = np.array([[1.0, 0.2, 0.5], [0.2, 2.0, -0.4], [0.5, -0.4, 1.5]])
PAIRS = np.triu_indices(3)


def layers(block, n, draws, constants, seed, controls):
    """√n (V′ − V) of independent layers from one state with covariance V0, and variables of mean zero beside it."""
    rng = np.random.default_rng([seed, n])
    Q = np.linalg.qr(rng.standard_normal((n, 3)))[0]
    x = np.sqrt(n) * np.linalg.cholesky(V0) @ Q.T
    rows, beside, batch = [], [], max(1, 4_000_000 // n**2)
    for first in range(0, draws, batch):
        count = min(batch, draws - first)
        given = {"x": x, **constants}
        result = Execution(block, n, count, rng, {"k": 0.1} if "k" in block.widths else {}, given).run().arrays
        rows.append(np.sqrt(n) * (gram(result[block.returns[0]]) - V0)[:, PAIRS[0], PAIRS[1]])
        named = {name: result[p] for name, p in block.names.items()}
        beside.append(np.concatenate([c.reshape(count, -1) for c in controls({**named, "x": x[None]})], axis=1))
    return np.concatenate(rows), np.concatenate(beside)


def gram(x, y=None):
    """(1/n) Σ_i x_i y_i for all pairs of tokens."""
    return x @ np.swapaxes(x if y is None else y, 1, 2) / x.shape[-1]


def attention_controls(named):
    return gram(named["x"], named["v"]), gram(named["v"]) - V0, named["Y"]


def resnet_controls(named):
    h, s, branch = named["h"], named["s"], named["branch"]
    return gram(named["x"], branch), gram(branch) - gram(s), gram(h) - V0


def intercepts(samples, odd):
    """L and its standard error for each entry: drift rows, then the covariances of all pairs of entries."""
    found = []
    for n, (z, controls) in samples.items():
        scaled = controls / controls.std(axis=0)
        slope = np.linalg.lstsq(scaled - scaled.mean(axis=0), z - z.mean(axis=0), rcond=None)[0]
        quiet = z - scaled @ slope
        centred = z - z.mean(axis=0)
        products = (centred[:, :, None] * centred[:, None, :])[:, PAIRS_OF_PAIRS[0], PAIRS_OF_PAIRS[1]]
        rows = np.concatenate([np.sqrt(n) * quiet, products * len(z) / (len(z) - 1)], axis=1)
        found.append((n, rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(z))))
    widths = np.array([n for n, _, _ in found], dtype=float)
    design = np.stack([np.ones(len(found)), *([widths**-0.5] if odd else []), 1 / widths], axis=1)
    values, errors = [], []
    for j in range(found[0][1].size):
        y, s = (np.array([f[i][j] for f in found]) for i in (1, 2))
        cov = np.linalg.inv((design / s[:, None] ** 2).T @ design)
        values.append((cov @ (design / s[:, None] ** 2).T @ y)[0])
        errors.append(max(np.sqrt(cov[0, 0]), ROUNDING))
    return np.array(values), np.array(errors)


#: entries that the controls tell exactly have no other error
ROUNDING = 1e-9
PAIRS_OF_PAIRS = np.triu_indices(6)


def claims(b, sigma):
    return np.concatenate([b[PAIRS], sigma[PAIRS_OF_PAIRS]])


def rejected(claim, values, errors):
    """Whether any entry is off at the family-wise level."""
    z = np.abs(values - claim) / errors
    return bool((z > norm.isf(LEVEL / 2 / z.size)).any())


def measured(block, constants, odd, seed, controls):
    widths = ODD_WIDTHS if odd else WIDTHS
    samples = {n: layers(block, n, draws, constants, seed, controls) for n, draws in widths.items()}
    return intercepts(samples, odd)


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("kind", ["full", "causal"])
def test_attention(kind):
    constants = {"γ": 0.9, "τ0": 0.8}
    block = shaped.shaped_attention if kind == "full" else shaped.masked_attention(np.tril(np.ones((3, 3))))
    sde = tp.derive(block, tp.Proportional())
    values, errors = measured(block.bind(token=3), constants, odd=False, seed=1, controls=attention_controls)
    b, sigma = sde.drift_at(V0, **constants), sde.diffusion_at(V0, **constants)
    assert not rejected(claims(b, sigma), values, errors)
    # Eq. 8 as printed: the second-order bracket with the other sign turns the sign of the variance term of the drift
    mean_part = published.numpy_attention(V0, **constants)[0] if kind == "full" else b
    wrong = mean_part - 2 * half_second_order(constants, kind)
    assert rejected(claims(wrong, sigma), values, errors)
    linear_only = (2 * 0.81 - 0.81**2) * published.packed(published.numpy_sigma_lin(V0))
    assert rejected(claims(b, linear_only), values, errors)


def half_second_order(constants, kind):
    """The part of the drift from the second order of the softmax."""
    p = np.full((3, 3), 1 / 3) if kind == "full" else np.tril(np.ones((3, 3))) / np.arange(1, 4)[:, None]
    w = np.zeros((3, 3))
    for a in range(3):
        g = np.diag(V0) - 2 * V0 @ p[a] + p[a] @ V0 @ p[a]
        w[a] = V0[a, a] * p[a] * (g - p[a] @ g)
    return constants["γ"] ** 2 / constants["τ0"] ** 2 * (w @ V0 + (w @ V0).T) / 2


@pytest.mark.long
@pytest.mark.sampling
def test_relu_resnet():
    constants = {"γ": 0.8, "c_plus": 1.0, "c_minus": -1.5}
    sde = tp.derive(shaped.relu_resnet, tp.Proportional())
    values, errors = measured(shaped.relu_resnet.bind(token=3), constants, odd=True, seed=2, controls=resnet_controls)
    b = sde.drift_at(V0, **constants)
    sigma = sde.diffusion_at(V0, **constants)
    assert not rejected(claims(b, sigma), values, errors)
    scale = np.sqrt(np.outer(np.diag(V0), np.diag(V0)))
    ρ = np.clip(V0 / scale, -1, 1)
    appendix = 0.64 * (1.0 - 1.5) ** 2 / (2 * np.pi) * (np.sqrt(1 - ρ**2) + ρ * np.arccos(ρ)) * scale
    assert rejected(claims(appendix, sigma), values, errors)
    assert rejected(claims(b / 0.64, sigma), values, errors)
    assert rejected(claims(b, sigma / 2), values, errors)
