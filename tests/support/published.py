"""Drifts and diffusions as published, transcribed twice: as canonical terms, and as NumPy contractions.

Noci et al. 2023, Theorem 3.2, Theorem 4.2, Corollary 4.3; Li, Nica & Roy 2022 for the shaped MLPs.
"""

from __future__ import annotations

import numpy as np
import sympy
from sympy import Symbol

from tplimits.regimes.depth.algebra.forms import Form, collected

FREE = {"α": -4, "β": -3, "δ": -2, "ω": -1}
m = Symbol("m", integer=True, positive=True)
γ, τ0, c_plus, c_minus = (Symbol(name, real=True) for name in ("γ", "τ0", "c_plus", "c_minus"))


def term(coefficient, pairs, kernel="V"):
    """coefficient · Σ Π V over pairs of index letters: term(1/m, "αν νβ")."""
    letters = dict.fromkeys("".join(pairs.split()))
    number = {**FREE, **{c: i for i, c in enumerate(c for c in letters if c not in FREE)}}
    factors = tuple((kernel, tuple(number[c] for c in pair), 0) for pair in pairs.split())
    return collected([(factors, sympy.sympify(coefficient))])


def total(*forms):
    found = Form({})
    for form in forms:
        found = found + form
    return found


def S1(a, d, b, w, coefficient, rest):
    """Σ over what `rest` leaves of coefficient · rest · S_1^{ad,bw}; letters x, y, z, u are averaged over."""
    return total(
        term(coefficient, f"{rest} {a}{b} {d}{w}"),
        term(-coefficient / m, f"{rest} {a}{b} {d}x"),
        term(-coefficient / m, f"{rest} {a}{b} {w}x"),
        term(coefficient / m**2, f"{rest} {a}{b} xy"),
    )


def S2(a, d, coefficient, rest):
    return total(
        term(coefficient, f"{rest} {a}{a} {d}{d}"),
        term(-2 * coefficient / m, f"{rest} {a}{a} {d}x"),
        term(2 * coefficient / m**2, f"{rest} {a}{a} xy"),
        term(-coefficient / m, f"{rest} {a}{a} xx"),
    )


SIGMA_LIN = total(term(1, "αδ βω"), term(1, "αω βδ"))


def attention_drift():
    c = γ**2 / τ0**2
    return total(
        S1("α", "ν", "β", "κ", c / m**2, "νκ"),
        S2("α", "ν", c / (2 * m), "βν"),
        S2("β", "ν", c / (2 * m), "αν"),
    )


def attention_diffusion():
    c = γ**4 / τ0**2 / m**2
    return total(
        SIGMA_LIN.scaled(γ**2 * (2 - γ**2)),
        S1("β", "κ", "ω", "ν", c, "ακ δν"),
        S1("β", "κ", "δ", "ν", c, "ακ ων"),
        S1("α", "ν", "ω", "κ", c, "βν δκ"),
        S1("α", "ν", "δ", "κ", c, "βν ωκ"),
    )


def relu_drift():
    """ν(ρ) √(V^αα V^ββ)."""
    return term((c_plus - c_minus) ** 2 / (2 * sympy.pi), "αβ", kernel="N")


# -- the same with NumPy ------------------------------------------------------------------------


def numpy_sigma_lin(V):
    return np.einsum("ad,bw->abdw", V, V) + np.einsum("aw,bd->abdw", V, V)


def numpy_relu_drift(V, c_plus, c_minus):
    scale = np.sqrt(np.outer(np.diag(V), np.diag(V)))
    ρ = np.clip(V / scale, -1, 1)
    return (c_plus - c_minus) ** 2 / (2 * np.pi) * (np.sqrt(1 - ρ**2) - ρ * np.arccos(ρ)) * scale


def numpy_attention(V, γ, τ0):
    """Theorem 4.2 with its sums written out."""
    size = len(V)
    row, all_ = V.mean(axis=1), V.mean()
    S_1 = np.einsum("ab,dw->adbw", V, V - row[:, None] - row[None, :] + all_)
    S_2 = np.outer(np.diag(V), np.diag(V) - 2 * row + 2 * all_ - np.trace(V) / size)
    b = np.einsum("nk,anbk->ab", V, S_1) / size**2
    b += (np.einsum("bn,an->ab", V, S_2) + np.einsum("an,bn->ab", V, S_2)) / (2 * size)
    A = np.einsum("ak,dn,bkwn->abdw", V, V, S_1) + np.einsum("ak,wn,bkdn->abdw", V, V, S_1)
    A += np.einsum("bn,dk,anwk->abdw", V, V, S_1) + np.einsum("bn,wk,andk->abdw", V, V, S_1)
    diffusion = γ**2 * (2 - γ**2) * numpy_sigma_lin(V) + γ**4 / τ0**2 * A / size**2
    return γ**2 / τ0**2 * b, diffusion


def numpy_masked_attention(V, p, γ, τ0):
    """Rows of any base measure p: covariances of the softmax weights, J_a = diag(p_a) − p_a p_aᵀ."""
    size = len(V)
    J = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    M = np.einsum("axy,yz,bzu,ux->ab", J, V, J, V)
    w = np.zeros((size, size))
    for a in range(size):
        g = np.diag(V) - 2 * V @ p[a] + p[a] @ V @ p[a]
        w[a] = V[a, a] * p[a] * (g - p[a] @ g)
    drift = γ**2 / τ0**2 * (V * M + (w @ V + (w @ V).T) / 2)
    JV = np.einsum("axy,yb->axb", J, V)  # response of row a: R_a J_a V
    B = np.einsum("ad,axb,xy,dyw->abdw", V, JV, V, JV)
    A = B + np.einsum("abdw->badw", B) + np.einsum("abdw->abwd", B) + np.einsum("abdw->bawd", B)
    return drift, γ**2 * (2 - γ**2) * numpy_sigma_lin(V) + γ**4 / τ0**2 * A


def packed(full):
    """(m, m, m, m) as (P, P) over the pairs α ≤ β."""
    a, b = np.triu_indices(len(full))
    return full[a[:, None], b[:, None], a[None, :], b[None, :]]


def random_covariance(size, seed):
    X = np.random.default_rng(seed).standard_normal((size, size + 2))
    return X @ X.T / (size + 2)
