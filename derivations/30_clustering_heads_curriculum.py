"""Clustering heads: learned with p = 2, trained on with p = 3 … 10, or p from the start.

    python derivations/30_clustering_heads_curriculum.py [--full] [--out FOLDER] [--png]

Figures 9, 14 and 15 of the paper and what it says of them: training on from p = 2 helps; networks with six clusters,
which ignore suffixes and orders, profit most; the circuit that is found stays near the one it started from.  Training
on takes fresh Adam.  The network of p = 2 has a third vector, as in the published runs, that was trained through the
softmax alone; vectors of further tokens are drawn.

What is measured is kept in `results/curriculum.jsonl`, which --full makes; by default one network goes through p = 2
and 3 for a few epochs.
"""

import functools
import pathlib
from typing import Any

import numpy as np
from clustering import Setting
from pictures import Pictures
from scipy.stats import fisher_exact
from studies import Study, shown
from worked import Worked

import tplimits as tp
from tplimits.zoo.clustering_heads import measures, start
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
EPOCHS, SEEDS, MORE = 1000, 10, 32
MODULI = (3, 4, 5, 7, 10)
two = Setting(SparseModularAddition())
study = Study("curriculum", pictures.full)
#: the networks of p = 2, kept between calls
CACHE = pathlib.Path("build/curriculum.npz")
Array = np.ndarray


def of(p: int) -> Setting:
    return Setting(SparseModularAddition(modulus=p), vocab=max(3, p))


@functools.cache
def first() -> tp.Recording:
    """The networks that learned p = 2."""
    CACHE.parent.mkdir(exist_ok=True)
    return two.watch(EPOCHS, EPOCHS, seeds=MORE, gradients=False, path=CACHE)


def states() -> dict[str, Any]:
    found = [two.state(first(), seed=seed) for seed in range(MORE)]
    return {
        "accuracy": [state.accuracy for state in found],
        "kind": [state.kind for state in found],
        "clusters": [state.clusters for state in found],
        "within": [state.share.within for state in found],
    }


def ends(rec: tp.Recording) -> list[float]:
    return rec.curves("held-out accuracy")[32][:, -1].tolist()


def then(p: int, seeds: range) -> dict[str, Any]:
    """Accuracies of networks trained on with p."""
    if p == 3:
        return {"accuracy": ends(of(p).watch(EPOCHS, EPOCHS, seeds=seeds, gradients=False, start=first()))}
    found = []
    for seed in seeds:
        θ = first().parameters(seed=seed)
        for v in range(3, p):
            θ = start.with_token(θ, 1000 * v + seed)
        found += ends(of(p).watch(EPOCHS, EPOCHS, seeds=[seed], gradients=False, start=θ))
    return {"accuracy": found}


def alone(p: int, seeds: range) -> dict[str, Any]:
    return {"accuracy": ends(of(p).watch(EPOCHS, EPOCHS, seeds=seeds, gradients=False))}


def short() -> dict[str, Any]:
    """Losses of two networks after ten epochs of p = 2 and ten of p = 3."""
    rec = two.watch(10, 10, seeds=2, gradients=False)
    more = of(3).watch(10, 10, seeds=2, gradients=False, start=rec)
    return {"two": rec.loss[32][:, -1], "three": more.loss[32][:, -1]}


before = study.row(states, what="two")
seeds = {p: range(MORE if p == 3 else SEEDS) for p in MODULI}
after = {p: study.row(lambda p=p: then(p, seeds[p]), what="then", p=p) for p in MODULI}
never = {p: study.row(lambda p=p: alone(p, seeds[p]), what="alone", p=p) for p in MODULI}
if before and after[3]:
    print(f"\np = 2 for {EPOCHS} epochs, then p = 3 for {EPOCHS}: {MORE} networks")
    reached, kinds = np.array(after[3]["accuracy"]), np.array(before["kind"])
    for kind in dict.fromkeys(before["kind"]):
        those = reached[kinds == kind]
        print(
            f"  {kind}: {len(those)} networks, {(those > measures.SUCCESS).sum()} above 0.9 with p = 3, "
            f"{(those == 1).sum()} at 1.000, mean {those.mean():.2f}"
        )
    head = (np.array(before["accuracy"]) > measures.SUCCESS) & (np.array(before["within"]) < 0.01)
    learned = reached > measures.SUCCESS
    table = [[int((a & b).sum()) for b in (learned, ~learned)] for a in (head, ~head)]
    text = f"with both invariances {shown(table[0][0], sum(table[0]))} learn p = 3, of the others "
    text += shown(table[1][0], sum(table[1]))
    p_value = fisher_exact(table, alternative="greater").pvalue
    work.holds(f"{text}; exact test {p_value:.1g}", p_value < 0.05)

print("\nFigure 14: accuracy by p, alone and after p = 2")
bars = {}
for p in MODULI:
    if never[p] and after[p]:
        bars[p] = np.array(never[p]["accuracy"]), np.array(after[p]["accuracy"])
        parts = (f"mean {a.mean():.2f}, best {a.max():.2f} of {len(a)}" for a in bars[p])
        print("  p = {}: alone {}; after p = 2 {}; chance {:.2f}".format(p, *parts, 1 / p))
if 3 in bars:
    gain = bars[3][1].mean() - bars[3][0].mean()
    work.holds(f"p = 3: what was learned at p = 2 is worth {gain:.2f} of accuracy", gain > 0)
if bars:
    figure, axes = pictures.figure(2, "Accuracy after 1000 epochs: p alone, and after p = 2")
    for axis, what in zip(axes, (np.mean, np.max), strict=True):
        for k, name in enumerate(("alone", "after p = 2")):
            axis.bar(np.arange(len(bars)) + 0.4 * k, [what(pair[k]) for pair in bars.values()], 0.4, label=name)
        axis.plot(np.arange(len(bars)) + 0.2, [1 / p for p in bars], "k_", markersize=20, label="chance")
        axis.set_xticks(np.arange(len(bars)) + 0.2, [f"p = {p}" for p in bars])
        axis.set_title(what.__name__)
        axis.legend(fontsize=7)
    pictures.save(figure, "clustering-heads-moduli")


def transferred(seed: int) -> None:
    """Figures 9 and 15: one circuit of six clusters, to which E(2) was no input, before and after p = 3."""
    θ, state = first().parameters(seed=seed), two.state(first(), seed=seed)
    three = of(3)
    rec = three.watch(EPOCHS, EPOCHS, seeds=[seed], start=θ)
    figure, axes = pictures.figure(
        6, f"A circuit of p = 2 ({state.kind}) with a third token, before and after p = 3", 3
    )
    counts = three.task.counts(three.test)
    for k, frame in enumerate((0, -1)):
        Z, q = (rec.value(name, frame) for name in ("Z", "q"))  # (token, vocab, d) and (d,)
        for v in range(3):
            for part, mark in ((slice(0, 5), "o"), (slice(5, 12), "s")):
                axes[k].scatter(*Z[part, v].T, marker=mark, color=f"C{v}", s=22)
        axes[k].annotate("", 1.3 * q / np.linalg.norm(q), (0, 0), arrowprops={"color": "red", "arrowstyle": "->"})
        axes[k].set_title(f"normalised tokens and q, {('before', 'after')[k]}")
        ξ = rec.value("ξ", frame, X=three.test)
        axes[2 + k].scatter(*ξ.T, c=counts @ [1, 6, 0], cmap="viridis", s=3)
        axes[2 + k].set_title(f"ξ by multiset, accuracy {rec.curves('held-out accuracy')[32][0, frame]:.2f}")
        probes = three.probes[three.task.labels(three.probes) == 1]
        axes[4 + k].imshow(rec.value("s", frame, X=probes), cmap="Blues", vmin=0, vmax=0.2, aspect="auto")
        axes[4 + k].axvline(4.5, color="red")
        axes[4 + k].set_title("attention")
    pictures.save(figure, "clustering-heads-transfer")
    X, s = three.test, rec.value("s", -1, X=three.test)
    shares = [s[:, :5][X[:, :5] == v].mean() for v in range(3)]
    beyond = [s[:, 5:][X[:, 5:] == v].mean() for v in range(3)]
    listed = ", ".join(f"{v}: {a:.3f} and {b:.3f}" for v, (a, b) in enumerate(zip(shares, beyond, strict=True)))
    print(f"  seed {seed}: attention on a token among the first five, and behind them: {listed}")
    share = measures.invariance(rec.value("ξ", -1, X=X), X, three.task).within
    print(f"  variance of ξ inside the {three.task.multisets} multisets of p = 3: {share:.1e}")
    old, new = (rec.value("s", frame, X=X).ravel() for frame in (0, -1))
    moved = {name: np.linalg.norm(rec.parameters()[name] - θ[name]) / np.linalg.norm(θ[name]) for name in "EPqV"}
    text = ", ".join(f"{name} {value:.2f}" for name, value in moved.items())
    print(f"  attention before and after is correlated by {np.corrcoef(old, new)[0, 1]:.2f}; relative moves: {text}")


if pictures.full:
    print("\nFigures 9 and 15: the circuit of six clusters that does best")
    transferred(int(np.argmax(np.where(head.any(), head, 1) * reached)))
study.told()

print("\nTen epochs of p = 2 and of p = 3 again, two seeds")
off = study.again(short, what="short")
work.holds(f"losses are {off:.0e} off what was measured", off < 1e-3)
work.finish()
