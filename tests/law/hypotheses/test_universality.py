"""Matrices whose entries are not normal, where universality is proved and where it is not."""

from __future__ import annotations

import pytest

import tplimits as tp


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
