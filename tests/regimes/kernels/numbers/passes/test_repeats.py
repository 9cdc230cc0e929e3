"""Layers of one kind share their code, and nothing else does: weights, taps, sizes and skips that differ stay apart."""

from __future__ import annotations

import numpy as np
import pytest
import tapped_networks as nets

import tplimits as tp
from tplimits.regimes.kernels.numbers import request
from tplimits.regimes.kernels.numbers.passes import planning, repeats

X = np.random.default_rng(7).standard_normal((9, 2, 9))


def deep(weights, taps, skips=False) -> tp.Program:
    """A relu network over 9 places, the taps and the weight of each layer given, with a readout of every place."""

    @tp.network
    def net(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        v: tp.Vector["at"],
    ):
        x = tp.relu(tp.sum(U * ξ, over="d"))
        for k, (weight, places) in enumerate(zip(weights, taps, strict=True)):
            y = tp.relu(weight * tp.sum(W.sel(layer=k) @ x.take(at=places, axes=("tap", "at")), over="tap"))
            x = x + y if skips else y
        return tp.sum(v * x, over="at")

    return net.bind(at=9, tap=3, layer=len(weights), d=2)


def planned(network: tp.Program, data=X):
    limit = tp.derive(network, tp.Kernels())
    asked = request.request(limit.derivation, data, None, {}, None)
    made = planning.plan_for(limit.derivation, asked.one, asked.other, asked.constants, ("nngp", "ntk"))
    made.is_compiled, made.calls = True, 1
    assert made.has_form
    return limit, made


def shared(network: tp.Program) -> list[int]:
    """How many passes over pairs have each piece of code."""
    _, made = planned(network)
    return [len(run.passes) for run in repeats.runs(made.nested(False, 9).lanes)]


LINE = nets.line(9)
EQUAL, OTHER = [0.5] * 5, [0.5, 0.5, 0.7, 0.5, 0.5]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(
    "network",
    [
        deep(EQUAL, [LINE] * 5),
        deep(OTHER, [LINE] * 5),
        deep(EQUAL, [LINE, LINE, nets.line(9, dilation=2), LINE, LINE]),
        deep(EQUAL, [LINE] * 5, skips=True),
    ],
    ids=["alike", "another weight", "other taps", "skips"],
)
def test_shared_code_is_the_interpreter(network, single):
    data = X.astype(np.float32) if single else X
    limit, _ = planned(network, data)
    for one, two in zip(limit.evaluate(data), tp.derive(network, tp.Kernels()).evaluate(X), strict=True):
        np.testing.assert_allclose(one, two, rtol=3e-6 if single else 1e-12)


def test_only_what_is_alike_is_shared():
    # the data, four convolutions, the last one, of which nothing but K and Θ is wanted, and the readout
    assert shared(deep(EQUAL, [LINE] * 5)) == [1, 4, 1, 1]
    assert shared(deep([0.5] * 9, [LINE] * 9)) == [1, 8, 1, 1]
    for other in (deep(OTHER, [LINE] * 5), deep(EQUAL, [LINE, LINE, nets.line(9, dilation=2), LINE, LINE])):
        assert shared(other) == [1, 2, 1, 1, 1, 1]
