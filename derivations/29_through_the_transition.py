"""Clustering heads: does the limit of a wide perceptron decide what a network learns?

    python derivations/29_through_the_transition.py [--full] [--out FOLDER] [--png]

As h grows the randomness of the neurons goes away, and what is left are the numbers E, P, q, V, c at the start and the
order of the data: a base.  Networks of several widths, draws of neurons, and the limit on two sets of particles train
from the same bases, in μP with base width 32, on the same batches.  Asked is

    how probable it is that a network of width h learns, and that it leaves the first plateau;
    how often two networks of one base fare differently, and how often one fares as the limit;
    how long a network stays near the limit, and whether the distance is that of fluctuations, 1/√h.

Twenty bases, 400 epochs, widths 32 to 2048: what is measured is kept in `results/through_the_transition.jsonl`, which
--full makes.  Networks of one base are no independent trials: intervals are those of runs, and too narrow for bases.
"""

import functools
import itertools
import pathlib

import numpy as np
from clustering import Setting
from pictures import Pictures
from studies import Row, Study, share, shown
from worked import Worked

import tplimits as tp
from tplimits.watch.run import Run
from tplimits.zoo.clustering_heads import measures, start
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
BASES, EPOCHS, PARTICLES = 20, 400, 1024
#: width, draws of neurons: in the order of what they cost, so that an interrupted study has all bases of few widths
STAGES = ((32, 4), (128, 4), (tp.inf, 1), (512, 1), (tp.inf, 2), (2048, 1), (512, 2))
DRAWS = dict(STAGES)
#: more draws of the one base that is looked at closely
BANDS = ((32, 16), (128, 16), (512, 8))
EVERY = [0, 1, 2, 4, 7, 10, 15, 20, 30, 40, 50, 60, *range(80, EPOCHS + 1, 20)]
#: parameters that all networks of a base share
SHARED = ("E", "P", "q", "V", "c")
CACHE = pathlib.Path("build/through_the_transition")
study = Study("through_the_transition", pictures.full)


def watched(base: int, width: float, seed: int, epochs: int = EPOCHS, **more) -> tp.Recording:
    setting = Setting(SparseModularAddition(), seed=base)
    every = [epoch for epoch in EVERY if epoch <= epochs]
    more = {"particles": PARTICLES, "gradients": False, **start.scalars(base), **more}
    return setting.watch(epochs, every, (width,), [seed], **more)


@functools.cache
def limit(base: int, epochs: int = EPOCHS) -> Run:
    """The limit on the first set of particles; kept between calls."""
    kept = {}
    if epochs == EPOCHS:
        CACHE.mkdir(parents=True, exist_ok=True)
        kept = {"path": CACHE / f"{base}.npz"}
    return watched(base, tp.inf, 0, epochs, **kept).run()


def measured(base: int, width: float, seed: int, epochs: int = EPOCHS) -> dict[str, np.ndarray]:
    """Losses and accuracies on all sequences, and the distance of the shared numbers from those of the limit."""
    first = limit(base, epochs)
    run = first if (width, seed) == (tp.inf, 0) else watched(base, width, seed, epochs).run()
    wanted = {name: first.parameters[name].astype(float) for name in SHARED}
    squares = [((run.parameters[name] - wanted[name]).reshape(run.frames, -1) ** 2).sum(axis=1) for name in SHARED]
    count = sum(wanted[name][0].size for name in SHARED)
    off = np.sqrt(sum(squares) / count)
    return {"loss": run.curves["held-out loss"], "accuracy": run.curves["held-out accuracy"], "distance": off}


def row(base: int, width: float, seed: int):
    name = "limit" if width == tp.inf else int(width)
    return study.row(lambda: measured(base, width, seed), base=base, width=name, seed=seed)


for width, draws in STAGES if pictures.full else ():
    for base in range(BASES):
        for seed in range(draws):
            row(base, width, seed)

WIDTHS = (32, 128, 512, 2048, tp.inf)
NAMES = {h: "limit" if h == tp.inf else int(h) for h in WIDTHS}
TITLES = {h: "limit" if h == tp.inf else f"h = {h}" for h in WIDTHS}
LEAVES = 0.9 * np.log(2)


def rows_of(h: float, b: int) -> list[Row]:
    """Those of the study itself, without more draws of one base."""
    return [r for r in study.having(base=b, width=NAMES[h]) if r["run"]["seed"] < DRAWS[h]]


rows = {h: [rows_of(h, b) for b in range(BASES)] for h in WIDTHS}


def ends(h: float, what: str) -> list[np.ndarray]:
    """Of every base, whether its networks "succeed" or "leave" the first plateau."""
    if what == "succeed":
        return [np.array([r["accuracy"][-1] > measures.SUCCESS for r in found]) for found in rows[h]]
    return [np.array([r["loss"][-1] < LEAVES for r in found]) for found in rows[h]]


def apart(found: list[np.ndarray]) -> tuple[int, int]:
    """Pairs of networks of one base of which one does and one does not, and all pairs."""
    pairs = [pair for outcomes in found for pair in itertools.combinations(outcomes, 2)]
    return sum(bool(a) != bool(b) for a, b in pairs), len(pairs)


print(f"\n{BASES} bases, {EPOCHS} epochs, {PARTICLES} particles")
study.told()
tables: dict[str, dict[float, tuple[int, int]]] = {"succeed": {}, "leave": {}}
agree: dict[float, tuple[int, int]] = {}
for what, title in (("succeed", "Accuracy above 0.9"), ("leave", "Left the first plateau, loss below 0.9 ln 2")):
    print(f"\n{title}, with intervals of 95 %")
    sure = [bool(o.all()) if len(o) > 1 and o.all() == o.any() else None for o in ends(tp.inf, what)]
    for h in WIDTHS:
        found = ends(h, what)
        every = np.concatenate(found) if any(map(len, found)) else np.array([])
        if not len(every):
            continue
        tables[what][h] = int(every.sum()), len(every)
        text = f"  {TITLES[h]}: {shown(*tables[what][h])}"
        differ, pairs = apart(found)
        if pairs:
            others = 2 * every.mean() * (1 - every.mean())
            text += f"; two networks of a base differ in {shown(differ, pairs)} of pairs, of any bases {others:.2f}"
        if h != tp.inf:
            same = [o == verdict for o, verdict in zip(found, sure, strict=True) if verdict is not None and len(o)]
            count = int(sum(o.sum() for o in same)), sum(map(len, same))
            if count[1]:
                text += f"; as the limit: {shown(*count)}"
                if what == "leave":
                    agree[h] = count
        print(text)
    decided = sum(verdict is not None for verdict in sure)
    print(
        f"  both sets of particles of the limit agree in {decided} of {BASES} bases, {sum(map(bool, sure))} of them do"
    )

print("\nBase by base, accuracies at the end")
for b in range(BASES):
    parts = ("{}: {}".format(TITLES[h], ", ".join(f"{r['accuracy'][-1]:.2f}" for r in rows[h][b])) for h in WIDTHS)
    print(f"  base {b}: {'; '.join(part for part in parts if not part.endswith(': '))}")

print("\nHow far the shared numbers are from those of the limit: root mean square over bases and draws, times √h")
far = {}
for h in WIDTHS:
    one = [r["distance"] for found in rows[h] for r in found if h != tp.inf or r["run"]["seed"]]
    if one:
        far[h] = np.sqrt(np.mean(np.square(one), axis=0))
finite = [h for h in WIDTHS[:-1] if h in far]
for epoch in (1, 4, 10, 30, 60, 200, EPOCHS):
    i = EVERY.index(epoch)
    listed = ", ".join(f"{far[h][i] * h**0.5:.2f} at h = {h}" for h in finite)
    slope = np.polyfit(np.log(finite), np.log([far[h][i] for h in finite]), 1)[0] if len(finite) > 1 else np.nan
    other = f"; the limit on other particles {far[tp.inf][i]:.4f}" if tp.inf in far else ""
    print(f"  epoch {epoch}: {listed}; slope {slope:.2f}{other}")
    if epoch in (1, 4):
        work.holds(f"after {epoch} epochs distances fall like h^{slope:.2f}", abs(slope + 0.5) < 0.15)

if agree and tp.inf in tables["leave"]:
    first, last = (agree[h][0] / agree[h][1] for h in (min(agree), max(agree)))
    work.holds(
        f"wider networks fare as the limit: {first:.2f} at h = {min(agree)}, {last:.2f} at h = {max(agree)}",
        last >= first,
    )

#: the first base whose limit succeeds on both sets of particles
crossing = [b for b, o in enumerate(ends(tp.inf, "succeed")) if len(o) > 1 and o.all()]
if crossing:
    chosen = crossing[0]
    for h, draws in BANDS if pictures.full else ():
        for seed in range(draws):
            row(chosen, h, seed)
    print(f"\nBase {chosen}, the first whose limit succeeds: bands of all its networks")
    figure, axes = pictures.figure(4, f"Through the drop of the loss; {BASES} bases, and base {chosen}", 2)
    of_limit = study.having(base=chosen, width="limit")
    print("  limit: " + ", ".join(f"loss {r['loss'][-1]:.4f}, accuracy {r['accuracy'][-1]:.3f}" for r in of_limit))
    for k, h in enumerate(WIDTHS[:-1]):
        own = study.having(base=chosen, width=h)
        if not own:
            continue
        losses = np.array([r["loss"] for r in own])
        success = [r["accuracy"][-1] > measures.SUCCESS for r in own]
        least, most = losses[:, -1].min(), losses[:, -1].max()
        print(f"  h = {h}: {shown(sum(success), len(own))} succeed; losses {least:.4f} to {most:.4f}")
        low, middle, high = np.quantile(losses, (0.1, 0.5, 0.9), axis=0)
        axes[2].fill_between(EVERY, low, high, color=f"C{k}", alpha=0.2)
        axes[2].semilogy(EVERY, middle, color=f"C{k}", label=f"h = {h}, {len(own)} networks")
    for r in of_limit:
        axes[2].semilogy(EVERY, r["loss"], "k", linewidth=1.5)
    axes[2].set_title(f"loss of base {chosen}: medians, 10 % to 90 %; black: limit")
    for what, colour in (("succeed", "C0"), ("leave", "C1")):
        at = {h: (4096 if h == tp.inf else h, *share(*count)) for h, count in tables[what].items()}
        x, p, low, high = np.array(list(at.values())).T
        axes[0].errorbar(x, p, (p - low, high - p), fmt="o-", capsize=3, color=colour, label=what)
    if agree:
        x, p, low, high = np.array([(h, *share(*count)) for h, count in agree.items()]).T
        axes[1].errorbar(x, p, (p - low, high - p), fmt="o-", capsize=3, color="C2", label="leave where the limit does")
    for axis, title in zip(axes, ("probability, intervals of 95 %", "as the limit"), strict=False):
        axis.set_xscale("log")
        axis.set_xticks([32, 128, 512, 2048, 4096], ["32", "128", "512", "2048", "limit"], fontsize=7)
        axis.set_ylim(0, 1.05)
        axis.set_title(title)
    for k, h in enumerate(finite):
        axes[3].loglog(EVERY[1:], far[h][1:], color=f"C{k}", label=f"h = {h}")
    axes[3].loglog(EVERY[1:], far[tp.inf][1:], "k", label="limit, other particles")
    axes[3].set_title("distance of E, P, q, V, c from the limit")
    for axis in axes:
        axis.legend(fontsize=7)
    for axis in axes[2:]:
        axis.set_xlabel("epoch")
    pictures.save(figure, "clustering-heads-transition")

print("\nSeven epochs of base 0 again")
for h in (32, tp.inf):
    kept = row(0, h, 0)
    if kept is not None:
        again = measured(0, h, 0, 7)["loss"]
        off = np.abs(np.subtract(kept["loss"][: len(again)], again)).max()
        work.holds(f"{TITLES[h]}: {off:.0e} off what was measured", off < 1e-3)
work.finish()
