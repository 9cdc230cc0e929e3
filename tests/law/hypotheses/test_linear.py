"""Linear forms in Gaussian variables."""

from __future__ import annotations

import sympy

from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses import linear


def test_functions_of_a_variable_are_no_forms_and_are_not_differentiated(monkeypatch):
    gaussians = Gaussians()
    x, y = (gaussians.add(name, InitialSource(i, ())) for i, name in enumerate("xy"))
    assert linear.linear(2 * x - y + 1, gaussians) == {x: 2, y: -1}
    assert linear.linear((x + 1) ** 2 - x**2, gaussians) == {x: 2}
    monkeypatch.setattr(linear.sympy, "diff", lambda *_: 1 / 0)
    for other in (sympy.tanh(x) + y, x * sympy.exp(y), sympy.Abs(x)):
        assert linear.linear(other, gaussians) is None
