"""Shares of b in print: the largest by name, all others together; what is rounding is 0."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.numbers.number import Number
from tplimits.regimes.finite_width.report import _MOST_PARTS, _pair, _parts, _shown, _size
from tplimits.regimes.finite_width.results import Share


@pytest.mark.parametrize("more", (-1, 0, 1, 3))
def test_shares_add_up_to_b(more):
    many = _MOST_PARTS + more
    shares = {f"avg {k}": Share((-1) ** k * (1 + k / 8), 0.0) for k in range(many)} | {"nothing": Share(1e-13, 0.0)}
    lines = _parts(shares)
    assert len(lines) == min(many, _MOST_PARTS + 1)
    assert sum(float(line.split()[0].replace("−", "-")) for line in lines) == pytest.approx(
        sum(s.bias for s in shares.values()), abs=1e-3
    )
    assert lines[0].endswith(f"  avg {many - 1}")
    assert ("more averages" in lines[-1]) == (more > 0)
    if more > 0:
        assert lines[-1].endswith(f"  {more} more averages")


def test_what_is_rounding_is_zero():
    assert _pair(Number(3e-12, 1e-13, "quadrature")) == (0.0, 0.0)
    assert _pair(Number(-2.0, 0.5, "quadrature")) == (-2.0, 0.5)


def test_digits_are_those_that_an_error_leaves():
    def number(value, error):
        return Number(value, error, "particles")

    assert _shown(1 / 3) == _shown(number(1 / 3, 0.0)) == "0.33333333"
    assert [_shown(number(1 / 3, e)) for e in (5e-6, 1e-6, 1e-20)] == ["0.333333", "0.3333333", "0.33333333"]
    assert "±" in _shown(number(1 / 3, 1e-3))
    assert _shown(number(1e-13, 1e-14)) == _shown(0.0) == "0" and _shown(number(1e-13, 1e-3)) != "0"
    assert _shown(number(-20.0, 1e-5)) == "-20" and _size(number(-20.5, 1e-5)) == _size(-20.5) == "20.5"


def test_what_has_no_numbers_prints_the_reason():
    """A print-out and a report raise nothing: they say why there are none."""

    @tp.program
    def moving(W: tp.Matrix["n", "n", "tap"], x: tp.Vector["at"]):
        h = tp.sum((W @ x.take(at=np.array([[-1, 0], [0, 1], [1, -1]]), axes=("tap", "at"))), over="tap")
        y = h + tp.sin(h) ** 2
        z = tp.sum(W.T @ (tp.where(y, y, tp.avg(y * y)) * y), over="tap")
        return tp.avg(z * z)

    expansion = tp.derive(moving.bind(at=2, tap=3), tp.FiniteWidth())
    with pytest.raises(tp.EvaluationError, match="kink at a place that moves"):
        expansion.evaluate()
    assert "no numbers: " in str(expansion) and "kink at a place that moves" in str(expansion)
    assert "O(n^{-2})" in expansion.latex() and expansion.steps and expansion.report()
