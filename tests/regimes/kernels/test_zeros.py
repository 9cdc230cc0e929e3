"""Kernels at constants that are 0."""

import pytest

import tplimits as tp

X = [[1.0]]


@tp.network
def moved(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, c, k):
    h = tp.sum(U * ξ, over="d")
    return v * k * tp.step(W @ (c * h) + tp.avg(h))


@tp.network
def still(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, c):
    h = tp.sum(U * ξ, over="d")
    return v * tp.step(W @ (c * h) + tp.avg(h * h) / 2)


def test_a_jump_that_nothing_is_left_beside():
    limit = tp.derive(moved, tp.Kernels(train=("v",)))
    assert limit.evaluate(X, c=1.0, k=2.0).nngp.item() == pytest.approx(2.0)
    with pytest.raises(tp.EvaluationError, match=r"no number at c = 0.0: .* jump"):
        limit.evaluate(X, c=0.0, k=2.0)
    assert limit.evaluate(X, c=1.0, k=0).nngp.item() == 0


def test_a_jump_away_from_its_place():
    limit = tp.derive(still, tp.Kernels(train=("v",)))
    assert limit.evaluate(X, c=0).nngp.item() == pytest.approx(1.0)
    assert limit.evaluate(X, c=0).nngp.item() == tp.derive(still.bind(c=0), tp.Kernels()).evaluate(X).nngp.item()
