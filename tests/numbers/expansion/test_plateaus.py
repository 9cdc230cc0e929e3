"""Kinks along a variable that a function does not depend on for a share of neurons."""

import numpy
import pytest

import tplimits as tp


def clip(x):
    return numpy.clip(x, -0.5, 0.5)


def relu(x):
    return numpy.maximum(x, 0.0)


#: of two images, in the language and in NumPy
CASES = {
    "relu beside an image": (lambda x, y: tp.maximum(tp.relu(y), x), lambda x, y: numpy.maximum(relu(y), x)),
    "two plateaus": (lambda x, y: abs(tp.clip(y, -0.5, 0.5) - x), lambda x, y: abs(clip(y) - x)),
    "its end moves": (
        lambda x, y: tp.maximum(tp.relu(x + y), x - 0.5),
        lambda x, y: numpy.maximum(relu(x + y), x - 0.5),
    ),
    "two places": (lambda x, y: tp.relu(tp.relu(y - 0.3) + x**2 - 1), lambda x, y: relu(relu(y - 0.3) + x**2 - 1)),
    "plateaus of both": (
        lambda x, y: tp.relu(tp.relu(y) - tp.relu(x) + 0.2),
        lambda x, y: relu(relu(y) - relu(x) + 0.2),
    ),
}


def expanded(function):
    @tp.program
    def program(W: tp.Matrix, U: tp.Matrix, a: tp.Vector):
        return tp.avg(function(W @ a, U @ a))

    return tp.derive(program, tp.FiniteWidth()).evaluate()["return"]


def by_moments(function):
    """L, b, C of f(√q g, √q g′), q = |a|²/n of variance 2/n, derivatives by q as polynomials."""
    h = 18 / 1500
    one, other = (h * (numpy.arange(1500) + share) - 9 for share in (0.31, 0.77))
    x, y = numpy.meshgrid(one, other)
    weights, squares = h * h * numpy.exp(-(x**2 + y**2) / 2) / (2 * numpy.pi), x**2 + y**2
    values = function(x, y)
    mean, slope = (weights * values).sum(), (weights * values * (squares - 2)).sum() / 2
    bias = (weights * values * (squares**2 - 8 * squares + 8)).sum() / 4
    return mean, bias, (weights * values**2).sum() - mean**2 + 2 * slope**2


@pytest.mark.parametrize("case", CASES)
def test_expansions_of_functions_with_plateaus(case):
    function, plain = CASES[case]
    for number, true in zip(_numbers(expanded(function)), by_moments(plain), strict=True):
        assert abs(number.value - true) < 1e-5 and number.error < 1e-9


@pytest.mark.parametrize("case", ["relu beside an image", "two plateaus", "its end moves"])
def test_the_order_of_matrices_does_not_matter(case):
    function, _ = CASES[case]
    both = (_numbers(expanded(f)) for f in (function, lambda x, y: function(y, x)))
    for one, other in zip(*both, strict=True):
        assert abs(one.value - other.value) < 1e-9


def _numbers(e):
    return e.limit, e.bias, e.variance
