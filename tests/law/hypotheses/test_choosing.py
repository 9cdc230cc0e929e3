"""Moments of functions that choose between branches: bounded ones have all, whatever their branches have."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest
import sympy
from scipy import integrate, stats

import tplimits as tp


def mean(f, *edges):
    """E f(x) for a standard normal, by pieces."""
    places = (-14, *edges, 14)
    return sum(integrate.quad(lambda x: f(x) * stats.norm.pdf(x), a, b)[0] for a, b in itertools.pairwise(places))


#: bounded, or by one of its branches: (ket, mean)
KNOWN = {
    "clip of a pole": (
        lambda x, y: tp.clip(1 / x, -2, 2) * x,
        mean(lambda x: numpy.clip(1 / x, -2, 2) * x, -0.5, 0, 0.5),
    ),
    "minimum of a pole and a number": (
        lambda x, y: tp.minimum(1 / tp.abs(x), 3),
        mean(lambda x: min(1 / abs(x), 3), -1 / 3, 0, 1 / 3),
    ),
    "minimum of a pole and a ket": (
        lambda x, y: tp.minimum(1 / tp.abs(x) ** 2, tp.abs(x)),
        mean(lambda x: min(abs(x), x**-2) if x else 0.0, -1, 0, 1),
    ),
    "minimum of what grows": (
        lambda x, y: tp.minimum(tp.exp(x * x), 5),
        mean(lambda x: min(math.exp(x * x), 5), -(math.log(5) ** 0.5), math.log(5) ** 0.5),
    ),
    "gelu below zero": (
        lambda x, y: tp.gelu(-1 / x**2),
        mean(lambda x: -(x**-2) * stats.norm.cdf(-(x**-2)) if x else 0.0, 0),
    ),
    "exponential of |x| − x²": (
        lambda x, y: tp.exp(tp.abs(x) - x * x),
        mean(lambda x: math.exp(abs(x) - x * x), 0),
    ),
    "a pole where another branch is read": (
        lambda x, y: tp.where(x - 0.1, 1 / x, x),
        mean(lambda x: 1 / x if x > 0.1 else x, 0.1),
    ),
    "an exponential where another branch is read": (
        lambda x, y: tp.where(-x, tp.exp(x**3), x),
        mean(lambda x: math.exp(x**3) if x < 0 else x, 0),
    ),
    # 1 for |x| > |y|, half of all directions; the tangent of an angle below π/4 elsewhere
    "over a maximum": (
        lambda x, y: tp.abs(x) / tp.maximum(tp.abs(x), tp.abs(y)),
        1 / 2 + integrate.quad(lambda t: 2 / math.pi * math.tan(t), 0, math.pi / 4)[0],
    ),
}


@pytest.mark.parametrize("case", KNOWN)
def test_moments_that_exist_are_seen(case):
    function, expected = KNOWN[case]

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(function(x, y))

    number = tp.derive(program).evaluate()["return"].value
    assert number == pytest.approx(expected, rel=1e-7)
    assert number != pytest.approx(expected * 1.0001, rel=1e-7)


def test_a_branch_is_asked_where_its_condition_is_a_name():
    """where(h, log 2x, 1) with h = 2x, and the same of a sum over an axis that is written twice."""

    @tp.program
    def program(x: tp.Vector):
        h = 2 * x
        return tp.avg(tp.where(h, tp.log(2 * x), 1) ** 2)

    @tp.network
    def network(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix):
        condition, inner = tp.sum(U * ξ, over="d"), tp.sum(ξ * U, over="d")
        return W @ tp.mean(tp.where(condition, tp.log(inner), 1), over="token")

    number = tp.derive(program).evaluate()["return"].value
    assert number == pytest.approx(0.5 + mean(lambda x: numpy.log(2 * x) ** 2 if x > 0 else 0, 0, 1e-3), rel=1e-6)
    one = tp.derive(network, tp.Kernels(train=())).evaluate([[[0.6, 0.8]]]).nngp.item()
    assert one == pytest.approx(0.5 + mean(lambda x: numpy.log(x) ** 2 if x > 0 else 0, 0, 1e-3), rel=1e-6)
    assert one != pytest.approx(number, rel=1e-2)


#: not certain, or certain to be infinite
OPEN, INFINITE = "moment not established", "has no finite second moment"
DOUBTED = {
    "a branch up to its pole": (lambda x, y: tp.where(x, 1 / x, x), OPEN),
    "a branch with a pole where it is read": (lambda x, y: tp.where(x + 0.1, 1 / x, x), OPEN),
    "a branch that grows where it is read": (lambda x, y: tp.where(-x, x, tp.exp(x**3)), OPEN),
    "a minimum of poles": (lambda x, y: tp.minimum(1 / x, 1 / y), OPEN),
    "a logarithm of a pole": (lambda x, y: tp.elementwise(sympy.asinh)(1 / x), OPEN),
    "a maximum with a pole": (lambda x, y: tp.maximum(tp.exp(x * x), 1), INFINITE),
    "the larger half of a pole": (lambda x, y: tp.relu(1 / x), INFINITE),
    "no real number": (lambda x, y: tp.minimum(tp.sqrt(x), 1), INFINITE),
    "where a maximum changes sign": (lambda x, y: x / tp.maximum(x, y), OPEN),
}


@pytest.mark.parametrize("case", DOUBTED)
def test_what_is_not_certain_is_not_said_to_be(case):
    function, expected = DOUBTED[case]

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(function(x, y))

    with pytest.raises(tp.TplimitsError, match=expected):
        tp.derive(program).evaluate()
