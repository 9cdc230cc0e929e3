"""The layers that the scripts on depth proportional to width derive, run and draw."""

from __future__ import annotations

import tplimits as tp


def attention_with(identity: bool = True, centred: bool = True, tempered: bool = True) -> tp.Program:
    """Shaped attention, λX + γ A X W_V with A = I + Softmax(Y/τ) − (1/m) 1 1ᵀ and τ = τ0 √(n n_k), or without one part.

    Not tempered is the usual τ = √n_k.
    """

    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        q, k = WQ @ x, (WK @ x).rename(token="key")
        v = WV @ x
        values = v.rename(token="key")
        # avg is a mean over k: times √k it is q·k/√k
        Y = tp.avg(q * k) * tp.sqrt(tp.width("k"))
        A = tp.softmax(Y / (τ0 * tp.sqrt(tp.n)) if tempered else Y, over="key")
        attended = tp.sum(A * values, over="key")
        if identity:
            attended = v + attended
        if centred:
            attended = attended - tp.mean(values, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * attended

    return attention


attention = attention_with()


def normed(x):
    """x over its size, the root mean square of its entries."""
    return tp.layers.rms_norm(x)


def attended(u, WQ, WK, WV, τ0):
    """A u W_V with shaped attention A of u."""
    k, v = (WK @ u).rename(token="key"), WV @ u
    values = v.rename(token="key")
    Y = tp.avg((WQ @ u) * k) * tp.sqrt(tp.width("k")) / (τ0 * tp.sqrt(tp.n))
    return v + tp.sum(tp.softmax(Y, over="key") * values, over="key") - tp.mean(values, over="key")


def shaped(h, c_plus, c_minus):
    """A ReLU with slopes 1 + c_±/√n."""
    return (1 + c_plus / tp.sqrt(tp.n)) * tp.relu(h) - (1 + c_minus / tp.sqrt(tp.n)) * tp.relu(-h)


@tp.block
def resnet(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
    """λX + γ √c σ_s(X W₁) W₂, c⁻¹ = E σ_s(g)²."""
    s = shaped(W1 @ x, c_plus, c_minus)
    c = 1 / tp.expect(lambda g: shaped(g, c_plus, c_minus) ** 2)
    return tp.sqrt(1 - γ**2) * x + γ * tp.sqrt(c) * (W2 @ s)
