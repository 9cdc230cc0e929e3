"""What is asked of functions of Gaussian variables is worked out once a derivation."""

from __future__ import annotations

import sympy

from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses import moments, vanishing
from tplimits.law.hypotheses.reader import answered_once


def variables(gaussians, *names):
    return [gaussians.add(name, InitialSource(i, ())) for i, name in enumerate(names)]


def test_answers_are_kept_by_the_randomness_that_was_asked():
    asked = []

    @answered_once
    def question(expr, gaussians):
        asked.append(expr)
        return gaussians.of(expr)

    one, other = Gaussians(), Gaussians()
    (x,) = variables(one, "x")
    assert [question(x, one), question(x, one), question(x**2, one), question(x, other)] == [{x}, {x}, {x}, set()]
    assert asked == [x, x**2, x]


def test_a_pole_beside_another_one_is_looked_at_once(monkeypatch):
    """Shares of a sum under a root, and branches of a modulus beside it, ask for the same powers again and again."""
    gaussians = Gaussians()
    x, y, z = variables(gaussians, "x", "y", "z")
    worked_out = []

    def counted(self, expr, original=moments._Analysis._found):
        worked_out.append(expr)
        return original(self, expr)

    monkeypatch.setattr(moments._Analysis, "_found", counted)
    expr = sympy.Abs(x) * (x**2 + sympy.Abs(y) + sympy.Abs(z)) ** sympy.Rational(-3, 2)
    first = moments.tail(expr, gaussians)
    assert len(worked_out) == len(set(worked_out)) > 3
    assert moments.tail(expr, gaussians) == first and len(worked_out) == len(set(worked_out))


def test_functions_of_a_variable_are_no_forms_and_are_not_differentiated(monkeypatch):
    gaussians = Gaussians()
    x, y = variables(gaussians, "x", "y")
    assert vanishing.linear(2 * x - y + 1, gaussians) == {x: 2, y: -1}
    assert vanishing.linear((x + 1) ** 2 - x**2, gaussians) == {x: 2}
    monkeypatch.setattr(vanishing.sympy, "diff", lambda *_: 1 / 0)
    for other in (sympy.tanh(x) + y, x * sympy.exp(y), sympy.Abs(x)):
        assert vanishing.linear(other, gaussians) is None
