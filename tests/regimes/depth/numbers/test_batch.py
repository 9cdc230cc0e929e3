"""The loop over paths and steps, which all SDEs share."""

from __future__ import annotations

import numpy as np
import pytest
import shaped

import tplimits as tp
from tplimits.regimes.depth.numbers import batch
from tplimits.regimes.depth.tangent import batch as joint

NUMBERS = {"γ": 0.6, "τ0": 0.8}
V0 = np.array([[1.0, 0.3], [0.3, 0.8]])


def test_one_compiled_loop_serves_every_block_and_method():
    """With one response, with several and with none, of constant arrays, tables and closed forms."""
    mask = np.tril(np.ones((2, 2)))
    blocks = [
        (shaped.shaped_attention, NUMBERS),
        (shaped.masked_attention(mask), NUMBERS),
        (shaped.smooth_mlp, {"a": 1.3}),
        (tp.stack(shaped.shaped_attention, shaped.relu_resnet), NUMBERS | {"c_plus": 0.2, "c_minus": -1.0}),
    ]
    for block, constants in blocks:
        sde = tp.derive(block, tp.Proportional())
        for method in ("psd", "euler"):
            assert sde.simulate(V0, T=0.02, dt=0.01, paths=2, seed=0, method=method, **constants).V.shape == (2, 2, 2)
    assert len(batch.batch.signatures) == 1
    for block, constants in blocks[::2]:
        tp.derive(block, tp.Proportional(tangent=True)).simulate(
            V0, np.eye(2), T=0.02, dt=0.01, paths=2, seed=0, **constants
        )
    assert len(joint.batch.signatures) == 1


@pytest.mark.parametrize("symmetric", [[], [True], [False, True]])
def test_normals_of_responses_are_counted(symmetric):
    count = batch.count.py_func(np.array(symmetric, dtype=bool), 3)
    assert count == sum(6 if each else 9 for each in symmetric)
