"""Steps that are written out beside those of the package, on gradients drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from fuzz.networks import OPTIMIZERS
from fuzz.stepping import steps

import tplimits as tp
from tplimits.regimes.training.finite.recipe import recipe
from tplimits.regimes.training.finite.updates import updates

WIDTHS, DRAWS, LR = {"n": 6, "k": 4}, 2, 0.3


@tp.network
def net(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    R: tp.Matrix["k", "n"],
    T: tp.Matrix["n", "k"],
    H: tp.Matrix["n", "n", "head"],
    v: tp.Vector["out"],
    o: tp.Scalar,
):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.sum(H @ (T @ tp.tanh(R @ x)), over="head")) + 0.4 * o


SHAPES = {"U": (3, 6), "R": (4, 6), "T": (6, 4), "H": (2, 6, 6), "v": (2, 6), "o": ()}


def moved(text, twin=False):
    """The parameters after three steps of the same gradients, by both."""
    limit = eval(text, {"tp": tp, "sympy": sympy})
    table = tp.MUP if isinstance(limit, tp.MaximalUpdate) else tp.NTP
    bound = net.bind(d=3, head=2, out=2)
    optimizers = dict.fromkeys(SHAPES, limit.optimizer)
    asked = recipe(bound, table.adjusted(bound, optimizers), optimizers, LR, limit.weight_decay)
    rng = np.random.default_rng(0)
    start = {name: rng.normal(size=(DRAWS, *shape)) for name, shape in SHAPES.items()}
    ways = [updates(asked, WIDTHS), steps(text, 1.1 * LR if twin else LR, asked, WIDTHS)]
    held = [dict(start), dict(start)]
    for t in range(3):
        g = {name: rng.normal(size=(DRAWS, *shape)) / 6 for name, shape in SHAPES.items()}
        for way, w in zip(ways, held, strict=True):
            way.step(t, g.__getitem__, w)
    return held


@pytest.mark.filterwarnings("ignore:.*pseudo-Lipschitz update")
@pytest.mark.parametrize("regime", ["MaximalUpdate", "NeuralTangent"])
@pytest.mark.parametrize("optimizer", dict.fromkeys((*OPTIMIZERS, "tp.Frozen()")))
def test_steps_are_those_of_the_package(optimizer, regime):
    ours, theirs = moved(f"tp.{regime}({optimizer}, weight_decay=0.1)")
    for name in SHAPES:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_another_rate_is_told_apart():
    ours, theirs = moved("tp.NeuralTangent(tp.Adam(eps=0.1))", twin=True)
    assert all(abs(ours[name] - theirs[name]).max() > 1e-4 for name in SHAPES)
