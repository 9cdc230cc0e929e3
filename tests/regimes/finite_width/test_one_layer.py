"""Drift and diffusion of one layer by the expansion in 1/n, which knows nothing of the index algebra of the SDE."""

import numpy as np
import pytest
from one_layer import drift_and_diffusion
from shaped import relu_mlp, shaped_attention

import tplimits as tp

TWO = np.array([[1.1, 0.4], [0.4, 0.9]])
THREE = np.array([[1.1, 0.4, 0.2], [0.4, 0.9, -0.1], [0.2, -0.1, 1.3]])


@tp.block
def linear(x: tp.State["token"], W: tp.Matrix):
    return W @ x


CASES = {
    "linear, 2 tokens": (linear, TWO, {}),
    "linear, 3 tokens": (linear, THREE, {}),
    "shaped attention, 2 tokens": (shaped_attention, TWO, {"γ": 0.5, "τ0": 1.3}),
    "shaped relu, 2 tokens": (relu_mlp, TWO, {"c_plus": 0.3, "c_minus": -0.7}),
    "shaped relu, 3 tokens": (relu_mlp, THREE, {"c_plus": 0.3, "c_minus": -0.7}),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_agree_with_the_covariance_sde(name):
    block, V, constants = CASES[name]
    ratios = {"k": 1.0} if "k" in block.widths else None
    sde = tp.derive(block, tp.Proportional())
    drift, diffusion, rest = drift_and_diffusion(block, V, ratios=ratios, **constants)
    np.testing.assert_allclose(drift, sde.drift_at(V, ratios=ratios, **constants), atol=1e-8)
    np.testing.assert_allclose(diffusion, sde.diffusion_at(V, ratios=ratios, **constants), atol=1e-8)
    np.testing.assert_allclose(rest, 0, atol=1e-8)
