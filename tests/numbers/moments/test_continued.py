"""Removable poles of functions of one variable: what is continued, with the digits of many-digit numbers."""

import mpmath
import numpy as np
import pytest
import sympy

from tplimits.numbers.moments.continued import continued
from tplimits.numbers.moments.tensor import tensor
from tplimits.program.nodes import functions
from tplimits.program.nodes.evaluate import evaluate

z, y = sympy.symbols("z y", real=True)
#: near the pole, where the series ends, and beyond
PLACES = (0.0, 1e-60, -1e-9, 1e-3, -0.0311, 0.0623, 0.0626, 0.249, 0.26, -0.7, 3.0)

REMOVABLE = {
    "a wave": (1 - sympy.cos(z)) / z**2,
    "its derivative": sympy.sin(z) / z**2 - 2 * (1 - sympy.cos(z)) / z**3,
    "tanh": (1 - sympy.tanh(z) ** 2) / z - sympy.tanh(z) / z**2,
    "a logistic function": (functions.sigmoid(z) - sympy.Rational(1, 2)) / z,
}


def written(function):
    return function.replace(functions.sigmoid, lambda x: 1 / (1 + sympy.exp(-x)))


@pytest.mark.parametrize("name", REMOVABLE)
def test_digits_are_kept_beside_the_pole(name):
    function = REMOVABLE[name]
    found = evaluate(continued(function, [z]), {z: np.array(PLACES)})
    exact = sympy.lambdify(z, written(function), "mpmath")
    with mpmath.workdps(400):
        truth = [float(exact(mpmath.mpf(place) if place else mpmath.mpf(10) ** -90)) for place in PLACES]
    np.testing.assert_allclose(found, truth, rtol=2e-11, atol=2e-12)


def test_other_variables_stand_in_front():
    """y tanh(y sin(z)/z) cos(z): the quotient alone is continued, and a sum is taken together."""
    whole = sympy.tanh(y * sympy.sin(z) / z) + y * sympy.sin(z) / z**2 - 2 * y * (1 - sympy.cos(z)) / z**3
    found = evaluate(continued(whole, [z, y]), {z: np.array(1e-40), y: np.array(0.5)})
    assert found == pytest.approx(np.tanh(0.5), abs=1e-15)


@pytest.mark.parametrize(
    "function",
    [sympy.exp(z) / z, abs(z) / z, sympy.sin(z) / z**2, functions.relu(z) / z, sympy.sin(z) / (z - 1)],
)
def test_what_has_a_pole_or_a_kink_there_is_left(function):
    assert continued(function, [z]) == function


def test_quadrature_meets_no_rounding_beside_a_pole():
    """E (∂_z tanh(y g(z)))² with g = (1 − cos z)/z², whose slope divides by z³, by a grid that has no node at 0."""
    g, slope = (1 - sympy.cos(z)) / z**2, sympy.sin(z) / z**2 - 2 * (1 - sympy.cos(z)) / z**3
    value, error = tensor((y * slope * (1 - sympy.tanh(y * g) ** 2)) ** 2, [z, y], np.array([[1.3, 0.0, 0.8]]))
    x, w = np.polynomial.hermite_e.hermegauss(100)
    a, b, density = np.sqrt(1.3) * x[:, None], np.sqrt(0.8) * x, np.outer(w, w) / (2 * np.pi)
    f = b * (np.sin(a) / a**2 - 2 * (1 - np.cos(a)) / a**3) / np.cosh(b * (1 - np.cos(a)) / a**2) ** 2
    assert value[0] == pytest.approx((f**2 * density).sum(), rel=1e-8)
    assert error[0] < 1e-10
