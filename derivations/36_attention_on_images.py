"""Attention kernels on images beside convolution: Hron et al. 2020, Figure 4, Tables 2 and 5 to 7, on digits.

    python derivations/36_attention_on_images.py [--full] [--out FOLDER] [--png]

[depth] convolutions of 3 × 3 with relu, weights 1.7562 and biases 0.1841 as there, then

    flatten    a readout of every place                 gap        the mean over all places
    lap        means of 3 × 3 places, each read out     vanilla    softmax attention at 1/n, each place
    struct     the same with encodings of covariance ρR in queries and keys, √α x + √(1 − α) E, and LayerNorm behind
    residual   √α x + √(1 − α) y, y attention with identity logits of encodings alone, and LayerNorm behind

with R_ab = exp(−φ (Δrow² + Δcolumn²)/64).  Images are those of scikit-learn, 8 × 8, each with mean 0 and variance 1.
Training sets are small (50 images), as these digits are easy; `on_data.py` says how accuracies and errors are
made.

Three questions: which kernel is best at which depth; whether the evidence of the training data alone finds constants
that predict well; what the choice of class targets does.  The last has an answer on paper: regression is linear, so
that targets t + s·[class] for any t and s give the same classes; only the evidence depends on t.
"""

import itertools

import numpy as np
from on_data import NOISES, Accuracy, Fitted, Protocol, digits
from pictures import Pictures
from scipy.stats import spearmanr
from studies import Study
from worked import Worked

import tplimits as tp

pictures, work = Pictures(__doc__), Worked(__doc__)
L = tp.layers
OVER, TAPS = {"at": (8, 8)}, {"tap": (3, 3)}
WEIGHT, BIAS = float(np.sqrt(1.7562)), float(np.sqrt(0.1841))
ROW, COLUMN = (part.ravel() / 8 for part in np.mgrid[:8, :8])


def structure(φ):
    """A factor C of R = C Cᵀ, without eigenvalues below rounding."""
    R = np.exp(-φ * ((ROW[:, None] - ROW) ** 2 + (COLUMN[:, None] - COLUMN) ** 2))
    values, vectors = np.linalg.eigh(R)
    kept = values > 1e-10
    return vectors[:, kept] * np.sqrt(values[kept])


def encoding(E, φ):
    return tp.sum(tp.constant(structure(φ), axes=("at", "source")) * E, over="source")


def network(kind, depth, φ=5.0):
    """[depth] convolutions and what stands behind them."""

    def features(ξ, U, W, b):
        x = tp.relu(WEIGHT * L.conv2d(ξ, U, over=OVER, taps=TAPS) / 3 + BIAS * b.sel(layer=0))
        for i in range(1, depth):
            y = L.conv2d(x, W.sel(layer=i), over=OVER, taps=TAPS) / 3
            x = tp.relu(WEIGHT * y + BIAS * b.sel(layer=i))
        return x

    @tp.network
    def pooled(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        b: tp.Vector["layer"],
        v: tp.Vector,
    ):
        return v * tp.mean(features(ξ, U, W, b), over="at")

    @tp.network
    def read(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        b: tp.Vector["layer"],
        v: tp.Vector["at"],
    ):
        x = features(ξ, U, W, b)
        if kind == "lap":
            x = L.avg_pool(x, over=OVER, window=3, stride=1, padding="SAME")
        return tp.sum(v * x, over="at") / 8

    @tp.network
    def attention(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        b: tp.Vector["layer"],
        E: tp.Vector["source"],
        Q: tp.Matrix,
        V: tp.Matrix,
        O: tp.Matrix,  # noqa: E741
        v: tp.Vector["at"],
        *,
        σ=1.0,
        α=0.5,
        ρ=1.0,
    ):
        x = features(ξ, U, W, b)
        if kind == "vanilla":
            q = Q @ x
        elif kind == "struct":
            q = Q @ (tp.sqrt(α) * x + tp.sqrt((1 - α) * ρ) * encoding(E, φ))
        if kind in ("vanilla", "struct"):
            y = O @ L.attention(q, q, V @ x, over="at", scale=σ)
        else:
            q = Q @ encoding(E, φ)
            weights = ρ * tp.avg(q * q.rename(at="key"))
            y = O @ tp.sum(weights * (V @ x).rename(at="key"), over="key")
            y = tp.sqrt(α) * x + tp.sqrt(1 - α) * y
        if kind != "vanilla":
            y = L.layer_norm(y)
        return tp.sum(v * y, over="at") / 8

    net = {"gap": pooled, "flatten": read, "lap": read}.get(kind, attention)
    sizes = {} if net is not attention else {"source": structure(φ).shape[1] if kind != "vanilla" else 1}
    return net.bind(layer=depth, d=1, **sizes)


def grams(images, kind, depth, φ=5.0, tangent=False, **constants):
    """NNGP, and NTK if it is asked for."""
    trained = None if tangent else ()
    return tp.derive(network(kind, depth, φ), tp.Kernels(train=trained)).evaluate(images, **constants)


#: what the paper's search chose
PAPER = {"struct": {"φ": 5.0, "α": 0.4, "ρ": 1.5, "σ": 0.1}, "residual": {"φ": 5.0, "α": 0.65, "ρ": 0.5}}
KINDS = ("flatten", "gap", "lap", "vanilla", "struct", "residual")
DEPTHS = (1, 2, 4, 8)


def measured(many, size, kind, depth, tangent=False, **constants):
    """Accuracies and evidence of a kernel, as a row of a study."""
    images, labels = digits(many)
    protocol = Protocol(labels, size)
    found = grams(images, kind, depth, tangent=tangent, **constants)
    row = {"right": protocol.accuracy(found.nngp).rows, "evidence": protocol.evidence(found.nngp)}
    if tangent:
        row |= {"right_ntk": protocol.accuracy(found.ntk).rows, "evidence_ntk": protocol.evidence(found.ntk)}
    return row


def scaled(depth):
    """Scales of the logits of vanilla: behind one and two convolutions 10 was worse, and is not tried again."""
    return [{"σ": σ} for σ in ((1.0, 10.0) if depth <= 2 else (1.0,))]


def accuracy(row, name="right"):
    return Accuracy.of(row[name])


# -- Figure 4: accuracy by depth ---------------------------------------------------------------------

print("\nAccuracy of the NNGP by depth: 300 images, training sets of 50")
by_depth = Study("attention_on_images_depth", pictures.full)
best = {}
for depth in DEPTHS:
    for kind in KINDS:
        rows = []
        for constants in scaled(depth) if kind == "vanilla" else [PAPER.get(kind, {})]:
            run = {"many": 300, "size": 50, "kind": kind, "depth": depth, **constants}
            rows.append(by_depth.row(lambda run=run: measured(**run), **run))
        if None not in rows:
            best[kind, depth] = max((accuracy(row) for row in rows), key=lambda one: one.mean)
print(f"  {'':<10}" + "".join(f"{d:^16}" for d in DEPTHS))
for kind in KINDS:
    print(f"  {kind:<10}" + "".join(f"{best.get((kind, d), '(--full)')!s:^16}" for d in DEPTHS))
by_depth.told()
whole = all((kind, d) in best for kind in KINDS for d in DEPTHS)
if whole:
    top = {kind: max(DEPTHS, key=lambda d: best[kind, d].mean) for kind in KINDS}
    print("\nEach at its best depth, less flatten at its best")
    for kind in KINDS[1:]:
        difference, error = best[kind, top[kind]].minus(best["flatten", top["flatten"]])
        print(f"  {kind:<10} depth {top[kind]}: {100 * difference:+.1f} ± {100 * error:.1f} %")
    figure, axes = pictures.figure(1, "Kernels of digits by depth, 50 training images")
    for i, kind in enumerate(KINDS):
        means, errors = zip(*((100 * best[kind, d].mean, 100 * best[kind, d].error) for d in DEPTHS), strict=True)
        axes[0].errorbar(np.array(DEPTHS) * 1.02**i, means, errors, label=kind, capsize=2, linewidth=1)
    axes[0].set_xscale("log", base=2)
    axes[0].set_xticks(DEPTHS, [str(d) for d in DEPTHS])
    axes[0].set_xlabel("convolutions")
    axes[0].set_ylabel("accuracy, %")
    axes[0].legend(fontsize=8)
    pictures.save(figure, "attention-on-images-depth")


# -- Table 2: NNGP and NTK ----------------------------------------------------------------------------

print("\nNNGP and NTK at two convolutions: 300 images, training sets of 50")
both = Study("attention_on_images_both", pictures.full)
table = {}
for kind in KINDS:
    run = {"many": 300, "size": 50, "kind": kind, "depth": 2, **PAPER.get(kind, {})}
    row = both.row(lambda run=run: measured(**run, tangent=True), **run)
    if row is not None:
        table[kind] = accuracy(row), accuracy(row, "right_ntk")
        difference, error = table[kind][1].minus(table[kind][0])
        less = f"NTK − NNGP {100 * difference:+.1f} ± {100 * error:.1f} %"
        print(f"  {kind:<10}{table[kind][0]!s:^16}{table[kind][1]!s:^16} {less}")
both.told()
if len(table) == len(KINDS):
    for kind in KINDS[1:]:
        difference, error = table[kind][0].minus(table["flatten"][0])
        text = f"{kind} is above flatten by {100 * difference:.1f} ± {100 * error:.1f} %"
        work.holds(text, difference > 2 * error)


# -- Tables 5 and 6: constants by evidence ------------------------------------------------------------

print("\nConstants: 200 images, training sets of 50; the evidence is that of a training set alone, by target")
search = Study("attention_on_images_constants", pictures.full)
GRIDS = {
    "struct": [
        {"φ": φ, "α": α, "ρ": 1.5, "σ": σ} for φ, α, σ in itertools.product((1.0, 5.0), (0.4, 0.65, 0.9), (0.1, 1.0))
    ],
    "residual": [{"φ": φ, "α": α, "ρ": ρ} for φ, α, ρ in itertools.product((1.0, 5.0), (0.4, 0.65, 0.9), (0.5, 1.5))],
}
for kind, grid in GRIDS.items():
    rows = []
    for constants in grid:
        run = {"many": 200, "size": 50, "kind": kind, "depth": 2, **constants}
        rows.append(search.row(lambda run=run: measured(**run), **run))
    if None in rows:
        print(f"  {kind}: {sum(row is not None for row in rows)} of {len(grid)} (--full)")
        continue
    evidence = np.array([row["evidence"] for row in rows])
    accuracies = [accuracy(row) for row in rows]
    means = np.array([a.mean for a in accuracies])
    by_evidence, by_accuracy = int(evidence.argmax()), int(means.argmax())
    rank = spearmanr(evidence, means)
    print(f"  {kind}: {len(grid)} constants, accuracies {100 * means.min():.1f} to {100 * means.max():.1f} %")
    for what, i in (("evidence", by_evidence), ("accuracy", by_accuracy)):
        told = ", ".join(f"{name} = {value:g}" for name, value in grid[i].items())
        print(f"    largest {what}: {told}: evidence {evidence[i]:.3f}, accuracy {accuracies[i]}")
    lost, error = accuracies[by_accuracy].minus(accuracies[by_evidence])
    print(f"    rank correlation of both {rank.statistic:.2f} (p {rank.pvalue:.1g})")
    work.holds(f"{kind}: what evidence chooses is {100 * lost:.1f} ± {100 * error:.1f} % below the best", lost < 0.03)
search.told()


# -- Table 7 and A.1: class targets --------------------------------------------------------------------

print("\nClass targets: two convolutions, flatten, 100 images, a training set of 50")
images, labels = digits(100)
protocol = Protocol(labels, 50)
gram = grams(images, "flatten", 2).nngp
train, rest = protocol.sets[0], np.setdiff1d(np.arange(100), protocol.sets[0])
classes = (labels[:, None] == np.arange(10)).astype(float)
chosen, evidences = {}, {}
for name, y in {
    "(C − 1)/C and −1/C": classes - 0.1,
    "1 and 0": classes,
    "1 and −1": 2 * classes - 1,
    "½ and −½": classes - 0.5,
}.items():
    fits = [Fitted(gram, train, y, c) for c in NOISES]
    chosen[name] = fits[3].outputs(rest).argmax(axis=1)
    evidences[name] = max(one.evidence for one in fits)
    right = (chosen[name] == labels[rest]).mean()
    print(f"  {name:<20} {100 * right:.0f} % right, evidence {evidences[name]:.3f}")
first = chosen["(C − 1)/C and −1/C"]
work.holds("all of them choose the same classes", all((first == other).all() for other in chosen.values()))
largest = max((name for name in evidences if name != "1 and −1"), key=evidences.get)
work.holds(
    f"targets of one scale have the largest evidence when their sum is zero: {largest}", largest.startswith("(C")
)
row = by_depth.rows and next(iter(by_depth.having(kind="flatten", depth=1)), None)
if row:
    again = measured(**row["run"])
    work.holds("the row of flatten at depth 1 is found again", again["right"] == list(row["right"]))
work.finish()
