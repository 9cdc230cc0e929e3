"""Powers of the width under roots, in logarithms and divided by: what is negative at no width leaves no domain."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.nodes.entries import OWN, Entry, N
from tplimits.program.nodes.functions import relu

y, x = (Entry(sympy.Integer(i), OWN) for i in range(2))
r = sympy.sqrt(N)
half = sympy.Rational(1, 2)
RANGES = {
    1 / r - 1 / N: (0, half**2),
    1 / N - 1 / r: (-(half**2), 0),
    N - r: (0, sympy.oo),
    1 - 3 / r + 3 / N - 1 / r**3: (0, 1),
    relu(y) - 1 / N + 1 / r: (0, sympy.oo),
    relu(y) - relu(y) / r: (0, sympy.oo),
    y**2 - 2 * y / r + 1 / N: (0, sympy.oo),
    y**2 - 2 * y / r + half / N: (-half, sympy.oo),
    sympy.expand((y + y / r - 1 / N) ** 2): (0, sympy.oo),
    y**2 - 2 * x * y / r + x**2 / N + sympy.exp(x): (0, sympy.oo),
    y**2 - 2 * sympy.sqrt(2) * y / r + 2 / N: (0, sympy.oo),
    sympy.exp(y) - y - 1 + 1 / r - 1 / N: (0, sympy.oo),
    x**2 - 2 * x * y + y**2 + relu(x): (0, sympy.oo),
}


@pytest.mark.parametrize("form", RANGES, ids=str)
def test_ranges(form):
    """Told as they are, and no point at any width lies outside."""
    low, high = RANGES[form]
    assert bounds(form) == (low, high)
    generator, (u, v) = np.random.default_rng(0), sympy.symbols("u v", real=True)
    values = sympy.lambdify((u, v, N), form.xreplace({x: u, y: v}), [{"relu": lambda z: np.maximum(z, 0)}, "numpy"])(
        *generator.normal(0, 3, (2, 4000)), generator.integers(1, 2000, 4000).astype(float)
    )
    assert np.all(values >= float(low) - 1e-9) and np.all(values <= float(high) + 1e-9)


#: (function of a vector and n, a neighbour that is negative for some of n neurons)
FUNCTIONS = {
    "a square, written out": (
        lambda y, n: (y**2 - 2 * y / n**0.5 + 1 / n) ** 0.5,
        lambda y, n: (y**2 - 2 * y / n**0.5 + 1 / (2 * n)) ** 0.5,
    ),
    "two powers": (
        lambda y, n: (abs(y) + y + 1 / n**0.5 - 1 / n) ** 0.5,
        lambda y, n: (abs(y) + y - 1 / n**0.5 + 1 / n) ** 0.5,
    ),
    "a factor": (
        lambda y, n: (abs(y) - abs(y) / n**0.5) ** 0.5,
        lambda y, n: (abs(y) - 2 / n**0.5) ** 0.5,
    ),
}


def width(function):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x, tp.n))

    return tp.derive(program).evaluate()["return"].value


def kernels(function):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"), tp.n)

    return tp.derive(net, tp.Kernels(train=("v",))).evaluate(np.array([[0.6, 0.8]])).nngp.item()


@pytest.mark.parametrize("case", FUNCTIONS)
def test_roots_have_the_limits_of_networks(case):
    """A million neurons of a network so wide that n^(−1/4) is nothing; 3 % off, it is not theirs."""
    function, negative = FUNCTIONS[case]
    z = np.random.default_rng(0).normal(size=1_000_000)
    for engine, power in ((width, 1), (kernels, 2)):
        found, networks = engine(function), np.mean(function(z, 1e12) ** power)
        assert networks == pytest.approx(found, abs=5e-3)
        assert networks != pytest.approx(1.03 * found, abs=5e-3)
    with np.errstate(invalid="ignore"):
        assert np.isnan(negative(z, 1e4)).any()


@pytest.mark.parametrize("case", FUNCTIONS)
def test_what_turns_negative_is_refused(case):
    for engine in (width, kernels):
        with pytest.raises(tp.TplimitsError, match="negative at finite width"):
            engine(FUNCTIONS[case][1])
