"""Limits of training beside networks whose gradients PyTorch takes: weights that are shared, stale, of other widths.

Parametrizations, optimizers, decay and clipping are written out here; arguments stand in no order.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tplimits as tp

pytestmark = [pytest.mark.sampling, pytest.mark.long]

DATA = np.random.default_rng(77)
X, TOKENS, Y = DATA.standard_normal((4, 3)), DATA.standard_normal((3, 2, 3)), np.array([1.0, -0.7, 0.4, -1.2])
STEPS, THRESHOLD = 4, 0.3
#: networks of each width
NETWORKS = ((128, 64), (256, 48), (512, 16))
#: e: norms grow like n^e
NORM = {"matrix": 1.0, "vector": 0.5}
#: a, c, d of a kind in both regimes, and a_out
TABLES = {
    "feature": ({"matrix": (0.0, 1.0, 1.0), "vector": (0.0, 0.0, 1.0)}, 1.0),
    "operator": ({"matrix": (0.5, 1.0, 1.0), "vector": (0.0, 0.5, 0.5)}, 0.5),
}


def on(W, x):
    return torch.einsum("Dij,D...j->D...i", W, x)


def back(W, x):
    return torch.einsum("Dji,D...j->D...i", W, x)


def first(w):
    return torch.einsum("nd,Ddi->Dni", torch.tensor(X), w["U"])


@tp.network
def ratio(ξ: tp.Input["d"], A: tp.Matrix["k", "n"], U: tp.Vector["d"], B: tp.Matrix["n", "k"], v: tp.Vector):
    return v * tp.tanh(B @ tp.tanh(A @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def transposed(W: tp.Matrix, ξ: tp.Input["d"], v: tp.Vector, U: tp.Vector["d"]):
    return v * tp.tanh(W.T @ tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def stale(ξ: tp.Input["d"], v: tp.Vector, W: tp.Matrix, U: tp.Vector["d"]):
    return (W.T @ v) * tp.tanh(tp.sum(U * ξ, over="d"))


@tp.network
def attention(ξ: tp.Input["token", "d"], K: tp.Matrix, U: tp.Vector["d"], Q: tp.Matrix, P: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return v * tp.tanh(tp.sum(tp.sum(A * (P @ x).rename(token="key"), over="key"), over="token"))


def attended(w):
    x = torch.einsum("ntd,Ddi->Dnti", torch.tensor(TOKENS), w["U"])
    A = torch.softmax(on(w["Q"], x) @ on(w["K"], x).transpose(-1, -2) / x.shape[-1], -1)
    return w["v"][:, None] * torch.tanh((A @ on(w["P"], x)).sum(2))


def momentum(g, held, t):
    held["m"] = 0.8 * held.get("m", 0 * g) + g
    return held["m"]


def adam(g, held, t):
    held["m"], held["s"] = 0.9 * held.get("m", 0 * g) + 0.1 * g, 0.99 * held.get("s", 0 * g) + 0.01 * g * g
    return held["m"] / (1 - 0.9 ** (t + 1)) / torch.sqrt(held["s"] / (1 - 0.99 ** (t + 1)) + 0.01)


def rmsprop(g, held, t):
    held["s"] = 0.9 * held.get("s", 0 * g) + 0.1 * g * g
    return g / (torch.sqrt(held["s"]) + 0.1)


SQUARES = {"W": ("n", "n"), "v": ("n",), "U": (3, "n")}
#: network, outputs, shapes, optimizer in both, rate, decays, whether gradients are clipped
CASES = {
    "other widths": (
        ratio,
        lambda w: w["v"][:, None] * torch.tanh(on(w["B"], torch.tanh(on(w["A"], torch.tanh(first(w)))))),
        {"A": ("k", "n"), "B": ("n", "k"), "v": ("n",), "U": (3, "n")},
        (tp.Adam(0.9, 0.99, 0.1), adam, 0.08, {"A": 0.05, "U": 0.2}, False),
    ),
    "both directions": (
        transposed,
        lambda w: w["v"][:, None] * torch.tanh(back(w["W"], torch.tanh(on(w["W"], torch.tanh(first(w)))))),
        SQUARES,
        (tp.SGD(momentum=0.8), momentum, 0.2, {}, False),
    ),
    "a readout behind a matrix": (
        stale,
        lambda w: back(w["W"], w["v"])[:, None] * torch.tanh(first(w)),
        SQUARES,
        (tp.RMSProp(0.9, 0.1, convention="torch"), rmsprop, 0.04, {}, True),
    ),
    "attention": (
        attention,
        attended,
        {"K": ("n", "n"), "Q": ("n", "n"), "P": ("n", "n"), "v": ("n",), "U": (3, "n")},
        (tp.SGD(momentum=0.8), momentum, 0.1, {"P": 0.1, "v": 0.05}, True),
    ),
}


def kind(name):
    return "matrix" if name.isupper() and name != "U" else "vector"


def trained(case, regime, n, draws):
    """f − f^dec of networks of a width, (draws, steps + 1, inputs): f^dec of weights that decay alone."""
    _, outputs, shapes, (_, update, lr, decays, clipped) = CASES[case]
    (table, a_out), rng = TABLES[regime], np.random.default_rng([9, n])
    sizes, w, found = {"n": n, "k": n // 2}, {}, []
    for name, shape in shapes.items():
        full = [sizes.get(s, s) for s in shape]
        scale = full[-1] ** -0.5 if kind(name) == "matrix" else 1.0
        w[name] = torch.tensor(rng.standard_normal((draws, *full)) * scale)
    still, held = dict(w), {name: {} for name in w}
    for t in range(STEPS + 1):
        w = {name: value.detach().requires_grad_() for name, value in w.items()}
        f = outputs(w).sum(-1) * n**-a_out
        moved = f.detach() - outputs(still).sum(-1) * n**-a_out
        found.append(moved.numpy())
        signal = (moved - torch.tensor(Y[: f.shape[1]])) / f.shape[1]
        gradients = torch.autograd.grad((f * signal).sum(), list(w.values()))
        g = {
            name: one * n ** (table[kind(name)][2] - table[kind(name)][0])
            for name, one in zip(w, gradients, strict=True)
        }
        squares = sum((n ** -NORM[kind(name)] * one).square().reshape(draws, -1).sum(1) for name, one in g.items())
        divisor = torch.clamp(squares.sqrt(), min=THRESHOLD) if clipped else torch.ones(draws)
        with torch.no_grad():
            for name, one in g.items():
                a, c, _ = table[kind(name)]
                q = update(one / divisor.reshape(-1, *[1] * (one.ndim - 1)), held[name], t)
                rate = lr * n ** (-c - a) * (n / one.shape[-1] if kind(name) == "matrix" else 1)
                w[name] = (1 - decays.get(name, 0.0)) * w[name] - rate * q
                still[name] = (1 - decays.get(name, 0.0)) * still[name]
    return np.stack(found, axis=1)


def extrapolated(case, regime):
    """The intercept of L + b/n and its standard error, entry by entry."""
    rows = [(1 / n, trained(case, regime, n, draws)) for n, draws in NETWORKS]
    x = np.array([a for a, _ in rows])
    means = np.array([r.mean(0)[1:] for _, r in rows])
    weights = 1 / np.array([r.var(0, ddof=1)[1:] / len(r) for _, r in rows])
    moments = [(weights * x[:, None, None] ** k).sum(0) for k in range(3)]
    sums = [(weights * means * x[:, None, None] ** k).sum(0) for k in range(2)]
    determinant = moments[0] * moments[2] - moments[1] ** 2
    return (moments[2] * sums[0] - moments[1] * sums[1]) / determinant, np.sqrt(moments[2] / determinant)


def limit(case, regime, factor=1.0):
    net, _, shapes, (optimizer, _, lr, decays, clipped) = CASES[case]
    data = TOKENS if case == "attention" else X
    chosen = tp.Clipped(optimizer, THRESHOLD, of="gradient") if clipped else optimizer
    made = tp.MaximalUpdate if regime == "feature" else tp.NeuralTangent
    derived = tp.derive(net, made(chosen, weight_decay={name: decays.get(name, 0) for name in shapes}))
    start = np.zeros((STEPS + 1, len(data)) if decays else len(data))
    more = {"f0": start} if regime == "operator" else {}
    ratios = {"k": 0.5} if case == "other widths" else None
    error = tp.squared_error(Y[: len(data)])
    return derived.evaluate(
        data, error=error, lr=lr * factor, steps=STEPS, particles=2048, ratios=ratios, seed=1, **more
    )


@pytest.mark.parametrize("regime", TABLES)
@pytest.mark.parametrize("case", CASES)
def test_networks_have_the_limit(case, regime):
    mean, error = extrapolated(case, regime)

    def apart(run):
        return abs(mean - run.f[1:]) / np.hypot(error, run.stderr[1:])

    # 16 entries: 10⁻⁴ together, with errors known to 30 degrees of freedom
    assert apart(limit(case, regime)).max() < 5
    # a rate that is a quarter off is told
    assert apart(limit(case, regime, 1.25)).max() > 5
