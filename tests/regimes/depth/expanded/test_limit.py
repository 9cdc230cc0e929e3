"""What a covariance SDE in numbers prints, exports and refuses."""

from __future__ import annotations

import json
import pickle

import normed
import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.depth.expanded.paths import Curve, _angles

V = np.array([[1.0, 0.3], [0.3, 1.0]])


@pytest.fixture(scope="module")
def sde():
    return tp.derive(normed.linear_behind, tp.Proportional())


def test_the_route_of_the_numbers_is_printed(sde):
    lines = repr(sde).splitlines()
    assert lines[0] == "covariance SDE of linear_behind, in numbers"
    assert "expansion in 1/n on quadrature nodes" in lines[1] and "no formulas" in repr(sde)
    assert any("manifold of fixed points" in a for a in sde.assumptions)
    assert "katzenberger1991solutions" in sde.citation() and "vonmises1947asymptotic" in sde.citation()


def test_exports(sde):
    text = sde.latex()
    assert text.isascii() and text.count("{") == text.count("}") and r"\mathrm{D}^2\pi : C_1" in text
    assert json.loads(sde.document())["text"] == repr(sde).splitlines()
    assert "katzenberger" in sde.page().lower() and pickle.loads(pickle.dumps(sde)) == sde


def test_shapes(sde):
    stacked = np.stack([V, V]).reshape(2, 1, 2, 2)
    assert sde.drift_at(stacked, γ=0.5).shape == (2, 1, 2, 2)
    assert sde.diffusion_at(stacked, γ=0.5).shape == (2, 1, 3, 3)
    b, C = sde.layer_at(V, γ=0.5)
    assert b.shape == (2, 2) and C.shape == (3, 3)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda s: s.drift_at(V), "the constant `γ`"),
        (lambda s: s.drift_at(2 * V, γ=0.5), "V is no fixed point of the leading map"),
        (lambda s: s.drift_at(np.ones((2, 2)), γ=0.5), "V is singular"),
        (lambda s: s.drift_at([[1.0, 2.0], [2.0, 1.0]], γ=0.5), "V is not positive semidefinite"),
        (lambda s: s.drift_at(V, γ=0.5, μ=1), "`μ` is not a constant of `linear_behind`; it has γ"),
        (lambda s: s.drift_at(V, γ=1.5), "is not real"),
        (lambda s: s.simulate(np.eye(3), γ=0.5), "are drawn for two tokens"),
        (lambda s: s.simulate(V, stop=2.0, γ=0.5), "without stop="),
    ],
)
def test_numbers_that_cannot_be_given(sde, asked, message):
    with pytest.raises(tp.EvaluationError, match=message):
        asked(sde)


def test_a_curve_is_the_covariances_of_two_variances():
    V = np.array([[0.25, 0.1], [0.1, 4.0]])
    curve, rho = Curve(layers=None, V=V), np.array([[0.5, -0.25], [1.0, 0.0]])
    np.testing.assert_allclose(curve.at(0.3), [[0.25, 0.3], [0.3, 4.0]], rtol=1e-15)
    np.testing.assert_allclose(curve._covariances(rho), [[curve.at(r) for r in row] for row in rho], rtol=1e-15)
    assert [round(float(a), 9) for a in _angles(2)] == [
        round(np.pi / 2 + k * (np.pi / 2 - 0.1) / np.sqrt(2), 9) for k in (-1, 1)
    ]


@pytest.mark.parametrize("F", [tp.tanh, tp.gelu], ids=["tanh", "gelu"])
def test_logits_of_a_matrix_and_its_transpose_by_names(F):
    """√n ⟨W x|Wᵀ x′⟩ named, and divided by √n on another line."""

    @tp.block
    def in_one_line(x: tp.State["token"], W: tp.Matrix, V: tp.Matrix):
        v = V @ x
        A = F(tp.avg((W @ x) * (W.T @ x).rename(token="key")))
        return 0.8 * x + 0.6 * (v + tp.sum(A * v.rename(token="key"), over="key"))

    @tp.block
    def by_names(x: tp.State["token"], W: tp.Matrix, V: tp.Matrix):
        v = V @ x
        s = tp.avg((W @ x) * (W.T @ x).rename(token="key")) * tp.sqrt(tp.n)
        A = F(s / tp.sqrt(tp.n))
        return 0.8 * x + 0.6 * (v + tp.sum(A * v.rename(token="key"), over="key"))

    V0 = np.array([[1.0, 0.7], [0.7, 0.6]])
    one, other = (tp.derive(block, tp.Proportional()).drift_at(V0) for block in (in_one_line, by_names))
    assert abs(one).max() > 0.01
    assert other == pytest.approx(one, rel=1e-12)
