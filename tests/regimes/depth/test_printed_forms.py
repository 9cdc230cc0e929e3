"""Terms of drift and diffusion in LaTeX, and the picture of them: what is shown are their numbers."""

from __future__ import annotations

import numpy as np
import shaped
import sympy

import tplimits as tp
from tplimits.regimes.depth import picture
from tplimits.regimes.depth.algebra.arrays import Arrays
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import ALPHA, BETA, DELTA, OMEGA, SPAN
from tplimits.regimes.depth.report import summed
from tplimits.report.letters import Letters


def V(a, b):
    return "V", (a, b), 0


def test_terms_have_their_coefficients_and_signs():
    """A number 1 is left out beside a factor and is a term alone; what is random stands in a mean, and only there."""
    c, inner = sympy.Symbol("c"), 5 * SPAN
    terms = {
        (): (sympy.S.One, "1"),
        (V(ALPHA, BETA), V(DELTA, OMEGA)): (sympy.Rational(3, 2), r"+ \frac{3}{2} V^{\alpha \beta} V^{\delta \omega}"),
        (V(ALPHA, DELTA), V(BETA, OMEGA)): (-sympy.S.One, r"- V^{\alpha \delta} V^{\beta \omega}"),
        (V(ALPHA, BETA),): (-2 * c, r"- 2 c V^{\alpha \beta}"),
        (("Y|1", (ALPHA, BETA), 0), V(DELTA, OMEGA)): (
            sympy.S.One,
            r"+ \operatorname{E}\left[\varphi^{\,\alpha \beta}\right] V^{\delta \omega}",
        ),
        (V(ALPHA, inner), V(inner, BETA)): (c + 1, r"+ \left(c + 1\right) \sum_{h} V^{\alpha h} V^{h \beta}"),
    }
    form = Form({f: number for f, (number, _) in terms.items()})
    assert summed(form, Letters(known={"Y|1": "φ"})) == [t for _, t in terms.values()]


def test_arrows_are_drift_and_noise_at_their_places(monkeypatch):
    drawn = []
    monkeypatch.setattr(picture, "arrows", lambda fields: drawn.extend(fields) or "")
    sde = tp.derive(shaped.relu_mlp, tp.Proportional())
    picture.fields(sde)
    drift, noise = drawn
    assert (drift.name, noise.name) == ("drift b", "noise √Σ")
    numbers = dict.fromkeys(("c_plus", "c_minus"), picture._UNSET)
    assert len(drift.x) > 4
    for x, y, b, s in zip(
        drift.x, drift.y, zip(drift.u, drift.v, strict=True), zip(noise.u, noise.v, strict=True), strict=True
    ):
        at = np.array([[x, y], [y, 1.0]])
        np.testing.assert_allclose(b, sde.drift_at(at, **numbers)[0])
        np.testing.assert_allclose(s, np.sqrt(np.diag(sde.diffusion_at(at, **numbers))[:2]))


def test_the_state_may_be_any_argument():
    @tp.block
    def behind(W: tp.Matrix, x: tp.State["token"], *, c_plus, c_minus):
        s = shaped.shaped_relu(W @ x, c_plus, c_minus)
        return s / tp.sqrt(tp.expect(lambda g: shaped.shaped_relu(g, c_plus, c_minus) ** 2))

    found, wanted = (tp.derive(b, tp.Proportional()) for b in (behind, shaped.relu_mlp))
    assert (found.drift, found.diffusion) == (wanted.drift, wanted.diffusion)
    assert found.report().picture == wanted.report().picture != ""


def test_arrays_are_symmetric_where_they_are_their_transposes():
    arrays, rng = Arrays(), np.random.default_rng(0)
    square = rng.standard_normal((3, 3))
    kinds = [arrays.label(a)[0] for a in (square + square.T, square, square[:2], square[0], square + square.T + 1e-12)]
    assert kinds == ["S", "P", "P", "P", "S"]
    assert arrays.label(square) == arrays.label(square + 1e-12 * square.T) != arrays.label(2 * square)


def test_arrays_that_differ_in_small_entries_are_others():
    """Another factor may make them large again; rounding of them is nothing."""
    arrays, base = Arrays(), np.array([1.0, 1e-11, 0.0])
    labels = [arrays.label(base * [1, scale, 1]) for scale in (1, 1 + 1e-9, 1 + 1e-13)]
    assert labels[0] == labels[2] != labels[1]


def test_numbers_from_floats_have_no_common_power_of_one_half():
    """1.39·10⁻¹⁷ (1.4·10¹⁶ Σ … − 8.7·10¹⁵ Σ …) tells nobody what the terms are."""

    @tp.block
    def biased(x: tp.State["token"], WQ: tp.Matrix["n", "n", "head"], WK: tp.Matrix["n", "n", "head"],
               WV: tp.Matrix["n", "n", "head"]):  # fmt: skip
        bias = tp.constant([[[0, 0.3], [0.1, 0]], [[0.5, 0], [0.2, 0]]], axes=("key", "token", "head"))
        Y, v = tp.avg((WQ @ x) * (WK @ x).rename(token="key")), WV @ x
        A = tp.exp(bias + Y) / tp.sum(tp.exp(bias + Y), over="key") - tp.exp(bias) / tp.sum(tp.exp(bias), over="key")
        return 0.8 * x + 0.6 * tp.sum(v + tp.sum(A * v.rename(token="key"), over="key"), over="head") / tp.sqrt(2)

    assert r"\cdot 10^{" not in tp.derive(biased, tp.Proportional()).latex()


def test_arrays_have_names_that_no_constant_has():
    """p²·Σ p[ν] with one name for a constant and an array says neither; the drift holds both."""

    @tp.block
    def mixed(x: tp.State["token"], W: tp.Matrix, K: tp.Matrix, *, p, s):
        w = W @ x
        scale = tp.constant(np.array([[0.3, 0.4], [0.1, 0.9]]), axes=("token", "key"))
        logits = scale * tp.avg((K @ x) * x.rename(token="key"))
        return tp.sqrt(1 - s**2) * x + s * w + p * tp.sum(tp.tanh(logits) * w.rename(token="key"), over="key")

    sde = tp.derive(mixed.bind(token=2), tp.Proportional())
    names = [line.split()[0] for line in str(sde).splitlines() if "the constant array" in line]
    assert names and "p" not in names and all(f"{name}[" in str(sde) for name in names)
    assert {s.name for s in sde.drift.free_symbols if isinstance(s, sympy.Symbol)} >= {"p", *names}
    V = np.array([[1.0, 0.3], [0.3, 0.8]])
    scales = np.array([[0.3, 0.4], [0.1, 0.9]])  # tanh of logits of size n^(−1/2): C² V_αα V_νν/n in the mean square
    drift = sum(scales[:, [a]] @ scales[:, [b]].T * V * V[a, b] ** 2 * 0.49 for a in range(2) for b in range(2))
    assert np.allclose(sde.drift_at(V, p=0.7, s=0.6), drift)
