"""What integrals cost is counted, and ends."""

from __future__ import annotations

import pytest
import sympy

from tplimits.numbers.budget import Budget, TooManyNodes, operations


def test_evaluations_are_counted_until_nothing_is_left():
    """Six operations a node besides those of the integrand."""
    budget = Budget(100)
    budget.spend(5, 4)
    assert (budget.spent, budget.left) == (50, 50)
    budget.spend(2, 19)
    assert (budget.spent, budget.left) == (100, 0)
    budget.spend(0, 4)
    with pytest.raises(TooManyNodes, match="cost too many evaluations: use method='particles'"):
        budget.spend(1, 0)


def test_equal_subexpressions_are_one_operation():
    x, y = sympy.symbols("x y")
    assert operations(x) == 0
    assert operations(sympy.tanh(x * y) + sympy.sin(x * y) ** 2) == 5
