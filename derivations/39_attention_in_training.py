"""Finite attention in training: Hron et al. 2020, Figure 3 and Table 8, on digits.

    python derivations/39_attention_in_training.py [--full] [--out FOLDER] [--png]

Two convolutions with relu, attention at 1/√n with positions added and √n heads, a readout of every place; Adam,
batches of 32, on 1000 digits averaged to 4 × 4, judged on the other 797.  Weights of attention are softmax, relu or
the logits themselves; LayerNorm is nowhere, on each head, or behind all of them.  Three seeds each,
width 16, rate 0.03 in the NTK parametrization.

The paper finds, on CIFAR-10, that LayerNorm helps and that softmax is the worst of the three wherever there is one.
"""

import itertools

import numpy as np
from pictures import Pictures
from sklearn.datasets import load_digits
from studies import Study
from worked import Worked

import tplimits as tp

pictures, work = Pictures(__doc__), Worked(__doc__)
L = tp.layers
OVER, TAPS = {"at": (4, 4)}, {"tap": (3, 3)}
WEIGHTS = {"softmax": lambda G: tp.softmax(G, over="key"), "relu": tp.relu, "identity": lambda G: G}
PLACES = ("none", "per head", "at output")
SEEDS, KNOWN, STEPS = 3, 1000, 500
WIDTH, RATE = 16, 0.03
#: rows of relu weights may be zero, which a norm without it cannot divide by
EPS = 1e-5


def attention(ζ, norm):
    @tp.network
    def net(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap"],
        E: tp.Vector["at"],
        Q: tp.Matrix["n", "n", "head"],
        K: tp.Matrix["n", "n", "head"],
        V: tp.Matrix["n", "n", "head"],
        O: tp.Matrix["n", "n", "head"],  # noqa: E741
        v: tp.Vector["at", "label"],
    ):
        x = tp.relu(tp.sqrt(2) * L.conv2d(ξ, U, over=OVER, taps=TAPS) / 3)
        x = tp.relu(tp.sqrt(2) * L.conv2d(x, W, over=OVER, taps=TAPS) / 3)
        x = (x + E) / tp.sqrt(2)
        q, k, values = (tp.sqrt(2) * (A @ x) for A in (Q, K, V))
        G = tp.sqrt(tp.n) * tp.avg(q * k.rename(at="key"))
        f = tp.sum(WEIGHTS[ζ](G) * values.rename(at="key"), over="key")
        if norm == "per head":
            f = L.layer_norm(f, eps=EPS)
        f = tp.sum(O @ f, over="head") / tp.sqrt(tp.size("head"))
        if norm == "at output":
            f = L.layer_norm(f, eps=EPS)
        return tp.sum(v * f, over="at") / 4

    return net


def data():
    images, labels = load_digits(return_X_y=True)
    small = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    small = (small - small.mean(axis=1, keepdims=True)) / small.std(axis=1, keepdims=True)
    return small[:, None, :], labels


def trained(ζ, norm, n, lr, seeds=SEEDS, steps=STEPS):
    """Accuracies on what was not seen, by seed and tenth of the training; the largest of them counts."""
    X, labels = data()
    rec = tp.watch(
        attention(ζ, norm).bind(d=1, head=round(n**0.5), label=10),
        X,
        error=tp.cross_entropy(labels, train=range(KNOWN)),
        optimizer=tp.Adam(),
        lr=lr,
        steps=steps,
        every=max(1, steps // 10),
        batches=tp.batches(32, 0),
        widths=(n,),
        seeds=seeds,
        probes=X[:8],
        labels=labels[:8],
        progress=False,
    )
    return {"accuracies": rec.curves("held-out accuracy")[n], "loss": rec.loss[n][:, -1]}


study = Study("attention_in_training", pictures.full)
rows = {}
for ζ, norm in itertools.product(WEIGHTS, PLACES):
    run = {"ζ": ζ, "norm": norm, "n": WIDTH, "lr": RATE}
    row = study.row(lambda run=run: trained(**run), **run)
    if row is not None:
        rows[ζ, norm] = 100 * np.array(row["accuracies"]).max(axis=1)
study.told()
if len(rows) == len(WEIGHTS) * len(PLACES):
    print("\nBest accuracy on what was not seen (%), mean and standard error over seeds")
    print(f"  {'LayerNorm':<12}" + "".join(f"{ζ:^16}" for ζ in WEIGHTS))
    error = {key: found.std(ddof=1) / SEEDS**0.5 for key, found in rows.items()}
    for norm in PLACES:
        shown = (f"{rows[ζ, norm].mean():.1f} ± {error[ζ, norm]:.1f}" for ζ in WEIGHTS)
        print(f"  {norm:<12}" + "".join(f"{s:^16}" for s in shown))
    figure, axes = pictures.figure(1, "Weights of attention and LayerNorm, finite networks")
    for (i, norm), (j, ζ) in itertools.product(enumerate(PLACES), enumerate(WEIGHTS)):
        axes[0].plot(np.full(SEEDS, 4 * i + j), rows[ζ, norm], f"C{j}o", alpha=0.6, label=None if i else ζ)
    axes[0].set_xticks([1, 5, 9], PLACES)
    axes[0].set_ylabel("best held-out accuracy, %")
    axes[0].legend(fontsize=8)
    pictures.save(figure, "attention-in-training")
    lowest = min(found.mean() for found in rows.values())
    work.holds(f"all of them learn: the lowest mean is {lowest:.0f} %", lowest > 60)

print("\nOne of them for 50 steps, twice")
one, other = (trained("identity", "at output", WIDTH, RATE, 1, 50) for _ in range(2))
work.holds(f"the same: {100 * one['accuracies'][0, -1]:.1f} %", np.array_equal(one["accuracies"], other["accuracies"]))
work.holds("above chance", one["accuracies"][0, -1] > 0.3)
work.finish()
