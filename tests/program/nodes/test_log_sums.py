"""Sums of exponentials in logarithms and below quotients: the same functions, which do not overflow."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy
from expanded import of_one_layer
from scipy import special

import tplimits as tp
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.functions import sigmoid
from tplimits.program.nodes.log_sums import in_doubles, without_overflow

x, y = sympy.symbols("x y", real=True)
e = sympy.exp

#: what overflows as it is written, in doubles, at some of the points
SUMS = {
    "softplus": sympy.log(1 + e(200 * x - 240)),
    "constant": sympy.log(3 + 2 * e(x)),
    "two": sympy.log(e(x) + 5 * e(y)),
    "three": sympy.log(e(x) + e(y) + 2),
    "log cosh": sympy.log(sympy.cosh(x)),
    "sigmoid": 1 / (1 + e(-x)),
    "the other way": e(x) / (1 + e(x)),
    "its derivative": y * e(x) / (1 + e(x)) ** 2,
    "tanh": (e(x) - e(-x)) / (e(x) + e(-x)),
    "tanh by its parts": sympy.sinh(x) / sympy.cosh(x),
    "a share of two": 3 * e(x) / (e(x) + 2 * e(y)),
    "root": 1 / sympy.sqrt(1 + e(x)),
    "product": (1 - e(x)) * (2 + e(y)) / ((1 + e(x)) * (1 + e(y))),
    "log σ": sympy.log(sigmoid(x)),
    "log (1 − σ)": y * sympy.log(1 - sigmoid(x)),
    "log of a product": sympy.log((1 + y**2) * sigmoid(x) / (1 - sigmoid(y)) ** 2),
    "inside": sympy.tanh(sympy.log(1 + e(3 * x))) * y,
}
POINTS = [(0.3, 1.1), (-1.2, 0.2), (2.5, -3.0), (900.0, 850.0), (-900.0, -2000.0), (700.0, 720.0)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", SUMS)
def test_values_and_derivatives_are_those_of_many_digits(kind):
    for expr in (SUMS[kind], SUMS[kind].diff(x)):
        found = evaluate(expr, {x: np.array([p[0] for p in POINTS]), y: np.array([p[1] for p in POINTS])})
        exact = sympy.lambdify((x, y), expr, "mpmath")
        with mp.workdps(4000):
            truth = [float(exact(*map(mp.mpf, p))) for p in POINTS]
        assert found == pytest.approx(truth, rel=1e-12, abs=1e-15)


def test_what_may_overflow_or_have_a_pole_is_left():
    for expr in (e(x) * x, 1 / (e(x) - 1), sympy.log(1 - e(x)), e(-(x**2) / 2) / 2, sympy.log(2 + sympy.sin(x)), 1 / x):
        assert in_doubles(expr) is expr
        assert without_overflow(expr) == expr


def softplus(u):
    return tp.log(1 + tp.exp(u))


def tanh(u):
    return (tp.exp(u) - tp.exp(-u)) / (tp.exp(u) + tp.exp(-u))


def entropy(share):
    return -share * tp.log(share) - (1 - share) * tp.log(1 - share)


WRITTEN = {
    "softplus": (lambda h: softplus(200 * h - 240), lambda h: np.logaddexp(0, 200 * h - 240), [1.2]),
    "tanh": (lambda h: tanh(100 * h) * h, lambda h: np.tanh(100 * h) * h, [0]),
    "entropy": (
        lambda h: entropy(tp.sigmoid(40 * h)),
        lambda h: special.entr(special.expit([40 * h, -40 * h])).sum(0),
        [0],
    ),
    "sigmoid": (lambda h: tp.exp(h) / (1 + tp.exp(h)), lambda h: 1 / (1 + np.exp(-h)), []),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_limits_and_expansions_of_steep_functions_that_are_written_out(kind):
    function, f, places = WRITTEN[kind]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(function(W @ x))

    assert np.isfinite(program.run(n=2000, seed=0)["return"])
    # steep on a hundredth of the line: cut finely there
    cuts = [p + s * np.arange(-30, 31) / 100 for p in places for s in (1, 0.1)]
    *wanted, _ = of_one_layer(f, np.concatenate(cuts) if cuts else ())
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(wanted[0], rel=1e-9)
    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    assert [number.value for number in (found.limit, found.bias, found.variance)] == pytest.approx(
        wanted, rel=1e-6, abs=1e-9
    )


def test_kernels_and_training_of_a_steep_softplus_that_is_written_out():
    def network(function):
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            return v * function(W @ tp.tanh(tp.sum(U * ξ, over="d")))

        return tp.network(net)

    inputs = np.array([[0.3, 2.0], [1.0, -1.0]])
    one, other = (
        tp.derive(network(function), tp.Kernels()).evaluate(inputs)
        for function in (lambda h: softplus(200 * h - 240), lambda h: tp.softplus(200 * h - 240))
    )
    assert one.nngp == pytest.approx(other.nngp, rel=1e-12)
    assert one.ntk == pytest.approx(other.ntk, rel=1e-12)
