"""The tangent kernel of attention: Hron et al. 2020, Theorem 18.

With 𝒵_ab[A] = Σ_ij A_ij E[ζ_ai(x) ζ_bj(x′)] and, for entrywise ζ, 𝒯_ab[A, M] = Σ_ij A_ij M_ij E[ζ′_ai(x) ζ′_bj(x′)],

    Θ = 2κ + 𝒵[Θ̃] + (2κ̃ + Θ̃) ⊙ 𝒯[κ̃, κ̃] + κ̃ ⊙ 𝒯[κ̃, Θ̃]

for 1/√d logits of independent matrices; κ̃ and Θ̃ are the kernels of the layer's input.  Term by term: W^O and W^V give
κ each, the way through the values 𝒵[Θ̃], W^Q and W^K together 2κ̃ ⊙ 𝒯[κ̃, κ̃], the ways through queries and keys the
rest.  For ζ = id: Θ = 4κ + 2κ̃⟨κ̃, Θ̃⟩ + Θ̃‖κ̃‖².  With 1/d logits all that goes through them is a factor 1/d smaller,
and Θ = 2κ + ζ̄^x Θ̃ (ζ̄^x′)ᵀ, as in 14_attention_over_d.py.
"""

import attention as paper
from worked import Worked

import tplimits as tp

work = Worked(__doc__)


def heads(ζ):
    @tp.network
    def attention(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        WQ: tp.Matrix["k", "n", "head"],
        WK: tp.Matrix["k", "n", "head"],
        WV: tp.Matrix["m", "n", "head"],
        WO: tp.Matrix["n", "m", "head"],
        v: tp.Vector,
    ):
        g = tp.relu(tp.sum(U * ξ, over="d"))
        G = tp.avg((WQ @ g) * (WK @ g).rename(token="key")) * tp.sqrt(tp.width("k"))
        f = tp.sum(ζ(G) * (WV @ g).rename(token="key"), over="key")
        return v * tp.sum(WO @ f, over="head") / tp.sqrt(tp.size("head"))

    return attention


CASES = {
    "identity": (lambda G: G, paper.product),
    "relu": (tp.relu, paper.arc_cosine),
    "abs": (tp.abs, paper.arc_sine),
}
BELOW = ("U", "WQ", "WK", "WV", "WO")


def theorem(κ, Θ, Z, T):
    """What each group of parameters gives; together Θ."""
    return {
        ("WO",): Z(κ),
        ("WV",): Z(κ),
        ("WQ",): κ * T(κ, κ),
        ("WK",): κ * T(κ, κ),
        ("U",): Z(Θ) + Θ * T(κ, κ) + κ * T(κ, Θ),
    }


limits = {}
for name, (ζ, moments) in CASES.items():
    limits[name] = work.kernels(heads(ζ), train=BELOW, infinite=("head",))
    for seed, (s, t) in enumerate(((3, 2), (2, 2))):
        X, Y = paper.inputs(seed, 2, s), paper.inputs(seed + 50, 3, t)
        κ, Θ = paper.relu_features(X, Y)
        own = [paper.own(paper.relu_features(A, A)[0]) for A in (X, Y)]
        Z, T = paper.random_logits(κ, *own, moments)
        parts = theorem(κ, Θ, Z, T)
        pair = limits[name].evaluate(X, Y)
        work.matrices(f"κ of {name}, {s} and {t} tokens", pair.nngp, Z(κ))
        work.matrices(f"Θ of {name}, {s} and {t} tokens", pair.ntk, sum(parts.values()))
        for trained, by_hand in parts.items() if seed == 0 else ():
            found = limits[name].contribution(*trained).evaluate(X, Y).ntk
            work.matrices(f"the part of {', '.join(trained)}", found, by_hand)
        if name == "identity":
            norm, mixed = ((κ * A).sum(axis=(2, 3), keepdims=True) for A in (κ, Θ))
            work.matrices("Θ = 4κ + 2κ̃⟨κ̃, Θ̃⟩ + Θ̃‖κ̃‖²", pair.ntk, 4 * κ * norm + 2 * κ * mixed + Θ * norm)

# the mean over networks does not depend on the number of heads, their spread does
X = 1.4 * paper.inputs(9, 1, 2)
options = {"given": {"head": 8}, "widths": (8, 20, 48, 80), "draws": (6000, 3000, 1500, 400)}
work.networks(limits["relu"], "The derived kernels of relu, at eight heads.", X, **options)
κ, Θ = paper.relu_features(X, X)
Z, _ = paper.random_logits(κ, paper.own(κ), paper.own(κ), paper.arc_cosine)
why = "The wrong twin: logits taken as numbers, as they are with 1/d."
work.networks(limits["relu"], why, X, {"ntk": 2 * Z(κ) + Z(Θ)}, accepted=False, **options)
work.finish()
