"""Coefficients with the mistakes that are in print, as NumPy: wrong twins of the published ones."""

from __future__ import annotations

import numpy as np


def appendix_relu_drift(V, c_plus, c_minus):
    """ν with both signs turned: (c₊ + c₋)²/2π (√(1 − ρ²) + ρ arccos ρ)."""
    scale = np.sqrt(np.outer(np.diag(V), np.diag(V)))
    ρ = np.clip(V / scale, -1, 1)
    return (c_plus + c_minus) ** 2 / (2 * np.pi) * (np.sqrt(1 - ρ**2) + ρ * np.arccos(ρ)) * scale


def printed_attention_drift(V, γ, τ0):
    """The drift that follows from a second order of the softmax in which the variance is added."""
    m = len(V)
    row, all_, own = V.mean(axis=1), V.mean(), np.diag(V)
    S_1 = np.einsum("ab,dw->adbw", V, V - row[:, None] - row[None, :] + all_)
    S_2 = np.outer(own, own - 2 * row + own.mean())
    b = np.einsum("nk,anbk->ab", V, S_1) / m**2
    b += (np.einsum("bn,an->ab", V, S_2) + np.einsum("an,bn->ab", V, S_2)) / (2 * m)
    return γ**2 / τ0**2 * b
