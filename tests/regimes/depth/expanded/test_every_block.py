"""Drift and diffusion of one layer by both routes: functions at kinks, and functions that hold the width."""

from __future__ import annotations

import re

import bent
import numpy as np
import pytest
import shaped

import tplimits as tp
from tplimits.numbers.expansion.covariances import fixed, full
from tplimits.numbers.expansion.settled import Settled
from tplimits.regimes.depth.expanded.layers import Layers

TWO = np.array([[1.1, 0.4], [0.4, 0.9]])
LOGITS = {"γ": 0.7, "τ0": 0.8}
SCALES = np.random.default_rng(0).uniform(0.5, 2, (2, 2, 2))


def root():
    return tp.sqrt(tp.n)


def gated(kinked):
    @tp.block
    def block(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ):
        s = tp.avg((W2 @ x) ** 2) - tp.avg(x * x)
        return tp.sqrt(1 - γ**2) * x + γ * (W1 @ x) * (1 + kinked(s) / root())

    return block


def shaped_by(function):
    """√(1 − γ²) x + γ U φ(W x) with φ of unit second moment, φ a function of s ~ √n."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ, a):
        s = a * root()
        branch = (U @ function(W @ x, s)) / tp.sqrt(tp.expect(lambda g: function(g, s) ** 2))
        return tp.sqrt(1 - γ**2) * x + γ * branch

    return block


@tp.block
def divided(x: tp.State["token"], W: tp.Matrix):
    return W @ x / root() / tp.sqrt(tp.expect(lambda g: tp.tanh(g / root()) ** 2))


@tp.block
def scaled_signs(
    x: tp.State["token"], WQ: tp.Matrix["k", "n", "head"], WK: tp.Matrix["k", "n", "head"], WV: tp.Matrix, *, γ, τ0
):
    Y = shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
    weights = tp.sum(tp.sign(tp.constant(SCALES, axes=("head", "token", "key")) * Y), over="head") / root()
    v = WV @ x
    return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(weights * v.rename(token="key"), over="key"))


@tp.block
def brought_back(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, *, γ, τ0):
    Y, v = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) / τ0, WV @ x
    F = tp.n * (tp.cos(Y) - 1 + Y**2 / 2)
    return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(F * v.rename(token="key"), over="key"))


BLOCKS = {
    **{f"kink {i}": (bent.attention(f), LOGITS) for i, f in enumerate(bent.KINKED)},
    "sign": (bent.attention(lambda Y: tp.sign(Y) / root()), LOGITS),
    "centred": (bent.attention(lambda Y: tp.relu(Y - tp.mean(Y, over="key")) / root()), LOGITS),
    "shared": (bent.shared, LOGITS),
    "heads": (bent.heads(lambda Y: tp.relu(Y) ** 2), {**LOGITS, "head": 2}),
    "maximum": (bent.two_logits(lambda Y, Z: tp.maximum(Y, Z) / root()), LOGITS),
    "product": (bent.two_logits(lambda Y, Z: tp.relu(Y) * tp.relu(Z)), LOGITS),
    "square of a sum": (bent.two_logits(lambda Y, Z: tp.relu(Y + Z) ** 2), LOGITS),
    "dependent": (bent.two_logits(lambda Y, Z: tp.relu(Y) * tp.relu(Y + Z)), LOGITS),
    "gate": (gated(tp.relu), {"γ": 0.6}),
    "gate, maximum": (gated(lambda s: tp.maximum(s, 0)), {"γ": 0.6}),
    "gate, minimum": (gated(lambda s: -tp.minimum(-s, 0)), {"γ": 0.6}),
    "gate, clip": (gated(lambda s: tp.clip(s, 0, 9)), {"γ": 0.6}),
    "scaled signs": (scaled_signs, LOGITS),
    "brought back": (brought_back, LOGITS),
    "shaped tanh": (shaped.smooth_mlp, {"a": 0.7}),
    "shaped tanh, residual": (shaped_by(lambda h, s: s * tp.tanh(h / s)), {"a": 0.7, "γ": 0.6}),
    "shaped tanh, moved": (shaped_by(lambda h, s: s * (tp.tanh(h / s + 1) - tp.tanh(1))), {"a": 0.7, "γ": 0.6}),
    "divided": (divided, {}),
}


def routes(name, V):
    """Drift and diffusion by the index algebra, and by the expansion of one layer, as far as both have them."""
    block, constants = BLOCKS[name]
    ratios = {w: 1.0 for w in block.widths if w != "n"}
    sde = tp.derive(block, tp.Proportional())
    law, derivative = Layers.at(block, len(V), constants, ratios).moved(fixed(V))
    np.testing.assert_allclose(law.value, fixed(V).value, atol=1e-12)
    np.testing.assert_allclose(derivative, np.eye(len(derivative)), atol=1e-10)
    np.testing.assert_allclose(law.root, 0, atol=1e-12)
    index = sde.drift_at(V, ratios=ratios, **constants), sde.diffusion_at(V, ratios=ratios, **constants)
    return index, (full(law.shift), law.covariance)


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=[pytest.mark.long] * (i % 3 > 0)) for i, k in enumerate(BLOCKS)]
)
def test_both_routes_agree(name):
    arrays = {a: BLOCKS[name][0].size(a) for a in BLOCKS[name][0].all_axes}
    for V in (TWO, bent.V):
        if all(size in (None, len(V)) for a, size in arrays.items() if a != "head"):
            index, expanded = routes(name, V)
            for one, other in zip(index, expanded, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-8)


def test_twins_are_rejected(monkeypatch):
    """Without the covariances of what is no line, or without the means at kinks."""

    def off(name):
        return max(np.abs(a - b).max() for a, b in zip(*routes(name, TWO), strict=True))

    with monkeypatch.context() as changed:
        changed.setattr(Settled, "_covariance", lambda self, a, b: 0.0)
        assert off("sign") > 0.1
    with monkeypatch.context() as changed:
        changed.setattr("tplimits.numbers.expansion.settled._absolute", lambda power: 0.0)
        assert off("kink 9") > 0.1


@pytest.mark.parametrize(
    ("block", "constants", "message"),
    [
        (bent.gate(lambda Y: tp.sign(Y)), {"γ": 0.7}, "has a kink at the limit of its argument"),
        (bent.attention(tp.sign), LOGITS, "stays random in the limit, or grows"),
        (bent.attention(lambda Y: tp.abs(Y) ** 1.5), LOGITS, r"is of size n\^\(-3/4\), between those"),
        (bent.attention(lambda Y: tp.relu(Y + 1 / root()) / root()), LOGITS, "no normal variable around it"),
        (bent.attention(lambda Y: tp.cos(root() * Y) / tp.n), LOGITS, r"`Y.*sqrt\(n\)` stays random in the limit"),
        (
            shaped_by(lambda h, s: s * tp.relu(h / s + 1 / tp.n)),  # no Taylor series at a kink
            {"γ": 0.7, "a": 0.6},
            r"n\^\(1/2\) multiplies",
        ),
        (
            bent.attention(lambda Y: tp.relu(tp.relu(Y) - tp.mean(tp.relu(Y), over="key")) / root()),
            LOGITS,
            "no normal variable around it",
        ),
    ],
)
def test_what_is_refused(block, constants, message):
    layers = Layers.at(block, 2, constants, {w: 1.0 for w in block.widths if w != "n"})
    with pytest.raises(tp.NoLimitError) as raised:
        layers.moved(fixed(TWO))
    assert re.search(message, str(raised.value))
