"""Products of sums, multiplied out up to a number of terms."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest
import sympy
from scipy import special

import tplimits as tp
from tplimits.law import expanding
from tplimits.law.expanding import expanded, two_factors

x, y, z = sympy.symbols("x y z", real=True)
a, b = sympy.symbols("a b", positive=True)


def random(expr):
    return bool(expr.free_symbols & {x, y, z})


SUMS = (x + 1, x + y, (x + 1) ** 2, (x - y) ** 3, (x + y + z) ** 2, sympy.tanh(x + y) + x, x, sympy.exp(x) * (y + 2))


@pytest.mark.parametrize("factors", list(itertools.combinations_with_replacement(SUMS, 2)))
def test_all_that_is_random_is_multiplied_out(factors):
    product = sympy.Mul(*factors)
    found = expanded(product, random)
    assert sympy.expand(found - product) == 0
    assert not any(p.base.is_Add for t in sympy.Add.make_args(found) for p in t.atoms(sympy.Pow))
    assert all(not f.is_Add for t in sympy.Add.make_args(found) for f in sympy.Mul.make_args(t))


def test_products_inside_a_sum_are_multiplied_out_too():
    found = expanded(x * (y + 1) + z * (x + 2) ** 2 + 3, random)
    assert found == sympy.expand(x * (y + 1) + z * (x + 2) ** 2 + 3)


def test_what_is_constant_stays_whole():
    assert expanded((a + b) ** 2 * x, random) == (a + b) ** 2 * x
    assert expanded((a + b) * (x + y), random) == (a + b) * x + (a + b) * y


def test_too_many_terms_stay_a_product(monkeypatch):
    """Of (x + y + z)^k there are C(k + 2, 2), of two sums as many as pairs."""
    for power, many in ((2, 6), (3, 10)):
        for most in (many, many - 1):
            monkeypatch.setattr(expanding, "_MOST_TERMS", most)
            found = expanded((x + y + z) ** power, random)
            assert len(sympy.Add.make_args(found)) == (many if most == many else 1)
    for most in (6, 5):
        monkeypatch.setattr(expanding, "_MOST_TERMS", most)
        found = expanded((x + y + z) * (x**2 + 1), random)
        assert len(sympy.Add.make_args(found)) == (6 if most == 6 else 1)


def test_squares_and_products_of_two_sums_have_two_factors():
    """Nothing else has: a cube is no square."""
    for expr, factors in (
        ((x + 1) ** 2, (x + 1, x + 1)),
        ((x + 1) ** 3, None),
        ((x + 1) ** -2, None),
        (x**2, None),
        (sympy.tanh(x) ** 2, None),
        ((x + 1) * y, (x + 1, y)),
        ((x + 1) * (y + 2), (x + 1, y + 2)),
        (sympy.tanh(x) * y, None),
        ((x + 1) * y * sympy.tanh(z), None),
        (x + y, None),
    ):
        found = two_factors(expr, random)
        assert (None if found is None else set(found)) == (None if factors is None else set(factors)), expr


@pytest.mark.parametrize("mean", [0.5, -0.3])
def test_a_pole_on_a_side_stays_beside_what_it_divides(mean):
    """E where(c, 1/c, 0)·c = P(c > 0): c = (g + 1)/2, taken apart, would leave two infinite means."""

    law = tp.init(mean=mean, std=0.5)

    @tp.program
    def shares(c: tp.Vector = law):
        return tp.avg(tp.where(c, 1 / c, 0) * c)

    above = (1 + math.erf(mean / 0.5 / math.sqrt(2))) / 2
    assert tp.derive(shares).evaluate()["return"].value == pytest.approx(above, rel=1e-12)


def test_smooth_functions_of_functions_are_multiplied_out_as_far_as_other_open_ones():
    """No row of the table takes one of their terms: 64 terms would be that many integrals."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        u, v = tp.erf(x + tp.erf(y)), tp.erf(y + tp.erf(x))
        return tp.avg((1 + x + y + u) * (2 + x + v + u) * (1 + y + x * u + v))

    limit = tp.derive(program)
    assert len(limit.state.engine.moments) == 1
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(60)
    X, Y = nodes[:, None], nodes
    U, V = special.erf(X + special.erf(Y)), special.erf(Y + special.erf(X))
    mean = (1 + X + Y + U) * (2 + X + V + U) * (1 + Y + X * U + V) * weights[:, None] * weights
    assert limit.evaluate()["return"].value == pytest.approx(mean.sum() / (2 * numpy.pi), rel=1e-7)


@pytest.mark.long
def test_deep_chains_of_gelu_have_few_means():
    """Each derivative of gelu is a sum: multiplied out, those of such a chain are 2^depth integrals each."""

    @tp.program
    def program(W: tp.Matrix, y: tp.Vector):
        for _ in range(6):
            y = W.T @ tp.gelu(W @ y)
        return tp.avg(y * y)

    assert len(tp.derive(program).state.engine.moments) < 1200
