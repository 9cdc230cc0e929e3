"""Clustering heads with other hyperparameters: when does a network leave its plateau, and does it succeed?

    python derivations/28_clustering_heads_variations.py [--full] [--out FOLDER] [--png]

Figure 16 of the paper at the scale of two processors: batch size, rate, rate of the perceptron, hidden width, for one
network and averaged over several, from nested draws: networks of one seed start from the same numbers, wider ones with
the neurons of narrower ones, and larger batches are unions of smaller ones.  Beside accuracies stand times: the epochs
at which networks leave the first plateau, a saddle (training loss below 0.9 ln p).  The hidden width and the dimension
of the embeddings are changed in both parametrisations.  In the plane few networks learn in 300 epochs: with d = 8 all
do at the published setting, and what is seen is when.  Then the data: how much of it has to be another draw before a
network fares differently?

What is measured is kept in `results/variations.jsonl`, which --full makes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from clustering import SAMPLES, WIDTH, Setting, outcome
from pictures import Pictures
from studies import Study
from worked import Worked

from tplimits.errors import EvaluationError
from tplimits.zoo.clustering_heads import measures
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
EPOCHS, SEEDS, EVERY = 300, 4, 10
setting = Setting(SparseModularAddition())
study = Study("variations", pictures.full)

BATCHES = (8, 32, 128, 512, 2048)
RATES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
DISCOUNTS = (0.1, 0.3, 1, 3, 10)
WIDTHS = (8, 32, 128)
DIMENSIONS = (2, 8)
FINE = tuple(float(f"{rate:.3g}") for rate in np.geomspace(0.01, 0.002, 8))
FRESH = (0, 1, 1024, 2048)


def several(
    seeds: Sequence[int],
    epochs: int = EPOCHS,
    h: int = WIDTH,
    d: int = 2,
    base: int = WIDTH,
    fresh: int = 0,
    **how: Any,
) -> dict[str, Any]:
    """Networks of some seeds; one whose training overflows is a failure."""
    own, every = Setting(setting.task, fresh=fresh), min(EVERY, epochs)
    try:
        rec = own.watch(epochs, every, (h,), seeds, net={"d": d, "base": base}, gradients=False, **how)
    except EvaluationError:
        if len(seeds) > 1:
            parts = [several([seed], epochs, h, d, base, fresh, **how) for seed in seeds]
            return {name: [part[name][0] for part in parts] for name in parts[0]}
        return {"accuracy": [0.5], "loss": [9.0], "left": [None], "succeeded": [None]}
    return outcome(own, rec, np.arange(0, epochs + 1, every))


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
    "batch": (BATCHES, [row("batch", B, batch=B) for B in BATCHES]),
    "rate": (RATES, [row("rate", rate, rate=rate) for rate in RATES]),
    "discount": (DISCOUNTS, [row("discount", factor, perceptron=1 / factor) for factor in DISCOUNTS]),
    "h, as published": (WIDTHS, [row("published", h, range(SEEDS), h=h, base=h) for h in WIDTHS]),
    "h, in μP": (WIDTHS, [row("μP", h, range(SEEDS), h=h) for h in WIDTHS]),
    "batch, d = 8": (BATCHES, [row("batch, d = 8", B, batch=B, d=8) for B in BATCHES]),
    "rate, d = 8": (RATES, [row("rate, d = 8", rate, rate=rate, d=8) for rate in RATES]),
    "discount, d = 8": (DISCOUNTS, [row("discount, d = 8", f, perceptron=1 / f, d=8) for f in DISCOUNTS]),
}
for name, (grid, found) in sweeps.items():
    told(f"{name}: nested draws of {SEEDS} seeds", name.split(",")[0], grid, found)

figure, axes = pictures.figure(
    2 * len(sweeps), f"Accuracy after {EPOCHS} epochs, and the epoch at which the first plateau ends", 2
)
for k, (name, (grid, found)) in enumerate(sweeps.items()):
    for at, one in zip(grid, found, strict=True):
        if one is None:
            continue
        left = [EPOCHS if t is None else t for t in one["left"]]
        for axis, values in ((axes[k], one["accuracy"]), (axes[len(sweeps) + k], left)):
            axis.plot([at] * len(values), values, ".", color="C0", alpha=0.5)
            axis.errorbar([at], [np.mean(values)], [np.std(values)], fmt="s", color="C3", capsize=3)
            axis.set_xscale("log")
            axis.set_title(name)
pictures.save(figure, "clustering-heads-hyperparameters")

print("\nThe dimension d of the embeddings with h = 64, in both parametrisations")
for d in DIMENSIONS:
    for name, base in (("as published", 64), ("μP", WIDTH)):
        found = row(f"d, {name}", d, range(3), h=64, d=d, base=base)
        if found is not None:
            times = median(found["succeeded"])
            print(f"  d = {d}, {name}: {sum(a > 0.9 for a in found['accuracy'])} of 3 succeed, median epoch {times}")

single = [row("single", rate, [0], rate=rate) for rate in FINE]
if None not in single:
    ends = np.array([found["accuracy"][0] for found in single])
    jumps = abs(np.diff(ends)).max()
    print("\nOne seed, rates a fourth apart: accuracies " + ", ".join(f"{a:.2f}" for a in ends))
    work.holds(f"the outcome of one network is erratic: neighbours differ by up to {jumps:.2f}", jumps > 0.2)

print("\nData: some of the 2048 sequences are another draw; eight starts, the same order of batches")
draws = [row("fresh", count, range(8), fresh=count) for count in FRESH]
for count, found in zip(FRESH, draws, strict=True):
    if found is not None and draws[0] is not None:
        same = sum((a > 0.9) == (b > 0.9) for a, b in zip(found["accuracy"], draws[0]["accuracy"], strict=True))
        apart = np.abs(np.subtract(found["accuracy"], draws[0]["accuracy"])).mean()
        print(f"  {count} of {SAMPLES} other: {same} of 8 fare as before, accuracies differ by {apart:.2f} on average")
study.told()

print("\nThe first twenty epochs again, two seeds")
for name, how in (("batch 512", {"batch": 512}), ("as published, h = 128", {"h": 128, "base": 128})):
    off = study.again(lambda how=how: {"loss": several((0, 1), epochs=20, **how)["loss"]}, what="short", at=name)
    work.holds(f"{name}: {off:.0e} off what was measured", off < 1e-3)
work.finish()
