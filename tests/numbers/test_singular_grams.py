"""Gram matrices that are singular where no symbol tells: one function in two algebraic forms.

Expected values are means of one standard normal variable: the two forms are one, by hand.
"""

import math

import mpmath
import numpy
import pytest

import tplimits as tp

METHODS = ["auto", "quadrature"]


def means(f):
    """E f(g) for a standard normal g."""
    return float(mpmath.quad(lambda g: f(g) * mpmath.npdf(g), [-12, -4, 0, 4, 12]))


def all_close(function, method, expected):
    numbers = tp.derive(tp.program(function)).evaluate(method)
    values = [number.value for number in numbers.values()][: len(expected)]
    assert values == pytest.approx(expected, abs=1e-9)
    assert all(number.method == "quadrature" for number in numbers.values())


def softmax_of_two(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
    """exp(x)/(exp(x) + exp(y)) = sigmoid(x − y)."""
    a, b = W @ (tp.exp(x) / (tp.exp(x) + tp.exp(y))), W @ tp.sigmoid(x - y)
    return tp.avg(tp.tanh(a) * tp.tanh(b)), tp.avg(tp.relu(a) * tp.relu(b)), tp.avg(b * tp.tanh(a - b))


@pytest.mark.parametrize("method", METHODS)
def test_a_softmax_and_a_sigmoid(method):
    variance = means(lambda g: (1 / (1 + mpmath.exp(-mpmath.sqrt(2) * g))) ** 2)
    squared = means(lambda g: mpmath.tanh(mpmath.sqrt(variance) * g) ** 2)
    assert (squared, variance / 2) == (pytest.approx(0.2054487406), pytest.approx(0.1592095385))
    all_close(softmax_of_two, method, [squared, variance / 2, 0])


def double_angle(W: tp.Matrix, x: tp.Vector):
    """2 tanh/(1 + tanh²) = tanh(2x)."""
    t = tp.tanh(x)
    a, b = W @ (2 * t / (1 + t**2)), W @ tp.tanh(2 * x)
    return (
        tp.avg(b * tp.tanh(a - b) + tp.tanh(a) * tp.tanh(b)),
        tp.avg(tp.exp(-((a - b) ** 2))),
        tp.avg(tp.relu(a - b)),
        tp.avg(tp.abs(a - b)),
        tp.avg(tp.exp(a - b)),
        tp.avg(tp.cos(3 * (a - b))),
        tp.avg(tp.erf(a - b + 0.5)),
        tp.avg(tp.relu(a - b + 1)),
        tp.avg(tp.relu(a) * tp.step(b + 0.5)),
        tp.avg(tp.relu(b) * tp.step(a - b + 0.5)),
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_double_angle_of_tanh(method):
    variance = means(lambda g: mpmath.tanh(2 * g) ** 2)
    squared = means(lambda g: mpmath.tanh(mpmath.sqrt(variance) * g) ** 2)
    half = math.sqrt(variance / (2 * math.pi))  # E relu(σ g)
    all_close(double_angle, method, [squared, 1, 0, 0, 1, 1, math.erf(0.5), 1, half, half])


def normalised(h):
    centred = h - tp.avg(h)
    return centred / tp.sqrt(tp.avg(centred**2))


def layer_norm_twice(W: tp.Matrix, V: tp.Matrix, x: tp.Vector):
    """A normalised vector is normalised already."""
    once = normalised(tp.tanh(W @ x) + tp.sigmoid(x))
    a, b = V @ once, V @ normalised(once)
    return (
        tp.avg(tp.relu(a) * tp.relu(b)),
        tp.avg(tp.tanh(a - b) * b),
        tp.avg(tp.relu(a - b + 0.5)),
        tp.avg(tp.tanh(a) * tp.tanh(b)),
    )


def stein(W: tp.Matrix, x: tp.Vector):
    """E x tanh x = E sech² x."""
    slope, product = tp.avg(1 - tp.tanh(x) ** 2), tp.avg(x * tp.tanh(x))
    a, b = W @ (slope * tp.tanh(x)), W @ (product * tp.tanh(x))
    return tp.avg(tp.relu(a - b + 0.1)), tp.avg(tp.abs(a - b))


def softplus_difference(W: tp.Matrix, x: tp.Vector):
    """softplus(x) − softplus(−x) = x."""
    a, b, c = W @ tp.softplus(x), W @ tp.softplus(-x), W @ x
    return (
        tp.avg(tp.relu(a - b - c + 1)),
        tp.avg(tp.relu(a - b) * tp.relu(c)),
        tp.avg(tp.abs(a - b - c)),
        tp.avg(tp.step(a - b) * tp.step(c)),
    )


def sum_of_squares(W: tp.Matrix, x: tp.Vector):
    """sech² + tanh² = 1."""
    a, b, c = W @ (4 / (tp.exp(x) + tp.exp(-x)) ** 2), W @ tp.tanh(x) ** 2, W @ (x * 0 + 1)
    return tp.avg(tp.relu(a + b) * tp.relu(c)), tp.avg(tp.tanh(a + b) * tp.tanh(c)), tp.avg(tp.tanh(a + b - c) * c)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_closed_forms_that_divide_by_a_variance_that_vanishes(method):
    squared = means(lambda g: mpmath.tanh(g) ** 2)
    all_close(layer_norm_twice, method, [0.5, 0, 0.5, squared])
    all_close(stein, method, [0.1, 0])
    all_close(softplus_difference, method, [1, 0.5, 0, 0.5])
    all_close(sum_of_squares, method, [0.5, squared, 0])


def test_a_variance_that_vanishes_at_one_value_of_a_constant():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, *, c):
        return tp.avg(tp.relu(W @ (c * x) - W @ x + 1))

    limit = tp.derive(program)
    expected = mpmath.ncdf(2) + mpmath.npdf(2) / 2  # at c = 1.5 the argument is 1 + g/2
    assert limit.evaluate(c=1.5)["return"].value == pytest.approx(float(expected), abs=1e-12)
    assert limit.evaluate(c=1)["return"].value == pytest.approx(1, abs=1e-12)
    assert numpy.isfinite(limit.evaluate(c=1)["return"].error)
