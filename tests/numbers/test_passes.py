"""Passes over a plan: what is taken for the error, when refining ends, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import sympy

from tplimits.errors import EvaluationError
from tplimits.numbers import passes
from tplimits.numbers.budget import Budget, TooManyNodes
from tplimits.numbers.plan import Plan, Stein

a, b, c = sympy.symbols("a b c", real=True)


def finite(monkeypatch, values, moved=0.0, steps=(), known=None):
    """Quadrature whose passes give these values of one target, one a level; TooManyNodes where there is none."""

    class Pass:
        def __init__(self, plan, constants, level, budget):
            self.plan, self.constants, self.level = plan, constants, level
            self.known = {} if known is None else known[level]

        def run(self):
            if values[self.level] is None:
                raise TooManyNodes
            self.targets = {"t": values[self.level]}

        def moved(self, pattern):
            return self.known, {"t": self.targets["t"] + (moved if pattern == 3 else -moved / 2)}

    monkeypatch.setattr(passes, "_Pass", Pass)
    plan = SimpleNamespace(steps=steps, targets=())
    return passes.quadrature(plan, {}, Budget(1))["t"]


def test_refining_ends_where_two_passes_agree_and_their_difference_is_the_error(monkeypatch):
    found = finite(monkeypatch, [1.0, 1.5, 1.25, 1.25 + 2e-13, 9.0])
    assert (found.value, found.error) == (1.25 + 2e-13, pytest.approx(3e-13, abs=2e-13))
    found = finite(monkeypatch, [1.0, 1.5, 1.25, 1.125, 1.0625])
    assert (found.value, found.error) == (1.0625, 0.0625)
    assert finite(monkeypatch, [2e9, 1e9, 1e9 + 5e-4, 0.0, 0.0]).value == 1e9 + 5e-4, "to a relative accuracy"


def test_means_moved_within_their_errors_are_an_error_too(monkeypatch):
    assert finite(monkeypatch, [1.0] * 5, moved=0.25).error == 0.25
    assert finite(monkeypatch, [1.0] * 5, moved=-0.5).error == 0.5
    assert finite(monkeypatch, [1.0] * 5).error == 2.0**-52


def test_two_passes_are_enough_where_a_third_has_no_room(monkeypatch):
    assert finite(monkeypatch, [1.0, 1.5, None, None, None]).error == 0.5
    for values in ([None] * 5, [1.0, None, None, None, None]):
        with pytest.raises(TooManyNodes):
            finite(monkeypatch, values)


@pytest.mark.parametrize(("least", "off", "settled"), [(0.5, 0.2, True), (0.5, 0.3, False), (1e-12, 0.01, True)])
def test_the_rank_of_a_gram_is_settled_where_passes_agree_on_its_eigenvalues(monkeypatch, least, off, settled):
    """Its entries differ by `off` between the two finest passes: an eigenvalue above twice that is not zero."""
    step = Stein(c, 0, ((a, sympy.S.Zero), (sympy.S.Zero, b)), (sympy.S.One, sympy.S.One))
    known = [{a: 1.0, b: 7.0, c: 0.0}, {a: 1.0 + off, b: least, c: 0.0}, {a: 1.0, b: least, c: 0.0}]
    run = lambda: finite(monkeypatch, [1.0, 1.5, 1.5, 0.0, 0.0], steps=(step,), known=known)  # noqa: E731
    if settled:
        assert run().value == 1.5
    else:
        with pytest.raises(EvaluationError, match=r"rank of a Gram of 2 images is not settled: its eigenvalue 0\.5"):
            run()


def test_numbers_of_closed_plans_are_rounded_once():
    plan = passes.exact(Plan((), (("t", sympy.pi * a),)), {a: sympy.Rational(1, 3)})
    assert plan["t"].value == float(sympy.pi / 3) and plan["t"].error == plan["t"].value * 2.0**-52


@pytest.mark.parametrize(("first", "off", "settled"), [(0.5, 0.16, True), (0.5, 0.18, False), (1e-9, 1e-7, True)])
def test_what_is_zero_beside_the_largest_eigenvalue_is_no_direction(monkeypatch, first, off, settled):
    """Of three images: 10⁻⁹ is zero beside 20, not beside 0.5; what is left must exceed three times the error."""
    gram = sympy.diag(a, b, 20).tolist()
    step = Stein(c, 0, tuple(map(tuple, gram)), (sympy.S.One,) * 3)
    known = [{a: first, b: 0.5, c: 0.0}, {a: first, b: 0.5 + off, c: 0.0}, {a: first, b: 0.5, c: 0.0}]
    run = lambda: finite(monkeypatch, [1.0, 1.5, 1.5, 0.0, 0.0], steps=(step,), known=known)  # noqa: E731
    if settled:
        assert run().value == 1.5
    else:
        with pytest.raises(EvaluationError, match=r"rank of a Gram of 3 images is not settled: its eigenvalue 0\.5"):
            run()
