"""Clustering heads, two limits: a wide perceptron (h → ∞, d fixed), and wide embeddings (d → ∞).

A.  In μP with base width h₀ the perceptron is a mean over neurons, ψ = ξ + c + (h₀/h) Σ u σ(w·ξ̄ + b), and h = h₀ is
the network as published.  E, P, q, V and c are numbers, neurons move by themselves in their mean field; at the start
the mean vanishes and ψ = ξ + c.  As published (fixed rates, h₀ = h) one step of Adam moves ψ by more the wider the
network is: no limit.

B.  With n = d, attention over q·z/d, and V of variance 1/d the tokens Z = (E + P)/√2 have overlaps (δ_xx' + δ_ts)/2,
the attention is uniform, and

    ⟨ξ_x|ξ_x'⟩ = (Σ_v n_v(x) n_v(x') + L)/2L²,        n_v(x) = the number of v among all L tokens:

at the start the network sees how often a token stands anywhere, and nothing of the first k positions.  One step of
gradient descent leaves the attention uniform; the second one prefers the positions that count.
"""

import itertools

import numpy as np
import sympy
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.training.finite.networks import train
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.zoo.clustering_heads import measures, recipes, start
from tplimits.zoo.clustering_heads.task import SparseModularAddition
from tplimits.zoo.networks.sparse_modular_addition import sparse_modular_addition, transformer

work = Worked(__doc__)
TASK = SparseModularAddition()

print("\nB. Three sequences of twelve tokens, d → ∞")
SEQUENCES = TASK.draw(3, SEED)
CHOSEN = np.eye(2)[SEQUENCES].transpose(0, 2, 1)


@tp.program
def wide_embeddings(E: tp.Vector["vocab"], P: tp.Vector["token"], q: tp.Vector, V: tp.Matrix):
    S = E + P
    Z = S / tp.sqrt(tp.avg(S * S))
    z = tp.sum(tp.constant(CHOSEN, axes=("input", "vocab", "token")) * Z, over="vocab")
    ξ = V @ tp.sum(tp.softmax(tp.avg(q * z), over="token") * z, over="token")
    return tp.avg(ξ * ξ.rename(input="other"))


limit = work.derived(wide_embeddings, steps=False)
counts = np.stack([(v == SEQUENCES).sum(axis=1) for v in range(2)], axis=1)


def label(a: int, b: int) -> str:
    return f"return[input={a},other={b}]"


PAIRS = tuple(itertools.combinations_with_replacement(range(3), 2))
for a, b in PAIRS:
    kernel = sympy.Rational(int(counts[a] @ counts[b]) + TASK.length, 2 * TASK.length**2)
    work.same(f"⟨ξ_{a}|ξ_{b}⟩", limit.scalar("return", input=a, other=b), kernel)
work.accepts(limit, draws=(600, 400, 200, 100))
first = np.stack([(SEQUENCES[:, :5] == v).sum(axis=1) for v in range(2)], axis=1)
relevant = {label(a, b): float(first[a] @ first[b] + 5) / 50 for a, b in PAIRS}
work.rejects(limit, relevant, "attention on the first five tokens alone", draws=(600, 400, 200, 100))

print("\nB. Training, sequences of three tokens labelled by the first, one-hot: when does attention see a position?")


@tp.network
def wide_attention(
    x: tp.Input["token", "vocab"], E: tp.Vector["vocab"], P: tp.Vector["token"], q: tp.Vector, V: tp.Matrix
):
    S = E + P
    Z = S / tp.sqrt(tp.avg(S * S))
    a = tp.avg(q * Z)
    s = tp.sum(tp.exp(a) * x, over="vocab")
    s = s / tp.sum(s, over="token")
    return E.rename(vocab="label") * (V @ tp.sum(s * tp.sum(Z * x, over="vocab"), over="token"))


wide_attention = wide_attention.bind(vocab=2, token=3, label=2)
short = SparseModularAddition(length=3, relevant=1)
x, y = np.eye(2)[short.population()], short.labels(short.population())
asked = {"error": tp.cross_entropy(y), "lr": 0.5}
one = tp.derive(tp.derive(wide_attention, tp.MaximalUpdate(tp.SGD())).unrolled(x, **asked, steps=1))
entries = [one.scalar("a_1", token=t, vocab=v) for t in range(3) for v in range(2)]
work.holds("after one step of gradient descent all attention logits are 0", entries == [0] * 6)
run = train(wide_attention, tp.MUP, tp.SGD(), x, asked["error"], 0.5, 4, n=1024, seed=SEED, draws=24, keep=("a",))
moved = run.kept["a"] - run.kept["a"][:, :1]
moved = moved.reshape(24, 5, 3, 2).mean(axis=3)  # by position, both tokens move alike
mean, error = moved.mean(axis=0), moved.std(axis=0, ddof=1) / 24**0.5
for t in (1, 2, 4):
    listed = ", ".join(f"{m:+.4f} ± {e:.4f}" for m, e in zip(mean[t], error[t], strict=True))
    print(f"  24 networks of width 1024, logits moved by step {t}, at the three positions: {listed}")
gap = mean[2, 0] - mean[2, 1:].max()
work.holds(f"the second step prefers the position that counts, by {gap:.4f}", gap > 10 * error[2].max())
work.holds("and the first moves nothing beyond 1/√n of that", abs(mean[1]).max() < gap / 32**0.5)
print("\nA. One step of Adam at rate 0.003: root mean square change of ψ, four networks of each width")
WIDTHS = (128, 512, 2048, 8192)
x = TASK.draw(64, SEED)
loss = tp.cross_entropy(TASK.labels(x))


def moved(h: int, base: int) -> float:
    """Of networks of width h with the base width h₀; the network as published has base h."""
    found = []
    for seed in range(4):
        given = {**start.scalars(seed, base=base), **start.neurons(h, seed, base=base)}
        asked = recipes.recipe(tp.Adam(), 3e-3, base)
        net = transformer(base=base)
        ψ = train(net, tp.MUP, asked["optimizer"], x, loss, asked["lr"], 1, n=h, given=given, keep=("ψ",)).kept["ψ"]
        found.append(((ψ[0, 1] - ψ[0, 0]) ** 2).mean())
    return float(np.sqrt(np.mean(found)))


published, maximal = ([moved(h, base or h) for h in WIDTHS] for base in (None, 32))
for name, values in (("as published", published), ("μP", maximal)):
    print(f"  {name}: " + ", ".join(f"{value:.3f} at h = {h}" for h, value in zip(WIDTHS, values, strict=True)))
slopes = [np.polyfit(np.log(WIDTHS), np.log(values), 1)[0] for values in (published, maximal)]
work.holds(f"as published it grows like h^{slopes[0]:.2f}", slopes[0] > 0.8)
work.holds(f"in μP like h^{slopes[1]:.2f}", abs(slopes[1]) < 0.15)

print("\nA. The limit, from the start that is farthest from the singular points of both norms, among a hundred")


def margin(seed: int) -> measures.Margins:
    θ = {**start.scalars(seed), **start.neurons(1, seed)}
    found = train(sparse_modular_addition, tp.MUP, tp.SGD(), x, loss, 0.0, 0, n=1, given=θ, keep=("ξ",))
    return measures.margins(θ["E"][:2], θ["P"], found.kept["ξ"][0, 0])


margins = [margin(seed) for seed in range(100)]
best = int(np.argmax([min(m.sequences, m.tokens) for m in margins]))
numbers = start.scalars(best)
print(f"  start {best}: min|ξ| is {margins[best].sequences:.2f}, min|E + P| {margins[best].tokens:.2f} of the median")
limit = tp.derive(sparse_modular_addition, tp.MaximalUpdate(tp.SGD()))
print("", limit, "", sep="\n")
DRAWS, HIDDEN, STEPS = 24, (64, 256, 1024), 6


def outputs(trainer: Trainer, **how: int) -> np.ndarray:
    """Logits after 1, 2, … steps."""
    run = trainer.start(x, parameters=numbers, **how)
    found = []
    for _ in range(STEPS):
        run.advance(1)
        found.append(run.outputs())
    return np.array(found)


for name, optimizer, lr in (("gradient descent", tp.SGD(), 0.1), ("Adam", tp.Adam(eps=1e-3), 0.02)):
    trainer = Trainer(sparse_modular_addition, loss, **recipes.recipe(optimizer, lr))
    f = outputs(trainer, particles=4096)
    squares = {h: [((outputs(trainer, width=h, seed=k) - f) ** 2).mean() for k in range(DRAWS)] for h in HIDDEN}
    off = {h: float(np.sqrt(np.mean(values))) for h, values in squares.items()}
    slope = np.polyfit(np.log(HIDDEN), np.log(list(off.values())), 1)[0]
    listed = ", ".join(f"{value:.4f} at h = {h}" for h, value in off.items())
    text = f"{name}: one network is off by {listed}, for t ≤ {STEPS}: slope {slope:.3f}"
    work.holds(f"{text}; logits move by {abs(f[-1] - f[0]).max():.2f}", abs(slope + 0.5) < 0.15)

print("\nThe same limit judged by finite widths: four inputs, two steps of gradient descent")
optimizers, rates = recipes.recipe(tp.SGD(), 0.1).values()
limit = tp.derive(sparse_modular_addition, tp.MaximalUpdate(optimizers))
task = {"X": x[:4], "error": tp.cross_entropy(TASK.labels(x[:4])), "steps": 2, **numbers}
options = {"widths": (64, 128, 256, 512), "seed": SEED, "progress": False}
work.judged(tp.check(limit, lr=rates, **task, **options, draws=(400, 200, 100, 60)), accepted=True)
X4 = task.pop("X")
faster = limit.evaluate(X4, lr={name: 1.1 * rate for name, rate in rates.items()}, **task)
print("\nThe wrong twin: a rate 10 % off.")
verdict = tp.check(limit, X=X4, lr=rates, **task, **options, draws=(100, 60, 40, 30), claims={"f": faster.f})
work.judged(verdict, accepted=False)
work.finish()
