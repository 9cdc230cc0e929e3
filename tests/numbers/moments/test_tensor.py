"""Means over four correlated variables by product rules: coordinates as fine as each needs to be."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import sympy

from tplimits.errors import EvaluationError
from tplimits.numbers.budget import Budget, TooManyNodes
from tplimits.numbers.moments import tensor as module
from tplimits.numbers.moments.tensor import lowered, may_be_infinite, tensor
from tplimits.numbers.quadrature import Integral, Quadrature
from tplimits.program.nodes.functions import step

Z = sympy.symbols("z1:5", real=True)
#: variances and covariance of nearly equal inputs
ONE, BOTH, OTHER = 2.21, 2.41, 2.65


def _wave(z, w):
    """∂_w √(1 + cos²(z tanh w)): far out in z it turns faster than the coarse rules can see."""
    turn = z * sympy.tanh(w)
    return -z * (1 - sympy.tanh(w) ** 2) * sympy.sin(turn) * sympy.cos(turn) / sympy.sqrt(1 + sympy.cos(turn) ** 2)


def _oracle():
    """The same mean from its structure: the mean of one factor given the variables of the other is a blurred factor."""
    line = np.arange(-14, 14, 0.04)
    wave = sympy.lambdify(Z[:2], _wave(*Z[:2]), "numpy")(*np.meshgrid(line, line, indexing="ij"))
    blur = np.exp(-((line - line[:, None] * BOTH / ONE) ** 2) / 2 / (OTHER - BOTH**2 / ONE))
    blur /= blur.sum(axis=1, keepdims=True)
    weight = np.exp(-(line**2) / 2 / ONE) / np.exp(-(line**2) / 2 / ONE).sum()
    return weight @ (wave * (blur @ wave @ blur.T)) @ weight


@pytest.mark.long
def test_a_wave_far_out_is_followed():
    law = {(0, 0): ONE, (1, 1): ONE, (2, 2): OTHER, (3, 3): OTHER, (0, 2): BOTH, (1, 3): BOTH}
    row = np.array([[law.get(pair, 0.0) for pair in itertools.combinations_with_replacement(range(4), 2)]])
    value, error = tensor(_wave(*Z[:2]) * _wave(*Z[2:]), Z, row)
    assert abs(value[0] - _oracle()) < error[0]
    assert error[0] < 1e-6  # rules of 33 and of 41 nodes a coordinate give .027 and .030, both far from .0483


def test_without_variance_a_mean_is_the_value_at_zero():
    value, error = tensor(sympy.cos(Z[0]) + 3 * sympy.exp(Z[1] * Z[2]) + Z[3], Z, np.zeros((2, 10)))
    assert value.tolist() == [4.0, 4.0] and error.tolist() == [0.0, 0.0]


def test_a_mean_of_products_is_that_of_pairings():
    """E z1 z2 z3 z4 = c12 c34 + c13 c24 + c14 c23, and laws that are none are refused."""
    root = np.random.default_rng(0).normal(size=(4, 4)) / 2
    c = root @ root.T
    row = np.array([[c[i, j] for i, j in itertools.combinations_with_replacement(range(4), 2)]])
    value, error = tensor(sympy.prod(Z), Z, row)
    expected = c[0, 1] * c[2, 3] + c[0, 2] * c[1, 3] + c[0, 3] * c[1, 2]
    assert abs(value[0] - expected) <= error[0] + 1e-12 and error[0] < 1e-9
    row[0, 1] = 9.0
    with pytest.raises(EvaluationError, match="not positive semidefinite"):
        tensor(sympy.prod(Z), Z, row)


X, Y = sympy.symbols("x y", real=True)


@pytest.mark.parametrize(
    ("function", "infinite"),
    [
        (1 / X, True),
        (X + Y / X, True),
        (sympy.log(X**2), False),  # all of its moments are finite
        (X / sympy.sqrt(X**2 + Y**2), False),  # bounded, which interval arithmetic does not see
        (X + sympy.sin(Y) / Y, False),
        (1 / (1 + X**2), False),
        (sympy.log(1 + X**2), False),
        (X * sympy.log(2 + sympy.sin(Y)), False),
        (sympy.tanh(1 / X), False),
    ],
)
def test_means_may_be_infinite_where_a_pole_can_be_reached_and_is_not_bounded(function, infinite):
    assert may_be_infinite(function) is infinite


def test_coordinates_are_refined_until_what_is_wanted_is_reached():
    """E cos(3 z1) cos(z2) tanh(z3)² of independent variables: the first needs more nodes than the others."""
    variables = Z[:3]
    function = sympy.cos(3 * Z[0]) * sympy.cos(Z[1]) * sympy.tanh(Z[2]) ** 2
    law = {(a, b): float(a == b) for a in variables for b in variables}
    line = np.linspace(-12, 12, 4001)
    square = float((np.tanh(line) ** 2 * np.exp(-(line**2) / 2)).sum() * (line[1] - line[0]) / (2 * np.pi) ** 0.5)
    expected = np.exp(-4.5 - 0.5) * square
    spent = []
    for wanted in (1e-2, 1e-7):
        budget = Budget(10**9)
        found = Quadrature(law, {}, 0, budget).refined(lowered(function, variables), wanted)
        spent.append(budget.spent)
        assert abs(found.value - expected) <= found.error <= max(2 * wanted * found.size, 1e-12)
        assert abs(found.value) < found.size < 1
    assert spent[0] <= spent[1]


def test_a_budget_that_is_spent_leaves_the_error_that_was_reached():
    variables = Z[:3]
    law = {(a, b): float(a == b) for a in variables for b in variables}
    integrand = lowered(sympy.cos(5 * Z[0]) * sympy.cos(5 * Z[1]) * sympy.cos(5 * Z[2]), variables)
    with pytest.raises(TooManyNodes):
        Quadrature(law, {}, 0, Budget(1000)).refined(integrand, 1e-9)
    found = Quadrature(law, {}, 0, Budget(3_000_000)).refined(integrand, 1e-30)
    assert abs(found.value - np.exp(-37.5)) <= found.error and np.isfinite(found.error)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 1.5, 1.5 + 1e-11], (1.5 + 1e-11, 1e-11)),  # not before two agree
        ([1.5, 1.5 + 1e-10, 9.0], (1.5 + 1e-10, 1e-10)),  # and not after it
        ([1.0, 1.5, 1.5 + 1e-6], (1.5 + 1e-6, 1e-6)),  # doubtful neither
        ([1.0, 1.5, 1.5 + 1e-3], (7.0, 1e-5)),  # coordinates are refined one by one
    ],
)
def test_a_mean_is_refined_until_two_resolutions_agree(monkeypatch, values, found):
    class Rule:
        def __init__(self, law, level, budgets, most=None):
            self.law, self.level = law, level
            assert law == {(Z[0], Z[0]): 2.0, (Z[0], Z[1]): 0.5, (Z[1], Z[0]): 0.5, (Z[1], Z[1]): 1.0}

        def mean(self, integrand):
            return Integral(values[self.level], 0.0, 3.0)

        def refined(self, integrand, wanted):
            return Integral(7.0, 1e-5, 3.0)

    monkeypatch.setattr(module, "_quadrature", Rule)
    value, error = module._one(Z[0] * Z[1], None, Z[:2], np.array([2.0, 0.5, 1.0]))
    assert (value, error) == (found[0], pytest.approx(found[1], abs=1e-13))


def test_laws_that_are_none_and_means_that_do_not_settle_are_refused(monkeypatch):
    with pytest.raises(EvaluationError, match="is not positive semidefinite"):
        module._one(Z[0], None, Z[:2], np.array([1.0, 2.0, 1.0]))
    integral = Integral(1.0, 0.1, 3.0)
    rule = SimpleNamespace(mean=lambda *_: integral, refined=lambda *_: integral)
    monkeypatch.setattr(module, "_quadrature", lambda *_: rule)
    for pole, words in ((1 / Z[0], "and may be infinite"), (sympy.exp(Z[0]), "Make the inputs smaller")):
        with pytest.raises(EvaluationError, match=f"does not settle as the quadrature is refined .*{words}"):
            module._one(pole, None, Z[:1], np.array([1.0]))


def test_a_mean_that_no_rule_settles_is_drawn(monkeypatch):
    """Two resolutions and the refined rule disagree by more than draws do: E z0 z1 = ½."""
    integral = Integral(1.0, 0.1, 3.0)
    rule = SimpleNamespace(mean=lambda *_: integral, refined=lambda *_: integral)
    monkeypatch.setattr(module, "_quadrature", lambda *_: rule)
    value, error = module._one(Z[0] * Z[1], None, Z[:2], np.array([2.0, 0.5, 1.0]))
    assert value == pytest.approx(0.5, abs=error) and 0 < error < 1e-3


def _steep(z, w):
    """Twice f′(z) on one side of z = w, of f = tanh(z)²/z, as differentiation writes it."""
    side, one = step(z - w), sympy.tanh(z) / z
    return (2 - 2 * side) * (1 - sympy.tanh(z) ** 2) * one + (side - 1) * one**2


@pytest.mark.long
def test_steps_that_exclude_each_other_leave_rounding_and_no_doubt():
    """Of two inputs that are the same one; it had been refused as 0 ± 8·10⁻¹⁶, and maybe infinite."""
    one, both, other = 0.81, 0.52, 0.356
    row = np.array([[one, both, one, both, other, both, other, one, both, other]])
    zero, error = tensor(_steep(*Z[:2]) * step(Z[2] - Z[3]), Z, row)
    assert abs(zero[0]) <= error[0] < 1e-13
    found, error = tensor(_steep(*Z[:2]) * step(Z[3] - Z[2]), Z, row)  # the same side twice
    slope = np.sqrt(one + other - 2 * both)  # z − w has this deviation, z given it another
    v = np.linspace(-9, 0, 4001)[:, None]
    z = np.linspace(-9, 9, 4000)[None, :] * np.sqrt(one - ((one - both) / slope) ** 2) + v * (one - both) / slope
    weight = np.exp(-(v**2) / 2 - np.linspace(-9, 9, 4000)[None, :] ** 2 / 2)
    whole = (np.sqrt(2 * np.pi) * 4000 / 18) * (np.sqrt(2 * np.pi) * 4001 / 9)
    value = 2 * (1 - np.tanh(z) ** 2) * np.tanh(z) / z - np.tanh(z) ** 2 / z**2
    assert abs(found[0] - (weight * value).sum() / whole) < 1e-3


def test_laws_that_differ_by_the_order_of_factors_are_integrated_once(monkeypatch):
    """E x y w² cos z is that of (y, x) and none of (w, y), beside a product rule over all four."""
    root = np.random.default_rng(4).normal(size=(4, 4)) / 2
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    grid = np.stack(np.meshgrid(*[nodes] * 4, indexing="ij"), axis=-1) @ root.T
    mass = np.einsum("a,b,c,d->abcd", *[weights / weights.sum()] * 4)
    orders, gram = list(itertools.permutations(range(3))), root @ root.T
    x, last = np.moveaxis(grid, -1, 0)[:3], mass * np.cos(grid[..., 3])
    expected = [(x[a] * x[b] * x[c] ** 2 * last).sum() for a, b, c in orders]
    rows = [gram[np.ix_((*order, 3), (*order, 3))][np.triu_indices(4)] for order in orders]
    asked, one = [], module._one
    monkeypatch.setattr(module, "_one", lambda *given: asked.append(given) or one(*given))
    value, error = tensor(Z[0] * Z[1] * Z[2] ** 2 * sympy.cos(Z[3]), Z, np.array(rows))
    assert len(asked) == 3
    assert (abs(value - expected) <= error + 1e-12).all() and error.max() < 1e-10
    squares = [expected[k] for k in (0, 1, 3)]
    assert min(abs(a - b) for a, b in itertools.combinations(squares, 2)) > 1e-2
