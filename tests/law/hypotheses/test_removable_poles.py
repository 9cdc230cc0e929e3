"""Removable poles of functions that are no linear forms; and what only looks like them."""

from __future__ import annotations

import itertools

import numpy
import pytest
from scipy import integrate, stats

import tplimits as tp

SLOPE = 1 / (2 * numpy.pi)


def ratio(function):
    """function(t)/t."""
    return lambda t: function(t) / t


def share(t, y):
    return t**2 / (t**2 + y**2)


def normal(f, *points):
    """E f(x) for a standard normal, split at the kinks."""
    edges = [-12, *points, 12]
    return sum(integrate.quad(lambda x: f(x) * stats.norm.pdf(x), a, b)[0] for a, b in itertools.pairwise(edges))


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def of_clip(x):
    """E y² / (c² + y²) over y is 1 − c·√(π/2)·exp(c²/2)·erfc(c/√2), for c = |clip(x)|."""
    c = min(abs(x), 1.0)
    return c * numpy.sqrt(numpy.pi / 2) * numpy.exp(c * c / 2) * 2 * stats.norm.sf(c)


#: a ket of two standard normals, and its mean by another way
REMOVABLE = {
    "where": (
        lambda x, y: ratio(tp.tanh)(tp.where(x - 0.3, x, 0.5)),
        normal(lambda x: numpy.tanh(x) / x if x > 0.3 else numpy.tanh(0.5) / 0.5, 0.3),
    ),
    "y tanh y": (
        lambda x, y: ratio(tp.tanh)(x * tp.tanh(x)),
        normal(lambda x: ratio(numpy.tanh)(x * numpy.tanh(x)), 0),
    ),
    "tanh of sigmoid": (
        lambda x, y: ratio(tp.sin)(tp.tanh(tp.sigmoid(x))),
        normal(lambda x: ratio(numpy.sin)(numpy.tanh(sigmoid(x))), 0),
    ),
    "tanh + ½": (
        lambda x, y: ratio(tp.tanh)(tp.tanh(x) + 0.5),
        normal(lambda x: ratio(numpy.tanh)(numpy.tanh(x) + 0.5), -numpy.arctanh(0.5)),
    ),
    "clip": (lambda x, y: share(tp.clip(x, -1, 1), y), normal(of_clip, -1, 0, 1)),
    "relu beside a square": (lambda x, y: tp.relu(x) / tp.sqrt(tp.relu(x) ** 2 + y**2), None),
    "quadratic form": (lambda x, y: x**2 / (x**2 + x * y + y**2), None),
}


def of_angle(f):
    """The mean of a function of the direction of (x, y)."""
    return integrate.quad(lambda t: f(numpy.cos(t), numpy.sin(t)), 0, 2 * numpy.pi, points=(numpy.pi / 2,))[0] * SLOPE


RADIAL = {
    "relu beside a square": of_angle(lambda x, y: max(x, 0)),
    "quadratic form": of_angle(lambda x, y: x**2 / (1 + x * y)),
}


@pytest.mark.parametrize("case", REMOVABLE)
def test_removable_poles_are_seen(case):
    function, expected = REMOVABLE[case]
    expected = RADIAL[case] if expected is None else expected

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(function(x, y))

    number = tp.derive(program).evaluate()["return"].value
    assert number == pytest.approx(expected, abs=1e-6)
    assert number != pytest.approx(expected * 1.001, abs=1e-6)


STAY = {
    "0/0 of relu": lambda x, y: ratio(tp.tanh)(tp.relu(x)),
    "0/0 of where": lambda x, y: ratio(tp.tanh)(tp.where(x - 0.3, x, 0)),
    "0/0 of two relus": lambda x, y: share(tp.relu(x), tp.relu(y)),
    "two poles, one numerator": lambda x, y: tp.sin(x) / (x * tp.tanh(x)),
    "(exp x − 0.9)/x": lambda x, y: (tp.exp(x) - 0.9) / x,
    "semidefinite": lambda x, y: y / (x**2 + 2 * x * y + y**2),
    "indefinite": lambda x, y: x**2 / (x**2 + 3 * x * y + y**2),
    "1/clip": lambda x, y: 1 / tp.clip(x, -1, 1),
}


@pytest.mark.parametrize("case", STAY)
def test_poles_that_stay_are_refused(case):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(STAY[case](x, y))

    with pytest.raises(tp.TplimitsError, match=r"second moment|moment not established"):
        tp.derive(program).evaluate()


@pytest.mark.parametrize("other", [0, 0.5])
def test_a_jump_beside_its_derivative_is_refused_in_a_tangent_kernel(other):
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.tanh(tp.where(tp.sum(U * ξ, over="d") - 0.3, tp.sum(U * ξ, over="d"), other))

    data = numpy.array([[0.6, 0.8]])
    whole = tp.derive(tp.network(network), tp.Kernels())
    with pytest.raises(tp.NoLimitError, match="the tangent kernel holds"):
        _ = whole.evaluate(data).ntk
    expected = normal(lambda x: numpy.tanh(x if x > 0.3 else other) ** 2, 0.3)
    behind = tp.derive(tp.network(network), tp.Kernels(train=("v",))).evaluate(data)
    assert behind.ntk.item() == pytest.approx(expected, rel=1e-6)


def test_a_multiple_of_what_vanishes_is_not_said_to_stay_away_from_zero():
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.sum(U * ξ, over="d")
        return v * (tp.cos(2 * h) - 1) / (h * tp.tanh(h))

    with pytest.raises(tp.EvaluationError, match="moment not established"):
        tp.derive(tp.network(network), tp.Kernels(train=("v",))).evaluate(numpy.array([[0.6, 0.8]]))
