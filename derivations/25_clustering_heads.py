"""Clustering heads (Odonnat, Bouaziz & Cabannes): gradients, stationary points, a bound on gradients, an exact head.

One layer of attention with a single query q in front of a perceptron, weights tied to the embeddings E:

    z_t = (E(x_t) + P(t))/|·|,  s = softmax(zᵀq/√d),  ξ = V z s,  ψ = ξ + U σ(W ξ̄),  ξ̄ = ξ/|ξ|,  ζ = E ψ.

With Q = U diag σ'(Wξ̄) W M and M = (I − ξ̄ξ̄ᵀ)/|ξ| the derivatives of a logit, and of the loss with E(j) replaced by
C_x = Σ_j (p̂_j − p_j) E(j), are

    ∇_q = (1/√d) Cov_s(z) Vᵀ (I + Qᵀ) E(j),        ∇_V = (I + Qᵀ) E(j) (z s)ᵀ,
    ∇_W = diag σ'(Wξ̄) Uᵀ E(j) ξ̄ᵀ,                  ∇_U = E(j) σ(Wξ̄)ᵀ.

The paper bounds the gradient with ‖M‖ = 1; it is 1/|ξ|, and the bound fails for small ξ.  With κ = max σ' = σ'(√2) and
a_x = 1 + κ ‖U‖ ‖W‖/|ξ_x|, what holds is

    |∇_q| ≤ ‖V‖/√d E[a_x |C_x|],   |∇_V| ≤ E[a_x |C_x|],   |∇_W| ≤ κ ‖U‖ E|C_x|,   |∇_U| ≤ ‖W‖ E|C_x|.
"""

import math

import numpy as np
from scipy.special import erf
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.training.finite.networks import train
from tplimits.zoo.clustering_heads import measures, start
from tplimits.zoo.clustering_heads.task import SparseModularAddition
from tplimits.zoo.networks.sparse_modular_addition import transformer

work = Worked(__doc__)
TASK, H = SparseModularAddition(), 32
X = TASK.population()
Y = TASK.labels(X)
#: of the one step that gradients are read from
RATE = 1e-6


def σ(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def slope(x):
    return (1 + erf(x / math.sqrt(2))) / 2 + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def drawn(seed, d=2, vocab=2, **changed):
    """Parameters without biases, as in the lemma."""
    θ = {**start.scalars(seed, d=d, vocab=vocab, base=H), **start.neurons(H, seed, d=d)}
    return {**θ, "b": np.zeros(H), "c": np.zeros(d), **changed}


def by_steps(θ, x, error):
    """Gradients of the network itself: what one step of gradient descent moves; μP multiplies those of neurons by n."""
    net = transformer(d=len(θ["q"]), vocab=len(θ["E"]), base=H, rms=False)
    names = ("q", "V", "w", "u")
    run = train(net, tp.MUP, tp.SGD(), x, error, RATE, 1, n=H, given=θ, keep=names, only=names)
    found = {name: (run.kept[name][0, 0] - run.kept[name][0, 1]) / RATE for name in names}
    return {name: g / H if name in "wu" else g for name, g in found.items()}


def closed_form(θ, x, e):
    """The four derivatives at one input, with e = E(j) or a sum of embeddings; neurons stand last."""
    d = len(θ["q"])
    z = (θ["E"][x] + θ["P"]).T
    z = z / np.linalg.norm(z, axis=0)
    s = np.exp(z.T @ θ["q"] / math.sqrt(d))
    s /= s.sum()
    ξ = θ["V"] @ z @ s
    size = np.linalg.norm(ξ)
    bar = ξ / size
    pre = θ["w"].T @ bar
    M = (np.eye(d) - np.outer(bar, bar)) / size
    Q = θ["u"] @ np.diag(slope(pre)) @ θ["w"].T @ M
    passed = (np.eye(d) + Q.T) @ e
    covariance = (z * s) @ z.T - np.outer(z @ s, z @ s)
    return {
        "q": covariance @ θ["V"].T @ passed / math.sqrt(d),
        "V": np.outer(passed, z @ s),
        "w": np.outer(bar, slope(pre) * (θ["u"].T @ e)),
        "u": np.outer(e, σ(pre)),
    }


print("\nThe derivatives of every logit: the closed form beside one step of the network, at width 32")
for d, vocab in ((2, 2), (3, 3), (8, 2)):
    rng = np.random.default_rng(SEED)
    θ, x = drawn(SEED, d, vocab), rng.integers(0, vocab, (1, TASK.length))
    worst = straight = 0.0
    for j in range(vocab):
        found = by_steps(θ, x, lambda f, j=j, p=vocab: np.eye(p)[None, j])
        wanted = closed_form(θ, x[0], θ["E"][j])
        worst = max(worst, *(abs(found[k] - wanted[k]).max() / abs(wanted[k]).max() for k in wanted))
        flat = closed_form({**θ, "u": 0 * θ["u"]}, x[0], θ["E"][j])["V"]
        straight = max(straight, abs(found["V"] - flat).max() / abs(found["V"]).max())
    work.holds(f"d = {d}, p = {vocab}: relative difference {worst:.1e} (rounding of the step)", worst < 1e-7)
    work.holds(f"wrong: no gradient through the norm, Q = 0: off by {straight:.2f}", straight > 0.01)

print("\nStationary points: the gradient of the loss is the same form with C_x in the place of E(j)")


def loss_gradient(θ, x, y):
    """(C_x, |ξ_x|, gradients of the mean cross-entropy) from the closed form; values from the network itself."""
    net = transformer(vocab=len(θ["E"]), base=H, rms=False)
    run = train(net, tp.MUP, tp.SGD(), x, tp.cross_entropy(y), 0.0, 0, n=H, given=θ, keep=("ξ",))
    ξ, p = run.kept["ξ"][0, 0], np.exp(run.f[0, 0])
    p /= p.sum(axis=1, keepdims=True)
    C = (p - np.eye(len(θ["E"]))[y]) @ θ["E"]
    parts = [closed_form(θ, one, c) for one, c in zip(x, C, strict=True)]
    return C, ξ, p, {name: np.mean([part[name] for part in parts], axis=0) for name in parts[0]}


few = np.random.default_rng(SEED).choice(len(X), 64, replace=False)
θ = drawn(SEED)
_, _, _, wanted = loss_gradient(θ, X[few], Y[few])
found = by_steps(θ, X[few], tp.cross_entropy(Y[few]))
off = max(abs(found[k] - wanted[k]).max() / abs(wanted[k]).max() for k in wanted)
work.holds(f"64 inputs: relative difference {off:.1e}", off < 1e-7)

print("\nAn exact head with finite weights: E(0) + P(t) on the line through E(1) − E(0) for t > 5")
head = {
    "E": np.array([[-1.0, 0.0], [1.0, 0.0]]),
    "P": np.array([[0.0, 1.0]] * 5 + [[3.0, 0.0]] * 7),
    "q": np.array([0.0, 6.0]),
    "V": np.eye(2),
    "c": np.zeros(2),
    **start.neurons(H, SEED),
}
net = transformer(vocab=2, rms=False)
at_start = train(net, tp.MUP, tp.SGD(), X, tp.cross_entropy(Y), 0.0, 0, n=H, given=head, keep=("ξ", "s")).kept
ξ, s = at_start["ξ"][0, 0], at_start["s"][0, 0]
work.holds(
    f"{measures.clusters(ξ)} clusters of ξ over all {len(X)} inputs, C(k + p − 1, k) = {TASK.multisets}",
    measures.clusters(ξ) == TASK.multisets == 6,
)
angles = np.unique(np.round(np.degrees(np.arctan2(ξ[:, 1], ξ[:, 0])), 1))
work.holds(f"at {', '.join(map(str, angles))} degrees", angles.tolist() == [42.3, 55.1, 73.4, 95.8, 116.6, 132.0])
share = measures.invariance(ξ, X, TASK)
work.holds(f"share of the variance of ξ inside multisets: {share.within:.1e}", share.within < 1e-20)
mass = s[0, : TASK.relevant].sum()
work.holds(f"attention on the first five of 0…0: {mass:.3f}; the rest need not vanish", abs(mass - 0.935) < 5e-4)
moved = head["P"] + np.where(np.arange(12)[:, None] == 7, [0.0, 0.1], 0.0)
other = train(net, tp.MUP, tp.SGD(), X, tp.cross_entropy(Y), 0.0, 0, n=H, given={**head, "P": moved}, keep=("ξ",)).kept
twelve = len(np.unique(np.round(other["ξ"][0, 0], 9), axis=0))
work.holds(f"wrong: P(8) off the line, {twelve} points instead of 6", twelve == 12)

print("\nThe perceptron behind this head, fitted to ever larger logits: C_x → 0, and the gradients with it")
one_of_each = [int(np.flatnonzero(TASK.counts(X)[:, 1] == count)[0]) for count in range(6)]
rng = np.random.default_rng(SEED)
head |= {"w": rng.uniform(-6, 6, (2, H)), "b": np.zeros(H)}
bar = ξ[one_of_each] / np.linalg.norm(ξ[one_of_each], axis=1, keepdims=True)
acts = σ(bar @ head["w"])
norms = []
for size in (2.0, 4.0, 8.0, 16.0):
    head["u"] = np.linalg.lstsq(acts, size * head["E"][Y[one_of_each]] - ξ[one_of_each], rcond=None)[0].T
    C, _, p, g = loss_gradient(head, X[one_of_each], Y[one_of_each])
    norms.append(math.sqrt(sum((part**2).sum() for part in g.values())))
    right = (p.argmax(axis=1) == Y[one_of_each]).all()
    work.holds(f"margin {size:g}: max |C_x| = {abs(C).max():.1e}, gradient {norms[-1]:.1e}", right and norms[-1] > 0)
work.holds("it vanishes with the margin, and only in the limit", norms[-1] < 1e-10 and max(np.diff(norms)) < 0)

print("\nBounds of the gradient, 64 inputs, V shrunk: ξ comes near the point where x/|x| is singular")
κ = float(slope(math.sqrt(2)))
grid = slope(np.linspace(-10, 10, 200_001))
work.holds(f"κ = max σ' = σ'(√2) = {κ:.4f}", grid.max() <= κ and κ - grid.max() < 1e-8)
ratios = []
θ = drawn(SEED)
for shrink in (1.0, 1e-1, 1e-2, 1e-3, 1e-4):
    small = {**θ, "V": θ["V"] * shrink}
    C, ξ, p, _ = loss_gradient(small, X[few], Y[few])
    g = by_steps(small, X[few], tp.cross_entropy(Y[few]))
    V, W, U = (float(np.linalg.norm(small[name], 2)) for name in ("V", "w", "u"))
    B, variation = abs(θ["E"]).max(), abs(p - np.eye(2)[Y[few]]).sum(axis=1).mean() / 2
    query = 2 * TASK.length * math.sqrt(2) * V * (1 + math.sqrt(2 / math.pi) * W**2 * U)
    printed = 8 * B**2 * (query**2 + 2 * (1 + 2 * W * U) ** 2 + 4 * U**2 + W**2) * variation
    size = np.linalg.norm(C, axis=1)
    a = 1 + κ * U * W / np.linalg.norm(ξ, axis=1)
    bounds = {
        "q": V / math.sqrt(2) * (a * size).mean(),
        "V": (a * size).mean(),
        "w": κ * U * size.mean(),
        "u": W * size.mean(),
    }
    shares = [np.linalg.norm(g[name]) / bounds[name] for name in bounds]
    ratios.append(sum((part**2).sum() for part in g.values()) / printed)
    text = f"V × {shrink:g}: |∇|² over the printed bound {ratios[-1]:.2g}; over what holds at most {max(shares):.2f}"
    work.holds(text, max(shares) <= 1)
work.holds(f"as printed it is wrong: {ratios[-1]:.1f} > 1", ratios[-1] > 1.5)
work.finish()
