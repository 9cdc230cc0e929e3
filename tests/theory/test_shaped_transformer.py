"""Noci et al. 2023, The Shaped Transformer: the published coefficients against the derived ones."""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped
import sympy
from published import γ, τ0

import tplimits as tp

PROPORTIONAL = tp.Proportional()
SIZES = [2, 3, 5, 8]
NUMBERS = {"γ": 0.4, "τ0": 0.8}
SLOPES = {"c_plus": 0.2, "c_minus": -1.0}


@pytest.fixture(scope="module")
def attention():
    return tp.derive(shaped.shaped_attention, PROPORTIONAL)


@pytest.fixture(scope="module")
def resnet():
    return tp.derive(shaped.relu_resnet, PROPORTIONAL)


@pytest.fixture(scope="module")
def transformer():
    return tp.derive(tp.stack(shaped.shaped_attention, shaped.relu_resnet), PROPORTIONAL)


def close(found, wanted):
    return np.abs(found - wanted).max() <= 1e-12 * max(1.0, np.abs(wanted).max())


def test_theorem_4_2_for_any_number_of_tokens(attention):
    assert not attention.drift_form - published.attention_drift()
    assert not attention.diffusion_form - published.attention_diffusion()


def test_theorem_3_2_for_any_number_of_tokens(resnet):
    assert not resnet.drift_form - published.relu_drift().scaled(γ**2)
    assert not resnet.diffusion_form - published.SIGMA_LIN.scaled(2 * γ**2)


def test_corollary_4_3_coefficients_add(attention, resnet, transformer):
    assert not transformer.drift_form - attention.drift_form - resnet.drift_form
    assert not transformer.diffusion_form - attention.diffusion_form - resnet.diffusion_form
    assert not transformer.drift_form - published.attention_drift() - published.relu_drift().scaled(γ**2)


def test_the_order_of_the_sublayers_does_not_matter_to_the_sums(transformer):
    other = tp.derive(tp.stack(shaped.relu_resnet, shaped.shaped_attention), PROPORTIONAL)
    assert not other.drift_form - transformer.drift_form
    assert not other.diffusion_form - transformer.diffusion_form


@pytest.mark.parametrize("size", SIZES)
def test_numbers_of_theorem_4_2(attention, size):
    V = published.random_covariance(size, seed=size)
    b, sigma = published.numpy_attention(V, **NUMBERS)
    assert close(attention.drift_at(V, **NUMBERS), b)
    assert close(attention.diffusion_at(V, **NUMBERS), published.packed(sigma))


@pytest.mark.parametrize("size", SIZES)
def test_numbers_of_theorem_3_2(resnet, size):
    V = published.random_covariance(size, seed=10 + size)
    assert close(resnet.drift_at(V, γ=0.4, **SLOPES), 0.16 * published.numpy_relu_drift(V, 0.2, -1.0))
    sigma = 0.32 * published.packed(published.numpy_sigma_lin(V))
    assert close(resnet.diffusion_at(V, γ=0.4, **SLOPES), sigma)


@pytest.mark.parametrize("size", SIZES)
def test_numbers_of_corollary_4_3(transformer, size):
    V = published.random_covariance(size, seed=20 + size)
    b, sigma = published.numpy_attention(V, **NUMBERS)
    b = b + 0.16 * published.numpy_relu_drift(V, 0.2, -1.0)
    sigma = published.packed(sigma + 0.32 * published.numpy_sigma_lin(V))
    assert close(transformer.drift_at(V, **NUMBERS, **SLOPES), b)
    assert close(transformer.diffusion_at(V, **NUMBERS, **SLOPES), sigma)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["causal", pytest.param("random", marks=pytest.mark.long)])
def test_masks_against_covariances_of_softmax_weights(size, kind):
    rng = np.random.default_rng(size)
    mask = np.tril(np.ones((size, size))) if kind == "causal" else rng.uniform(0.1, 1, (size, size))
    sde = tp.derive(shaped.masked_attention(mask), PROPORTIONAL)
    V = published.random_covariance(size, seed=30 + size)
    b, sigma = published.numpy_masked_attention(V, mask / mask.sum(axis=1, keepdims=True), **NUMBERS)
    assert close(sde.drift_at(V, **NUMBERS), b)
    assert close(sde.diffusion_at(V, **NUMBERS), published.packed(sigma))


def test_the_full_mask_is_attention_without_a_mask(attention):
    masked = tp.derive(shaped.masked_attention(np.ones((3, 3))), PROPORTIONAL)
    unmasked = tp.derive(shaped.shaped_attention.bind(token=3), PROPORTIONAL)
    assert not masked.drift_form - unmasked.drift_form
    assert not masked.diffusion_form - unmasked.diffusion_form
    V = published.random_covariance(3, seed=1)
    assert close(masked.drift_at(V, **NUMBERS), attention.drift_at(V, **NUMBERS))


def test_several_heads_share_the_noise_of_attention():
    """Head width n/H: drift as with one head, noise of the weights Q and K divided by H, 2γ² for the rest."""
    sde = tp.derive(shaped.heads_attention, PROPORTIONAL)
    H, ratio = tp.size("head")._sympy_(), sympy.Symbol("(k/n)", positive=True)
    assert not sde.drift_form - published.attention_drift()
    ours = sde.root.isotropic.subs(ratio, 1 / H)
    assert sympy.simplify(ours - 2 * γ**2) == 0
    attention_part = published.attention_diffusion() - published.SIGMA_LIN.scaled(γ**2 * (2 - γ**2))
    assert not sde.diffusion_form - published.SIGMA_LIN.scaled(sde.root.isotropic) - attention_part.scaled(1 / H)


# -- wrong twins ----------------------------------------------------------------------------------


def test_the_printed_nu_of_the_appendix_differs(resnet):
    """(c₊ + c₋)²/2π (√(1 − ρ²) + ρ arccos ρ) is not what follows: a linear activation, c₊ = c₋, has no drift."""
    linear = {"c_plus": 0.5, "c_minus": 0.5}
    V = published.random_covariance(3, seed=2)
    assert close(resnet.drift_at(V, γ=0.4, **linear), np.zeros((3, 3)))
    wrong = published.term((published.c_plus + published.c_minus) ** 2 / (2 * sympy.pi), "αβ", kernel="N").scaled(γ**2)
    assert resnet.drift_form - wrong


def test_the_drift_without_its_gamma_squared_differs(resnet):
    assert resnet.drift_form - published.relu_drift()


def test_the_second_order_of_the_softmax_with_the_printed_sign_differs(attention):
    """Eq. 8 prints +(mean y² − ȳ²) inside the bracket, which turns the sign of S_2's variance."""
    wrong = published.total(
        published.S1("α", "ν", "β", "κ", γ**2 / τ0**2 / published.m**2, "νκ"),
        *(published.S2(a, "ν", -(γ**2) / (2 * published.m * τ0**2), f"{b}ν") for a, b in ("αβ", "βα")),
    )
    assert attention.drift_form - wrong
