"""Blocks with RMSNorm, before the branch or behind the sum, depth proportional to width.

    X′ = λX + γ F(X/|X|)      or      X′ = |λX + γ F(X)|⁻¹ (λX + γ F(X)),      λ² + γ² = 1

with F a shaped ReLU network of one hidden layer, or shaped attention; |X| is the root mean square of a token.  Before
the branch the leading map is V_aa → λ²V_aa + γ², V_ab → λ²V_ab + γ²ρ_ab: not the identity, and attracted to V_aa = 1,
where it moves nothing.  On that manifold, with b and C of one layer and π the fixed point that V is taken to,

    drift = Dπ b + ½ D²π : C,      diffusion = Dπ C Dπᵀ                                      (Katzenberger 1991).

From π∘M = π, for two tokens of correlation ρ,

    Dπ[h] = h_ab − ρ(h_aa + h_bb)/2,
    D²π[h, h] = (2λ² + 3)ρ/(4(1 + λ²)) (h_aa² + h_bb²) + (2λ² + 1)ρ/(2(1 + λ²)) h_aa h_bb − h_ab(h_aa + h_bb).

The shaped ReLU has b_ab = γ²ν(ρ), b_aa = 0, C = 2γ²Σ_lin at V_aa = 1, so that

    dρ = [γ²ν(ρ) − γ² (1 + 2λ²)/(1 + λ²) ρ(1 − ρ²)] dt + √2 γ (1 − ρ²) dB.

Behind the sum, and without norms, the factor (1 + 2λ²)/(1 + λ²) is 1: what V is off its manifold, for as many layers
as it takes to come back, bends the correlation.  Drift and diffusion are numbers from the expansion of one layer in
1/n, which knows none of these formulas; networks of width 40 judge paths of the SDE, and as the wrong twin those of the
other place of the norm, which have no factor where there is one.
"""

import numpy as np
from blocks import attended, normed, shaped
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.depth.finite.trajectories import covariances_of_networks

work = Worked(__doc__)
N, PATHS = 40, 2**15
#: networks that the wrong twin is told from, and the others
MANY, FEW = 10000, 3000
SLOPES = {"c_plus": 0.0, "c_minus": -1.0}


def branch(u, W1, W2, c_plus, c_minus):
    """W₂ σ_s(W₁ u) of size |u|."""
    return (W2 @ shaped(W1 @ u, c_plus, c_minus)) / tp.sqrt(tp.expect(lambda g: shaped(g, c_plus, c_minus) ** 2))


@tp.block
def relu_before(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
    return tp.sqrt(1 - γ**2) * x + γ * branch(normed(x), W1, W2, c_plus, c_minus)


@tp.block
def relu_behind(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
    return normed(tp.sqrt(1 - γ**2) * x + γ * branch(x, W1, W2, c_plus, c_minus))


@tp.block
def attention_before(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
    return tp.sqrt(1 - γ**2) * x + γ * attended(normed(x), WQ, WK, WV, τ0)


@tp.block
def attention_behind(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
    return normed(tp.sqrt(1 - γ**2) * x + γ * attended(x, WQ, WK, WV, τ0))


def at(ρ):
    """Two tokens of size 1."""
    return np.array([[1.0, ρ], [ρ, 1.0]])


def ν(ρ):
    """Eq. 6 of Noci et al. with (c₊ − c₋)² = 1."""
    return (np.sqrt(1 - ρ**2) - ρ * np.arccos(ρ)) / (2 * np.pi)


def judged(before, behind, settings):
    """Networks of both, at each setting (γ², ρ, T, constants), against paths of both."""
    for γ2, ρ, T, constants in settings:
        given, layers = {"γ": γ2**0.5, **constants}, round(T * N)
        paths = {
            sde.program.name: sde.simulate(at(ρ), T=layers / N, dt=0.02, paths=PATHS, seed=SEED, halve=True, **given)
            for sde in (before, behind)
        }
        for sde, other in ((before, behind), (behind, before)):
            count = MANY if sde is before else FEW
            V = covariances_of_networks(sde.program, at(ρ), N, layers, count, SEED, **given)
            found = V[:, 0, 1] / np.sqrt(V[:, 0, 0] * V[:, 1, 1])
            own, twin = (paths[s.program.name].halved.correlation(0, 1) for s in (sde, other))
            name = f"{sde.program.name}, γ² = {γ2:g}, ρ = {ρ:g}, T = {T:g}"
            work.means(name, found, own)
            if sde is before:
                work.means(f"{name}; the wrong twin, without the factor", found, twin, same=False)


before, behind = work.equation(relu_before), tp.derive(relu_behind, tp.Proportional())
for γ2, ρ in ((0.25, 0.5), (0.5, 0.8)):
    factor = (1 + 2 * (1 - γ2)) / (2 - γ2)
    for sde, f in ((before, factor), (behind, 1.0)):
        drift = sde.drift_at(at(ρ), γ=γ2**0.5, **SLOPES)[0, 1]
        work.close(f"drift of ρ, {sde.program.name}, γ² = {γ2:g}", drift, γ2 * ν(ρ) - γ2 * f * ρ * (1 - ρ**2))
        noise = sde.diffusion_at(at(ρ), γ=γ2**0.5, **SLOPES)[1, 1]
        work.close("its noise, squared", noise, 2 * γ2 * (1 - ρ**2) ** 2)
print("\nMeans of the correlation; first beside those of paths drawn elsewhere, with their errors.")
KNOWN = (
    (0.25, 0.5, 0.5, ((0.4561, 9e-4), (0.4711, 9e-4))),
    (0.5, 0.8, 0.4, ((0.7375, 9e-4), (0.7549, 7e-4))),
)
for γ2, ρ, T, known in KNOWN:
    for sde, (mean, error) in zip((before, behind), known, strict=True):
        paths = sde.simulate(at(ρ), T=T, paths=PATHS, seed=SEED, halve=True, γ=γ2**0.5, **SLOPES).halved
        own, own_error = paths.mean(paths.correlation(0, 1))
        off = abs(own - mean) / np.hypot(own_error, error)
        work.holds(f"{sde.program.name}, γ² = {γ2:g}: {own:.4f} ± {own_error:.4f}, there {mean} ± {error}", off < 4)
judged(before, behind, ((0.25, 0.7, 1.0, SLOPES), (0.5, 0.7, 0.8, SLOPES)))

before, behind = work.equation(attention_before), tp.derive(attention_behind, tp.Proportional())
judged(before, behind, ((0.35, 0.6, 0.8, {"τ0": 0.8}), (0.25, 0.7, 1.0, {"τ0": 0.6})))
work.finish()
