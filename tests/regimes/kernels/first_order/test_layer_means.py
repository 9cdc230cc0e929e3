"""What a layer reads of a pair of inputs of different sizes, by Gauss–Hermite quadrature in two variables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy

from tplimits.regimes.kernels.first_order.laws import Law
from tplimits.regimes.kernels.first_order.means import Activation
from tplimits.regimes.kernels.first_order.perceptron import H
from tplimits.regimes.kernels.first_order.recursion import _inverse

ACTIVATIONS = {
    "tanh": (sympy.tanh(H), np.tanh, lambda h: 1 / np.cosh(h) ** 2),
    "sin": (sympy.sin(H + sympy.Rational(1, 3)), lambda h: np.sin(h + 1 / 3), lambda h: np.cos(h + 1 / 3)),
}
#: aa, ab, bb
SIZES = (1.3, 0.4, 0.7)
STEP = 1e-3
T, W = np.polynomial.hermite_e.hermegauss(120)
W = np.multiply.outer(W, W) / W.sum() ** 2


def inputs(aa, ab, bb):
    """h_a and h_b at all nodes."""
    a = np.sqrt(aa) * T[:, None] + 0 * T
    return a, ab / aa * a + np.sqrt(bb - ab**2 / aa) * T


def mean(values):
    return float((W * values).sum())


def products(φ, sizes):
    """E φφ′ of aa, ab and bb."""
    x = [φ(h) for h in inputs(*sizes)]
    return np.array([mean(x[0] * x[0]), mean(x[0] * x[1]), mean(x[1] * x[1])])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_means_of_two_inputs_of_different_sizes(name):
    body, φ, slope = ACTIVATIONS[name]
    m = Activation(body).read(Law(tuple(np.array([c]) for c in SIZES)))
    h = inputs(*SIZES)
    x, d = [φ(a) for a in h], [slope(a) for a in h]
    for c, e in itertools.product(range(2), repeat=2):
        assert m.turned[0, c, e] == pytest.approx(mean(h[c] * h[e] * d[0] * d[1]), rel=1e-6)
        assert m.back[0, c, e] == pytest.approx(mean(h[c] * d[0] * x[e]), rel=1e-6)
        assert m.forth[0, c, e] == pytest.approx(mean(h[c] * d[1] * x[e]), rel=1e-6)
    pairs = [x[0] * x[0], x[0] * x[1], x[1] * x[1]]
    for i, j in itertools.product(range(3), repeat=2):
        spread = mean(pairs[i] * pairs[j]) - mean(pairs[i]) * mean(pairs[j])
        assert m.spread[0, i, j] == pytest.approx(spread, rel=1e-6)
        assert m.mixed[0, i] == pytest.approx(mean(d[0] * d[1] * pairs[i]), rel=1e-6)
    for j in range(3):
        up, down = ([c + side * STEP * (k == j) for k, c in enumerate(SIZES)] for side in (1, -1))
        assert m.first[0, :, j] == pytest.approx((products(φ, up) - products(φ, down)) / (2 * STEP), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("matrix", "inverse"),
    [
        ([[2.0, 0.5], [0.5, 1.0]], np.linalg.inv([[2.0, 0.5], [0.5, 1.0]])),
        ([[4.0, 2.0], [2.0, 1.0]], [[0.25, 0], [0, 0]]),
        ([[0.0, 0.0], [0.0, 2.0]], [[0, 0], [0, 0.5]]),
        ([[2.0, 0.0], [0.0, 0.0]], [[0.5, 0], [0, 0]]),
        ([[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
    ],
)
def test_inverses_on_what_is_there(matrix, inverse):
    """Inputs of one direction are one, and nothing is known by an argument that is 0 at every width."""
    assert _inverse(np.array([matrix]))[0] == pytest.approx(np.array(inverse))
