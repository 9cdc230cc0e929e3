"""Coefficients made of Gaussian means of different functions vanish where the sum of these means does."""

import numpy as np
import pytest
import sympy
from scipy.integrate import quad

import tplimits as tp
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.means import U, of_columns
from tplimits.regimes.depth.algebra.vanishing import vanishes


def test_means_of_different_functions_do_not_cancel() -> None:
    """E u sin(u′) − E u tanh(u′) is a form with terms, and not zero; in another order of tokens a mean is the same."""
    waves, bent = of_columns((U, sympy.sin(U)), (-1, -2)), of_columns((U, sympy.tanh(U)), (-1, -2))
    assert not vanishes(Form({(waves,): sympy.Integer(1), (bent,): sympy.Integer(-1)}), {})
    turned = of_columns((sympy.sin(U), U), (-2, -1))
    assert vanishes(Form({(waves,): sympy.Integer(1)}) - Form({(turned,): sympy.Integer(1)}), {})


BRANCHES = {
    "tanh − sin": (lambda y: tp.tanh(y) - tp.sin(2 * y), lambda y: np.tanh(y) - np.sin(2 * y)),
    "max − min": (lambda y: tp.maximum(y, 0.5) - tp.minimum(y, 0.5), lambda y: abs(y - 0.5)),
    "two thresholds": (
        lambda y: tp.relu(y + 1) - tp.relu(y - 1) - 1,
        lambda y: np.clip(y, -1, 1),
    ),
    "two scales": (lambda y: tp.sin(y) - tp.sin(2 * y), lambda y: np.sin(y) - np.sin(2 * y)),
}


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_drift_of_order_root_n_is_refused_whatever_it_is_a_sum_of(branch: str) -> None:
    """E y φ(y) of the two terms together is seen: it had been taken for zero where coefficients are 1 and −1."""
    written, phi = BRANCHES[branch]

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, V: tp.Matrix):
        y = W @ x
        return tp.sqrt(3) / 2 * x + V @ (y + written(y) / tp.sqrt(tp.n)) / 2

    # E y φ(y), which is what the layer adds to V in order n^(−1/2)
    correlation = quad(lambda y: y * phi(y) * np.exp(-y * y / 2) / np.sqrt(2 * np.pi), -9, 9, limit=200)[0]
    assert abs(correlation) > 0.05
    with pytest.raises(tp.NoLimitError, match=r"of order n\^\(-1/2\)"):
        tp.derive(block, tp.Proportional())


def test_a_difference_that_is_orthogonal_to_the_state_has_a_drift() -> None:
    """Even functions: E y φ(y) = 0; n E[V′ − V] is E φ φ′/4."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, V: tp.Matrix):
        y = W @ x
        return tp.sqrt(3) / 2 * x + V @ (y + (tp.cos(y) - tp.cos(2 * y)) / tp.sqrt(tp.n)) / 2

    drift = tp.derive(block, tp.Proportional()).drift_at(np.array([[1.0]]))[0, 0]
    square = quad(lambda y: (np.cos(y) - np.cos(2 * y)) ** 2 * np.exp(-y * y / 2) / np.sqrt(2 * np.pi), -9, 9)[0]
    assert drift == pytest.approx(square / 4, rel=1e-8)


def test_functions_of_a_variable_and_of_its_opposite_have_one_mean() -> None:
    """E f(−y) = E f(y): V f(y) − V f(−y) adds nothing of order n^(−1/2), whatever f is."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, V: tp.Matrix):
        y = tp.sqrt(tp.n) * tp.avg((W @ x) * (V @ x))
        f = lambda u: tp.gelu(u) / ((u + 0.5) ** 2 + 1)  # noqa: E731
        return x + (f(y) - f(-y)) * x / tp.sqrt(tp.n)

    assert np.isfinite(tp.derive(block, tp.Proportional()).drift_at(np.array([[1.0]]))).all()
