"""Tangent kernels through functions of outputs, and losses that are told apart by them."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

RNG = np.random.default_rng(3)
F1, F2 = RNG.standard_normal((2, 3)), RNG.standard_normal((4, 3))


@tp.program
def capped(f: tp.Scalar["c"]):
    return tp.tanh(f) - tp.mean(f, over="c")


@tp.program
def alone(f: tp.Scalar):
    return f**2


def test_a_kernel_of_outputs_is_that_of_the_function_between_its_slopes():
    head = tp.Head(capped)
    slopes = [[np.diag(1 - np.tanh(f) ** 2) - 1 / 3 for f in F] for F in (F1, F2)]
    kernel = RNG.standard_normal((2, 4, 3, 3))
    expected = np.array([[slopes[0][i] @ kernel[i, j] @ slopes[1][j].T for j in range(4)] for i in range(2)])
    np.testing.assert_allclose(head.kernel(kernel, F1, F2), expected, atol=1e-12)
    own = RNG.standard_normal((2, 2, 3, 3))
    np.testing.assert_allclose(head.kernel(own, F1), head.kernel(own, F1, F1))
    with pytest.raises(tp.EvaluationError, match=r"for 2 and 4 inputs with 3 outputs it has 72 entries"):
        head.kernel(own, F1, F2)


def test_one_output():
    f, g, kernel = RNG.standard_normal(2), RNG.standard_normal(3), RNG.standard_normal((2, 3))
    np.testing.assert_allclose(tp.Head(alone).kernel(kernel, f, g), 4 * f[:, None] * kernel * g)


def test_losses_through_heads_are_told_apart_and_not_written_out():
    head = tp.Head(capped)
    one, same, labels, squares = (
        head.loss(e) for e in (*[tp.cross_entropy([0, 1])] * 2, tp.cross_entropy([1, 1]), tp.squared_error(F1))
    )
    assert one.facts == same.facts and one.facts != labels.facts and one.facts != squares.facts
    assert one.facts != tp.cross_entropy([0, 1]).facts
    with pytest.raises(tp.EvaluationError, match="goes through the head `capped`"):
        one.exact(F1)
