"""What is asked of functions of Gaussian variables is worked out once a derivation."""

from __future__ import annotations

import sympy

from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses import moments
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
