"""Clustering heads in training: the figures of the paper, d = 2, p = 2, h = 32, Adam at 0.003 on batches of 32.

    python derivations/27_clustering_heads_training.py [--full] [--out FOLDER] [--png]

Forty-eight networks for 1000 epochs, held-out inputs are all 4096 sequences.  What is judged: as many succeed (accuracy
above 0.9) as the seven of twelve of the paper's setting allow, and activations of the failures are sparser (Figure 10).
Runs of 64 000 steps magnify rounding until single networks fare otherwise: shares of many are what is the same with
another compiler.  The pictures are those of Figures 2 to 8 and 10 for networks that this script finds by a rule: the
earliest success of the first twelve, the largest spike.  --full has a frame at every epoch, for all networks.
"""

import numpy as np
from clustering import EPOCH, Measured, Setting
from pictures import Pictures
from scipy.stats import fisher_exact, mannwhitneyu
from studies import shown
from worked import Worked

from tplimits.zoo.clustering_heads import measures, spikes
from tplimits.zoo.clustering_heads.task import SparseModularAddition

pictures, work = Pictures(__doc__), Worked(__doc__)
EPOCHS, SEEDS, FIRST = 1000, 48, 12
setting = Setting(SparseModularAddition())
task = setting.task
rec = setting.watch(EPOCHS, 1 if pictures.full else 10, seeds=SEEDS)
states = [setting.state(rec, seed=seed) for seed in range(SEEDS)]
epochs = np.asarray(rec.steps) // EPOCH
accuracies = rec.curves("held-out accuracy")[32]
first = [measures.first_success(curve) for curve in accuracies]

print(f"\n{SEEDS} networks after {EPOCHS} epochs")
for seed, state in enumerate(states[:FIRST]):
    when = "" if first[seed] is None else f"; above 0.9 first at epoch {epochs[first[seed]]}"
    print(f"  seed {seed:2}: {state}{when}")
success = np.array([s.accuracy > measures.SUCCESS for s in states])
work.holds(
    f"{shown(success.sum(), SEEDS)} succeed, of the first twelve {success[:FIRST].sum()}; seven of twelve agree",
    fisher_exact([[success.sum(), (~success).sum()], [7, 5]]).pvalue > 0.01,
)
dense = np.array([s.sparsity for s in states])
rank = mannwhitneyu(dense[~success], dense[success], alternative="greater").pvalue
work.holds(
    f"share of activations below 0.1: {dense[success].mean():.2f} in successes, {dense[~success].mean():.2f} "
    f"in others; rank test {rank:.1g}",
    rank < 0.001,
)
middle = np.median(dense[success])
as_dense = (dense[~success] < middle).sum()
print(f"  {as_dense} of {(~success).sum()} failures are as dense as the median success, {middle:.2f}")
print(f"  epochs of the first success: {', '.join(str(epochs[f]) for f in sorted(f for f in first if f is not None))}")
kinds = [s.kind for s in states]
print("  variants: " + ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds)))
heads = [s for s in states if s.share.within < 0.01 and s.accuracy > 0.99]
work.holds(
    f"{len(heads)} of the successes are clustering heads: variance of ξ inside multisets below 0.01", len(heads) > 0
)

print("\nFigure 10: sparsity and success")
figure, (axis,) = pictures.figure(1, "Activation sparsity after training")
ε = np.geomspace(1e-5, 1e2, 60)
for state in states:
    axis.semilogx(ε, measures.sparsity(state.act, ε), color="C0" if state.accuracy > measures.SUCCESS else "C3")
axis.set_xlabel("ε")
axis.set_ylabel("share of activations below ε; blue: success")
pictures.save(figure, "clustering-heads-sparsity")

print("\nFigures 11 to 13: the first success of each variant")
found = {kind: kinds.index(kind) for kind in dict.fromkeys(kinds) if kind != "failure"}
figure, axes = pictures.figure(
    2 * len(found), "Variants: ξ of all inputs by the number of ones in front, and attention"
)
ones = task.counts(setting.test)[:, 1]
shown = setting.probes[task.labels(setting.probes) == 1]
for pair, (kind, s) in zip(axes.reshape(2, -1).T, found.items(), strict=True):
    pair[0].scatter(*rec.value("ξ", -1, seed=s, X=setting.test).T, c=ones, cmap="viridis", s=3)
    pair[0].set_title(f"{kind}: seed {s}, {states[s].clusters} clusters")
    pair[1].imshow(rec.value("s", -1, seed=s, X=shown), cmap="Blues", vmin=0, vmax=0.2, aspect="auto")
    pair[1].axvline(task.relevant - 0.5, color="red")
    pair[1].set_title(f"attention, {states[s].mass:.2f} on the first five")
    print(f"  {kind}: seed {s}, {states[s]}")
pictures.save(figure, "clustering-heads-variants")

print("\nTwo draws of data that overlap: training and test sequences of the published experiment")
X, other = task.train_and_test()
known = {tuple(row) for row in X.tolist()}
seen = np.array([tuple(row) in known for row in other.tolist()])
print(f"  {len(known)} of the {2**12} sequences are trained on; {seen.mean():.3f} of the test sequences are among them")
work.holds("as many as 1 − e^(−1/2), within three standard errors", abs(seen.mean() - (1 - np.exp(-0.5))) < 3 * 0.0108)
gaps = []
for s in range(SEEDS):
    right = rec.outputs(-1, seed=s, X=other).argmax(axis=1) == task.labels(other)
    gaps.append(right[seen].mean() - right[~seen].mean())
    if s < FIRST and states[s].accuracy < 0.999:
        parts = f"{right[seen].mean():.3f} on those, {right[~seen].mean():.3f} on others"
        print(f"  seed {s:2}: accuracy {right.mean():.3f} on the test draw, {parts}, {states[s].accuracy:.3f} on all")
largest_gap = max(gaps)
work.holds(f"sequences that were seen are right more often by at most {largest_gap:.3f}", largest_gap < 0.2)

print("\nFigures 2, 3, 7, 8: the network of the first twelve that succeeds first")
seed = min((f, s) for s, f in enumerate(first[:FIRST]) if f is not None)[1]
run = rec.run(32, seed)
loss = run.curves["loss"]
figure, axes = pictures.figure(4, f"Losses, accuracies and gradients, seed {seed}")
for axis, names in zip(axes[:2], (("loss", "held-out loss"), ("accuracy", "held-out accuracy")), strict=True):
    for name in names:
        axis.plot(epochs, run.curves[name], label=name)
axes[0].set_yscale("log")
layers = {"embeddings": "EP", "attention": "qV", "perceptron": "wbuc"}
norms = {k: np.sqrt(sum(run.curves[f"gradient {n}"] ** 2 for n in names)) for k, names in layers.items()}
for axis in axes[2:]:
    for name, norm in norms.items():
        axis.plot(epochs, norm, label=name)
axes[2].set_yscale("log")
for axis, title in zip(axes, ("losses", "accuracies", "norms of full gradients", "the same"), strict=True):
    axis.set_title(title)
    axis.set_xlabel("epoch")
    axis.legend(fontsize=7)
pictures.save(figure, "clustering-heads-two-phases")

#: the first drop is where the loss has fallen a tenth of the way from ln 2, the second where it is nearly gone
levels = (0.9 * np.log(2), 0.5 * np.log(2), 0.1 * np.log(2))
near = setting.watch(int(epochs[np.argmax(loss < levels[-1])]) + 10, 1, seeds=[seed], held_out=False)
fine = near.run().curves["loss"]
marks = [0, *(int(np.argmax(fine < level)) for level in levels)]
figure, axes = pictures.figure(5, f"Sequence embeddings of all inputs in two phases, seed {seed}")
counts = task.counts(setting.test)[:, 1]
for axis, mark in zip(axes, marks, strict=False):
    ξ = near.value("ξ", mark, X=setting.test)
    axis.scatter(*ξ.T, c=counts, cmap="viridis", s=3)
    axis.set_title(f"epoch {mark}, loss {fine[mark]:.2f}")
axes[4].semilogy(fine)
for mark in marks:
    axes[4].axvline(mark, color="C3", linestyle="--", linewidth=0.7)
axes[4].set_title("loss")
pictures.save(figure, "clustering-heads-phases")

figure, axes = pictures.figure(3, f"Attention of the probes with label 1, seed {seed}")
probes = setting.probes[task.labels(setting.probes) == 1]
axes[0].imshow(probes, cmap="Greys", aspect="auto")
for axis, frame in zip(axes[1:], (0, -1), strict=True):
    axis.imshow(rec.value("s", frame, seed=seed, X=probes), cmap="Blues", vmin=0, vmax=0.2, aspect="auto")
for axis, title in zip(axes, ("tokens", "epoch 0", f"epoch {EPOCHS}"), strict=True):
    axis.axvline(task.relevant - 0.5, color="red")
    axis.set_title(title)
pictures.save(figure, "clustering-heads-attention")
alike = []
for s in np.flatnonzero(success):
    start, end = (rec.value("s", frame, seed=int(s), X=setting.test) for frame in (0, -1))
    alike.append(np.corrcoef(start.ravel(), end.ravel())[0, 1])
work.holds(
    f"correlation of the attention at the end with that at the start, successes: {np.mean(alike):.2f} on average",
    np.mean(alike) > 0.1,
)

print("\nFigures 4 to 7: spikes of the loss, epoch by epoch, of the first success after it succeeded")
WINDOW = 400 if pictures.full else 150
again = setting.watch(WINDOW, 1, seeds=[seed], held_out=False, start=rec.parameters(first[seed], seed=seed))
run, measured = again.run(), Measured(setting, again)
norm = np.sqrt(sum(run.curves[f"gradient {name}"] ** 2 for name in "EPqVcwbu"))
at = spikes.spikes(run.curves["loss"], 1.5)
table = {t: measured.spike(t) for t in at}
for t, spike in table.items():
    before, after = run.curves["loss"][t - 1 : t + 1]
    shares = ", ".join(f"{name} {share:+.3f}" for name, share in spike.shares.items())
    turns = f"tokens turn by {spike.turn_of_tokens:.2f}, ξ by {spike.turn_of_sequences:.2f}"
    print(f"  epoch {t}: loss {before:.4f} to {after:.4f}, gradient {norm[t - 1]:.2f} to {norm[t]:.2f}")
    print(f"    {shares}; {turns}: {spike.kind}")
rising = [norm[t] > norm[t - 1] for t in at]
work.holds(f"{sum(rising)} of {len(at)} spikes come with a larger gradient", len(at) > 0 and np.mean(rising) > 0.9)
rank = np.corrcoef(np.argsort(np.argsort(run.curves["loss"])), np.argsort(np.argsort(norm)))[0, 1]
work.holds(f"rank correlation of loss and gradient {rank:.2f}", rank > 0.5)
largest = max(table, key=lambda t: run.curves["loss"][t] / run.curves["loss"][t - 1])
figure, axes = pictures.figure(4, f"The largest spike, seed {seed}, epoch {largest} of the second part")
axes[0].semilogy(run.curves["loss"], label="loss")
axes[0].semilogy(norm, label="gradient", linewidth=0.7)
axes[0].axvline(largest, color="C3", linestyle="--")
axes[0].legend()
for axis, name, title in zip(
    axes[1:], ("ξ", "u", "mlp"), ("ξ", "assemblers u", "output of the perceptron"), strict=True
):
    for t, colour in ((largest - 1, "C0"), (largest, "C3")):
        points = measured.value(name, again.parameters(t), setting.probes)
        points = points.T if name == "u" else points
        axis.scatter(*points.T, s=8, color=colour, label=f"epoch {t}")
    axis.set_title(title)
    axis.legend()
pictures.save(figure, "clustering-heads-spike")
work.finish()
