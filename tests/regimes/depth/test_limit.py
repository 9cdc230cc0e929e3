"""What a covariance SDE prints, evaluates and refuses."""

from __future__ import annotations

import pickle

import numpy as np
import published
import pytest
import shaped

import tplimits as tp


@pytest.fixture(scope="module")
def attention():
    return tp.derive(shaped.shaped_attention, tp.Proportional())


@pytest.fixture(scope="module")
def resnet():
    return tp.derive(shaped.relu_resnet, tp.Proportional())


def test_print_out(resnet):
    assert repr(resnet).splitlines()[:3] == [
        "covariance SDE of relu_resnet",
        "  b[αβ]     = (γ**2*(c_minus**2 - 2*c_minus*c_plus + c_plus**2)/(2*pi))·N[αβ]",
        "  Σ[αβ,δω]  = 2*γ**2·V[αδ] V[βω] + 2*γ**2·V[αω] V[βδ]",
    ]
    assert "noise     = √(s/2) L(G + Gᵀ)Lᵀ with s = 2*γ**2, V = LLᵀ" in repr(resnet)


def test_latex_has_no_letters_that_tex_does_not_know(attention, resnet):
    for sde in (attention, resnet):
        text = sde.latex()
        assert text.isascii() and text.count("\\begin{align*}") == 1
        assert text.count("{") == text.count("}")
        assert sde._repr_latex_().startswith("$$\n\\begin{aligned}")
    assert r"\sum_{\nu,\kappa} V^{\nu \kappa} V^{\nu \kappa}" in attention.latex()
    assert r"\bar{x}" in attention.latex()


def test_steps_and_citations(attention):
    assert [s.rule for s in attention.steps] == [
        *("mean over the weights", "covariance over the weights", "diffusion limit")
    ]
    assert "dV = b(V) dt + Σ(V)^(1/2) dB" in attention.steps[-1].conclusion
    assert "@inproceedings{noci2023shaped" in attention.citation()
    assert "@inproceedings{li2022neural" in attention.citation()


def test_assumptions_and_verdict(attention):
    assert attention.verdict.kind == "SDE"
    assert any("widths k grow in proportion to n" in a for a in attention.assumptions)


def test_batches_of_covariances(attention):
    V = np.stack([published.random_covariance(3, seed=s) for s in range(4)]).reshape(2, 2, 3, 3)
    numbers = {"γ": 0.3, "τ0": 1.0}
    assert attention.drift_at(V, **numbers).shape == (2, 2, 3, 3)
    sigma = attention.diffusion_at(V, **numbers)
    assert sigma.shape == (2, 2, 6, 6)
    assert np.array_equal(sigma[1, 0], attention.diffusion_at(V[1, 0], **numbers))
    assert np.linalg.eigvalsh(sigma).min() > 0


def test_an_ode_has_a_diffusion_of_zeros():
    @tp.block
    def linear(x: tp.State["token"], W: tp.Matrix, *, g):
        return x + g / tp.sqrt(tp.n) * (W @ x)

    sde = tp.derive(linear, tp.Proportional())
    assert np.array_equal(sde.diffusion_at(np.eye(2), g=1), np.zeros((3, 3)))
    assert repr(sde).startswith("covariance ODE of linear")


def test_results_can_be_pickled(attention):
    again = pickle.loads(pickle.dumps(attention))
    assert again == attention and not again.drift_form - attention.drift_form


@pytest.mark.parametrize(
    ("V", "constants", "message"),
    [
        (np.ones((2, 3)), {}, r"V has shape \(2, 3\)"),
        ([[1.0, 0.5], [0.4, 1.0]], {}, "V is not symmetric"),
        ([[-1.0, 0.0], [0.0, 1.0]], {}, "V has a negative variance"),
        ([[np.nan, 0.0], [0.0, 1.0]], {}, "`V` has NaN or infinite entries"),
        ("V", {}, "`V` is given a value of type str"),
        ([[1.0, 2.0], [2.0, 1.0]], {}, "V is not positive semidefinite: it has the eigenvalue -1"),
        (np.stack([np.eye(2), [[1.0, 2.0], [2.0, 1.0]]]), {}, "V is not positive semidefinite"),
        (np.eye(2) * (1 + 1j), {}, "`V` is given complex numbers"),
        (1e200 * np.eye(2), {}, r"overflow at this V, whose largest entry is 1e\+200"),
        (np.eye(2), {"τ0": None}, "the constant `τ0` has no value"),
        (np.eye(2), {"μ": 1}, "`μ` is not a constant of `shaped_attention`; it has γ, τ0"),
        (np.eye(2), {"τ0": 0}, "is not a real number, or too large for one, at these constants"),
        (np.eye(2), {"τ0": np.inf}, "give a finite number"),
    ],
)
def test_numbers_that_cannot_be_given(attention, V, constants, message):
    given = {k: v for k, v in {"γ": 0.5, "τ0": 1.0, **constants}.items() if v is not None}
    for coefficients in (attention.drift_at, attention.diffusion_at):
        with pytest.raises(tp.EvaluationError, match=message):
            coefficients(V, **given)


def test_no_covariance_at_all_and_singular_ones(attention):
    assert attention.drift_at(np.zeros((0, 2, 2)), γ=0.5, τ0=1).shape == (0, 2, 2)
    assert attention.diffusion_at(np.ones((3, 3)), γ=0.5, τ0=1).shape == (6, 6)
    assert np.isfinite(attention.drift_at(1e-320 * np.eye(2), γ=0.5, τ0=1)).all()


def test_the_number_of_tokens_of_arrays_is_kept():
    sde = tp.derive(shaped.masked_attention(np.tril(np.ones((3, 3)))), tp.Proportional())
    with pytest.raises(tp.EvaluationError, match=r"V is for 2 tokens; `masked` is for 3"):
        sde.drift_at(np.eye(2), γ=0.5, τ0=1)
