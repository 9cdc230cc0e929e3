"""Matrices whose entries are not normal, where universality is proved and where it is not."""

from __future__ import annotations

import pytest

import tplimits as tp
from tplimits.law.hypotheses.universality import UNIVERSALITY, refuse_unestablished


def test_matrices_that_are_not_normal_are_taken_on_beside_kinks():
    """By the user's word alone: with it the number is that of normal entries."""

    @tp.program
    def program(W: tp.Matrix.signs(), x: tp.Vector):
        return tp.avg(tp.relu(W @ x) ** 2)

    with pytest.raises(tp.NoLimitError, match="take it on yourself"):
        tp.derive(program)
    assert tp.derive(program, assume=("universality",)).evaluate()["return"].value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("function", "established"),
    [
        (lambda h, x: tp.tanh(h) * x, True),
        (lambda h, x: tp.gelu(h) ** 2 + h**3, True),
        (lambda h, x: tp.abs(h), False),
        (lambda h, x: tp.exp(h), False),
        (lambda h, x: tp.exp(tp.avg(h * h)) * x * x, True),  # of scalars any function
        (lambda h, x: 1 / (1 + h * h), False),
        (lambda h, x: tp.avg(h * x) * tp.sqrt(tp.n) * x, False),
        (lambda h, x: tp.avg(h * x) / tp.sqrt(tp.n) + x * x, True),
    ],
)
def test_smooth_functions_of_polynomial_growth_and_averages(function, established):
    @tp.program
    def program(W: tp.Matrix.uniform(), x: tp.Vector):
        return tp.avg(function(W @ x, x))

    if established:
        assert any("by universality" in step.conclusion for step in tp.derive(program).steps)
    else:
        with pytest.raises(tp.NoLimitError, match="are not normal, and"):
            tp.derive(program)


def test_what_is_of_order_one_over_n_is_refused_whatever_is_taken_on():
    @tp.program
    def smooth(W: tp.Matrix.uniform(), x: tp.Vector):
        return tp.avg(tp.tanh(W @ x) ** 2)

    @tp.program
    def bent(W: tp.Matrix.uniform(), x: tp.Vector):
        return tp.avg(tp.relu(W @ x))

    @tp.program
    def normal(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.relu(W @ x))

    for taken in ((), (UNIVERSALITY,)):
        refuse_unestablished(smooth, taken, False)
        refuse_unestablished(normal, taken, True)
        with pytest.raises(tp.NoLimitError, match="fourth moments of entries enter"):
            refuse_unestablished(smooth, taken, True)
    refuse_unestablished(bent, (UNIVERSALITY,), False)
    with pytest.raises(tp.NoLimitError, match="proved for smooth functions"):
        refuse_unestablished(bent, (), False)
