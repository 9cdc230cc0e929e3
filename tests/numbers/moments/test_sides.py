"""Means of products of functions of several variables of either side: expansions beside product rules and draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy

from tplimits.numbers.moments import sides as module
from tplimits.numbers.moments.function import moment
from tplimits.numbers.moments.several import ORDERS, rows
from tplimits.numbers.moments.tensor import drawn, tensor
from tplimits.program.nodes.functions import relu, sigmoid, step

Z = sympy.symbols("z1:6", real=True)
A, B, C, D = Z[:4]
GATE = sigmoid(A) * sympy.tanh(A - B) + B * sympy.cos(A)


def laws(size, seed, many=1):
    """Covariances of so many variables, and their upper triangles."""
    root = np.random.default_rng(seed).normal(size=(many, size, size)) / size**0.5
    grams = root @ root.transpose(0, 2, 1)
    return grams, [grams[:, i, j] for i, j in itertools.combinations_with_replacement(range(size), 2)]


def on_nodes(function, variables, gram, count=36):
    """A product rule of Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    u = np.stack(np.meshgrid(*[nodes] * len(variables), indexing="ij")).reshape(len(variables), -1)
    w = np.prod(np.meshgrid(*[weights / weights.sum()] * len(variables), indexing="ij"), axis=0).ravel()
    values = sympy.lambdify(variables, function, [{"sigmoid": lambda x: 1 / (1 + np.exp(-x))}, "numpy"])
    return float(values(*(np.linalg.cholesky(gram) @ u)) @ w)


def test_gates_of_two_inputs_agree_with_a_product_rule(seed):
    function = GATE * GATE.xreplace({A: C, B: D})
    grams, upper = laws(4, seed)
    found = moment(function, Z[:4])
    assert found.route == "sides"
    (value,), (error,) = found(*upper)
    exact = on_nodes(function, Z[:4], grams[0])
    assert abs(value - exact) < 1e-5 + error and error < 1e-4
    turned = found(*laws(4, seed + 1)[1])[0][0]
    assert abs(turned - exact) > 1e-3


def test_polynomials_have_no_remainder():
    """x y of either side, and of one and two variables."""
    c = laws(4, 5)[0][0]
    left, right = (rows(A * B, (A, B), tuple(c[p][:, p].ravel())) for p in (np.array([0, 1]), np.array([2, 3])))
    assert left.order == right.order == 3 and left.error < 1e-12
    one = np.array([0])
    value, error, _, _ = module.mean_of_products(([left], one), ([right], one), c[None, :2, 2:])
    assert abs(value[0] - c[0, 1] * c[2, 3] - c[0, 2] * c[1, 3] - c[0, 3] * c[1, 2]) < 1e-12 > error[0] - 1e-12


@pytest.mark.parametrize("order", [(A, B), (B, A), (-A, -B)], ids=["same", "exchanged", "opposite"])
def test_both_sides_may_be_the_same_variables(order):
    """E f(a, b) f(a, b), whatever the variables of the other side are called, as a mean over two variables."""
    f = sympy.Abs(relu(A) - relu(B)) * step(A)
    law = np.array([[1.2, 0.3], [0.3, 0.8]])
    exchanged, sign = order[0] == B, -1 if order[0] == -A else 1
    cross = sign * (law[:, ::-1] if exchanged else law)
    gram = np.block([[law, cross], [cross.T, law[::-1, ::-1] if exchanged else law]])
    other = dict(zip(order, (C, D), strict=True)) if sign > 0 else {A: -C, B: -D}
    function = f * f.xreplace(other)
    upper = [np.array([gram[i, j]]) for i, j in itertools.combinations_with_replacement(range(4), 2)]
    (value,), (error,) = moment(function, Z[:4])(*upper)
    line = np.arange(-9, 9, 0.01) + 0.005
    x, y = np.meshgrid(line, line, indexing="ij")
    density = np.exp(-0.5 * (np.linalg.inv(law)[0, 0] * x * x + 2 * np.linalg.inv(law)[0, 1] * x * y))
    density *= np.exp(-0.5 * np.linalg.inv(law)[1, 1] * y * y)
    density /= density.sum()
    square = (np.maximum(x, 0) - np.maximum(y, 0)) ** 2 * (x > 0)
    exact = float((square * density).sum())
    assert abs(value - exact) < 1e-4 and error < 1e-8


@pytest.mark.long
def test_many_laws_that_do_not_settle_are_drawn(monkeypatch):
    steep = [sigmoid(60 * x) * (1 + sympy.tanh(60 * (x - y + sympy.tanh(y)))) for x, y in ((A, B), (C, D))]
    function = steep[0] * steep[1]
    grams, upper = laws(2, 0, many=5)
    both = np.block([[grams, 0.995 * grams], [0.995 * grams, grams]])
    upper = [both[:, i, j] for i, j in itertools.combinations_with_replacement(range(4), 2)]
    asked = []
    monkeypatch.setattr(module, "_FINER", 0)
    (product,) = moment(function, Z[:4]).parts
    value, error = module.mean_of_sides([product], upper, 4, tensor, lambda *a: asked.append(len(a[2])) or drawn(*a))
    assert asked and asked[0] > 4 and (error > 0).all()
    same = [np.block([[g, g], [g, g]]) for g in grams]
    most, _ = moment(function, Z[:4])(
        *(np.array([g[i, j] for g in same]) for i, j in itertools.combinations_with_replacement(range(4), 2))
    )
    assert (most - error > value).all() and (value > 0.8 * most).all(), "E f h < E f² for nearly equal variables"


def test_poles_kinks_and_functions_of_too_many_variables_are_left_to_other_rules():
    assert module.sides(sympy.Abs(A - B) * sympy.tanh(C), Z[:3], moment) == ()
    assert max(ORDERS) == 2
    wide = sympy.tanh(A * B * C) * sympy.tanh(Z[4])
    assert module.sides(sympy.sin(A * B) / A * sympy.tanh(C), Z[:3], moment) == ()
    assert module.sides(wide, Z[:5], moment) == () != module.sides(sympy.tanh(A * B) * sympy.tanh(C), Z[:3], moment)
    assert moment(wide, (A, B, C, Z[4])).route == "quadrature"


def test_terms_group_their_factors_each_for_itself():
    """A sum of products that share no grouping."""
    function = sympy.tanh(A * B) * sympy.cos(C) + sympy.sin(A * C) * sympy.cos(B) + 0.5 * sympy.tanh(B) ** 2 * C * A
    _, upper = laws(3, 3)
    (value,), (error,) = moment(function, Z[:3])(*upper)
    (other,), (doubt,) = tensor(function, Z[:3], np.stack(upper, axis=1))
    assert abs(value - other) <= error + doubt + 1e-9
