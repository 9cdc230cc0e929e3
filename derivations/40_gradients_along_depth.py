"""Gradients of queries, keys and values along depth: Figure 2 of Noci et al. 2023, at reduced size.

    python derivations/40_gradients_along_depth.py [--full] [--out FOLDER] [--png]

Softmax attention that is not shaped collapses the rank of the tokens.  With A = 1 1ᵀ/m + δA and a residual branch of
weight γ, the part of V that tells tokens apart, P V P with P = 1 − 1 1ᵀ/m, shrinks by λ² = 1 − γ² a layer; logits of a
row differ by as much as the tokens do, so that δA, which is of order 1 at first, shrinks with it.
The derivative of a softmax sees these differences alone: δ(A V)_α = Σ_ν (δY_αν − mean) v_ν/m and δY_αν ∝ x_ν, so
that the gradient of W_Q (and of W_K) of layer l is quadratic in P V_l P, and |∂L/∂W_Q|² falls as λ^(4l), while
|∂L/∂W_V|² stays.  Neither the number of tokens, nor heads, nor logits over √n, nor an MLP behind the attention changes
this: blocks that act on each token alone keep the differences of tokens that are nearly parallel.
Shaped attention has no such factor: its gradients follow the SDE of tokens and tangents.

Here m = 4 tokens, n = 32 (64 with --full), 20 layers, γ² = ½: the slope claimed is 2 log ½ = −1.386 a layer.  The
variants have γ² = 0.3, more tokens, logits over √n, and a Transformer layer with a ReLU MLP.
"""

import numpy as np
from blocks import attention, attention_with
from pictures import Pictures, start
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.depth.finite.request import start as begin
from tplimits.regimes.depth.tangent.finite.backpropagation import Network

pictures, work = Pictures(__doc__), Worked(__doc__)
M, N, LAYERS = 4, 64 if pictures.full else 32, 20
DRAWS = 384 if pictures.full else 192
γ = 0.5**0.5
V0 = start(M, 0.2)
shown = list(range(0, LAYERS, 2))


@tp.block
def transformer(
    x: tp.State["token"],
    WQ: tp.Matrix["k", "n"],
    WK: tp.Matrix["k", "n"],
    WV: tp.Matrix,
    W1: tp.Matrix,
    W2: tp.Matrix,
    *,
    γ,
):
    """Attention and an MLP as they are usual, with residual branches of weight γ."""
    Y = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) * tp.sqrt(tp.width("k"))
    attended = tp.sum(tp.softmax(Y, over="key") * (WV @ x).rename(token="key"), over="key")
    x = tp.sqrt(1 - γ**2) * x + γ * attended
    return tp.sqrt(1 - γ**2) * x + γ * tp.sqrt(2) * (W2 @ tp.relu(W1 @ x))


def medians(block, tokens=M, **constants):
    """Medians of log |∂L/∂θ|² at the layers shown, by matrix."""
    bound = block.bind(token=tokens).released
    rng = np.random.default_rng(SEED)
    x, _ = begin(start(tokens, 0.2), bound).states(DRAWS, N, rng)
    network = Network(bound, LAYERS, None, None, constants)
    found = network.squared_norms(x, lambda layer: np.random.default_rng([SEED, layer]), rng, tuple(shown))
    return {name: [np.median(np.log(found[name, layer])) for layer in shown] for name in ("WQ", "WK", "WV")}


print("\nthe limit refuses attention that is not shaped")
vanilla = attention_with(identity=False, centred=False, tempered=False)
try:
    tp.derive(vanilla, tp.Proportional(tangent=True))
except tp.NoLimitError as refused:
    work.holds("its tokens are mixed at order 1", "order 1" in str(refused))

print("\nslopes of log |∂L/∂θ|² a layer")
tempered = attention_with(identity=False, centred=False)
#: block, number of tokens, γ², and whether it is shaped
PANELS = {
    "vanilla": (vanilla, M, 0.5, False),
    "shaped": (attention, M, 0.5, True),
    "γ² = 0.3": (vanilla, M, 0.3, False),
    "6 tokens": (vanilla, 6, 0.5, False),
    "logits over √n": (tempered, M, 0.5, False),
    "with an MLP": (transformer, M, 0.5, False),
}
figure, axes = pictures.figure(len(PANELS), "Gradients along depth: Figure 2", rows=2)
claimed = {name: 0.0 if shaped else 2 * np.log(1 - square) for name, (_, _, square, shaped) in PANELS.items()}
for axis, (name, (block, tokens, square, _)) in zip(axes, PANELS.items(), strict=True):
    constants = {"γ": square**0.5, "τ0": 1.0}
    found = medians(block, tokens, **{c: v for c, v in constants.items() if c in block.constants})
    for matrix, values in found.items():
        axis.plot(shown, values, "o-", label=matrix)
        slope = np.polyfit(shown, values, 1)[0]
        expected = claimed[name] if matrix != "WV" else 0.0
        print(f"  {name:<14} {matrix}: {slope:+.3f}, claimed {expected:+.3f}")
        work.holds(f"{name}, {matrix}", abs(slope - expected) < 0.05 * abs(expected) + (0.06 if expected == 0 else 0))
    axis.set_xlabel(f"layer, {name}")
    axis.set_ylabel("median of log |∂L/∂θ|²")
    axis.legend()
pictures.save(figure, "figure-2")

print("\nshaped attention: the SDE at depth 20")
sde = tp.derive(attention, tp.Proportional(tangent=True))
laws = sde.gradients(V0, T=LAYERS / N, layers=(0.0, 0.5), paths=2048, seed=SEED, stop=100.0, γ=γ, τ0=1.0)
print(laws)
work.finish()
