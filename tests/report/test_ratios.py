"""Networks of several widths: ratios in what is printed are those of the numbers, worked out by hand."""

import numpy as np
import pytest

import tplimits as tp

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["k", "n"], V: tp.Matrix["n", "k"], v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    h = tp.tanh(W @ x)
    return v * tp.tanh(V @ h)


def mean(function, variance):
    return float(WEIGHTS @ function(np.sqrt(variance) * NODES))


@pytest.mark.parametrize("ratio", [0.25, 2.0])
def test_the_printed_operator_is_the_number(ratio):
    """f_1 by gradient descent on W alone, −η χ (k/n) ⟨dz|dz⟩ ⟨x|x⟩ with ⟨dh|dh⟩ = (n/k) ⟨dy|dy⟩ as printed."""
    limit = tp.derive(two, tp.NeuralTangent(tp.SGD()))
    rates = {"U": 0, "W": 0.1, "V": 0, "v": 0}
    run = limit.evaluate([[1.0]], error=lambda f: f - 1, lr=rates, steps=1, f0=[0.0], ratios={"k": ratio})

    def slope(z):
        return (1 - np.tanh(z) ** 2) ** 2

    xx = mean(lambda z: np.tanh(z) ** 2, 1.0)
    hh = mean(lambda z: np.tanh(z) ** 2, xx)
    by_hand = {"dy": mean(slope, hh)}
    by_hand["dh"] = by_hand["dy"] / ratio
    by_hand["dz"] = mean(slope, xx) * by_hand["dh"]
    assert run.f[1, 0] == pytest.approx(0.1 * ratio * by_hand["dz"] * xx, rel=1e-9)
    shown = repr(limit)
    assert "(k/n) ⟨d_7| Q_t(Σ_b χ^b |d_7⟩⟨x|) |x⟩" in shown
    assert "|dh⟩ = Vᵀ d_9,   Gaussian with covariance (n/k) ⟨d_9|d_9′⟩" in shown
    assert r"\frac{k}{n}\,\langle \mathrm{d}(W\,x)|^a" in limit.latex()
    assert any("(k/n) ⟨d_7|" in str(step) for step in limit.steps)


def test_transposes_between_two_widths_in_the_feature_learning_limit():
    limit = tp.derive(two, tp.MaximalUpdate(tp.SignSGD(0.5)))
    shown = repr(limit)
    assert "both parts of |V_0ᵀ y⟩ are (n/k) times these" in shown
    assert "|dh_t⟩     = |V_0ᵀ d_9_t⟩ − η Σ_{s<t} n/k Q_s(|d_9_s⟩_χ_s⟨h_s|)ᵀ |d_9_t⟩" in shown
    assert r"\sum_{s<t} \frac{n}{k} \overline{" in limit.latex()


def test_no_ratio_where_widths_agree():
    @tp.network
    def one(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.tanh(W @ tp.sum(U * ξ, over="d"))

    for regime in (tp.MaximalUpdate(tp.SGD()), tp.NeuralTangent(tp.SGD())):
        limit = tp.derive(one, regime)
        assert "/n" not in repr(limit)
        assert "times these" not in repr(limit)
        assert r"\frac{" not in limit.latex()
