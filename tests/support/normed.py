"""Shaped blocks with norms inside, before the branch and behind the sum."""

from __future__ import annotations

import shaped

import tplimits as tp


def rms(x):
    """x over its size."""
    return tp.layers.rms_norm(x)


def relu_branch(u, W1, W2, c_plus, c_minus):
    """W₂ σ_s(W₁ u)/√E σ_s²."""
    size = tp.expect(lambda g: shaped.shaped_relu(g, c_plus, c_minus) ** 2)
    return (W2 @ shaped.shaped_relu(W1 @ u, c_plus, c_minus)) / tp.sqrt(size)


def attended(u, WQ, WK, WV, τ0):
    """A W_V u, A = I + Softmax − 1/m."""
    v = WV @ u
    values = v.rename(token="key")
    A = tp.softmax(shaped.logits(WQ @ u, (WK @ u).rename(token="key"), τ0), over="key")
    return v + tp.sum(A * values, over="key") - tp.mean(values, over="key")


@tp.block
def relu_before(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
    return tp.sqrt(1 - γ**2) * x + γ * relu_branch(rms(x), W1, W2, c_plus, c_minus)


@tp.block
def relu_behind(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
    return rms(tp.sqrt(1 - γ**2) * x + γ * relu_branch(x, W1, W2, c_plus, c_minus))


@tp.block
def attention_before(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
    return tp.sqrt(1 - γ**2) * x + γ * attended(rms(x), WQ, WK, WV, τ0)


@tp.block
def attention_behind(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
    return rms(tp.sqrt(1 - γ**2) * x + γ * attended(x, WQ, WK, WV, τ0))


@tp.block
def linear_behind(x: tp.State["token"], W: tp.Matrix, *, γ):
    return rms(tp.sqrt(1 - γ**2) * x + γ * (W @ x))
