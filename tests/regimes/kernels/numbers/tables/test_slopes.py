"""Functions that are linear on both sides of 0 have a short way to small distances, and no others."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes.functions import relu, step, where
from tplimits.regimes.kernels.numbers.tables.slopes import slopes

LINES = {
    "ReLU6": (lambda x: tp.minimum(tp.relu(x), 6), lambda x: np.clip(x, 0, 6)),
    "hard tanh": (lambda x: tp.clip(x, -2, 2), lambda x: np.clip(x, -2, 2)),
    "beyond 2": (lambda x: tp.relu(x - 2), lambda x: np.maximum(x - 2, 0)),
    "one kink far out": (lambda x: tp.maximum(x, -3), lambda x: np.maximum(x, -3)),
    "two lines that meet at −4/3": (
        lambda x: tp.maximum(5 * x / 2, x - 2),
        lambda x: np.maximum(2.5 * x, x - 2),
    ),
    "soft shrinkage": (
        lambda x: tp.sign(x) * tp.relu(tp.abs(x) - 3),
        lambda x: np.sign(x) * np.maximum(abs(x) - 3, 0),
    ),
    "nested": (lambda x: tp.relu(3 - tp.relu(x)), lambda x: np.maximum(3 - np.maximum(x, 0), 0)),
    "leaky": (lambda x: tp.leaky_relu(x, -0.3), lambda x: np.where(x > 0, x, -0.3 * x)),
    "both sides": (
        lambda x: tp.relu(x) - tp.relu(-x) / 2,
        lambda x: np.where(x > 0, x, x / 2),
    ),
    "turned": (lambda x: tp.relu(-2 * x) + tp.relu(x), lambda x: np.where(x > 0, x, -2 * x)),
    "steep": (lambda x: tp.where(x, 3 * x, -x), lambda x: np.where(x > 0, 3 * x, -x)),
}


def on_a_grid(f, covariance):
    """E f(a) f(b) of two Gaussians, to some 1e-5."""
    x, step = np.linspace(-8, 8, 2001, retstep=True)
    p = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * step
    (aa, ab), (_, bb) = covariance
    a = np.sqrt(aa) * x[:, None]
    b = ab / aa * a + np.sqrt(max(bb - ab**2 / aa, 0.0)) * x
    return float(((p[:, None] * p) * f(a) * f(b)).sum())


@pytest.mark.parametrize("size", [1.0, 4.0])
@pytest.mark.parametrize("case", LINES)
def test_kernels_of_functions_of_several_lines(case, size):
    F, f = LINES[case]

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * F(tp.sum(U * ξ, over="d"))

    X = size * np.array([[1.0, 0.0], [0.6, 0.8], [-0.6, 0.8]])
    K = tp.derive(network, tp.Kernels()).evaluate(X).nngp
    expected = [on_a_grid(f, X[[0, other]] @ X[[0, other]].T) for other in (1, 2)]
    np.testing.assert_allclose(K[0, 1:], expected, atol=3e-5 * K[0, 0])


z, w = sympy.symbols("z w", real=True)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (relu, (1, 0)),
        (lambda x: relu(-3 * x), (0, 3)),
        (lambda x: 2 * relu(x) - relu(-x) / 2, (2, -0.5)),
        (lambda x: where(-x, x, 2 * x), (2, -1)),
        (lambda x: x * step(-x), (0, 1)),
        (sympy.Abs, (1, 1)),
        (lambda x: relu(x - 2), None),
        (lambda x: relu(x) - relu(x - 6), None),
        (lambda x: relu(x) + 1, None),
    ],
)
def test_slopes_on_both_sides_of_zero(function, expected):
    """Up to one sign for both, which a product of two does not show."""
    found = slopes(SimpleNamespace(variables=(z, w), values=(), integrand=function(z) * function(w)))
    if expected is None:
        assert found is None
    else:
        sign = np.sign(found[0] * expected[0] + found[1] * expected[1])
        np.testing.assert_allclose(np.multiply(found, sign), expected, atol=1e-15)
