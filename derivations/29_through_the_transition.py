"""Clustering heads: does the limit of a wide perceptron decide what a network learns?

    python derivations/29_through_the_transition.py [--full] [--out FOLDER] [--png]

As h grows the randomness of the neurons goes away, and what is left are the numbers E, P, q, V, c at the start and the
order of the data: a base.  Networks of several widths, draws of neurons, and the limit on two sets of particles train
from the same bases, in μP with base width 32, on the same batches.  Asked is

    how probable it is that a network of width h learns, and that it leaves the first plateau;
    how often two networks of one base fare differently, and how often one fares as the limit;
    how long a network stays near the limit, and whether the distance is that of fluctuations, 1/√h.

Twenty bases, 400 epochs, widths 32 to 2048 (2048 from the first bases as far as there are rows): what is measured is
kept in `results/through_the_transition.jsonl`, and --full makes what is missing, the cheapest first.  Networks of one
base are no independent trials: intervals are those of runs, and too narrow for bases.
"""

import functools
import itertools
import pathlib

import numpy as np
from clustering import Setting
from pictures import Pictures
from scipy.stats import ks_2samp
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
#: more draws of the two bases that are looked at closely
BANDS = ((32, 12), (128, 8), (512, 3))
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
agree: dict[str, dict[float, tuple[int, int]]] = {"succeed": {}, "leave": {}}
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
                agree[what][h] = count
                positive = np.concatenate([o for o, v in zip(found, sure, strict=True) if v and len(o)] or [[]])
                if len(positive):
                    text += f", where it does {int(positive.sum())} of {len(positive)}"
        print(text)
    decided = sum(verdict is not None for verdict in sure)
    print(
        f"  both sets of particles of the limit agree in {decided} of {BASES} bases, {sum(map(bool, sure))} of them do"
    )

print("\nBase by base, accuracies at the end")
for b in range(BASES):
    parts = ("{}: {}".format(TITLES[h], ", ".join(f"{r['accuracy'][-1]:.2f}" for r in rows[h][b])) for h in WIDTHS)
    print(f"  base {b}: {'; '.join(part for part in parts if not part.endswith(': '))}")

print(
    "\nHow far the shared numbers are from those of the limit, times √h: over draws the root of the mean square, over"
)
print("bases the geometric mean.  Draws of neurons are the same for all bases, and 512 has one or two of them.")
far = {}
for h in WIDTHS:
    one = [[r["distance"] for r in found if h != tp.inf or r["run"]["seed"]] for found in rows[h]]
    if all(one):
        squares = [np.mean(np.square(draws), axis=0) for draws in one]
        far[h] = np.exp(0.5 * np.log(np.maximum(squares, 1e-24)).mean(axis=0))
finite = [h for h in WIDTHS[:-1] if h in far]
for epoch in (1, 4, 10, 30, 60, 100, 200, EPOCHS):
    i = EVERY.index(epoch)
    listed = ", ".join(f"{far[h][i] * h**0.5:.2f} at h = {h}" for h in finite)
    slope = np.log(far[128][i] / far[32][i]) / np.log(4) if 128 in far else np.nan
    other = f"; the limit on other particles {far[tp.inf][i]:.4f}, not multiplied" if tp.inf in far else ""
    print(f"  epoch {epoch}: {listed}{other}")
    if epoch in (1, 4):
        work.holds(
            f"after {epoch} epochs, from four draws at 32 and at 128, like h^{slope:.2f}", abs(slope + 0.5) < 0.15
        )
if tp.inf in far:
    i = EVERY.index(4)
    like = (far[max(finite)][i] * max(finite) ** 0.5 / far[tp.inf][i]) ** 2
    print(f"  two sets of particles are as near at epoch 4 as networks of {like:.0f} neurons to the limit")

print("\nWhat the base decides")
same, others = 0, 0
for b in range(BASES):
    fates = np.concatenate([ends(h, "succeed")[b] for h in WIDTHS])
    same += bool(len(fates) and not fates.any())
    others += bool(len(fates) and fates.all())
print(f"  in {same} of {BASES} bases no run of any width succeeds, in {others} all do; in the others some do")
for what, count in tables.items():
    differ, pairs = np.sum([apart(ends(h, what)) for h in (32, 128)], axis=0)
    p = sum(count[h][0] for h in (32, 128)) / sum(count[h][1] for h in (32, 128))
    text = f"two networks of one base differ in whether they {what} with probability {differ / pairs:.2f}"
    work.holds(f"{text}, of any two bases with {2 * p * (1 - p):.2f}", differ / pairs < 2 * p * (1 - p))

print("\nThe law over draws of E, P, q, V, c: accuracy at the end, first draw of neurons")
law = {h: np.array([found[0]["accuracy"][-1] for found in rows[h] if found]) for h in WIDTHS}
for h, values in law.items():
    if len(values) == BASES:
        quantiles = ", ".join(f"{q:.2f}" for q in np.quantile(values, (0.1, 0.25, 0.5, 0.75, 0.9)))
        far_apart = ks_2samp(values, law[tp.inf])
        print(
            f"  {TITLES[h]}: mean {values.mean():.3f} ± {values.std(ddof=1) / BASES**0.5:.3f}, quantiles 10 to 90 % "
            f"{quantiles}; Kolmogorov and Smirnov's test against the limit {far_apart.pvalue:.2f}"
        )

print("\nThe same law at the beginning: logits after three epochs, means over eight draws, 256 neurons and the limit")
setting = Setting(SparseModularAddition())
rec = setting.watch(3, 3, (256, tp.inf), 8, particles=PARTICLES, gradients=False, held_out=False)
mean, spread = (np.array([rec.average(width=h)[k] for h in (256, tp.inf)]) for k in (0, 2))
paired = np.array([rec.outputs(width=256, seed=k) - rec.outputs(width=tp.inf, seed=k) for k in range(8)])
off, error = abs(mean[0] - mean[1]).max(), paired.std(axis=0, ddof=1).max() / 8**0.5
text = f"256 neurons by {paired.std():.3f} from the limit of their own draw"
print(f"  logits differ by up to {spread[1].max():.2f} between draws; {text}")
work.holds(
    f"the means over draws differ by at most {off:.3f}, error {error:.3f}", off < 4 * error and off < spread[1].max()
)

figure, axes = pictures.figure(6, f"Through the drop of the loss: {BASES} bases", 2)
for what, colour in (("succeed", "C0"), ("leave", "C1")):
    at = {h: (8192 if h == tp.inf else h, *share(*count)) for h, count in tables[what].items()}
    x, p, low, high = np.array(list(at.values())).T
    axes[0].errorbar(x, p, (p - low, high - p), fmt="o-", capsize=3, color=colour, label=what)
    if agree[what]:
        x, p, low, high = np.array([(h, *share(*count)) for h, count in agree[what].items()]).T
        axes[1].errorbar(x, p, (p - low, high - p), fmt="o-", capsize=3, color=colour, label=f"{what} as the limit")
for axis, title in zip(axes, ("probability, intervals of 95 %", "as both sets of particles do"), strict=False):
    axis.set_xscale("log")
    axis.set_xticks([32, 128, 512, 2048, 8192], ["32", "128", "512", "2048", "limit"], fontsize=7)
    axis.set_ylim(0, 1.05)
    axis.set_title(title)
for k, (h, values) in enumerate(law.items()):
    if len(values) == BASES:
        axes[2].ecdf(values, color="k" if h == tp.inf else f"C{k}", label=TITLES[h])
axes[2].set_title("law of the accuracy over bases")
for k, h in enumerate(finite):
    axes[3].loglog(EVERY[1:], far[h][1:], color=f"C{k}", label=f"h = {h}")
if tp.inf in far:
    axes[3].loglog(EVERY[1:], far[tp.inf][1:], "k", label="limit, other particles")
axes[3].set_title("distance of E, P, q, V, c from the limit")

#: the first base whose limit succeeds on both sets of particles, and the first where the two part
fates = [(b, o) for b, o in enumerate(ends(tp.inf, "succeed")) if len(o) > 1]
closely = [next((b for b, o in fates if o.all()), None), next((b for b, o in fates if o.any() and not o.all()), None)]
for axis, base in zip(axes[4:], closely, strict=True):
    if base is None:
        continue
    for h, draws in BANDS if pictures.full else ():
        for seed in range(draws):
            row(base, h, seed)
    of_limit = study.having(base=base, width="limit")
    ended = ", ".join(f"loss {r['loss'][-1]:.4f}, accuracy {r['accuracy'][-1]:.3f}" for r in of_limit)
    print(f"\nBase {base}, the first whose limit {'succeeds' if base == closely[0] else 'parts'}: {ended}")
    for k, h in enumerate(WIDTHS[:-1]):
        own = study.having(base=base, width=h)
        if own:
            losses = np.array([r["loss"] for r in own])
            success = sum(r["accuracy"][-1] > measures.SUCCESS for r in own)
            least, most = losses[:, -1].min(), losses[:, -1].max()
            print(f"  h = {h}: {shown(success, len(own))} succeed; losses {least:.4f} to {most:.4f}")
            low, middle, high = np.quantile(losses, (0.1, 0.5, 0.9), axis=0)
            axis.fill_between(EVERY, low, high, color=f"C{k}", alpha=0.2)
            axis.semilogy(EVERY, middle, color=f"C{k}", label=f"h = {h}, {len(own)} networks")
    for r in of_limit:
        axis.semilogy(EVERY, r["loss"], "k", linewidth=1.5)
    axis.set_title(f"base {base}: loss, 10 % to 90 %; black: limit")
for axis in axes:
    axis.legend(fontsize=7)
for axis in axes[3:]:
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
