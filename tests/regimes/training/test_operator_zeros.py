"""Training in the operator regime at constants that are 0."""

import pytest

import tplimits as tp


@tp.network
def gated(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, c):
    h = tp.sum(U * ξ, over="d")
    return v * tp.tanh(W @ h) * tp.step(c * tp.avg(h * h) + tp.avg(h))


def test_a_gate_that_lands_on_its_jump_is_refused_at_that_constant_alone():
    limit = tp.derive(gated, tp.NeuralTangent(tp.SGD()))
    asked = {"error": tp.squared_error([1.0]), "lr": 0.1, "steps": 1, "f0": [0.5]}
    with pytest.raises(tp.EvaluationError, match=r"no number at c = 0.0: .* jump"):
        limit.evaluate([[1.0]], c=0.0, **asked)
    open_ = limit.evaluate([[1.0]], c=1.0, **asked).f
    assert open_ == pytest.approx(tp.derive(gated.bind(c=1.0), tp.NeuralTangent(tp.SGD())).evaluate([[1.0]], **asked).f)
