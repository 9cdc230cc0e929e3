"""The loop over paths and steps, which all SDEs share."""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped

import tplimits as tp
from tplimits.regimes.depth.numbers import batch
from tplimits.regimes.depth.tangent import batch as joint

NUMBERS = {"γ": 0.6, "τ0": 0.8}
V0 = np.array([[1.0, 0.3], [0.3, 0.8]])


@pytest.mark.long
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


@pytest.mark.parametrize("method", ["psd", "euler"])
def test_responses_are_drawn_apart(method):
    """Two attentions in a block: one step has the covariance that is derived, to 5 errors in each entry."""
    sde = tp.derive(tp.stack(shaped.shaped_attention, shaped.shaped_attention), tp.Proportional())
    assert len(sde.root.responses) == 2
    start, (a, b), h, paths = published.random_covariance(4, seed=3), np.triu_indices(4), 1e-4, 40_000
    V = sde.simulate(start, T=h, dt=h, paths=paths, seed=0, method=method, γ=1.0, τ0=0.5).V
    found, wanted = np.cov((V - start)[:, a, b].T / np.sqrt(h)), sde.diffusion_at(start, γ=1.0, τ0=0.5)
    error = np.sqrt((np.outer(np.diag(wanted), np.diag(wanted)) + wanted**2) / paths)
    assert (np.abs(found - wanted) < 5 * error).all() and not (np.abs(found - 1.1 * wanted) < 5 * error).all()


@pytest.mark.parametrize("shape", [(8,), (3, 3), (5, 8, 8)], ids=str)
def test_matrices_begin_at_cache_lines(shape):
    """Six at a time, as not all of them begin there by chance; together, so that none takes the place of another."""
    made = [batch.aligned(shape) for _ in range(6)]
    for k, one in enumerate(made):
        assert one.ctypes.data % 64 == 0 and one.flags.c_contiguous and one.shape == shape and not one.any()
        one += k + 1
    assert [one.sum() / one.size for one in made] == [1, 2, 3, 4, 5, 6]
