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
