"""Attention with logits divided by the width: Hron et al. 2020, Theorem 1 (Yang 2019, appendix A).

    G(x) = QKᵀ/d, W^Q = W^K = W,     f(x) = ζ(G(x)) V(x) W^O.

The logits are means over the width, so they become numbers: G_ai(x) → κ̃_ai(x, x), with κ̃ the kernel of the layer's
input g.  The weights ζ̄^x = ζ(κ̃^xx) are constants and the outputs Gaussian with

    κ_ab(x, x′) = Σ_ij κ̃_ij(x, x′) ζ̄^x_ai ζ̄^x′_bj.

With independent W^Q and W^K the means vanish, softmax gives 1/s to each of s tokens and κ is the mean of all κ̃_ij.
Gradients in W are a factor 1/d below the others: the tangent kernel is 2κ + ζ̄^x Θ̃^xx′ (ζ̄^x′)ᵀ.
"""

import attention as paper
import numpy as np
from worked import Worked

import tplimits as tp

work = Worked(__doc__)


@tp.network
def tied(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    W: tp.Matrix["k", "n"],
    WV: tp.Matrix["m", "n"],
    WO: tp.Matrix["n", "m"],
    v: tp.Vector,
):
    g = tp.relu(tp.sum(U * ξ, over="d"))
    q = W @ g
    A = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
    return v * (WO @ tp.sum(A * (WV @ g).rename(token="key"), over="key"))


@tp.network
def independent(
    ξ: tp.Input["token", "d"],
    U: tp.Vector["d"],
    WQ: tp.Matrix["k", "n"],
    WK: tp.Matrix["k", "n"],
    WV: tp.Matrix["m", "n"],
    WO: tp.Matrix["n", "m"],
    v: tp.Vector,
):
    g = tp.relu(tp.sum(U * ξ, over="d"))
    A = tp.softmax(tp.avg((WQ @ g) * (WK @ g).rename(token="key")), over="key")
    return v * (WO @ tp.sum(A * (WV @ g).rename(token="key"), over="key"))


BELOW = ("U", "W", "WV", "WO")  # all but the readout, which would add κ once more
limit = work.kernels(tied, train=BELOW)
uniform = work.kernels(independent)

for seed, (s, t) in enumerate(((3, 2), (5, 5), (1, 4))):
    X, Y = paper.inputs(seed, 2, s), paper.inputs(seed + 50, 3, t)
    κ, Θ = paper.relu_features(X, Y)
    ζ, ζ2 = (paper.softmax(paper.own(paper.relu_features(Z, Z)[0])) for Z in (X, Y))
    by_hand = paper.between(ζ, κ, ζ2)
    nngp, ntk = limit.evaluate(X, Y)
    work.matrices(f"κ, {s} and {t} tokens", nngp, by_hand)
    work.matrices(f"Θ, {s} and {t} tokens", ntk, 2 * by_hand + paper.between(ζ, Θ, ζ2))
    averaged = np.broadcast_to(κ.mean(axis=(2, 3), keepdims=True), κ.shape)
    work.matrices(f"κ of independent matrices, {s} and {t} tokens", uniform.evaluate(X, Y).nngp, averaged)

X = 1.5 * paper.inputs(7, 2, 2)
work.networks(limit, "The derived kernels.", X)
κ = paper.relu_features(X, X)[0]
claims = {"nngp": np.broadcast_to(κ.mean(axis=(2, 3), keepdims=True), κ.shape)}
work.networks(limit, "The wrong twin: weights 1/s, as if W^Q and W^K were independent.", X, claims, accepted=False)
work.finish()
