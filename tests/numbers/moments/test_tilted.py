"""Exponentials of quadratic forms of several variables, taken into the law."""

import numpy
import pytest
import sympy

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.numbers.moments.function import moment
from tplimits.numbers.moments.tensor import tensor
from tplimits.program.nodes.functions import relu

A, B, C, D = VARIABLES = sympy.symbols("a b c d", real=True)


def law(size, seed=0):
    root = numpy.random.default_rng(seed).normal(size=(size, size)) / numpy.sqrt(size)
    gram = root @ root.T
    return gram, [gram[i, j] for i, j in zip(*numpy.triu_indices(size), strict=True)]


def test_an_exponential_of_products_near_its_infinite_mean():
    """E e^(s (ab + cd)) = det(I − s C H)^(−1/2), (a, c) and (b, d) independent; drawn or cut it lies too far out."""
    pair = numpy.array([[1.0, 0.6], [0.6, 1.0]])
    gram = numpy.zeros((4, 4))
    gram[::2, ::2] = gram[1::2, 1::2] = pair
    entries = [gram[i, j] for i, j in zip(*numpy.triu_indices(4), strict=True)]
    found = moment(sympy.exp(0.45 * A * B) * sympy.exp(0.45 * C * D), VARIABLES)
    value, error = found(*entries)
    hessian = numpy.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]) * 0.45
    assert found.route == "tilted"
    assert value == pytest.approx(numpy.linalg.det(numpy.eye(4) - gram @ hessian) ** -0.5, rel=1e-13) and error < 1e-12


@pytest.mark.parametrize(
    "function",
    [
        sympy.exp(0.2 * A * B) * relu(C - A) * sympy.tanh(B),
        (A + sympy.exp(A * B / 5 + C / 3 - C**2)) * sympy.sin(A * C),
        sympy.exp(-(A**2) - A * B) * B * C + 2 * A * B * sympy.exp(-A * C / 4),
    ],
)
def test_it_agrees_with_quadrature(function):
    _, entries = law(3)
    found = moment(function, (A, B, C))
    value, error = found(*entries)
    (expected,), (bound,) = tensor(function, (A, B, C), numpy.array([entries]))
    assert found.route == "tilted" and abs(value - expected) <= 3 * (error + bound) + 1e-9


def test_inside_of_another_function_it_stays():
    """It was taken apart for ever: a RecursionError."""
    _, entries = law(2)
    function = sympy.exp(-(A**2)) * B + sympy.tanh(sympy.exp(-A * B) + A)
    (value, error), (rest, bound) = moment(function, (A, B))(*entries), moment(B * sympy.exp(-(A**2)), (A, B))(*entries)
    (expected,), (doubt,) = tensor(function, (A, B), numpy.array([entries]))
    assert abs(value - expected) <= 3 * (error + doubt) + 1e-9 and abs(rest) <= bound + 1e-12


def test_an_infinite_mean_is_refused():
    with pytest.raises(EvaluationError, match="is infinite at some of the covariances"):
        moment(sympy.exp(A * B) * sympy.exp(C * D), VARIABLES)(1, 0, 0.9, 0, 1, 0, 0.9, 1, 0, 1)


def test_kernels_of_an_exponential_of_a_product():
    """It was refused: draws see nothing of where the mean lies."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], T: tp.Vector["d"], v: tp.Vector):
        return v * tp.exp(0.45 * tp.sum(U * ξ, over="d") * tp.sum(T * ξ, over="d"))

    pair = tp.derive(net, tp.Kernels()).evaluate([[1.0, 0.0], [0.6, 0.8]])
    gram = numpy.kron(numpy.eye(2), [[1.0, 0.6], [0.6, 1.0]])
    hessian = 0.45 * numpy.kron([[0, 1], [1, 0]], numpy.eye(2))
    wider = numpy.linalg.solve(numpy.eye(4) - gram @ hessian, gram)
    mean = numpy.linalg.det(numpy.eye(4) - gram @ hessian) ** -0.5
    assert pair.nngp[0, 1] == pytest.approx(mean, rel=1e-12)
    # of v, and of U and T: 0.45² 0.6 E y y′ e^(…) each
    assert pair.ntk[0, 1] == pytest.approx(mean * (1 + 2 * 0.45**2 * 0.6 * wider[2, 3]), rel=1e-12)


@pytest.mark.parametrize(
    ("written", "stable", "twin"),
    [
        (lambda u: sympy.exp(u) / (1 + sympy.exp(u)), lambda u: 1 / (1 + numpy.exp(-u)), lambda u: u > 0),
        (lambda u: sympy.log(1 + sympy.exp(u)), lambda u: numpy.logaddexp(0, u), lambda u: numpy.maximum(u, 0)),
        (
            lambda u: (sympy.exp(u) - sympy.exp(-u)) / (sympy.exp(u) + sympy.exp(-u)),
            numpy.tanh,
            lambda u: numpy.tanh(u / 2),
        ),
    ],
    ids=["sigmoid", "softplus", "tanh"],
)
def test_what_is_divided_by_as_large_an_exponential_is_finite_where_that_alone_is_not(written, stable, twin):
    """At variance 4 and 1 the mean of exp(ab) is infinite; written as exponentials these are at most |ab|."""
    (value, error), grid = moment(A * B * written(A * B), (A, B))(4.0, 0.5, 1.0), numpy.linspace(-9, 9, 1501)
    x, y = numpy.meshgrid(grid, grid, indexing="ij")
    weight = numpy.exp(-(x**2 + y**2) / 2) / (2 * numpy.pi) * (grid[1] - grid[0]) ** 2
    product = 2 * x * (x / 4 + numpy.sqrt(15) / 4 * y)
    truth, wrong = (float(numpy.sum(weight * product * f(product))) for f in (stable, twin))
    assert abs(value - truth) <= error + 1e-8 < abs(wrong - truth)
