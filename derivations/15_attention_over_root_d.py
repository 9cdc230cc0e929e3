"""Attention with logits divided by the root of the width: Hron et al. 2020, Theorem 3.

    G^h(x) = Q^h (K^h)ᵀ/√d, W^Q and W^K independent,     f(x) = H^(−1/2) Σ_h ζ(G^h(x)) V^h(x) W^{O,h}.

The logits stay random, independent between heads and Gaussian with covariance

    E G_ai(x) G_bj(x′) = κ̃_ab(x, x′) κ̃_ij(x, x′),

since given the queries they are linear in W^K.  As the number of heads grows, the outputs become Gaussian with

    κ_ab(x, x′) = Σ_ij κ̃_ij(x, x′) E[ζ(G(x))_ai ζ(G(x′))_bj],

which is κ̃ ‖κ̃‖² (‖·‖ that of the block of the two inputs) for ζ = id and arc-cosine functions for relu and abs.  With a
fixed number of heads the outputs are a mixture: Gaussian given the logits, with excess kurtosis
6 tr κ̃⁴/(H (tr κ̃²)²) for ζ = id.  Its covariance is κ for every H, so networks with eight heads can judge κ.
"""

import attention as paper
import numpy as np
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
        g = tp.sum(U * ξ, over="d")
        G = tp.avg((WQ @ g) * (WK @ g).rename(token="key")) * tp.sqrt(tp.width("k"))
        f = tp.sum(ζ(G) * (WV @ g).rename(token="key"), over="key")
        return v * tp.sum(WO @ f, over="head") / tp.sqrt(tp.size("head"))

    return attention


CASES = {
    "identity": (lambda G: G, paper.product),
    "relu": (tp.relu, paper.arc_cosine),
    "abs": (tp.abs, paper.arc_sine),
}
limits = {name: work.kernels(heads(ζ), train=(), infinite=("head",)) for name, (ζ, _) in CASES.items()}
for name, (_, moments) in CASES.items():
    for seed, (s, t) in enumerate(((3, 2), (2, 4), (1, 3))):
        X, Y = paper.inputs(seed, 2, s), paper.inputs(seed + 50, 3, t)
        κ = paper.gram(X, Y)
        Z, _ = paper.random_logits(κ, paper.own(paper.gram(X, X)), paper.own(paper.gram(Y, Y)), moments)
        work.matrices(f"κ of {name}, {s} and {t} tokens", limits[name].evaluate(X, Y).nngp, Z(κ))
        if name == "identity":
            work.matrices("κ = κ̃‖κ̃‖²", Z(κ), κ * (κ**2).sum(axis=(2, 3), keepdims=True))

# softmax: the expectation is drawn; beside it the sampler G = L Z Lᵀ written out, with Z of its own
X = paper.inputs(3, 2, 3)
rows = X.reshape(-1, X.shape[-1])
draws = 20000
white = np.random.default_rng(4).standard_normal((draws, rows.shape[1], rows.shape[1]))
G = np.einsum("iar,zrs,ibs->ziab", X, white, X)
by_draws = np.einsum("ziac,ijcd,zjbd->zijab", *(paper.softmax(G), paper.gram(X, X), paper.softmax(G)))
found = tp.derive(heads(lambda G: tp.softmax(G, over="key")), tp.Kernels(infinite=("head",))).evaluate(X, draws=draws)
error = np.hypot(by_draws.std(axis=0) / draws**0.5, found.nngp_error)
off = float((np.abs(found.nngp - by_draws.mean(axis=0)) / error).max())
work.holds(f"κ of softmax, two samplers: at most {off:.1f} standard errors apart", off < 5)

for H in (1, 4):
    kurtosis = tp.derive(heads(lambda G: G).bind(head=H), tp.Kernels()).excess_kurtosis(X, draws=20000)
    powers = [np.einsum("iaa->i", np.linalg.matrix_power(paper.own(paper.gram(X, X)), p)) for p in (2, 4)]
    by_hand = 6 * powers[1] / (H * powers[0] ** 2)
    off = float((np.abs(kurtosis.value - by_hand[:, None]) / kurtosis.error).max())
    work.holds(f"excess kurtosis with {H} heads, {by_hand.round(2)}: {off:.1f} standard errors apart", off < 5)

X = paper.inputs(9, 2, 2)
κ = paper.gram(X, X)
options = {"given": {"head": 8}, "widths": (8, 20, 48, 96), "draws": (6000, 3000, 1500, 400)}
work.networks(limits["identity"], "The derived kernel of identity, at eight heads.", X, **options)
length = np.sqrt(np.einsum("iiab->i", κ**2))
wrong = {"nngp": κ * np.outer(length, length)[:, :, None, None]}
why = "The wrong twin: the norms of both inputs' own blocks in the place of that of their pair."
work.networks(limits["identity"], why, X, wrong, accepted=False, **options)
work.finish()
