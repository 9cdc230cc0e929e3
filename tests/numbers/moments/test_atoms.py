"""Functions as sums of atoms: point by point the same function, and what is none is left to others."""

from __future__ import annotations

import numpy
import pytest
import sympy
from scipy.special import ndtr
from sympy import Rational

from tplimits.numbers.moments.atoms import Gate, Point, Power, Wave, atoms
from tplimits.numbers.moments.function import moment
from tplimits.program.nodes import functions as f
from tplimits.program.nodes.evaluate import evaluate

x = sympy.Symbol("x", real=True)
POINTS = numpy.array([-2.3, -1.0, -0.4, 0.3, 0.9, 2.2])


def value(atom, at):
    """An atom by its definition."""
    if isinstance(atom, Point):
        return atom.coefficient * (at == 0)
    if isinstance(atom, Power):
        return atom.coefficient * at**atom.degree * numpy.exp(-atom.tilt * at**2 / 2)
    if isinstance(atom, Wave):
        return atom.coefficient * {"sin": numpy.sin, "cos": numpy.cos, "exp": numpy.exp}[atom.kind](atom.rate * at)
    root = numpy.sqrt(atom.softness)
    up, down = ((at > 0) * 1.0, (at < 0) * 1.0) if root == 0 else (ndtr(at / root), ndtr(-at / root))
    both = atom.positive * at**atom.degree * up + atom.negative * (-at) ** atom.degree * down
    return both * numpy.exp(-atom.tilt * at**2 / 2)


@pytest.mark.parametrize(
    "function",
    [
        *(f.relu(x), f.relu(-3 * x) ** 2 - x**2, f.leaky_relu(2 * x, Rational(1, 3)), abs(x) + x**3, f.step(-x) + 2),
        *(sympy.sign(x) + 1, 3 * sympy.erf(2 * x) + x, x * sympy.erf(-x / 3), x**2 * sympy.erf(x)),
        *(f.gelu(x) + f.gelu(-x), f.maximum(x, -2 * x)),
        *(f.gelu(-x) - f.relu(x), x**4 - 2 * x + 1, sympy.exp(-(x**2)) * x**3, f.relu(x) * sympy.exp(-2 * x**2) - x),
        *(sympy.sin(3 * x), 2 * sympy.sin(-x) + x, sympy.cos(x / 2), -sympy.exp(-x), 1 - f.step(x) * x**3, x * 0 + 3),
        *(f.step(x) * f.step(2 * x) * x, f.relu(x) - f.relu(-x), sympy.erf(x) * sympy.exp(-(x**2))),
        *(sympy.exp(x**2 / 8), f.relu(-x) * sympy.exp(x**2 / 8)),
    ],
    ids=str,
)  # fmt: skip
def test_the_sum_of_atoms_is_the_function(function):
    found = atoms(function, x)
    assert found is not None
    for at in (*POINTS, 0.0):
        expected = float(evaluate(function, {x: numpy.float64(at)}))
        assert sum(value(atom, at) for atom in found) == pytest.approx(expected, abs=1e-12), at


@pytest.mark.parametrize(
    "function",
    [
        *(x**5, f.relu(x) ** 5, sympy.exp(x**2 / 8 + x), sympy.exp(x**4), sympy.tanh(x), f.relu(x - 1)),
        *(sympy.sin(x) * x, sympy.sin(x) ** 2, sympy.sin(x) + sympy.sin(2 * x), sympy.cos(x) - 1, sympy.cos(x) + x),
        *(sympy.sin(x) * sympy.exp(-(x**2)), f.step(x) * sympy.sin(x), f.step(x) * sympy.erf(x), sympy.erf(x) ** 2),
        *(sympy.exp(x) - x**2, 1 / x, sympy.sqrt(x), sympy.Symbol("c") * x, f.gelu(x + 1), sympy.exp(x - x**2)),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_sum_of_atoms(function):
    assert atoms(function, x) is None


def test_powers_up_to_the_fourth_are_atoms_and_no_smaller_ones():
    assert atoms(x**4, x) == (Power(1.0, 4),) and atoms(f.relu(x) ** 4, x) == (Gate(1.0, 0.0, 4, 0.0),)


@pytest.mark.parametrize(
    ("function", "first", "power"),
    [
        (sympy.exp(-(x**2) / 5) - 1, -1 / 5, 2),
        (sympy.exp(x**2 / 5) - 1, 1 / 5, 2),
        (x - x * sympy.exp(-(x**2) / 2), 1 / 2, 3),
        (sympy.erf(x) - 2 * x / sympy.sqrt(sympy.pi), -2 / 3 / sympy.sqrt(sympy.pi), 3),
    ],
    ids=str,
)
def test_terms_that_cancel_at_zero_are_not_summed_at_small_variance(function, first, power):
    """The mean is that of the first power, up to the variance: closed terms have sixteen digits of 1, not of that."""
    y, c, d = sympy.Symbol("y", real=True), 1e-4, 0.5e-4
    value, error = moment(function * function.xreplace({x: y}), (x, y))(c, d, c)
    isserlis = c**2 + 2 * d**2 if power == 2 else 9 * c**2 * d + 6 * d**3
    assert float(value) == pytest.approx(float(first) ** 2 * isserlis, rel=1e-3)
    assert 0 < float(error) < 1e-9 * float(value)
