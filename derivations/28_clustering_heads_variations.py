"""Clustering heads with other sizes: p = 2, then 3; widths and embeddings in both parametrisations; smooth norms.

    python derivations/28_clustering_heads_variations.py [--full] [--out FOLDER] [--png]

Appendices A and B of the paper at the scale of a minute: a curriculum (Figures 9 and 14), the width h and the
dimension d (Figures 16 and 19), the rate of the perceptron (Figure 16), and the cures for spikes that the paper
proposes and does not try (--full): a norm without a singular point, and a smaller rate for the perceptron.
"""

import numpy as np
from clustering import Measured, Setting
from pictures import Pictures
from worked import Worked

import tplimits as tp
from tplimits.zoo.clustering_heads import measures, spikes
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
EPOCHS, SEEDS, PRETRAINED = (1000, 20, 40) if pictures.full else (300, 4, 12)
setting, three = Setting(SparseModularAddition()), Setting(SparseModularAddition(modulus=3))


def accuracies(rec: tp.Recording, width: float = 32) -> np.ndarray:
    """At the end, of all seeds."""
    return rec.curves("held-out accuracy")[width][:, -1]


def told(what: str, values: np.ndarray) -> None:
    success = int((values > measures.SUCCESS).sum())
    print(f"  {what}: {success} of {len(values)} above 0.9, mean accuracy {values.mean():.3f}, best {values.max():.3f}")


print("\nCurriculum: networks that learned p = 2, then p = 3 with fresh Adam; beside as many from the start")
first = setting.watch(EPOCHS, EPOCHS, seeds=PRETRAINED)
told("p = 2", accuracies(first))
learned = [int(seed) for seed in np.flatnonzero(accuracies(first) > measures.SUCCESS)]
then = three.watch(EPOCHS, EPOCHS, seeds=learned, start=first)
alone = three.watch(EPOCHS, EPOCHS, seeds=learned)
told("p = 3 after p = 2", accuracies(then))
told("p = 3 alone", accuracies(alone))
for seed in learned:
    before, after = setting.state(first, seed=seed), three.state(then, seed=seed)
    print(f"  seed {seed}: {before.kind}, then accuracy {after.accuracy:.3f} with {after.clusters} clusters")
gain = accuracies(then).mean() - accuracies(alone).mean()
work.holds(f"what was learned at p = 2 helps: mean accuracy higher by {gain:.3f}", gain > 0)

best = learned[int(np.argmax(accuracies(then)))]
figure, axes = pictures.figure(3, f"Attention with p = 3, seed {best}: before and after fine-tuning")
probes = three.probes[three.task.labels(three.probes) == 1]
axes[0].imshow(probes, cmap="Greys", aspect="auto")
for axis, frame in zip(axes[1:], (0, -1), strict=True):
    axis.imshow(then.value("s", frame, seed=best, X=probes), cmap="Blues", vmin=0, vmax=0.2, aspect="auto")
    axis.axvline(three.task.relevant - 0.5, color="red")
pictures.save(figure, "clustering-heads-curriculum")

print("\nThe dimension d of the embeddings, h = 32")
dimensions = (2, 3, 4, 8, 16, 32) if pictures.full else (2, 8)
by_dimension = {}
for d in dimensions:
    rec = setting.watch(EPOCHS, EPOCHS, seeds=SEEDS, net={"d": d})
    by_dimension[d] = accuracies(rec)
    told(f"d = {d}", by_dimension[d])
rates = [float((by_dimension[d] > measures.SUCCESS).mean()) for d in dimensions]
work.holds("the largest d succeeds at least as often as d = 2", rates[-1] >= rates[0])

print("\nThe width h, as published (fixed rate, initial weights 1/√h) and in μP with base width 32")
widths = (8, 32, 128, 512, 2048) if pictures.full else (8, 128)
for name, of in (("as published", lambda h: {"base": h}), ("μP", lambda h: {})):
    for h in widths:
        told(f"{name}, h = {h}", accuracies(setting.watch(EPOCHS, EPOCHS, (h,), SEEDS, net=of(h)), h))

#: few networks learn in 300 epochs: spikes are counted with --full alone
CURES = (
    ("x/|x|", {}, 1.0),
    ("smooth below |x| = ½", {"smooth": 0.5}, 1.0),
    ("rate of the perceptron / 3", {}, 1 / 3),
)
print("\nSpikes and what the paper proposes: every epoch of the last fifth, networks whose loss has halved before")
LAST = [0, *range(EPOCHS - EPOCHS // 5, EPOCHS + 1)]
for name, net, perceptron in CURES if pictures.full else ():
    rec = setting.watch(EPOCHS, LAST, seeds=PRETRAINED, net=net, perceptron=perceptron, held_out=False)
    losses = rec.loss[32][:, 1:]
    measured = Measured(setting, rec)
    halved = np.flatnonzero(losses[:, 0] < 0.5 * np.log(2))
    at = {int(seed): spikes.spikes(losses[seed], 1.5) for seed in halved}
    kinds = [measured.spike(t + 1, seed=seed).kind for seed, times in at.items() for t in times]
    rate = len(kinds) / max(1, len(halved) * (len(LAST) - 2))
    listed = ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds)) or "none"
    print(f"  {name}: {len(halved)} of {PRETRAINED}; spikes in {rate:.3f} of their epochs ({listed})")
work.finish()
