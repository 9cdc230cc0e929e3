"""Clustering heads: does the limit of a wide perceptron decide what a network learns?

    python derivations/29_through_the_transition.py [--full] [--out FOLDER] [--png]

As h grows the randomness of the neurons goes away, and what is left are the numbers E, P, q, V, c at the start and the
order of the data: a base.  Networks of several widths, two draws of neurons each, and the limit train from the same
bases, in μP with base width 32, on the same batches.  Three questions: how long a network follows the limit, whether
the limit goes through the drop of the loss, and whether it tells which bases learn.

By default two bases for 60 epochs, which says something about the first question only; --full takes eight bases and
300 epochs (some minutes).
"""

import numpy as np
from clustering import Setting
from pictures import Pictures
from worked import Worked

import tplimits as tp
from tplimits.zoo.clustering_heads import measures, start
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
BASES, EPOCHS = (8, 300) if pictures.full else (2, 60)
WIDTHS = (32, 128, 512)
DRAWS, PARTICLES = 2, 512
#: parameters that all networks of a base share
SHARED = ("E", "P", "q", "V", "c")
EVERY = sorted({0, 1, 2, 4, 7, *range(10, EPOCHS + 1, 10)})


def distance(rec: tp.Recording, width: float, seed: int, limit: dict[str, np.ndarray]) -> np.ndarray:
    """Root mean square distance of the shared numbers from those of the limit, frame by frame."""
    run = rec.run(width, seed)
    squares = [((run.parameters[name] - limit[name]).reshape(run.frames, -1) ** 2).sum(axis=1) for name in SHARED]
    count = sum(limit[name][0].size for name in SHARED)
    return np.sqrt(sum(squares) / count)


def base(number: int) -> tuple[dict[float, np.ndarray], dict[float, np.ndarray], dict[float, np.ndarray]]:
    """Distances (draws, frames), losses and accuracies by width, of one base."""
    setting = Setting(SparseModularAddition(), seed=number)
    more = {"particles": PARTICLES, **start.scalars(number)}
    rec = setting.watch(EPOCHS, EVERY, (*WIDTHS, tp.inf), DRAWS, **more)
    limit = {name: rec.run(tp.inf, 0).parameters[name].astype(float) for name in SHARED}
    far = {h: np.array([distance(rec, h, seed, limit) for seed in range(DRAWS)]) for h in (*WIDTHS, tp.inf)}
    return far, rec.curves("held-out loss"), rec.curves("held-out accuracy")


every = (*WIDTHS, tp.inf)
names = {h: "limit" if h == tp.inf else f"h = {h}" for h in every}
results = []
print("\nAccuracies at the end")
for number in range(BASES):
    results.append(base(number))
    ends = results[-1][2]
    listed = ("{}: {}".format(names[h], ", ".join(f"{a:.2f}" for a in ends[h][:, -1])) for h in every)
    print(f"  base {number}: {'; '.join(listed)}", flush=True)
at = np.array(EVERY)

print("\nHow far the shared numbers are from those of the limit, root mean square over bases and draws")
far = {h: np.sqrt(np.mean([one[0][h] ** 2 for one in results], axis=(0, 1))) for h in WIDTHS}
for epoch in (1, 2, 10, 30, 60, EPOCHS):
    i = int(np.argmin(abs(at - epoch)))
    listed = ", ".join(f"{far[h][i]:.4f} at h = {h}" for h in WIDTHS)
    again = np.sqrt(np.mean([one[0][tp.inf][1, i] ** 2 for one in results]))
    slope = np.polyfit(np.log(WIDTHS), np.log([far[h][i] for h in WIDTHS]), 1)[0]
    print(f"  epoch {at[i]}: {listed}; slope {slope:.2f}; the limit on other particles {again:.4f}")
i = int(np.argmin(abs(at - 1)))
early = np.polyfit(np.log(WIDTHS), np.log([far[h][i] for h in WIDTHS]), 1)[0]
work.holds(f"after one epoch it falls with slope {early:.2f}", -0.8 < early < -0.2)

print("\nWhat was learned at the end")
ends = {h: np.array([one[2][h][:, -1] for one in results]) for h in every}
told = {h: np.array([one[1][h][:, -1] for one in results]) for h in every}
for h in every:
    learned = told[h] < 0.9 * np.log(2)
    print(
        f"  {names[h]}: {(ends[h] > measures.SUCCESS).mean():.2f} succeed, {learned.mean():.2f} leave the first plateau"
    )
if BASES > 2:
    of_limit = told[tp.inf][:, :1]
    for h in WIDTHS:
        same = ((told[h] < 0.9 * np.log(2)) == (of_limit < 0.9 * np.log(2))).mean()
        rank = np.corrcoef(told[h].mean(axis=1), of_limit[:, 0])[0, 1]
        print(f"  h = {h}: {same:.2f} leave it where the limit does; correlation of final losses with its {rank:.2f}")
    losses = np.concatenate([told[h] for h in WIDTHS], axis=1)
    share = losses.mean(axis=1).var() / losses.var()
    work.holds(f"the base has {share:.2f} of the variance of final losses, widths and neurons the rest", share > 0.5)

figure, axes = pictures.figure(2, "Through the drop of the loss")
for number, (_, losses, _) in enumerate(results[:2]):
    for h, colour in zip(every, ("C0", "C1", "C2", "black"), strict=True):
        for curve in losses[h]:
            axes[0].semilogy(at, curve, color=colour, linewidth=0.8, label=None if number else names[h])
axes[0].legend(fontsize=7)
axes[0].set_title("loss, two bases")
for h in WIDTHS:
    axes[1].loglog(at[1:], far[h][1:], label=f"h = {h}")
axes[1].legend(fontsize=7)
axes[1].set_title("distance of E, P, q, V, c from the limit")
for axis in axes:
    axis.set_xlabel("epoch")
pictures.save(figure, "clustering-heads-transition")
work.finish()
