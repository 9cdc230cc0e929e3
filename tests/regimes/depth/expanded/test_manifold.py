"""Drift and diffusion on the manifold that layers attract to, against what two tokens give by hand.

With λ² + γ² = 1, ν of Noci et al., and norms before the branch

    dρ = [γ² ν(ρ) − γ² (1 + 2λ²)/(1 + λ²) ρ(1 − ρ²)] dt + √2 γ (1 − ρ²) dB;

behind the sum, or without norms, the factor (1 + 2λ²)/(1 + λ²) is 1.
"""

from __future__ import annotations

import normed
import numpy as np
import pytest
import shaped

import tplimits as tp
from tplimits.regimes.depth.expanded import manifold
from tplimits.regimes.depth.expanded.frames import refuse_fixed
from tplimits.regimes.depth.expanded.layers import Layers

RELU = {"c_plus": 0.0, "c_minus": -1.0}


def two(ρ):
    return np.array([[1.0, ρ], [ρ, 1.0]])


def by_hand(γ2, ρ, factor):
    ν = (np.sqrt(1 - ρ**2) - ρ * np.arccos(ρ)) / (2 * np.pi)
    return γ2 * ν - γ2 * factor * ρ * (1 - ρ**2)


@pytest.mark.long
@pytest.mark.parametrize(("γ2", "ρ"), [(0.25, 0.5), (0.5, 0.8)])
def test_a_norm_before_the_branch_has_a_factor_and_one_behind_has_none(γ2, ρ):
    for block, factor in ((normed.relu_before, (3 - 2 * γ2) / (2 - γ2)), (normed.relu_behind, 1.0)):
        layers = Layers.at(block, 2, {**RELU, "γ": γ2**0.5}, None)
        found = manifold.coefficients(layers, two(ρ))
        assert found.drift[0, 1] == pytest.approx(by_hand(γ2, ρ, factor), abs=1e-10)
        np.testing.assert_allclose(np.diag(found.drift), 0, atol=1e-12)
        np.testing.assert_allclose(found.diffusion, np.diag([0, 2 * γ2 * (1 - ρ**2) ** 2, 0]), atol=1e-10)


def test_attention_has_the_same_map_with_its_own_coefficients():
    """drift_ab = b_ab − ρ(b_aa + b_bb)/2 + ½ D²π : C with the D²π of two tokens, written out; m = 3."""
    γ2, V = 0.4, np.array([[1.0, 0.3, -0.2], [0.3, 1.0, 0.5], [-0.2, 0.5, 1.0]])
    constants = {"γ": γ2**0.5, "τ0": 0.8}
    plain = tp.derive(shaped.shaped_attention, tp.Proportional())
    b, C = plain.drift_at(V, **constants), plain.diffusion_at(V, **constants)
    number = {p: i for i, p in enumerate(zip(*np.triu_indices(3), strict=True))}
    λ2 = 1 - γ2
    found = manifold.coefficients(Layers.at(normed.attention_before, 3, constants, None), V)
    for a, c in ((0, 1), (0, 2), (1, 2)):
        i, j, k, ρ = number[a, a], number[c, c], number[a, c], V[a, c]
        curved = (2 * λ2 + 3) * ρ / (4 * (1 + λ2)) * (C[i, i] + C[j, j])
        curved += (2 * λ2 + 1) * ρ / (2 * (1 + λ2)) * C[i, j] - C[k, i] - C[k, j]
        assert found.drift[a, c] == pytest.approx(b[a, c] - ρ / 2 * (b[a, a] + b[c, c]) + curved / 2, abs=1e-12)


def test_the_fixed_point_that_layers_take_a_covariance_to():
    """Sizes go to 1, and the correlation moves while they do: λ²V_ab + γ²ρ_ab, again and again."""
    γ2, V = 0.5, np.array([[1.5, 0.4], [0.4, 0.7]])
    found = manifold.attracted(Layers.at(normed.attention_before, 2, {"γ": γ2**0.5, "τ0": 1.0}, None), V)
    for _ in range(200):
        d = np.sqrt(np.diag(V))
        V = (1 - γ2) * V + γ2 * V / np.outer(d, d)
    np.testing.assert_allclose(found, V, atol=1e-10)
    assert abs(V[0, 1] - 0.4 / np.sqrt(1.05)) > 1e-3


def test_where_layers_do_not_change_v_everything_is_a_fixed_point():
    V = np.array([[1.1, 0.4], [0.4, 0.9]])
    layers = Layers.at(shaped.shaped_attention, 2, {"γ": 0.5, "τ0": 1.0}, None)
    found, sde = manifold.coefficients(layers, V), tp.derive(shaped.shaped_attention, tp.Proportional())
    np.testing.assert_allclose(found.drift, sde.drift_at(V, γ=0.5, τ0=1.0), atol=1e-12)
    np.testing.assert_allclose(found.diffusion, sde.diffusion_at(V, γ=0.5, τ0=1.0), atol=1e-12)
    np.testing.assert_allclose(found.projection, np.eye(3), atol=1e-12)


@pytest.mark.long
def test_blocks_of_a_stack_add_where_each_ends_on_the_manifold():
    V, constants = two(0.4), {"γ": 0.6, "τ0": 0.9}
    one, other = normed.attention_behind, normed.linear_behind
    both, *parts = (tp.derive(b, tp.Proportional()) for b in (tp.stack(one, other), one, other))
    given = [constants, {"γ": 0.6}]
    drift, noise = (
        sum(getattr(s, of)(V, **k) for s, k in zip(parts, given, strict=True)) for of in ("drift_at", "diffusion_at")
    )
    np.testing.assert_allclose(both.drift_at(V, **constants), drift, atol=1e-12)
    np.testing.assert_allclose(both.diffusion_at(V, **constants), noise, atol=1e-12)


def test_what_the_expansion_has_no_place_for_is_refused_as_before():
    @tp.block
    def uniform(x: tp.State["token"], W: tp.Matrix.uniform()):
        return normed.rms(x + W @ x)

    @tp.block
    def two_axes(x: tp.State["token", "image"], W: tp.Matrix):
        return normed.rms(x + W @ x)

    @tp.block
    def narrow(x: tp.State["token"], W: tp.Matrix["k", "n"], U: tp.Matrix["n", "k"]):
        return normed.rms(x + U @ (W @ x))

    for block, regime, message in (
        (uniform, tp.Proportional(), "fourth moments"),
        (two_axes, tp.Proportional(), "has 2 axes"),
        (narrow, tp.Proportional(fixed=("k",)), "k cannot stay fixed"),
    ):
        with pytest.raises(tp.NoLimitError, match=message):
            tp.derive(block, regime)


# -- refusals -------------------------------------------------------------------------------------


@tp.block
def bending(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    """V_aa → 16/3, and ρ → ½: 4ρ = ρ + 2ρ² + 1."""
    h = W @ normed.rms(x)
    return x / 2 + U @ (h + h**2)


@tp.block
def colliding(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    """V_aa → 8/3, and ρ → 1: 2ρ = ρ + 1."""
    return x / 2 + U @ (W @ normed.rms(x) + 1)


@tp.block
def growing(x: tp.State["token"], W: tp.Matrix):
    return x + W @ normed.rms(x)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (bending, "it has a fixed point alone, where all V end"),
        (colliding, "it has a fixed point alone, where all V end"),
        (growing, "after 300 layers V still moves by"),
    ],
)
def test_maps_without_a_manifold(block, message):
    with pytest.raises(tp.NoLimitError, match=message):
        layers = Layers.at(block, 2, {}, None)
        manifold.judge(layers, manifold.attracted(layers, two(0.3)))


def test_a_point_off_the_manifold():
    layers = Layers.at(normed.attention_behind, 2, {"γ": 0.5, "τ0": 1.0}, None)
    with pytest.raises(tp.EvaluationError, match="V is no fixed point of the leading map: one layer moves it by"):
        manifold.coefficients(layers, np.array([[1.1, 0.2], [0.2, 1.0]]))


def test_a_change_of_order_root_n():
    @tp.block
    def without_a_size(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, c):
        return x / 2 + W2 @ shaped.shaped_relu(W1 @ normed.rms(x), 0, c)

    with pytest.raises(tp.NoLimitError, match=r"a layer changes V by .*/√n beside its leading map"):
        manifold.coefficients(Layers.at(without_a_size, 2, {"c": -1.0}, None), two(0.3) / 0.75)


# -- what is no function of V ---------------------------------------------------------------------


def closed(function):
    refuse_fixed(tp.block(function))


def test_blocks_whose_covariance_is_a_function_of_that_of_the_state():
    for block in (normed.relu_before, normed.relu_behind, normed.attention_before, shaped.heads_attention):
        refuse_fixed(block)

    def inside(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + U @ tp.layers.layer_norm(tp.relu(W @ x))

    def ended_by_a_function(x: tp.State["token"], W: tp.Matrix):
        return tp.layers.layer_norm(tp.tanh(W @ x))

    closed(inside)
    closed(ended_by_a_function)


_SINGLE = r"not closed: .* (averages|is a function of) single neurons of the state"


def test_blocks_whose_covariance_is_not():
    def single(x: tp.State["token"], W: tp.Matrix):
        return W @ tp.tanh(x)

    def beside(x: tp.State["token"], W: tp.Matrix):
        return x + tp.relu(W @ x)

    def centred(x: tp.State["token"], W: tp.Matrix):
        return x + W @ tp.layers.layer_norm(x)

    def centred_behind(x: tp.State["token"], W: tp.Matrix):
        return tp.layers.layer_norm(x + W @ x)

    def fourth(x: tp.State["token"], W: tp.Matrix):
        return (W @ x) / tp.sqrt(tp.avg(x**4))

    def gated(x: tp.State["token"], W: tp.Matrix):
        return x * (W @ x)

    def turned_back(x: tp.State["token"], W: tp.Matrix):
        return x + W.T @ tp.relu(W @ x) + tp.relu(W @ x)

    for function in (single, beside, centred, centred_behind, fourth, gated, turned_back):
        with pytest.raises(tp.NoLimitError, match=_SINGLE):
            closed(function)
