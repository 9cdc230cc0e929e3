"""Ranges by interval arithmetic: exact where every variable stands once, and never too small."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from scipy.integrate import quad
from sympy import S, oo

import tplimits as tp
from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.functions import (
    gelu,
    leaky_relu,
    maximum,
    minimum,
    relu,
    sigmoid,
    softplus,
    step,
    truncated,
    where,
)

x, y = sympy.symbols("x y", real=True)
p = sympy.Symbol("p", nonnegative=True)
tanh, cos, exp = sympy.tanh, sympy.cos, sympy.exp
EXACT = {
    S(3): (3, 3),
    x: (-oo, oo),
    p: (0, oo),
    p + 2: (2, oo),
    2 - p: (-oo, 2),
    tanh(x): (-1, 1),
    tanh(x) + 2 * cos(y): (-3, 3),
    tanh(x) * (3 + cos(y)): (-4, 4),
    (tanh(x) - 3) * (cos(y) - 2): (2, 12),
    (tanh(x) + 3) * p: (0, oo),
    -2 * tanh(p): (-2, 0),
    tanh(1 + p): (math.tanh(1), 1),
    x + sympy.Abs(x): (0, oo),
    2 * relu(x - 1) - 3 * sympy.Abs(x) + x: (-oo, 0),
    relu(x) - 2 * relu(x - 1) + relu(x - 2): (0, 1),
    exp(x): (0, oo),
    exp(x) - 1 - x: (0, oo),
    1 + x - exp(x): (-oo, 0),
    exp(x) + exp(-x) - 2 - x**2: (0, oo),
    x**2 + cos(x) - 1: (0, oo),
    sympy.log(1 + x**2): (0, oo),
    sympy.log(tanh(x) + 2): (0, math.log(3)),
    exp(tanh(x)): (math.exp(-1), math.exp(1)),
    sympy.asinh(tanh(x)): (-math.asinh(1), math.asinh(1)),
    sympy.sinh(cos(x)): (-math.sinh(1), math.sinh(1)),
    sympy.cosh(cos(x) - 3): (math.cosh(2), math.cosh(4)),
    sympy.Abs(cos(x)): (0, 1),
    sympy.Abs(tanh(x) - 3): (2, 4),
    sympy.erfc(tanh(x)): (math.erfc(1), math.erfc(-1)),
    sympy.sign(cos(x) + 2): (1, 1),
    x**2: (0, oo),
    (3 + tanh(x)) ** 2: (4, 16),
    (tanh(x) - 3) ** 2: (4, 16),
    (2 * tanh(x) + 1) ** 2: (0, 9),
    (3 + tanh(x)) ** -2: (1 / 16, 1 / 4),
    (2 + p) ** -2: (0, 1 / 4),
    x**-2: (0, oo),
    tanh(x) ** -2: (1, oo),
    (3 + tanh(x)) ** S.Half: (2**0.5, 2),
    (3 + tanh(x)) ** -S.Half: (0.5, 2**-0.5),
    p**-S.Half: (0, oo),
    (1 + p) ** -S(3): (0, 1),
    p**S.Half: (0, oo),
    (2 + p) ** S.Half: (2**0.5, oo),
    (2 * tanh(x) + 1) ** 3: (-1, 27),
    tanh(x) ** -1: (-oo, oo),
    sigmoid(x): (0, 1),
    exp(x) / (exp(x) + exp(y)): (0, 1),
    3 * exp(2 * x) / (exp(x) + exp(y) + p) ** 2: (0, 3),
    1 / (1.5 - exp(x) / (exp(x) + exp(y))): (2 / 3, 2),
    x**2 / (x**2 + y**2): (0, 1),
    x / (x + exp(y)): (-oo, oo),
    exp(x) / (exp(x) - exp(y)): (-oo, oo),
    step(x): (0, 1),
    sympy.Abs(x): (0, oo),
    sympy.sech(x): (0, 1),
    relu(tanh(x)): (0, 1),
    softplus(tanh(x)): (math.log1p(math.exp(-1)), math.log1p(math.e)),
    maximum(tanh(x), 3 * cos(y)): (-1, 3),
    minimum(tanh(x), 3 * cos(y)): (-3, 1),
    where(x, 2 + cos(y), tanh(y)): (-1, 3),
    (tanh(x) / 2) ** 2: (0, 0.25),
    (tanh(x) / 2 + 1) ** -2: (4 / 9, 4),
    (tanh(x) - 3) ** -1: (-oo, oo),
    (x - 3) ** 3: (-oo, oo),
    truncated(x, S(2)): (-2, 2),
    1 - truncated(x, S(2)) ** 2: (-3, 1),
    maximum(tanh(x) + 5, cos(y)): (4, 6),
    maximum(tanh(x), cos(y) + 5): (4, 6),
    minimum(tanh(x) + 5, cos(y)): (-1, 1),
    minimum(tanh(x), cos(y) + 5): (-1, 1),
    where(x, tanh(y) + 5, cos(y)): (-1, 6),
    where(x, tanh(y), cos(y) + 5): (-1, 6),
    x * tanh(x): (0, oo),
    (2 + cos(y)) * x * tanh(x): (0, oo),
}
#: 1/(1 + x² + x⁴ + eˣ), which is a part of two shares and counts in one
_POLE = 1 / (1 + x**2 + x**4 + exp(x))
LOOSE = [
    *(gelu(x), leaky_relu(x, S.Half), tanh(x) * x**2, exp(-(x**2)) * cos(x), (1 + x**2) ** -S.Half * x),
    x**4 * _POLE / (_POLE + y**2),
]


GRID = np.concatenate([np.linspace(-12, 12, 121), [-1e-9, 1e-9]])
VALUES = {x: GRID[:, None], y: GRID[None, :], p: abs(GRID[:, None])}


@pytest.mark.parametrize("expr", EXACT, ids=str)
def test_of_variables_that_stand_once(expr):
    low, high = bounds(expr)
    assert (float(low), float(high)) == pytest.approx(tuple(map(float, EXACT[expr])), rel=1e-12)


@pytest.mark.parametrize("expr", [*EXACT, *LOOSE], ids=str)
def test_no_value_is_beyond(expr):
    low, high = map(float, bounds(expr))
    with np.errstate(all="ignore"):
        found = np.ravel(np.asarray(evaluate(expr, VALUES), dtype=float))
    found = found[np.isfinite(found)]
    assert (found >= low - 1e-12).all() and (found <= high + 1e-12).all()


@pytest.mark.parametrize("expr", [sympy.log(-S.Half), x * sympy.log(-S.Half), sympy.sqrt(-S(2)) + x], ids=str)
def test_nothing_is_known_of_what_is_not_real(expr):
    """The ends of x·log(−½) had been asked which is the lesser, a TypeError of SymPy."""
    assert bounds(expr) == (-oo, oo)


def test_logarithms_of_zeros_in_disguise_are_refused_beside_a_pole():
    """log(s − ½) with s → ½ below what it makes up for: moments are asked with other values of s, log of −½ as well."""

    @tp.network
    def subject(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        y = x * tp.tanh(x) * tp.log(tp.avg(tp.sigmoid(W @ x)) - 1 / 2)
        return v * tp.sin(y) / y

    with pytest.raises(tp.EvaluationError, match="is not finite at the limit"):
        tp.derive(subject, tp.Kernels()).evaluate(np.array([[0.4, -0.6]]))


def test_means_over_truncated_entries_whose_sums_have_either_sign():
    """Curvatures of x³ − x⁴ at truncated entries hold sums without an end: "too deep" had been the reason."""

    @tp.program
    def subject(x: tp.Vector.truncated(1, 3 / 2)):
        return tp.avg(tp.exp(x**3 - x**4))

    def mean(most):
        of = quad(lambda t: math.exp(t**3 - t**4 - t**2 / 2), -most, most)[0]
        return of / quad(lambda t: math.exp(-(t**2) / 2), -most, most)[0]

    found = tp.derive(subject).evaluate()["return"].value
    assert found == pytest.approx(mean(1.5), rel=1e-9)
    assert found != pytest.approx(mean(9), rel=1e-2)  # that of entries which are normal


def test_functions_of_truncated_entries_that_are_not_real_are_refused_for_that():
    @tp.network
    def subject(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Vector.truncated(1, 3 / 2)):
        return v * tp.sum(U * ξ, over="d") * tp.elementwise(sympy.acos)(b)

    with pytest.raises(tp.NoLimitError, match="not real with positive probability"):
        tp.derive(subject, tp.Kernels())


@pytest.mark.parametrize(
    ("terms", "bounded"),
    [
        ([(1, None), (-1, (3, -2))], (False, True)),
        ([(4, None), (-1, (5, 0))], (False, True)),
        ([(-1, None), (1, (2, 1))], (True, False)),
        ([(1, (1, 0)), (-1, (1, -3))], (True, True)),
        ([(3, None), (-1, (2, 0))], (False, False)),
        ([(1, (1, 0)), (1, (-1, 0)), (-2, (0.5, 0))], (True, False)),
    ],
)
def test_sums_of_lines_and_their_folds_are_between_their_corners(terms, bounded):
    """c x + Σ d softplus(a x + b): by values on a grid, and nothing is claimed of what grows."""
    x, at = sympy.Symbol("x", real=True), np.linspace(-80, 80, 40_001)
    expr = sympy.Add(*(d * (x if of is None else softplus(sympy.Rational(of[0]) * x + of[1])) for d, of in terms))
    values = sum(d * (at if of is None else np.logaddexp(0, of[0] * at + of[1])) for d, of in terms)
    low, high = bounds(expr)
    assert low <= values.min() + 1e-9 and high >= values.max() - 1e-9
    assert (low > -sympy.oo, high < sympy.oo) == bounded
    assert not bounded[1] or high < values.max() + 1.4


@pytest.mark.parametrize("moved", [lambda tp: 1 / tp.sqrt(tp.n), lambda tp: 1 / tp.sqrt(tp.width("m"))])
def test_folds_that_move_with_a_width_have_no_corners(moved):
    """softplus(x) − softplus(x + n^(−1/2)): a corner at a power of n had been compared to numbers, a TypeError."""

    @tp.program
    def subject(x: tp.Vector, W: tp.Matrix["n", "m"]):
        shifted = tp.softplus(x + 2 / tp.sqrt(tp.n)) - tp.softplus(x + moved(tp))
        return tp.avg(x**2 / (1.5 + shifted))

    assert tp.derive(subject).evaluate()["return"].value == pytest.approx(2 / 3, rel=1e-12)


def over_neurons(weight):
    """A mean over neurons with weights of two of their scores, which are functions of six variables."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, a: tp.Vector, b: tp.Vector, c: tp.Vector, d: tp.Vector):
        β = tp.neuron("β")
        score = tp.sin(a * b + c * d + x * y)
        upper = tp.avg(weight(score, score[β]) * tp.relu(x[β]), over=β)
        lower = tp.avg(weight(score, score[β]), over=β)
        return tp.avg(upper / lower * (1 + score) ** 2)

    return program


def test_means_of_what_is_above_a_positive_number_are_divided_by():
    """A softmax over neurons whose scores are bounded: its weights are at least e^(−1)."""
    number = tp.derive(over_neurons(lambda s, t: tp.exp(s * t))).evaluate(particles=1024)["return"]
    x, y, a, b, c, d = np.random.default_rng(3).standard_normal((6, 200_000))
    score = np.sin(a * b + c * d + x * y)
    at = np.linspace(-1, 1, 41)
    weights = np.exp(at[:, None] * score)
    ratio = np.interp(score, at, (weights * np.maximum(x, 0)).mean(axis=1) / weights.mean(axis=1))
    values = ratio * (1 + score) ** 2
    expected, error = values.mean(), values.std() / len(values) ** 0.5
    assert abs(number.value - expected) < 5 * math.hypot(error, number.error)
    assert abs(number.value - ratio.mean()) > 10 * math.hypot(error, number.error)  # as if it were independent


@pytest.mark.parametrize("weight", [lambda s, t: tp.relu(s * t - 0.4), lambda s, t: s * t, lambda s, t: (s * t) ** 2])
def test_of_what_comes_down_to_zero_they_are_not(weight):
    with pytest.raises(tp.EvaluationError, match="pole not established: lower"):
        tp.derive(over_neurons(weight)).evaluate()
