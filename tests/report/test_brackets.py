"""The Gram tables of a report."""

from __future__ import annotations

import sympy

import tplimits as tp
from tplimits import zoo
from tplimits.report.html import gram_tables


def test_a_table_is_symmetric_and_agrees_with_braket():
    limit = tp.derive(zoo.get("tied_relu").program)
    (table,) = gram_tables(limit.state)
    assert (table.width, table.labels, table.left_out) == ("n", ("x", "h", "z"), 0)
    assert sympy.Matrix(table.values).is_symmetric()
    assert table.values[0][2] == limit.braket("x", "z") == sympy.Rational(1, 2)


def test_each_width_has_its_own_table():
    limit = tp.derive(zoo.get("two_widths").program)
    assert [(t.width, t.labels) for t in gram_tables(limit.state)] == [("n", ("x", "z")), ("k", ("h",))]


def test_long_kets_are_left_out():
    @tp.program
    def long(x: tp.Vector):
        y = x
        for _ in range(3):
            y = tp.gelu(y + 0.5) + y**2
        return tp.avg(x)

    (table,) = gram_tables(tp.derive(long).state)
    assert table.left_out > 0
    assert "x" in table.labels
