"""Drift and diffusion of one layer by the expansion in 1/n, which knows nothing of the index algebra of the SDE."""

from __future__ import annotations

import bent
import numpy as np
import pytest
import shaped

import tplimits as tp
from tplimits.numbers.expansion import fields, nodes
from tplimits.numbers.expansion.covariances import fixed, full
from tplimits.numbers.expansion.jets import Given
from tplimits.regimes.depth.expanded.layers import Layers

TWO = np.array([[1.1, 0.4], [0.4, 0.9]])
THREE = np.array([[1.1, 0.4, 0.2], [0.4, 0.9, -0.1], [0.2, -0.1, 1.3]])
RELU = {"c_plus": 0.3, "c_minus": -0.7}
LOGITS = {"γ": 0.5, "τ0": 1.3}


@tp.block
def linear(x: tp.State["token"], W: tp.Matrix):
    return W @ x


@tp.block
def quadratic(x: tp.State["token"], W: tp.Matrix, *, a):
    s, h = a * tp.sqrt(tp.n), W @ x
    return (h + h**2 / s) / tp.sqrt(tp.expect(lambda g: (g + g**2 / s) ** 2))


BLOCKS = {
    "linear": (linear, {}),
    "attention": (shaped.shaped_attention, LOGITS),
    "heads": (shaped.heads_attention, {**LOGITS, "head": 2}),
    "relu": (shaped.relu_mlp, RELU),
    "residual relu": (shaped.relu_resnet, {**RELU, "γ": 0.5}),
    "quadratic": (quadratic, {"a": 0.7}),
    "residual tanh": (bent.branch(tp.tanh), {"g": 0.6}),
    "transformer": (tp.stack(shaped.shaped_attention, shaped.relu_mlp), {**LOGITS, **RELU}),
}


def at(block, m, **constants):
    return Layers.at(block, m, constants, None)


@pytest.mark.parametrize(
    "V", [pytest.param(TWO, id="2 tokens"), pytest.param(THREE, id="3 tokens", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", BLOCKS)
def test_layers_agree_with_the_index_algebra(name, V):
    block, constants = BLOCKS[name]
    ratios = {w: 1.0 for w in block.widths if w != "n"}
    sde = tp.derive(block, tp.Proportional())
    layers = at(block, len(V), **constants)
    if name == "residual tanh":  # no polynomial, and no kink: the only one whose number of nodes tells
        layers, _ = layers.resolved(V)
    law, derivative = layers.moved(fixed(V))
    np.testing.assert_allclose(law.value, fixed(V).value, atol=1e-12)
    np.testing.assert_allclose(law.root, 0, atol=1e-12)
    np.testing.assert_allclose(derivative, np.eye(len(derivative)), atol=1e-10)
    np.testing.assert_allclose(full(law.shift), sde.drift_at(V, ratios=ratios, **constants), atol=1e-8)
    np.testing.assert_allclose(law.covariance, sde.diffusion_at(V, ratios=ratios, **constants), atol=1e-8)


def test_masks():
    block = shaped.masked_attention(np.tril(np.ones((3, 3))))
    sde, (law, _) = tp.derive(block, tp.Proportional()), at(block, 3, **LOGITS).moved(fixed(THREE))
    np.testing.assert_allclose(full(law.shift), sde.drift_at(THREE, **LOGITS), atol=1e-12)
    np.testing.assert_allclose(law.covariance, sde.diffusion_at(THREE, **LOGITS), atol=1e-12)


def test_derivatives_of_the_leading_map():
    """DM by differences of M, ½ D²M : C by differences of DM; the unshaped branch bends M."""

    @tp.block
    def bending(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x / 2 + U @ tp.tanh(W @ tp.layers.rms_norm(x))

    layers, start, h = at(bending, 2), fixed(TWO), 1e-4
    C = np.array([[0.4, 0.1, 0.0], [0.1, 0.3, -0.2], [0.0, -0.2, 0.5]])
    law, DM = layers.moved(start)
    moved = layers.moved(Given(start.value, start.root, start.shift, C))[0]
    differences, curvature = [], np.zeros(3)
    for i, e in enumerate(np.eye(3)):
        up, down = (layers.moved(fixed(full(start.value + s * h * e))) for s in (1, -1))
        differences.append((up[0].value - down[0].value) / (2 * h))
        curvature += (up[1] - down[1]) @ C[i] / (4 * h)
    np.testing.assert_allclose(DM, np.transpose(differences), atol=1e-7)
    np.testing.assert_allclose(moved.shift - law.shift, curvature, atol=1e-6)
    np.testing.assert_allclose(moved.covariance - law.covariance, DM @ C @ DM.T, atol=1e-12)


def test_a_covariance_that_is_singular():
    with pytest.raises(tp.EvaluationError, match="V is singular, or nearly so: token 1 is a combination"):
        at(linear, 2).moved(fixed(np.ones((2, 2))))


def test_functions_of_more_variables_than_there_is_room_for(monkeypatch):
    """The branch meets functions of both normal variables of two tokens, here with thousands of nodes each."""
    for module in (fields, nodes):
        monkeypatch.setattr(module, "MOST_ENTRIES", 1000)
    branch = bent.branch(tp.tanh)
    with pytest.raises(tp.EvaluationError, match="has functions of more variables than a grid has room for"):
        at(branch, 2, g=0.6).moved(fixed(TWO))
    monkeypatch.undo()
    assert at(branch, 2, g=0.6).moved(fixed(TWO))[0].value == pytest.approx([1.1, 0.4, 0.9])
