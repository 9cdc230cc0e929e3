"""Blocks that several tests derive; each in the notation of the literature."""

from __future__ import annotations

import numpy as np

import tplimits as tp


def logits(q, k, τ0):
    """q·k/√n_k divided by τ0·√n, for queries and keys of variance V."""
    return tp.avg(q * k) * tp.sqrt(tp.width("k")) / (τ0 * tp.sqrt(tp.n))


def shaped_relu(h, c_plus, c_minus):
    """Slopes 1 + c/√n on either side."""
    return (1 + c_plus / tp.sqrt(tp.n)) * tp.relu(h) - (1 + c_minus / tp.sqrt(tp.n)) * tp.relu(-h)


@tp.block
def shaped_attention(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
    q = WQ @ x
    k = (WK @ x).rename(token="key")
    v = WV @ x
    values = v.rename(token="key")
    Y = logits(q, k, τ0)
    A = tp.softmax(Y, over="key")
    attended = v + tp.sum(A * values, over="key") - tp.mean(values, over="key")
    return tp.sqrt(1 - γ**2) * x + γ * attended


@tp.block
def relu_resnet(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
    h = W1 @ x
    s = shaped_relu(h, c_plus, c_minus)
    c = 1 / tp.expect(lambda g: shaped_relu(g, c_plus, c_minus) ** 2)
    branch = W2 @ s
    return tp.sqrt(1 - γ**2) * x + γ * tp.sqrt(c) * branch


@tp.block
def relu_mlp(x: tp.State["token"], W: tp.Matrix, *, c_plus, c_minus):
    s = shaped_relu(W @ x, c_plus, c_minus)
    return s / tp.sqrt(tp.expect(lambda g: shaped_relu(g, c_plus, c_minus) ** 2))


@tp.block
def smooth_mlp(x: tp.State["token"], W: tp.Matrix, *, a):
    s = a * tp.sqrt(tp.n)
    h = s * tp.tanh((W @ x) / s)
    return h / tp.sqrt(tp.expect(lambda g: (s * tp.tanh(g / s)) ** 2))


@tp.block
def heads_attention(
    x: tp.State["token"],
    WQ: tp.Matrix["k", "n", "head"],
    WK: tp.Matrix["k", "n", "head"],
    WV: tp.Matrix["k", "n", "head"],
    WO: tp.Matrix["n", "k", "head"],
    *,
    γ,
    τ0,
):
    q, v = WQ @ x, WV @ x
    k = (WK @ x).rename(token="key")
    values = v.rename(token="key")
    A = tp.softmax(logits(q, k, τ0), over="key")
    o = v + tp.sum(A * values, over="key") - tp.mean(values, over="key")
    return tp.sqrt(1 - γ**2) * x + γ * tp.sum(WO @ o, over="head") / tp.sqrt(tp.size("head"))


def masked_attention(mask):
    """Attention with rows centred by their own mean under the mask."""
    allowed = np.asarray(mask, dtype=float)

    @tp.block
    def masked(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        seen = tp.constant(allowed, axes=("token", "key"))
        v = WV @ x
        values = v.rename(token="key")
        Y = logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        weights = seen * tp.exp(Y)
        A = weights / tp.sum(weights, over="key")
        p = seen / tp.sum(seen, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum((A - p) * values, over="key"))

    return masked
