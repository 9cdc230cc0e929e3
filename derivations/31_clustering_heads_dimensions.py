"""Clustering heads in more dimensions: losses, gradients, spikes and sparsity with embeddings in d = 2 … 64.

    python derivations/31_clustering_heads_dimensions.py [--full] [--out FOLDER] [--png]

Figures 17 to 19 of the paper: with d = 3 and d = 64 drops of the loss and its spikes come with large gradients as they
do in the plane; with larger d more networks succeed, all of them from d = 8 on; activations of successes are denser.

What is measured is kept in `results/dimensions.jsonl`, which --full makes.
"""

from typing import Any

import numpy as np
from clustering import Setting, outcome
from pictures import Pictures
from studies import Study, shown
from worked import Worked

from tplimits.zoo.clustering_heads import measures, spikes
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
EPOCHS, SEEDS, EVERY = 400, 8, 10
DIMENSIONS = (2, 3, 4, 8, 16, 32)
LAYERS = {"embeddings": "EP", "attention": "qV", "perceptron": "wbuc"}
ε = np.geomspace(1e-4, 1e1, 16)
setting = Setting(SparseModularAddition())
study = Study("dimensions", pictures.full)


def networks(d: int, seeds: range, epochs: int = EPOCHS) -> dict[str, Any]:
    """How networks fare, and the share of their activations below every ε."""
    every = min(EVERY, epochs)
    rec = setting.watch(epochs, every, seeds=seeds, net={"d": d}, gradients=False)
    acts = (rec.value("act", seed=seed, X=setting.test) for seed in seeds)
    sparsity = [measures.sparsity(act, ε) for act in acts]
    return {**outcome(setting, rec, np.arange(0, epochs + 1, every)), "sparsity": sparsity}


def one(d: int, seed: int) -> dict[str, Any]:
    """Losses, accuracies and norms of gradients of one network, epoch by epoch."""
    rec = setting.watch(EPOCHS, 1, seeds=[seed], net={"d": d})
    run = rec.run()
    norms = {k: np.sqrt(sum(run.curves[f"gradient {n}"] ** 2 for n in names)) for k, names in LAYERS.items()}
    curves = {name: run.curves[name] for name in ("loss", "held-out loss", "accuracy", "held-out accuracy")}
    return {**curves, **norms}


rows = {d: study.row(lambda d=d: networks(d, range(SEEDS)), d=d, what="networks") for d in DIMENSIONS}
found = {d: row for d, row in rows.items() if row is not None}
print(f"\n{EPOCHS} epochs, h = 32")
figure, axes = pictures.figure(len(DIMENSIONS), "Share of activations below ε; blue: success (Figure 19)", 2)
for axis, (d, row) in zip(axes, found.items(), strict=False):
    success = np.array(row["accuracy"]) > measures.SUCCESS
    when = sorted(EPOCHS + 1 if t is None else t for t in row["succeeded"])[SEEDS // 2]
    text = f"  d = {d}: {shown(int(success.sum()), SEEDS)} succeed, median epoch {when if when <= EPOCHS else 'none'}"
    curves = np.array(row["sparsity"])
    middle = int(np.argmin(abs(ε - 0.1)))
    split = [curves[chosen, middle].mean() for chosen in (success, ~success) if chosen.any()]
    print(
        text + "; below 0.1: " + " in successes, ".join(f"{a:.2f}" for a in split) + (" in others" * (len(split) > 1))
    )
    for curve, good in zip(curves, success, strict=True):
        axis.semilogx(ε, curve, color="C0" if good else "C3", linewidth=0.8)
    axis.set_title(f"d = {d}: {success.sum()} of {SEEDS}")
if found:
    pictures.save(figure, "clustering-heads-dimensions")
    counts = {d: sum(a > measures.SUCCESS for a in row["accuracy"]) for d, row in found.items()}
    work.holds(
        f"d = 8 and more succeed more often than d = 2: {counts}", min(counts[d] for d in counts if d >= 8) > counts[2]
    )

print("\nFigures 17 and 18: one network each, drops, spikes and gradients")
figure, axes = pictures.figure(6, "Losses, accuracies and gradients: d = 3, then d = 64", 2)
for k, d in enumerate((3, 64)):
    # in few dimensions the network that succeeds first
    times = [EPOCHS + 1 if t is None else t for t in found[d]["succeeded"]] if d in found else [0]
    seed = int(np.argmin(times))
    row = study.row(lambda d=d, seed=seed: one(d, seed), d=d, what="one", seed=seed)
    if row is None:
        continue
    loss, norm = np.array(row["loss"]), np.sqrt(sum(np.array(row[name]) ** 2 for name in LAYERS))
    epochs = np.arange(len(loss))
    for name in ("loss", "held-out loss"):
        axes[3 * k].semilogy(epochs, row[name], label=name)
        axes[3 * k + 1].plot(epochs, row[name.replace("loss", "accuracy")], label=name.replace("loss", "accuracy"))
    for name in LAYERS:
        axes[3 * k + 2].semilogy(epochs, row[name], label=name)
    for axis in axes[3 * k : 3 * k + 3]:
        axis.set_title(f"d = {d}")
        axis.legend(fontsize=7)
    at = spikes.spikes(loss, 1.1)  # none is larger than a fifth
    rising = sum(norm[t] > norm[t - 1] for t in at)
    rank = np.corrcoef(np.argsort(np.argsort(loss)), np.argsort(np.argsort(norm)))[0, 1]
    ends = f"ends at loss {loss[-1]:.1e}, held-out accuracy {row['held-out accuracy'][-1]:.3f}"
    print(f"  d = {d}: {ends}; rank correlation of loss and gradient {rank:.2f}")
    text = f"d = {d}, seed {seed}: {rising} of {len(at)} rises of the loss by a tenth come with a larger gradient"
    work.holds(text, len(at) > 0 and rising >= 0.8 * len(at))
if found:
    pictures.save(figure, "clustering-heads-dimensions-gradients")
study.told()

print("\nTwenty epochs of two seeds again, d = 8")
off = study.again(lambda: {"loss": networks(8, range(2), 20)["loss"]}, d=8, what="short")
work.holds(f"losses are {off:.0e} off what was measured", off < 1e-3)
work.finish()
