"""Means of functions with jumps at a difference of vectors that tend to one another."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = np.array([[0.7, -1.1], [0.6, -1.1]])


def bent(scalar):
    @tp.network
    def subject(a: tp.Vector, U: tp.Vector["d"], ξ: tp.Input["d"], v: tp.Vector):
        y = tp.sum(U * ξ, over="d")
        return v * tp.maximum(y, y * scalar(a, y))

    return tp.derive(subject, tp.Kernels(train=("U",)))


def test_the_sides_of_a_kink_are_not_those_of_rounding():
    """The variance of y − y·s is 0 by E cos y = exp(−E y²/2), and what rounding leaves of it has an angle of its own:
    Θ of an input with itself had been −1.2e-16 where networks have 1.7.
    """
    limit = bent(lambda a, y: tp.avg(tp.cos(y)) * tp.exp(tp.avg(y**2) / 2))
    with pytest.raises(tp.EvaluationError, match="lands on a jump, or on that of the derivative of a kink"):
        limit.evaluate(X)


@pytest.mark.parametrize(("scalar", "factor"), [(lambda a, y: tp.avg(a**2), 1), (lambda a, y: 2, 2.5)])
def test_what_is_zero_without_rounding_and_what_is_not_zero_have_kernels(scalar, factor):
    """max(y, y·1) has the kernels of y; of max(y, 2y) the diagonal is (1 + 4)/2 times theirs."""
    assert np.diag(bent(scalar).evaluate(X).ntk) == pytest.approx(factor * np.diag(X @ X.T), rel=1e-9)
