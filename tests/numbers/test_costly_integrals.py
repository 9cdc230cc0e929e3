"""Integrals that cost too much beside fluctuations, whose variance particles do not give."""

import pytest

import tplimits as tp
from tplimits.regimes.width import evaluation


@tp.program
def beside(x: tp.Vector, y: tp.Vector, W: tp.Matrix):
    β = tp.neuron("β")
    kinked = tp.avg(tp.abs(tp.sin(x) - y[β]), over=β)
    s = tp.sqrt(tp.n) * tp.avg(x * y)
    return tp.avg(kinked * tp.sqrt(1 + y * y)), s


def test_more_work_is_done_before_giving_up(monkeypatch):
    limit = tp.derive(beside)
    number = limit.evaluate()["return[0]"]
    monkeypatch.setattr(evaluation, "AUTO", 10)
    assert limit.evaluate()["return[0]"] == number
    monkeypatch.setattr(evaluation, "QUADRATURE", 10)
    with pytest.raises(tp.EvaluationError, match=r"integrals of return\[0\] cost too many .* particles do not give"):
        limit.evaluate(only=("return[0]",))
