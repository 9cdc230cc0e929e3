"""Shaped attention, depth proportional to width.

X′ = λX + γ A X W_V with A = I + Softmax(Y/τ) − (1/m) 1 1ᵀ, Y = (1/n) X W_Q W_Kᵀ Xᵀ, τ = τ0 √(n n_k) and λ² + γ² = 1.
Noci et al. 2023, Theorem 4.2, with x̄ a mean over tokens and V̄ = (1/m) Σ V^νν:

    b = γ²/τ0² [ (1/m²) Σ_νκ V^νκ S₁^{αν,βκ} + (1/2m) Σ_ν (V^βν S₂^{αν} + V^αν S₂^{βν}) ],
    Σ = γ²(2 − γ²) Σ_lin + γ⁴/(τ0² m²) Σ_νκ (V^ακ V^δν S₁^{βκ,ων} + V^ακ V^ων S₁^{βκ,δν}
                                            + V^βν V^δκ S₁^{αν,ωκ} + V^βν V^ωκ S₁^{αν,δκ}),
    S₁^{αδ,βω} = V^αβ (V^δω − V^δx̄ − V^ωx̄ + V^x̄x̄),   S₂^{αδ} = V^αα (V^δδ − 2V^δx̄ + 2V^x̄x̄ − V̄).

Where it comes from: with ỹ = y − ȳ along a row, softmax(y/τ) = 1/m + ỹ/(mτ) + (ỹ² − mean ỹ²)/(2mτ²) + …  Products of
two first orders make S₁, the second order makes S₂ = E ỹ_δ² − mean over δ; the rows sum to 1, so that every order
sums to 0.  With mean ỹ² *added*, as the second order is printed in Eq. 8 of the main text (its bracket, (ȳ)² − mean
y², enters with a minus), the rows no longer sum to 1: S₂ becomes V^αα (V^δδ − 2V^δx̄ + V̄), and layers of finite
width refuse the drift.
"""

import numpy as np
from blocks import attention
from worked import V0, Worked, sigma_lin

work = Worked(__doc__)


def S1(V):
    row = V.mean(axis=1)
    return np.einsum("ab,dw->adbw", V, V - row[:, None] - row[None, :] + V.mean())


def drift(V, γ, τ0, printed=False):
    m, own, row = len(V), np.diag(V), V.mean(axis=1)
    S2 = np.outer(own, own - 2 * row + (own.mean() if printed else 2 * V.mean() - own.mean()))
    first = np.einsum("nk,anbk->ab", V, S1(V)) / m**2
    second = np.einsum("bn,an->ab", V, S2) / (2 * m)
    return γ**2 / τ0**2 * (first + second + second.T)


def diffusion(V, γ, τ0):
    patterns = ("ak,dn,bkwn", "ak,wn,bkdn", "bn,dk,anwk", "bn,wk,andk")
    A = sum(np.einsum(f"{p}->abdw", V, V, S1(V)) for p in patterns) / len(V) ** 2
    return γ**2 * (2 - γ**2) * sigma_lin(V) + γ**4 / τ0**2 * A


sde = work.equation(attention)
constants = {"γ": 0.6, "τ0": 0.8}
work.coefficients(sde, lambda V: drift(V, **constants), lambda V: diffusion(V, **constants), **constants)

y = np.random.default_rng(0).standard_normal(5)
for τ in (1e2, 1e3):
    exact = np.exp(y / τ) / np.exp(y / τ).sum()
    centred = y - y.mean()
    right, printed = (
        (1 + centred / τ + (centred**2 + sign * (centred**2).mean()) / (2 * τ**2)) / 5 for sign in (-1, 1)
    )
    off = [float(np.abs(series - exact).max() * τ**3) for series in (right, printed)]
    work.holds(f"second order of the softmax at τ = {τ:g}: τ³·error {off[0]:.2g}, as printed {off[1]:.2g}", off[0] < 1)

work.layers(sde, "The derived coefficients.", **constants)
wrong = {"drift": drift(V0, **constants, printed=True)}
work.layers(sde, "The wrong twin: the second order of Eq. 8 as printed.", wrong, accepted=False, **constants)
without = {"diffusion": sde.diffusion_at(V0, γ=0.6, τ0=1e9)}
work.layers(sde, "The wrong twin: no noise from the softmax.", without, accepted=False, **constants)
work.finish()
