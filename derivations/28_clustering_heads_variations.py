"""Clustering heads with other hyperparameters: when does a network leave its plateau, and does it succeed?

    python derivations/28_clustering_heads_variations.py [--full] [--out FOLDER] [--png]

Figure 16 of the paper at the scale of two processors: batch size, rate, rate of the perceptron, hidden width, for one
network and averaged over several, from nested draws: networks of one seed start from the same numbers, wider ones with
the neurons of narrower ones, and larger batches are unions of smaller ones.  Beside accuracies stand times: the epochs
at which networks leave the first plateau, a saddle (training loss below 0.9 ln p).  The hidden width and the dimension
of the embeddings are changed in both parametrisations.  Then the data: how much of it has to be another draw before a
network fares differently?

What is measured is kept in `results/variations.jsonl`, which --full makes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from clustering import BATCH, RATE, SAMPLES, WIDTH, Setting, outcome
from pictures import Pictures
from studies import Study, shown
from worked import Worked

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.zoo.clustering_heads import measures, start
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
EPOCHS, SEEDS, EVERY = 1000, 8, 10
setting = Setting(SparseModularAddition())
study = Study("variations", pictures.full)

BATCHES = (2, 8, 16, 32, 64, 128, 256, 512, 2048)
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
DISCOUNTS = (0.01, 0.1, 0.3, 1, 3, 10, 100)
WIDTHS = (8, 32, 128, 512)
DIMENSIONS = (2, 8)
FINE = tuple(float(f"{rate:.3g}") for rate in np.geomspace(0.03, 0.0003, 17))
FRESH = (0, 1, 32, 1024, 2048)


def one(seed: int, epochs: int = EPOCHS, h: int = WIDTH, d: int = 2, base: int = WIDTH, batch: int = BATCH, fresh: int = 0,
        **how: Any) -> dict[str, Any]:  # fmt: skip
    """One network from a nested draw; one whose training overflows is a failure."""
    given = {**start.scalars(seed, d=d, base=base), **start.neurons(h, seed, d=d, base=base)}
    own = Setting(setting.task, fresh=fresh)
    net = {"d": d, "base": base}
    every = min(EVERY, epochs)
    try:
        rec = own.watch(epochs, every, (h,), [seed], net=net, batch=batch, gradients=False, **how, **given)
    except EvaluationError:
        return {"accuracy": [0.5], "left": [None], "succeeded": [None]}
    return outcome(own, rec, np.arange(0, epochs + 1, every))


def several(seeds: Sequence[int], **how: Any) -> dict[str, Any]:
    found = [one(seed, **how) for seed in seeds]
    return {name: [run[name][0] for run in found] for name in found[0]}


def row(what: str, at: float, seeds: Sequence[int] = range(SEEDS), **how: Any) -> Any:
    return study.row(lambda: several(seeds, **how), what=what, at=at)


def median(times: Sequence[int | None]) -> str:
    """The median of times, those that never come last."""
    middle = sorted(EPOCHS + 1 if t is None else t for t in times)[len(times) // 2]
    return "never" if middle > EPOCHS else str(middle)


def told(title: str, what: str, values: Sequence[float], rows: Sequence[Any]) -> None:
    print(f"\n{title}")
    for at, found in zip(values, rows, strict=True):
        if found is None:
            continue
        a, left = np.array(found["accuracy"]), sum(t is not None for t in found["left"])
        print(
            f"  {what} {at:g}: {(a > measures.SUCCESS).sum()} of {len(a)} succeed, mean accuracy {a.mean():.2f} ± "
            f"{a.std():.2f}; {left} leave the plateau, median epoch {median(found['left'])}"
        )


sweeps = {
    "batch": [row("batch", B, batch=B) for B in BATCHES],
    "rate": [row("rate", rate, rate=rate) for rate in RATES],
    "discount": [row("discount", factor, perceptron=1 / factor) for factor in DISCOUNTS],
    "h, as published": [row("published", h, range(SEEDS if h < 512 else 4), h=h, base=h) for h in WIDTHS],
    "h, in μP": [row("μP", h, range(SEEDS if h < 512 else 4), h=h) for h in WIDTHS],
}
grids = dict(zip(sweeps, (BATCHES, RATES, DISCOUNTS, WIDTHS, WIDTHS), strict=True))
for name, found in sweeps.items():
    told(f"{name}: nested draws of several seeds", name.split(",")[0], grids[name], found)

print("\nThe dimension d of the embeddings with h = 128, in both parametrisations")
for d in DIMENSIONS:
    for name, base in (("as published", 128), ("μP", WIDTH)):
        found = row(f"d, {name}", d, range(4), h=128, d=d, base=base)
        if found is not None:
            times = median(found["succeeded"])
            print(f"  d = {d}, {name}: {sum(a > 0.9 for a in found['accuracy'])} of 4 succeed, median epoch {times}")

single = [row("single", rate, [0], rate=rate) for rate in FINE]
if None not in single:
    ends = np.array([found["accuracy"][0] for found in single])
    jumps = abs(np.diff(ends)).max()
    print("\nOne seed, rates that are a third apart: accuracies " + ", ".join(f"{a:.2f}" for a in ends))
    work.holds(f"the outcome of one network is erratic: neighbours differ by up to {jumps:.2f}", jumps > 0.2)

print("\nData: some of the 2048 sequences are another draw; twelve starts, the same order of batches")
draws = [row("fresh", count, range(12), fresh=count) for count in FRESH]
for count, found in zip(FRESH, draws, strict=True):
    if found is not None and draws[0] is not None:
        same = sum((a > 0.9) == (b > 0.9) for a, b in zip(found["accuracy"], draws[0]["accuracy"], strict=True))
        apart = np.abs(np.subtract(found["accuracy"], draws[0]["accuracy"])).mean()
        print(f"  {count} of {SAMPLES} other: {same} of 12 fare as before, accuracies differ by {apart:.2f} on average")
study.told()

print("\nThe first two epochs again, two seeds")
for name, how in (("batch 512", {"batch": 512}), ("published, h = 128", {"h": 128, "base": 128})):
    again = [one(seed, epochs=2, **how)["accuracy"][0] for seed in (0, 1)]
    work.holds(f"{name}: accuracies {again[0]:.3f}, {again[1]:.3f}", 0.4 < min(again) <= max(again) < 0.7)
