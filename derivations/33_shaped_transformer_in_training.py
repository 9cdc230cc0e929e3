"""A shaped transformer trains: Shape, Recover and Learn beside layer norms, and the entropy of their attention.

    python derivations/33_shaped_transformer_in_training.py [--full] [--out FOLDER] [--png]

Noci et al. 2023, Appendix D, at the size of a minute.  Six layers without layer norms, A = γ₁ I + Softmax(Y/τ) − γ₂
(1/m) 1 1ᵀ with τ = √(n n_k) (Eq. 33), and a ReLU of slope s₋ = 1 − 1/√n below zero, start well conditioned; then

    Shape     γ₁ = γ₂ = 1 and s₋ stay;
    Recover   they go to 0 linearly in the first quarter of training, and leave a usual transformer without norms;
    Learn     they are trained, for every layer;

and Pre-LN is the usual transformer with layer norms, Softmax(Y/√n_k) and ReLU.  Weights of skips are trained.

The task stands in for masked language: eight tokens of a Markov chain and the same eight again, one token of sixteen
masked, to be predicted.  Adam with a hundred steps of warming up.  The entropy of rows of the softmax falls where
attention settles on few tokens; the paper sees it collapse in Pre-LN at large rates, and not in shaped transformers.
Here it collapses in all of them at the largest rate, in Pre-LN much earlier.

What is measured is kept in `results/shaped_transformer.jsonl`, which --full makes.
"""

import functools
from typing import Any

import numpy as np
from pictures import Pictures
from studies import Study
from worked import Worked

import tplimits as tp
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.watch.forward import Forward

pictures, work = Pictures(__doc__), Worked(__doc__)
LAYERS, VOCAB, HALF, N = 6, 8, 8, 48
STEPS, WARM, BATCH, SEQUENCES, EVERY = 800, 100, 16, 2048, 40
RATES, SEEDS, γ0 = (0.001, 0.005, 0.025), (0,), 0.2
KINDS = ("Shape", "Recover", "Learn", "Pre-LN")
SHAPED = ("γ1", "γ2", "slope")
study = Study("shaped_transformer", pictures.full)
Array = np.ndarray


@tp.network
def shaped(
    x: tp.Input["token"].of("vocab"),
    at: tp.Input["token"],
    E: tp.Vector["vocab"],
    P: tp.Vector["token"],
    WQ: tp.Matrix["n", "n", "layer"],
    WK: tp.Matrix["n", "n", "layer"],
    WV: tp.Matrix["n", "n", "layer"],
    W1: tp.Matrix["n", "n", "layer"],
    W2: tp.Matrix["n", "n", "layer"],
    λ: tp.Scalar["layer"].normal(0, 1),
    γ: tp.Scalar["layer"].normal(0, 1),
    γ1: tp.Scalar["layer"].normal(0, 1),
    γ2: tp.Scalar["layer"].normal(0, 1),
    slope: tp.Scalar["layer"].normal(0, 1),
    v: tp.Vector["label"],
):
    h = (E.sel(vocab=x) + P) / np.sqrt(2)
    for layer in range(LAYERS):
        skip, branch = λ.sel(layer=layer), γ.sel(layer=layer)
        q, k, values = (W.sel(layer=layer) @ h for W in (WQ, WK, WV))
        A = tp.softmax(tp.avg(q * k.rename(token="key")), over="key").named(f"A{layer}")
        there = values.rename(token="key")
        mixed = (
            tp.sum(A * there, over="key")
            + γ1.sel(layer=layer) * values
            - γ2.sel(layer=layer) * tp.mean(there, over="key")
        )
        h = skip * h + branch * mixed
        pre = W1.sel(layer=layer) @ h
        h = skip * h + branch * (W2.sel(layer=layer) @ (tp.relu(pre) - slope.sel(layer=layer) * tp.relu(-pre)))
    return v * tp.sum(at * h, over="token")


@tp.network
def pre_ln(
    x: tp.Input["token"].of("vocab"),
    at: tp.Input["token"],
    E: tp.Vector["vocab"],
    P: tp.Vector["token"],
    WQ: tp.Matrix["n", "n", "layer"],
    WK: tp.Matrix["n", "n", "layer"],
    WV: tp.Matrix["n", "n", "layer"],
    W1: tp.Matrix["n", "n", "layer"],
    W2: tp.Matrix["n", "n", "layer"],
    λ: tp.Scalar["layer"].normal(0, 1),
    γ: tp.Scalar["layer"].normal(0, 1),
    v: tp.Vector["label"],
):
    h = (E.sel(vocab=x) + P) / np.sqrt(2)
    for layer in range(LAYERS):
        skip, branch = λ.sel(layer=layer), γ.sel(layer=layer)
        q, k, values = (W.sel(layer=layer) @ tp.layers.layer_norm(h) for W in (WQ, WK, WV))
        A = tp.softmax(np.sqrt(N) * tp.avg(q * k.rename(token="key")), over="key").named(f"A{layer}")
        h = skip * h + branch * tp.sum(A * values.rename(token="key"), over="key")
        h = skip * h + branch * (W2.sel(layer=layer) @ tp.relu(W1.sel(layer=layer) @ tp.layers.layer_norm(h)))
    return v * tp.sum(at * tp.layers.layer_norm(h), over="token")


@functools.cache
def language(count: int, seed: int) -> tuple[dict[str, Array], Array]:
    """Sequences with one masked token, where it is, and what it was."""
    rng, chain = np.random.default_rng(seed), np.random.default_rng(99).dirichlet(0.5 * np.ones(VOCAB), VOCAB)
    first = [rng.integers(0, VOCAB, count)]
    for _ in range(HALF - 1):
        cut = rng.random(count)[:, None] > np.cumsum(chain[first[-1]], axis=1)[:, :-1]
        first.append(cut.sum(axis=1))
    x = np.tile(np.stack(first, axis=1), 2)
    rows, where = np.arange(count), rng.integers(0, 2 * HALF, count)
    label = x[rows, where]
    x[rows, where] = VOCAB
    return {"x": x, "at": np.eye(2 * HALF)[where]}, label


def trained(kind: str, rate: float, seed: int, steps: int = STEPS) -> dict[str, Any]:
    """Losses on training and fresh sequences, and the entropy of the attention of every layer."""
    net = (pre_ln if kind == "Pre-LN" else shaped).bind(vocab=VOCAB + 1, token=2 * HALF, layer=LAYERS, label=VOCAB)
    (X, y), (fresh, wanted) = language(SEQUENCES, 1), language(256, 2)
    seen = {name: value[:256] for name, value in X.items()}
    names = [name for name in net.initial_names if name not in ("x", "at")]
    fixed = SHAPED if kind in ("Shape", "Recover") else ()
    lr: dict[str, Any] = {name: lambda t: rate * min(1.0, (t + 1) / WARM) for name in names}
    lr |= dict.fromkeys(fixed, 0.0)
    trainer = Trainer(net, tp.cross_entropy(y), tp.Adam(), lr, tp.SP, batches=tp.batches(BATCH, seed))
    skip = 1.0 if kind == "Pre-LN" else np.sqrt(1 - γ0**2)
    given = {"λ": np.full(LAYERS, skip), "γ": np.full(LAYERS, γ0)}
    if kind != "Pre-LN":
        given |= {"γ1": np.ones(LAYERS), "γ2": np.ones(LAYERS), "slope": np.full(LAYERS, 1 - N**-0.5)}
    run = trainer.start(X, width=N, seed=seed, parameters=given)
    forward = Forward(net, {"a_out": tp.SP.a_out})
    found: dict[str, Any] = {"loss": [], "fresh": [], "entropy": []}
    for t in range(0, steps + 1, 20):
        if t % EVERY == 0:
            found["loss"].append(tp.cross_entropy(y[:256]).loss(run.outputs(seen)))
            found["fresh"].append(tp.cross_entropy(wanted).loss(run.outputs(fresh)))
            few = {name: value[:64] for name, value in fresh.items()}
            A = [forward.value(net.position(f"A{layer}"), run.parameters, few) for layer in range(LAYERS)]
            found["entropy"].append([float(-(a * np.log(a + 1e-30)).sum(axis=-1).mean()) for a in A])
        if kind == "Recover":
            left = max(0.0, 1 - t / (STEPS / 4))
            run.restore(run.state() | {f"parameter {name}": left * given[name] for name in SHAPED})
        if t < steps:
            run.advance(20)
    return found


rows = {
    (kind, rate): [
        study.row(functools.partial(trained, kind, rate, seed), kind=kind, rate=rate, seed=seed) for seed in SEEDS
    ]
    for rate in RATES
    for kind in KINDS
}
done = {key: [row for row in found if row] for key, found in rows.items() if any(found)}
print(
    f"\nLosses after {STEPS} steps, seen and fresh; entropy of attention, at most {np.log(16):.2f}, in its lowest layer"
)
ends: dict[tuple[str, float], float] = {}
lowest: dict[tuple[str, float], float] = {}
for (kind, rate), found in done.items():
    loss, fresh = (np.mean([row[name][-1] for row in found]) for name in ("loss", "fresh"))
    ends[kind, rate] = float(fresh)
    lowest[kind, rate] = float(np.mean([np.array(row["entropy"])[-1].min() for row in found]))
    print(
        f"  {kind}, rate {rate:g}: {loss:.3f} and {fresh:.3f}; entropy {lowest[kind, rate]:.2f}; {len(found)} networks"
    )
figure, axes = pictures.figure(
    4, "Shaped transformers beside Pre-LN: loss on fresh sequences, mean entropy of attention"
)
steps = np.arange(0, STEPS + 1, EVERY)
middle, large = RATES[1], RATES[-1]
for k, kind in enumerate(KINDS):
    for j, rate in enumerate((middle, large)):
        for row in done.get((kind, rate), []):
            axes[2 * j].semilogy(steps, row["fresh"], color=f"C{k}", label=kind if row is done[kind, rate][0] else None)
            axes[2 * j + 1].plot(steps, np.mean(row["entropy"], axis=1), color=f"C{k}")
        axes[2 * j].set_title(f"loss, rate {rate:g}")
        axes[2 * j + 1].set_title(f"entropy, rate {rate:g}")
axes[0].legend(fontsize=7)
if done:
    pictures.save(figure, "shaped-transformer-training")
if len(ends) == len(rows):
    best = {kind: min(ends[kind, rate] for rate in RATES) for kind in KINDS}
    text = ", ".join(f"{kind} {loss:.1e}" for kind, loss in best.items())
    work.holds(
        f"losses at the best rate: {text}; shaped ones are not above Pre-LN", max(best.values()) == best["Pre-LN"]
    )
    when = {kind: int(steps[np.argmax(np.array(done[kind, middle][0]["fresh"]) < 0.1)]) for kind in KINDS}
    text = ", ".join(f"{kind} {step}" for kind, step in when.items())
    slow = when["Shape"] > max(when["Recover"], when["Learn"])
    work.holds(f"rate {middle:g}: loss below 0.1 at step {text}; Shape alone is slow", slow)
    means = {kind: np.mean(done[kind, large][0]["entropy"], axis=1) for kind in KINDS}
    fallen = {
        kind: int(steps[np.argmax(mean < 0.6)]) if mean.min() < 0.6 else STEPS + 1 for kind, mean in means.items()
    }
    text = ", ".join(f"{kind} {step}" for kind, step in fallen.items())
    first = fallen["Pre-LN"] < min(fallen[kind] for kind in KINDS[:3])
    work.holds(f"rate {large:g}: mean entropy below 0.6 at step {text}; that of Pre-LN collapses first", first)
    print(f"  nobody learns at this rate: losses {', '.join(f'{kind} {ends[kind, large]:.2g}' for kind in KINDS)}")
study.told()

print("\nForty steps of one again")
short = study.again(lambda: {"fresh": trained("Recover", 0.003, 0, 40)["fresh"]}, kind="short")
work.holds(f"losses are {short:.0e} off what was measured", short < 1e-3)
work.finish()
