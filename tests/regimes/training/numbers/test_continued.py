"""Removable poles of scalars in training: beside the same networks written by their series, without poles."""

import math

import numpy as np
import pytest
import sympy

import tplimits as tp

X = np.array([[1.0, 0.0], [0.6, 0.8]])
TASK = {"error": tp.squared_error([1.0, -0.5]), "lr": 0.5, "steps": 3, "particles": 512, "block": 64, "replicates": 2}


def series(coefficient, terms=16):
    return tp.elementwise(lambda s: sum(sympy.Rational(coefficient(k)) * s**k for k in range(terms)))


SINC = series(lambda k: 0 if k % 2 else sympy.Rational((-1) ** (k // 2), math.factorial(k + 1)))
EXPC = series(lambda k: sympy.Rational(1, math.factorial(k + 1)))
EXPC2 = series(lambda k: sympy.Rational(1, math.factorial(k + 2)))


def network(function):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
        s = tp.avg(h)
        return v * tp.tanh(h * function(s)) * function(s)

    return net


@pytest.mark.parametrize(
    ("quotient", "same", "optimizer"),
    [
        (lambda s: tp.sin(s) / s, SINC, tp.Adam(eps=0.05)),
        (lambda s: (tp.exp(s) - 1) / s, EXPC, tp.Adam(eps=0.05)),
        (lambda s: (tp.exp(s) - 1 - s) / s**2, EXPC2, tp.SGD()),
    ],
    ids=["sin", "exp", "second order"],
)
def test_scalars_that_leave_zero_and_come_back(quotient, same, optimizer):
    found, twin = (
        tp.derive(network(one), tp.MaximalUpdate(optimizer)).evaluate(X, **TASK).f for one in (quotient, same)
    )
    assert found == pytest.approx(twin, abs=1e-9)
    assert abs(twin[-1, 0]) > 0.01


def test_a_pole_that_is_none_at_zero_is_still_refused():
    with pytest.raises(tp.NoLimitError, match="not finite"):
        tp.derive(network(lambda s: tp.exp(s) / s), tp.MaximalUpdate(tp.SGD()))
