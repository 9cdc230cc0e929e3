"""Functions of logits that hardly any draw meets: refused, not 0 ± 0."""

from __future__ import annotations

import pytest
from scipy.stats import norm

import tplimits as tp


@tp.block
def gate(x: tp.State["token"], A: tp.Matrix, B: tp.Matrix, C: tp.Matrix, D: tp.Matrix, U: tp.Matrix, *, a, c):
    S, R = tp.avg((A @ x) * (B @ x)), tp.avg((C @ x) * (D @ x))
    return x + a * tp.step(tp.sqrt(tp.n) * S - c) * tp.step(tp.sqrt(tp.n) * R - c) * (U @ x) / tp.sqrt(tp.n)


def test_a_gate_that_many_draws_pass():
    sde = tp.derive(gate, tp.Proportional())
    for c in (-1.0, 0.5, 1.0):
        value, error = sde.drift_estimate_at([[1.0]], a=3, c=c)
        assert abs(value[0, 0] - 9 * norm.sf(c) ** 2) < 5 * error[0, 0] and error[0, 0] < 0.05


def test_a_gate_that_no_draw_passes():
    sde = tp.derive(gate, tp.Proportional())
    with pytest.raises(tp.EvaluationError, match=r"is 0 at all but 0 of \d+ draws"):
        sde.drift_estimate_at([[1.0]], a=1e4, c=4)
