"""Attention beside convolution: Hron et al. 2020, Propositions 2 and 4; appended encodings; strings of unequal length.

A layer of weights ζ of tokens, y_a = Σ_i ζ_ai V x_i, takes kernels κ̃ to Σ_ij C^ab_ij κ̃_ij(x, x′).  The coefficients
are

    C^ab_ij = ζ_ai(x) ζ_bj(x′)                           logits over n, which tend to numbers,
    C^ab_ij = E ζ_ai(x) ζ_bj(x′)                         logits over √n and many heads,
    C^ab_ij = 1/m [i = N_a(k), j = N_b(k) for one k]     a convolution with m taps, N_a(k) the place that tap k reads.

Proposition 2.  Attention at 1/n is no convolution with two taps or more, whatever ζ is: for given a and b the matrix
C^ab has rank 1 for attention and rank m for a convolution, so that it is off by √(1 − 1/m) of its norm at least.  (The
own kernels of x and x′, which ζ depends on, are held, and the block between x and x′ can be any matrix.)

Proposition 4.  Random logits can: let a head look at tap k of every place, k uniform and the same for all places.
Then E ζ_ai ζ_bj is that of the convolution.  Heads that draw k for each place apart have the same C^aa, and for a ≠ b
Σ_kl κ̃_{N_a(k) N_b(l)}/m², a product of means.  m heads, one for each tap, have no need of a mean.  Their tangent
kernel is 2κ and not κ for the layer's own weights, there being two matrices; with V frozen it is that of the
convolution.

Appended encodings.  [g, E] with E of r n neurons, behind one matrix with entries of variance 1/(n + r n), has the
kernels of √α g + √(1 − α) E with α = 1/(1 + r).

Unequal lengths.  Kernels of strings of s and s′ tokens have blocks s × s′.  Padded to one length and masked they are
the same, whatever stands in the padding; encodings are data that know how long each string is.
"""

import attention as paper
import numpy as np
from worked import Worked

import tplimits as tp

work = Worked(__doc__)
L = tp.layers
PLACES, TAPS = 5, 3
#: N_a(k) of a convolution on a ring
READS = (np.arange(PLACES)[None, :] + np.arange(TAPS)[:, None] - 1) % PLACES
#: weights that look at one tap, (tap, token, key)
ONE_HOT = np.eye(PLACES)[READS]


# -- coefficients ---------------------------------------------------------------------------------


def basis():
    """Inputs x and x′ whose blocks κ̃_ij(x, x′) are 1 at one (i, j) and 0 elsewhere: x_i = e_i, and x′_j = e_i."""
    X = np.broadcast_to(np.eye(PLACES), (1, PLACES, PLACES))
    Y = np.zeros((PLACES, PLACES, PLACES, PLACES))  # i, j, token, d
    for i, j in np.ndindex(PLACES, PLACES):
        Y[i, j, j, i] = 1
    return X, Y.reshape(-1, PLACES, PLACES)


def coefficients(network):
    """C^ab_ij of a network with an output for every place, linear in κ̃: its kernel on the basis."""
    found = tp.derive(network, tp.Kernels(train=())).evaluate(*basis()).nngp
    return found.reshape(PLACES, PLACES, PLACES, PLACES).transpose(2, 3, 0, 1)


def of_weights(ζ):
    """y_a = Σ_i ζ_ai V x_i of linear features, one output for each place."""

    @tp.network
    def net(ξ: tp.Input["token", "d"], U: tp.Vector["d"], V: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.sum(tp.constant(ζ, axes=("token", "key")) * (V @ x).rename(token="key"), over="key")

    return net


@tp.network
def convolution(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * L.conv1d(x, W, over={"token": PLACES}, taps={"tap": TAPS}, padding="CIRCULAR") / tp.sqrt(TAPS)


def taken(reads):
    """The C^ab of a convolution, from what is printed."""
    C = np.zeros((PLACES,) * 4)
    for k, a, b in np.ndindex(TAPS, PLACES, PLACES):
        C[a, b, reads[k, a], reads[k, b]] += 1 / TAPS
    return C


print("\nProposition 2")
of_convolution = coefficients(convolution)
work.matrices("C of the derived convolution", of_convolution, taken(READS))
ranks = {int(np.linalg.matrix_rank(of_convolution[a, b])) for a, b in np.ndindex(PLACES, PLACES)}
work.holds(f"each C^ab of the convolution has rank {ranks} = {TAPS}, the number of taps", ranks == {TAPS})
singular = np.linalg.svd(of_convolution, compute_uv=False)
off = np.sqrt(1 - singular[..., 0] ** 2 / (singular**2).sum(axis=-1))
text = f"the nearest matrix of rank 1 is off by {off.min():.4f} of its norm = √(1 − 1/{TAPS})"
work.holds(text, np.allclose(off, np.sqrt(1 - 1 / TAPS), rtol=1e-10))
rng = np.random.default_rng(0)
for name, ζ in (
    ("softmax", paper.softmax(rng.standard_normal((PLACES, PLACES)))),
    ("any", rng.standard_normal((PLACES, PLACES))),
    ("uniform on what the taps read", ONE_HOT.mean(axis=0)),
):
    C = coefficients(of_weights(ζ))
    work.matrices(f"C^ab = ζ_a ζ_bᵀ, {name} weights", C, np.einsum("ai,bj->abij", ζ, ζ))
    far = np.linalg.norm(C - of_convolution, axis=(2, 3)) / np.linalg.norm(of_convolution, axis=(2, 3))
    work.holds(f"{name} weights are off by {far.min():.3f} to {far.max():.3f} of the norm", far.min() > 0.8)


# -- heads that look at one tap ---------------------------------------------------------------------
#: weights of places in the output, so that a shift of all places is seen
READ_OUT = np.array([0.8, -0.5, 0.3, 0.6, -0.2])


def heads(ζ):
    """H^(−1/2) Σ_h O_h Σ_i ζ^h_ai V_h x_i of relu features, and the mean over places."""

    @tp.network
    def net(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        V: tp.Matrix["n", "n", "head"],
        O: tp.Matrix["n", "n", "head"],  # noqa: E741
        v: tp.Vector,
    ):
        x = tp.relu(tp.sum(U * ξ, over="d"))
        seen = tp.sum(tp.constant(ζ, axes=("head", "token", "key")) * (V @ x).rename(token="key"), over="key")
        y = tp.sum(O @ seen, over="head") / tp.sqrt(len(ζ))
        return v * tp.sum(tp.constant(READ_OUT, axes=("token",)) * tp.relu(y), over="token")

    return net


@tp.network
def wide(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    y = L.conv1d(x, W, over={"token": PLACES}, taps={"tap": TAPS}, padding="CIRCULAR") / tp.sqrt(TAPS)
    return v * tp.sum(tp.constant(READ_OUT, axes=("token",)) * tp.relu(y), over="token")


print("\nProposition 4")
X = 2 * paper.inputs(1, 3, PLACES)
by_taps = tp.derive(heads(ONE_HOT), tp.Kernels())
target = tp.derive(wide, tp.Kernels()).evaluate(X)
work.matrices("one head for each tap: NNGP of the convolution", by_taps.evaluate(X).nngp, target.nngp)
frozen = tp.derive(heads(ONE_HOT), tp.Kernels(train=("U", "O", "v"))).evaluate(X).ntk
work.matrices("and with V frozen its NTK", frozen, target.ntk)
own = tp.derive(wide, tp.Kernels(train=("W",))).evaluate(X).ntk
work.matrices("with V trained one more contribution of W", by_taps.evaluate(X).ntk, target.ntk + own)

#: logits β at the place of a tap instead of ∞: the weights are one-hot up to e^−β
for β in (5, 10, 20):
    soft = paper.softmax(β * ONE_HOT)
    off = np.abs(tp.derive(heads(soft), tp.Kernels(train=())).evaluate(X).nngp / target.nngp - 1).max()
    work.holds(f"logits {β}: off by {off:.1e}, {off * np.exp(β):.2f} e^−{β}", off < 20 * np.exp(-β))


def drawn(many, each, seed):
    """Weights of heads that draw their tap, once for all places or once for each."""
    rng = np.random.default_rng(seed)
    k = rng.integers(TAPS, size=(many, PLACES if each else 1))
    return np.eye(PLACES)[READS[np.broadcast_to(k, (many, PLACES)), np.arange(PLACES)]]


def by_coefficients(C):
    """The NNGP of `heads` and `wide` from their C^ab."""
    κ = np.einsum("abkl,ijkl->ijab", C, paper.relu_features(X, X)[0])
    own = np.einsum("iiaa->ia", κ)
    last = paper.arc_cosine(own[:, None, :, None], κ, own[None, :, None, :])[0]
    return np.einsum("a,ijab,b->ij", READ_OUT, last, READ_OUT)


def mean_of(ζ):
    return np.einsum("hak,hbl->abkl", ζ, ζ) / len(ζ)


apart, mean = taken(READS), np.eye(PLACES)[READS].mean(axis=0)
for a, b in np.ndindex(PLACES, PLACES):
    if a != b:
        apart[a, b] = np.outer(mean[a], mean[b])
ζ = drawn(20, True, 9)
some = tp.derive(heads(ζ), tp.Kernels(train=())).evaluate(X).nngp
work.matrices("20 heads that have drawn, by their coefficients", some, by_coefficients(mean_of(ζ)))
COUNTS = (10, 100, 1000, 10000)
for each, limit in ((False, taken(READS)), (True, apart)):
    off = {}
    for what, C in (("their limit", limit), ("the convolution", taken(READS))):
        far = [[np.abs(mean_of(drawn(H, each, s)) - C).max() for s in range(8)] for H in COUNTS]
        off[what] = np.mean(far, axis=1)
    slope = np.polyfit(np.log(COUNTS), np.log(off["their limit"]), 1)[0]
    which = "for each place" if each else "for all places"
    work.holds(f"a tap drawn {which}: C of H heads comes to its limit as H^{slope:.2f}", abs(slope + 0.5) < 0.1)
    last = off["the convolution"][-1]
    work.holds(f"and is {last:.3f} from the convolution with {COUNTS[-1]} heads", (last > 0.2) == each)
FEW = {"widths": (16, 32, 64), "draws": (900, 600, 400)}
work.networks(by_taps, "Heads of the taps are a convolution.", X, {"nngp": target.nngp}, **FEW)
wrong = {"nngp": by_coefficients(apart)}
work.networks(by_taps, "The wrong twin: taps drawn for each place.", X, wrong, accepted=False, **FEW)


# -- appended encodings -----------------------------------------------------------------------------

S = 3
LOWER = np.linalg.cholesky(paper.decay(S))
r = tp.width("m") / tp.n


def encoded(appended):
    """Softmax attention whose tokens have encodings: E of other neurons behind a matrix of its own, or added."""

    @tp.network
    def net(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        E: tp.Vector["source", "m"],
        Q: tp.Matrix,
        V: tp.Matrix,
        QE: tp.Matrix["n", "m"],
        VE: tp.Matrix["n", "m"],
        O: tp.Matrix,  # noqa: E741
        v: tp.Vector,
    ):
        g = tp.relu(tp.sum(U * ξ, over="d"))
        code = tp.sum(tp.constant(LOWER, axes=("token", "source")) * E, over="source")
        # one matrix of variance 1/(n + r n) on [g, E] is two of variances 1/n and 1/(r n) with these factors
        q, values = (tp.sqrt(1 / (1 + r)) * (A @ g) + tp.sqrt(r / (1 + r)) * (B @ code) for A, B in ((Q, QE), (V, VE)))
        return v * (O @ L.attention(q, q, values))

    @tp.network
    def added(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        E: tp.Vector["source"],
        Q: tp.Matrix,
        V: tp.Matrix,
        O: tp.Matrix,  # noqa: E741
        v: tp.Vector,
        *,
        α=0.6,
    ):
        g = tp.relu(tp.sum(U * ξ, over="d"))
        code = tp.sum(tp.constant(LOWER, axes=("token", "source")) * E, over="source")
        g = tp.sqrt(α) * g + tp.sqrt(1 - α) * code
        q = Q @ g
        return v * (O @ L.attention(q, q, V @ g))

    return (net if appended else added).bind(source=S)


print("\nAppended encodings")
X = paper.inputs(2, 3, S)
appended, added = (tp.derive(encoded(which), tp.Kernels()) for which in (True, False))
for ratio in (0.25, 2 / 3, 3.0):
    one, other = appended.evaluate(X, ratios={"m": ratio}), added.evaluate(X, α=1 / (1 + ratio))
    work.matrices(f"NNGP, {ratio:.2f} n neurons appended", one.nngp, other.nngp)
    work.matrices(f"NTK, {ratio:.2f} n neurons appended", one.ntk, other.ntk)
X = 1.5 * X[:1]
few = {"ratios": {"m": 0.25}}
right, wrong = (dict(zip(("nngp", "ntk"), added.evaluate(X, α=α), strict=True)) for α in (0.8, 0.2))
work.networks(appended, "n/4 neurons appended to n: α = 4/5.", X, right, **FEW, **few)
work.networks(appended, "The wrong twin: α = 1/5, the share of the encodings.", X, wrong, accepted=False, **FEW, **few)


# -- strings of unequal length ------------------------------------------------------------------------

TERMS = 36  # of the series of exp(2φ t t′), t and t′ at most 1


def encodings(lengths, most, φ=2.5):
    """Rows c(t) with c(t)·c(t′) = exp(−φ (t − t′)²), t = a/s: encodings of each string as data, whatever its length."""
    c = np.zeros((len(lengths), most, TERMS))
    for row, s in zip(c, lengths, strict=True):
        t, factor = np.arange(1, s + 1) / s, np.ones(s)
        for k in range(TERMS):
            row[:s, k] = np.exp(-φ * t**2) * factor
            factor = factor * t * np.sqrt(2 * φ / (k + 1))
    return c


@tp.network
def strings(
    ξ: tp.Input["token", "d"],
    c: tp.Input["token", "term"],
    m: tp.Input["token"],
    U: tp.Vector["d"],
    E: tp.Vector["term"],
    Q: tp.Matrix,
    V: tp.Matrix,
    O: tp.Matrix,  # noqa: E741
    v: tp.Vector,
):
    g = tp.relu(tp.sum(U * ξ, over="d"))
    q = Q @ ((g + tp.sum(c * E, over="term")) / tp.sqrt(2))
    y = O @ L.attention(q, q, V @ g, mask=m)
    return v * tp.sum(m * y, over="token") / tp.sum(m, over="token")


print("\nStrings of unequal length")
lengths = (7, 4, 9)
texts = [paper.inputs(20 + s, 1, s)[0] for s in lengths]


def padded(fill, most=9):
    X, m = np.full((len(texts), most, 4), fill), np.zeros((len(texts), most))
    for row, mask, text in zip(X, m, texts, strict=True):
        row[: len(text)], mask[: len(text)] = text, 1
    return {"ξ": X, "c": encodings(lengths, most), "m": m}


def block(x, y):
    """κ and Θ of two strings as they are, of s and s′ tokens."""
    κ, Θ = (B[0, 0] for B in paper.relu_features(x[None], y[None]))
    ζ = []
    for z in (x, y):
        t = np.arange(1, len(z) + 1) / len(z)
        R = np.exp(-2.5 * (t[:, None] - t) ** 2)
        ζ.append(paper.softmax((paper.relu_features(z[None], z[None])[0][0, 0] + R) / 2))
    nngp, through = ((ζ[0] @ B @ ζ[1].T).mean() for B in (κ, Θ))
    return nngp, 3 * nngp + through  # v, O and V; queries and keys do not count at 1/n


by_hand = np.array([[block(x, y) for y in texts] for x in texts])
limit = tp.derive(strings, tp.Kernels(train=("U", "V", "O", "Q", "v")))
for fill in (0.0, 5.0):
    nngp, ntk = limit.evaluate(padded(fill))
    work.matrices(f"NNGP of strings of {lengths} tokens, padded by {fill:g}", nngp, by_hand[..., 0])
    work.matrices(f"NTK of them, padded by {fill:g}", ntk, by_hand[..., 1])
two = {name: x[:2, :7] for name, x in padded(0.0).items()}
work.matrices("two of them, padded to 7", limit.evaluate(two).ntk, by_hand[:2, :2, 1])
small = {name: x[:2, :7] for name, x in padded(5.0).items()}
right = {"nngp": by_hand[:2, :2, 0], "ntk": by_hand[:2, :2, 1]}
work.networks(limit, "Strings of 7 and 4 tokens.", small, right, **FEW)
wrong = limit.evaluate({**small, "m": np.ones_like(small["m"])})
seen = {"nngp": wrong.nngp, "ntk": wrong.ntk}
work.networks(limit, "The wrong twin: padding is seen.", small, seen, accepted=False, **FEW)
work.finish()
