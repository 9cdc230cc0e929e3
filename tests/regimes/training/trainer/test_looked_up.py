"""Tables and values that data look up, with more inputs than lanes: outputs and gradients beside NumPy by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.trainer.trainer import Trainer

N, V, W, T = 13, 4, 5, 3


@tp.network
def of_pairs(x: tp.Input["t"].of("v"), y: tp.Input["t"].of("w"), B: tp.Scalar["v", "w"], A: tp.Vector):
    return A * tp.sum(B.sel(v=x).sel(w=y), over="t")


@tp.network
def other_order(x: tp.Input["t"].of("v"), y: tp.Input["t"].of("w"), B: tp.Scalar["w", "v"], A: tp.Vector):
    return A * tp.sum(B.sel(v=x).sel(w=y), over="t")


@tp.network
def changed_between(x: tp.Input["t"].of("v"), y: tp.Input["t"].of("w"), B: tp.Scalar["v", "w"], A: tp.Vector):
    return A * tp.sum(tp.tanh(B.sel(v=x)).sel(w=y), over="t")


@tp.network
def of_data(x: tp.Input["t"].of("v"), y: tp.Input["t"].of("w"), ξ: tp.Input["v", "w"], A: tp.Vector):
    return A * tp.sum(ξ.sel(v=x).sel(w=y), over="t")


@tp.network
def pointer(p: tp.Input.of("t"), ξ: tp.Input["t"], z: tp.Vector, A: tp.Vector):
    scores = tp.avg(tp.tanh(z * ξ))
    return A * scores.sel(t=p)


RNG = np.random.default_rng(2)
DATA = {"x": RNG.integers(0, V, (N, T)), "y": RNG.integers(0, W, (N, T)), "p": RNG.integers(0, T, N)}
TABLES, SCORES, χ = RNG.standard_normal((N, V, W)), RNG.standard_normal((N, T)), RNG.standard_normal(N)
ROWS, X, Y = np.arange(N), DATA["x"], DATA["y"]

#: a network, its other data, its sizes, and what each input reads of it by hand
CASES = {
    "pairs": (of_pairs, {}, {"v": V, "w": W}, lambda P: P["B"][X, Y].sum(axis=1)),
    "other order": (other_order, {}, {"v": V, "w": W}, lambda P: P["B"].T[X, Y].sum(axis=1)),
    "changed": (changed_between, {}, {"v": V, "w": W}, lambda P: np.tanh(P["B"])[X, Y].sum(axis=1)),
    "data": (of_data, {"ξ": TABLES}, {}, lambda P: TABLES[ROWS[:, None], X, Y].sum(axis=1)),
    "pointer": (
        pointer,
        {"ξ": SCORES},
        {},
        lambda P: np.tanh(P["z"][:, None, None] * SCORES).mean(axis=0)[ROWS, DATA["p"]],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("limit", [False, True], ids=["networks", "limit"])
def test_each_input_reads_its_own(case, limit):
    net, more, sizes, read = CASES[case]
    data = more | {name: DATA[name] for name in DATA if name in net.names}
    trainer = Trainer(net.bind(**sizes) if sizes else net, lambda f: χ, tp.SGD(), 0.1)
    run = trainer.start(data, seed=1, **({"particles": 16} if limit else {"width": 16}))
    P = {name: np.array(w) for name, w in run.parameters.items()}
    np.testing.assert_allclose(run.outputs(), P["A"].mean() * read(P), atol=1e-13)
    found = run.gradients()
    if "B" in P:  # ∂ Σ χ f by differences, which no gather is part of
        step = RNG.standard_normal(P["B"].shape)
        f = [P["A"].mean() * read({**P, "B": P["B"] + h * step}) for h in (1e-5, -1e-5)]
        assert np.sum(found["B"] * step) == pytest.approx(χ @ (f[0] - f[1]) / 2e-5, rel=1e-7, abs=1e-8)
