"""Blocks with functions of scalars that have a kink, jump or pole where the scalar settles."""

from __future__ import annotations

import numpy as np
import shaped

import tplimits as tp


def attention(weights):
    """√(1 − γ²) x + γ (v + Σ F v) with F = weights(logits), queries and keys of one width."""

    @tp.block
    def bent(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        Y = shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(weights(Y) * v.rename(token="key"), over="key"))

    return bent


def plain(weights):
    """The same with logits q·k/(τ0 n), in which no power of a width stands beside the average."""

    @tp.block
    def bent(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        Y = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) / τ0
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(weights(Y) * v.rename(token="key"), over="key"))

    return bent


def two_logits(weights):
    """The same for a function of two independent logits."""

    @tp.block
    def bent(
        x: tp.State["token"],
        WQ: tp.Matrix["k", "n"],
        WK: tp.Matrix["k", "n"],
        WP: tp.Matrix["k", "n"],
        WR: tp.Matrix["k", "n"],
        WV: tp.Matrix,
        *,
        γ,
        τ0,
    ):
        v = WV @ x
        Y = shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        Z = shaped.logits(WP @ x, (WR @ x).rename(token="key"), τ0)
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(weights(Y, Z) * v.rename(token="key"), over="key"))

    return bent


def heads(weights):
    """The same with a sum over heads."""

    @tp.block
    def bent(
        x: tp.State["token"],
        WQ: tp.Matrix["k", "n", "head"],
        WK: tp.Matrix["k", "n", "head"],
        WV: tp.Matrix,
        *,
        γ,
        τ0,
    ):
        v = WV @ x
        Y = shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        F = tp.sum(weights(Y), over="head")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(F * v.rename(token="key"), over="key"))

    return bent


@tp.block
def shared(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, *, γ, τ0):
    """Queries and keys stand in the logits and outside of them."""
    q, k = WQ @ x, WK @ x
    Y = tp.avg(q * k.rename(token="key")) / τ0
    return q + γ * tp.sum(tp.sign(Y) / tp.sqrt(tp.n) * k.rename(token="key"), over="key")


def gate(function):
    """(U x)(1 + γ f(avg(h²) − avg(x²))), a scalar whose third cumulant does not vanish."""

    @tp.block
    def gated(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ):
        return (U @ x) * (1 + γ * function(tp.avg((W @ x) ** 2) - tp.avg(x * x)))

    return gated


def branch(φ):
    """x + g U φ(W x)/√n."""

    @tp.block
    def residual(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, g):
        return x + g * (U @ φ(W @ x)) / tp.sqrt(tp.n)

    return residual


#: the covariance of most tests
V = np.array([[1.3, 0.4, -0.3], [0.4, 0.9, 0.5], [-0.3, 0.5, 1.1]])

CAUSAL = np.tril(np.ones((3, 3)))
#: functions of one logit that settle at a kink, a jump or a root, or that a power of n brings back
KINKED = (
    lambda Y: tp.relu(Y) ** 2,
    lambda Y: tp.maximum(0, -Y) ** 2,
    lambda Y: tp.step(Y) * Y**2,
    lambda Y: Y * tp.relu(Y),
    lambda Y: tp.exp(tp.relu(Y) ** 2) - 1,
    lambda Y: tp.relu(tp.sqrt(tp.n) * Y) ** 2 / tp.n,
    lambda Y: tp.leaky_relu(Y, 0.5) ** 2,
    lambda Y: tp.relu(tp.abs(Y) - tp.relu(Y)) ** 2,
    lambda Y: tp.where(Y, Y**2, -3 * Y**2),
    lambda Y: tp.relu(Y) / tp.sqrt(tp.n),
    lambda Y: tp.clip(Y, 0, 1) / tp.sqrt(tp.n),
    lambda Y: tp.minimum(Y, 0) / tp.sqrt(tp.n),
    lambda Y: tp.tanh(tp.relu(Y)) / tp.sqrt(tp.n),
    lambda Y: tp.abs(Y) / tp.sqrt(tp.n),
    lambda Y: tp.sqrt(Y**2) / tp.sqrt(tp.n),
    lambda Y: tp.sign(Y) * Y / tp.sqrt(tp.n),
    lambda Y: tp.constant(CAUSAL, axes=("token", "key")) * tp.relu(Y) ** 2,
    # a positive power of n brings back what vanishes without it
    lambda Y: Y**4 * tp.n,
    lambda Y: Y**3 * tp.sqrt(tp.n),
    lambda Y: tp.relu(Y) ** 3 * tp.sqrt(tp.n),
    lambda Y: tp.abs(Y) * tp.sin(Y) ** 2 * tp.sqrt(tp.n),
    lambda Y: (tp.sin(tp.abs(Y)) - tp.abs(Y)) * tp.sqrt(tp.n),
    lambda Y: tp.relu(Y) ** 3,
    # where a constant is added, a kink is passed where the sum may be zero and nowhere else
    lambda Y: tp.relu(Y + tp.constant(CAUSAL - 1, axes=("token", "key"))) ** 2,
    lambda Y: tp.relu(Y - tp.constant(CAUSAL - 1, axes=("token", "key"))) / tp.n,
    # smooth in disguise, zero in disguise, and too small to be seen
    lambda Y: tp.relu(Y) - tp.relu(-Y) - Y,
    lambda Y: tp.relu(Y) * tp.relu(-Y),
    lambda Y: tp.sign(Y) ** 2 - 1,
    lambda Y: tp.relu(1 + Y) - 1 - Y,
    lambda Y: tp.abs(Y) ** 2.5,
    lambda Y: tp.abs(Y) ** 3 * tp.sqrt(tp.n),
    lambda Y: tp.sign(Y) * tp.abs(Y) ** 1.5,
    lambda Y: tp.sqrt(tp.abs(Y)) / tp.n,
)
