"""What expressions count for."""

from __future__ import annotations

import sympy
from sympy import Rational

from tplimits.law.effort import Effort

x = sympy.Symbol("x")


def test_long_fractions_count_by_the_square_of_their_length():
    spent = []
    for bits in (10, 10_240, 20_480):
        effort = Effort(10**6)
        effort.read(x + Rational(1, 2**bits))
        spent.append(effort.spent)
    assert spent == [3, 103, 403]


def test_without_a_bound_nothing_is_counted():
    effort = Effort()
    effort.read((x + 1) ** 5)
    assert effort.spent == 0
