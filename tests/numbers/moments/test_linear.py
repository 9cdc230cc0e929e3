"""Means over several variables that are sums of products of functions of two linear forms."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest
import sympy

from tplimits.errors import EvaluationError
from tplimits.numbers.moments.function import moment
from tplimits.numbers.moments.tensor import tensor
from tplimits.program.nodes import functions as heads

A, B, C, D = VARIABLES = sympy.symbols("a b c d", real=True)
MAXIMA = heads.maximum(A, B) * heads.maximum(C, D)


def law(size, seed):
    root = numpy.random.default_rng(seed).normal(size=(size, size)) / math.sqrt(size)
    gram = root @ root.T
    return [gram[i, j] for i, j in itertools.combinations_with_replacement(range(size), 2)], gram


def test_products_of_maxima_are_clarks_moments(seed):
    """E max(a, b)² and E max(a, b) c by Clark's formulas (1961), of centred variables."""
    row, gram = law(3, seed)
    theta = math.sqrt(gram[0, 0] + gram[1, 1] - 2 * gram[0, 1])
    square, error = moment(heads.maximum(A, B) ** 2, (A, B))(row[0], row[1], gram[1, 1])
    assert abs(square - (gram[0, 0] + gram[1, 1]) / 2) <= error + 1e-14
    with_third = moment(heads.maximum(A, B) * C, (A, B, C))
    assert with_third.route == "forms" and theta > 0
    value, error = with_third(*row)
    assert abs(value - (gram[0, 2] + gram[1, 2]) / 2) <= error < 1e-12


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (MAXIMA, 4),
        (heads.maximum(A, B) * heads.minimum(C, D), 4),
        (heads.relu(A - B / 2 + 0.3) * heads.relu(C - D / 2 + 0.3), 1),
        (heads.maximum(A, B) * sympy.tanh(C), 2),
        (A * B * (1 - sympy.tanh(C) ** 2) * sympy.sin(D), 7),  # by parts: Cov(a, b), and derivatives by one or two
        (A * sympy.tanh(B - C) * heads.sigmoid(B), 2),
        ((A + B) * sympy.tanh(C) * C + (A - D) * heads.relu(A) * D, 3),  # products inside of a sum
        (A * B * heads.relu(C) * heads.relu(D), 0),  # a derivative with a jump
        (A * B * sympy.Abs(C + 0.3) * sympy.Abs(D + 0.3), 0),  # |x| |y|, which x = y makes a square
        (heads.where(A, B, 0) * C, 0),  # three forms
    ],
)
def test_forms_agree_with_quadrature(function, parts, seed):
    variables = sorted(function.free_symbols, key=str)
    row, _ = law(len(variables), seed)
    found = moment(function, tuple(variables))
    assert (len(found.parts), found.route) == (parts, "forms") if parts else (1, "sides")
    (value,), (error,) = tensor(function, variables, numpy.array([row]))
    mine, bound = found(*row)
    assert abs(mine - value) <= 3 * error + bound + 1e-9
    if parts:
        assert bound < 1e-10


def test_laws_of_one_input_with_itself_and_of_nothing():
    """E max(a, b)² = 1 of variances 1, and −E max(a, b) min(a, b) with the signs turned is −E ab."""
    found = moment(MAXIMA, VARIABLES)
    value, error = found(1, 0.3, 1, 0.3, 1, 0.3, 1, 1, 0.3, 1)
    assert abs(value - 1) <= error < 1e-12
    value, error = found(1, 0.3, -1, -0.3, 1, -0.3, -1, 1, 0.3, 1)  # max(−a, −b) = −min(a, b)
    assert abs(value + 0.3) <= error < 1e-12
    assert found(*[0.0] * 10)[0] == 0
    with pytest.raises(EvaluationError, match="not positive semidefinite"):
        found(1, 2, 0, 0, 1, 0, 0, 1, 0, 1)
