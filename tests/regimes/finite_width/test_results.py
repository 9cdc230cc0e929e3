"""Warnings where L + b/n may be worse than L."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tplimits as tp
from tplimits.numbers.number import Number
from tplimits.regimes.finite_width.results import Expansion, worse_than_none


@pytest.mark.parametrize(
    ("limit", "variance", "order", "largest"),
    [
        (2.0, 0.0, 8, 0.2),  # a tenth of the limit
        (-2.0, 9.0, 4, 0.2),
        (2.0, 9.0, 9, 0.02),  # a hundredth beside high moments
        (0.0, 9.0, 4, 0.3),  # beside a limit 0, the deviation √(C/n) itself
        (1e-10, 9.0, 9, 0.03),
    ],
)
def test_a_share_of_the_limit_or_of_the_deviation(limit, variance, order, largest):
    n = 100
    for share, warned in ((0.99, False), (1.01, True), (-0.99, False), (-1.01, True)):
        e = SimpleNamespace(bias=share * largest * n, limit=limit, variance=variance)
        said = worse_than_none("s", e, n, order)
        assert bool(said) == warned
        assert ("moments of order 9" in said) == (warned and order == 9)


def test_moments_in_the_variance_are_of_twice_the_degree():
    @tp.program
    def powers(W: tp.Matrix, x: tp.Vector):
        return tp.avg((W @ x) ** 3), tp.avg(tp.tanh(x) * x)

    @tp.program
    def bounded(x: tp.Vector):
        return tp.avg(tp.tanh(x) ** 2)

    assert [tp.derive(p, tp.FiniteWidth()).order_of_moments for p in (powers, bounded)] == [6, 0]


def test_a_scalar_at_a_width():
    """L + r/√n + b/n and C/n; what stays random keeps its variance; errors add up in squares."""
    limit, bias, variance, root = (Number(float(v), e, "quadrature") for v, e in ((1, 0.1), (8, 4), (32, 16), (6, 1.2)))
    found = Expansion(limit, bias, variance, root).at(4)
    assert (found.value, found.variance, found.variance_error) == (1 + 3 + 2, 8, 4)
    assert found.error == pytest.approx((0.1**2 + 0.6**2 + 1**2) ** 0.5)
    random = Number(0.0, 0.0, "exact", variance=0.5)
    assert Expansion(random, bias, variance, root).at(4).variance == 8.5
