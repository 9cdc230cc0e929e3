"""Rows of Hermite coefficients are remembered, by several threads at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy
import sympy

from tplimits.numbers.moments import hermite
from tplimits.numbers.moments.panels import Kinked

X = sympy.Symbol("x", real=True)


def test_threads_share_rows_while_old_ones_are_dropped(monkeypatch):
    """Room for one row: every look drops what another thread is about to read."""
    monkeypatch.setattr(hermite, "_MEMORY", 1)
    hermite.forget_rows()
    functions = [Kinked(sympy.sin(k * X), X, ()) for k in range(1, 5)]
    variances = numpy.array([0.5, 1.0])
    expected = [hermite.hermite_rows(f, variances).coefficients for f in functions]

    def look(i):
        return hermite.remembered_rows(functions[i % 4], variances).coefficients

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(look, range(400)))
    assert all(numpy.array_equal(row, expected[i % 4]) for i, row in enumerate(found))
    hermite.forget_rows()
