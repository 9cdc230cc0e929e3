"""Layers around attention: Hron et al. 2020, Table 1 and appendices C and D, with what finite networks correct in them.

Positions E, with covariance R between tokens, are added to the input, g̃ = √α g + √(1 − α) E.  Then κ̃ becomes
P = ακ̃ + (1 − α)R everywhere in the forward pass, and the tangent kernel N = αΘ̃ + (1 − α)S with

    S = 0  if E is not trained,   S = I  if E is,   S = R  if E = LẼ, LLᵀ = R, and Ẽ is trained.

(Table 1 has S = R, appendix C.2 S = I: two parametrisations, equal for R = I alone.)  So

    κ = ζ(P^xx) P ζ(P^x′x′)ᵀ,                Θ = 2κ + ζ(P^xx) N ζ(P^x′x′)ᵀ                       at 1/d,
    κ = P ‖P‖²,                             Θ = 4κ + 2P⟨P, N⟩ + N‖P‖²                           at 1/√d, ζ = id.

Residual attention √α g + √(1 − α) f with identity logits of E alone, at 1/d:

    κ = ακ̃ + (1 − α)Rκ̃Rᵀ,                   Θ = αΘ̃ + (1 − α)(2Rκ̃Rᵀ + RΘ̃Rᵀ);

the factor 2 belongs to the branch Rκ̃Rᵀ, while Table 1 has it before κ.  LayerNorm divides both kernels by the root of
κ̃_aa(x, x) κ̃_bb(x′, x′); Table 1 divides the tangent kernel by tangent kernels.
"""

import attention as paper
import numpy as np
from worked import Worked

import tplimits as tp

work = Worked(__doc__)
S, α = 3, 0.6
R = paper.decay(S)
LOWER = np.linalg.cholesky(R)


def positions(E, trained_itself):
    """E with covariance R from independent vectors of each token: itself the parameter, or Ẽ with E = LẼ."""
    if trained_itself:
        return E
    return tp.sum(tp.constant(LOWER, axes=("token", "source")) * E, over="source")


def tied_attention(seen, W, WV, WO, values, ζ):
    """Attention at 1/d with one matrix for queries and keys."""
    q = W @ seen
    A = ζ(tp.avg(q * q.rename(token="key")))
    return WO @ tp.sum(A * (WV @ values).rename(token="key"), over="key")


def softmax(G):
    return tp.softmax(G, over="key")


def added(axis, correlated):
    """Softmax attention with positions added: E independent over tokens and trained, or E = LẼ."""

    @tp.network
    def structured(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        E: tp.Vector[axis],
        W: tp.Matrix["k", "n"],
        WV: tp.Matrix["m", "n"],
        WO: tp.Matrix["n", "m"],
        v: tp.Vector,
    ):
        g = tp.relu(tp.sum(U * ξ, over="d"))
        g = float(np.sqrt(α)) * g + float(np.sqrt(1 - α)) * positions(E, not correlated)
        return v * tied_attention(g, W, WV, WO, g, softmax)

    return structured.bind(**{axis: S})


@tp.network
def random_logits(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    E: tp.Vector["source"],
    WQ: tp.Matrix["k", "n", "head"],
    WK: tp.Matrix["k", "n", "head"],
    WV: tp.Matrix["m", "n", "head"],
    WO: tp.Matrix["n", "m", "head"],
    v: tp.Vector,
):
    g = tp.relu(tp.sum(U * ξ, over="d"))
    g = float(np.sqrt(α)) * g + float(np.sqrt(1 - α)) * positions(E, False)
    G = tp.avg((WQ @ g) * (WK @ g).rename(token="key")) * tp.sqrt(tp.width("k"))
    f = tp.sum(G * (WV @ g).rename(token="key"), over="key")
    return v * tp.sum(WO @ f, over="head") / tp.sqrt(tp.size("head"))


@tp.network
def residual(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    E: tp.Vector["source"],
    W: tp.Matrix["k", "n"],
    WV: tp.Matrix["m", "n"],
    WO: tp.Matrix["n", "m"],
    v: tp.Vector,
):
    g = tp.sum(U * ξ, over="d")
    f = tied_attention(positions(E, False), W, WV, WO, g, lambda G: G)
    return v * (float(np.sqrt(α)) * g + float(np.sqrt(1 - α)) * f)


@tp.network
def layer_norm(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = W @ tp.relu(tp.sum(U * ξ, over="d"))
    centred = h - tp.avg(h)
    return v * centred / tp.sqrt(tp.avg(centred**2))


BELOW = ("U", "E", "W", "WV", "WO")
X, Y = paper.inputs(0, 2, S), paper.inputs(1, 3, S)
κ, Θ = paper.relu_features(X, Y)
own = [paper.own(paper.relu_features(A, A)[0]) for A in (X, Y)]

# positions, softmax at 1/d: the three tangent kernels
of_positions = {}
for name, axis, correlated, cov in (("random", "token", False, np.eye(S)), ("structured", "source", True, R)):
    P, weights = α * κ + (1 - α) * cov, [paper.softmax(α * A + (1 - α) * cov) for A in own]
    by_hand = paper.between(weights[0], P, weights[1])
    for trained, extra in ((BELOW, cov), (("U", "W", "WV", "WO"), 0 * R)):
        limit = work.kernels(added(axis, correlated), train=trained)
        nngp, ntk = limit.evaluate(X, Y)
        work.matrices(f"κ, {name} positions", nngp, by_hand)
        through = paper.between(weights[0], α * Θ + (1 - α) * extra, weights[1])
        work.matrices(f"Θ, {name} positions, {'S = R' if extra.any() else 'S = 0'}", ntk, 2 * by_hand + through)
        of_positions.setdefault(name, limit)

# identity at 1/√d
nngp, ntk = work.kernels(
    random_logits.bind(**{"source": S}), ("U", "E", "WQ", "WK", "WV", "WO"), infinite=("head",)
).evaluate(X, Y)
P, N = α * κ + (1 - α) * R, α * Θ + (1 - α) * R
norm, mixed = ((P * A).sum(axis=(2, 3), keepdims=True) for A in (P, N))
work.matrices("κ = P‖P‖²", nngp, P * norm)
work.matrices("Θ = 4κ + 2P⟨P, N⟩ + N‖P‖²", ntk, 4 * P * norm + 2 * P * mixed + N * norm)

# residual attention
residuals = work.kernels(residual.bind(**{"source": S}), train=("U", "W", "WV", "WO"))
nngp, ntk = residuals.evaluate(X, Y)
κ0 = paper.gram(X, Y)
branch = R @ κ0 @ R.T
work.matrices("κ of residual attention", nngp, α * κ0 + (1 - α) * branch)
work.matrices("Θ of residual attention", ntk, α * κ0 + (1 - α) * 3 * branch)

# LayerNorm after a dense layer with kernels κ and κ + Θ
normed = work.kernels(layer_norm, train=("U", "W"))
nngp, ntk = normed.evaluate(X, Y)
lengths = np.sqrt(np.einsum("iaa->ia", own[0])[:, None, :, None] * np.einsum("jbb->jb", own[1])[None, :, None, :])
work.matrices("κ of LayerNorm", nngp, κ / lengths)
work.matrices("Θ of LayerNorm", ntk, (κ + Θ) / lengths)

X = 1.5 * paper.inputs(5, 1, S)
κ, Θ = paper.relu_features(X, X)
weights = paper.softmax(α * paper.own(κ) + (1 - α) * R)
structured = of_positions["structured"]
work.networks(structured, "Structured positions, E = LẼ with Ẽ trained: S = R.", X)
with_I = 2 * structured.evaluate(X).nngp + paper.between(weights, α * Θ + (1 - α) * np.eye(S), weights)
work.networks(structured, "The wrong twin: S = I, of appendix C.2.", X, {"ntk": with_I}, accepted=False)

work.networks(residuals, "Residual attention.", X)
κ0 = paper.gram(X, X)
branch = R @ κ0 @ R.T
sum_of_both = α * κ0 + (1 - α) * branch
printed = α * κ0 + (1 - α) * (2 * sum_of_both + branch)
work.networks(residuals, "The wrong twin: 2κ of the sum, as printed.", X, {"ntk": printed}, accepted=False)

work.networks(normed, "LayerNorm.", X)
T = κ + Θ
t = np.einsum("iiaa->ia", T)
printed = T / np.sqrt(t[:, None, :, None] * t[None, :, None, :])
work.networks(normed, "The wrong twin: divided by tangent kernels, as printed.", X, {"ntk": printed}, accepted=False)
work.finish()
