"""Parameters that look-ups with holes read (−1 gives 0): gradients of their entries beside differences, and a limit."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.trainer.trainer import Trainer

HOLES = np.array([-1, 0, 1, -1, -1, 1])
X = np.random.default_rng(3).standard_normal((5, 6))
χ = np.random.default_rng(4).standard_normal(5)


@tp.network
def of_a_vector(ξ: tp.Input["t"], U: tp.Vector, R: tp.Vector["r"], v: tp.Vector):
    return v * tp.sum(tp.tanh(U * ξ + R.take(r=HOLES, axes="t")), over="t")


@tp.network
def of_a_scalar(ξ: tp.Input["t"], U: tp.Vector, b: tp.Scalar["r"], v: tp.Vector):
    return v * tp.sum(tp.tanh(U * ξ + b.take(r=HOLES, axes="t")), over="t")


def read(P):
    rows = P["R"] if "R" in P else np.broadcast_to(P["b"][:, None], (2, len(P["U"])))
    there = np.where(HOLES[:, None] < 0, 0.0, rows[HOLES])
    return np.tanh(X[:, :, None] * P["U"] + there).sum(axis=1) @ P["v"] / len(P["v"])


@pytest.mark.parametrize("net", [of_a_vector, of_a_scalar], ids=lambda net: net.name)
@pytest.mark.parametrize("limit", [False, True], ids=["networks", "limit"])
def test_what_belongs_to_no_entry_moves_none(net, limit):
    net = net.bind(r=2)
    trainer = Trainer(net, lambda f: χ, tp.SGD(), 0.1)
    run = trainer.start({"ξ": X}, seed=1, **({"particles": 16} if limit else {"width": 16}))
    P = {name: np.array(w) for name, w in run.parameters.items()}
    np.testing.assert_allclose(run.outputs(), read(P), atol=1e-13)
    name = "R" if "R" in P else "b"
    step = np.random.default_rng(5).standard_normal(P[name].shape)
    f = [read({**P, name: P[name] + h * step}) for h in (1e-5, -1e-5)]
    assert np.sum(run.gradients()[name] * step) == pytest.approx(χ @ (f[0] - f[1]) / 2e-5, rel=1e-7, abs=1e-8)


def test_the_limit_is_that_of_many_neurons():
    """Two steps of the rows of R alone, by hand on many neurons, beside the limit that is sampled from formulas."""
    optimizer = {"R": tp.SGD(), "U": tp.Frozen(), "v": tp.Frozen()}
    limit = tp.derive(of_a_vector.bind(r=2), tp.MaximalUpdate(optimizer))
    found = limit.evaluate(X, error=lambda f: χ, lr=0.1, steps=2, particles=10_000, seed=1)
    expected, wrong = by_hand(0.0), by_hand(1.0)
    allowed = 4 * found.stderr[1:] + 4e-3
    assert (abs(found.f[1:] - expected) < allowed).all()
    assert (abs(found.f[1:] - wrong) > 3 * allowed).any()


def by_hand(outside):
    """Outputs after one and two steps; `outside` of what −1 reads is sent to the first row."""
    generator = np.random.default_rng(6)
    U, v, R = (generator.standard_normal((*shape, 200_000)) for shape in ((), (), (2,)))
    outputs = []
    for _ in range(3):
        there = np.where(HOLES[:, None] < 0, 0.0, R[HOLES])
        outputs.append([np.tanh(x[:, None] * U + there).sum(axis=0) @ v / U.size for x in X])
        gradient = np.zeros_like(R)
        for c, x in zip(χ, X, strict=True):
            slope = c * v * (1 - np.tanh(x[:, None] * U + there) ** 2)
            for t, r in enumerate(HOLES):
                gradient[max(r, 0)] += (1.0 if r >= 0 else outside) * slope[t]
        R = R - 0.1 * gradient
    return np.array(outputs[1:]) - outputs[0]
