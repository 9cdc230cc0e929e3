"""Clustering heads: spikes of the loss, and the cures that the paper proposes and does not try.

    python derivations/32_clustering_heads_spikes.py [--full] [--out FOLDER] [--png]

Two mechanisms are proposed: x/|x| is steep near 0, and the perceptron is steep where its weights are heavy.  The cures
are a norm ς(|x|) x/|x| with ς → 0 at 0, regularisation, and a perceptron of larger capacity; here they are

    smooth below τ   x (3 − |x|²/τ²)/2τ for |x| < τ          decay        AdamW, 0.1 times the rate, of w, u, V
    wide             h = 128 in μP                           slow         the perceptron's rate, a third of the others'

Spikes are counted at every epoch of the last fifth of training, in networks whose loss has halved before: the loss
rises by half or more within an epoch.  Each is shared out by Shapley's rule among embeddings, attention and perceptron,
or is of the normalisation where something normalised turned by more than one radian.

What is measured is kept in `results/spikes.jsonl`, which --full makes.
"""

from typing import Any

import numpy as np
from clustering import RATE, Measured, Setting
from pictures import Pictures
from scipy.stats import fisher_exact, mannwhitneyu
from studies import Study, shown
from worked import Worked

from tplimits.zoo.clustering_heads import measures, spikes
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
EPOCHS, SEEDS = 400, 10
setting = Setting(SparseModularAddition())
study = Study("spikes", pictures.full)
#: cures with three times as many networks
MORE = ("as published", "smooth below 0.5")
#: name: (network, how it is trained)
CURES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as published": ({}, {}),
    "smooth below 0.5": ({"smooth": 0.5}, {}),
    "decay": ({}, {"weight_decay": dict.fromkeys("Vwu", 0.1 * RATE)}),
    "wide, h = 128": ({}, {"widths": (128,)}),
    "slow perceptron": ({}, {"perceptron": 1 / 3}),
    "all slow": ({}, {"rate": 1e-3}),
}


def counted(cure: str, seeds: range = range(SEEDS), epochs: int = EPOCHS) -> dict[str, Any]:
    """Of every network: accuracy, the loss when counting starts, spikes, their kinds and the largest rise."""
    net, how = CURES[cure]
    frames = [0, *range(epochs - epochs // 5, epochs + 1)]
    rec = setting.watch(epochs, frames, seeds=seeds, net=net, held_out=False, gradients=False, **how)
    (width,) = rec.widths
    measured = Measured(setting, rec)
    found: dict[str, Any] = {"accuracy": [], "before": [], "after": [], "spikes": [], "kinds": [], "largest": []}
    for seed in seeds:
        loss = rec.run(width, seed).curves["loss"][1:]
        at = spikes.spikes(loss, 1.5) if loss[0] < 0.5 * np.log(2) else []
        kinds = [measured.spike(t + 1, seed=seed).kind for t in at[:40]]
        f = rec.outputs(-1, width, seed, setting.test)
        found["accuracy"].append(float((f.argmax(axis=1) == setting.task.labels(setting.test)).mean()))
        found["before"].append(float(loss[0]))
        found["after"].append(float(loss[-1]))
        found["spikes"].append(len(at))
        found["kinds"].append({kind: kinds.count(kind) for kind in dict.fromkeys(kinds)})
        found["largest"].append(float((loss[1:] / loss[:-1]).max()))
    return found


def joined(cure: str) -> Any:
    """All networks of a cure; None if none is measured."""
    parts = [study.row(lambda: counted(cure), cure=cure)]
    if cure in MORE:
        parts.append(study.row(lambda: counted(cure, range(SEEDS, 3 * SEEDS)), cure=cure, more=True))
    found = [part for part in parts if part]
    names = ("accuracy", "before", "spikes", "kinds")
    return {name: [one for part in found for one in part[name]] for name in names} if found else None


rows = {cure: joined(cure) for cure in CURES}
print(f"\nSpikes in the last {EPOCHS // 5} of {EPOCHS} epochs")
published: Any = None
first = total = 0
for cure, row in rows.items():
    if row is None:
        continue
    halved = np.array(row["before"]) < 0.5 * np.log(2)
    counts = np.array(row["spikes"])[halved]
    kinds: dict[str, int] = {}
    for one in row["kinds"]:
        for kind, number in one.items():
            kinds[kind] = kinds.get(kind, 0) + number
    listed = ", ".join(f"{kind} {number}" for kind, number in kinds.items()) or "none"
    success = int((np.array(row["accuracy"]) > measures.SUCCESS).sum())
    test = ""
    if published is None:
        published, first, total = counts, success, len(halved)
    elif len(counts) and len(published):
        better = fisher_exact([[success, len(halved) - success], [first, total - first]]).pvalue
        test = f"; against as published: rank test of spikes {mannwhitneyu(counts, published).pvalue:.2g}, exact test "
        test += f"of successes {better:.2g}"
    print(
        f"  {cure}: {shown(success, len(halved))} succeed; {len(counts)} networks with half the loss: spikes in "
        f"{counts.mean() / (EPOCHS // 5):.3f} of their epochs, median {np.median(counts):g} ({listed}){test}"
    )
if rows["as published"] is not None:
    own = [kind for one in rows["as published"]["kinds"] for kind in one]
    work.holds("networks as published have spikes in the last fifth", len(own) > 0)
    figure, axes = pictures.figure(2, "Cures for spikes, networks whose loss has halved")
    for k, row in enumerate(row for row in rows.values() if row):
        halved = np.array(row["before"]) < 0.5 * np.log(2)
        counts = np.array(row["spikes"])[halved] / (EPOCHS // 5)
        axes[0].plot(counts, k + 0.15 * np.linspace(-1, 1, len(counts)), ".", color=f"C{k}")
        axes[0].plot([counts.mean()] if len(counts) else [], [k] if len(counts) else [], "k|", markersize=16)
        axes[1].barh(k, np.mean(np.array(row["accuracy"]) > measures.SUCCESS), color=f"C{k}")
    for axis, title in zip(axes, ("share of epochs with a spike", "share that succeeds"), strict=True):
        axis.set_yticks(range(len(CURES)), CURES, fontsize=7)
        axis.set_title(title)
    pictures.save(figure, "clustering-heads-cures")
study.told()

print("\nTwenty epochs of two seeds again, smooth below 0.5")
short = study.again(lambda: {"after": counted("smooth below 0.5", range(2), 20)["after"]}, cure="short")
work.holds(f"losses are {short:.0e} off what was measured", short < 1e-3)
work.finish()
