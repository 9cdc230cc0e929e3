"""Passes over a plan: what is taken for the error, when refining ends, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import sympy

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.numbers import passes
from tplimits.numbers.budget import Budget, TooManyNodes
from tplimits.numbers.forms import Integrand
from tplimits.numbers.plan import Closed, EvaluationPlan, Mean, Stein

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

        def moved(self, pattern, by_rounding=False):
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


def test_passes_that_agree_by_chance_have_the_error_that_those_before_let_expect(monkeypatch):
    # kinks that bend in three dimensions: the last three are .34e-3 and .41e-3 off
    by_chance = [0.9519763665, 0.9457948932, 0.9424006317, 0.9424052808, 0.9423339502]
    assert 0.5e-3 < finite(monkeypatch, by_chance).error < 1.5e-3
    assert 0.5e-3 < finite(monkeypatch, [*by_chance[:4], None]).error < 2e-3
    # smooth integrands: twice the digits, and what no chance explains; kinks that are met
    assert finite(monkeypatch, [1.01, 1.0 + 1e-4, 1.0 + 1e-8, 1.0 + 1e-11, None]).error == pytest.approx(1e-8, rel=0.03)
    assert finite(monkeypatch, [1.3, 1.1, 1.0 + 1e-7, 1.0, None]).error == pytest.approx(1e-7)
    assert finite(monkeypatch, [1.16, 1.04, 1.01, 1.0025, None]).error == pytest.approx(0.0075)


@pytest.mark.long
def test_kinks_that_bend_in_three_dimensions_have_an_honest_error():
    def f(x: tp.Vector = tp.init(mean=-1), z: tp.Vector = tp.init(std=0.5), w: tp.Vector = tp.init(std=2)):  # noqa: B008
        return tp.avg(tp.relu(tp.maximum(2 * w + 2, 0.5 * z + x + 0.3 * w - 1) * tp.sin(2 * x - z - 1) - 0.2))

    found = tp.derive(tp.program(f)).evaluate(method="quadrature")["return"]
    # midpoints, 800³ of them
    assert abs(found.value - 0.94274483) <= 2 * found.error < 5e-3


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


def test_means_and_values_of_a_pass_one_after_another(monkeypatch):
    """A mean under covariances that stand on what was found before it; one that is not finite is refused."""
    x = sympy.Symbol("x", real=True)
    steps = (Closed(b, 2 * a), Mean(c, SimpleNamespace(body=x), ((x, x, b + 1),)))
    asked, value = [], [0.25]

    class Quadrature:
        def __init__(self, covariance, known, level, budget):
            asked.append((covariance, dict(known), level))

        def mean(self, integrand):
            return SimpleNamespace(value=value[0], error=0.125)

    monkeypatch.setattr(passes, "Quadrature", Quadrature)
    one = passes._Pass(EvaluationPlan(steps, (("t", c - a),)), {a: 3.0}, 2, Budget(1))
    one.run()
    assert asked == [({(x, x): 7.0}, {a: 3.0, b: 6.0}, 2)]
    assert (one.known, one.errors, one.targets) == ({a: 3.0, b: 6.0, c: 0.25}, {c: 0.125}, {"t": -2.75})
    for value[0] in (float("inf"), float("nan")):
        with pytest.raises(EvaluationError, match="moment not established: the quadrature of x is not finite"):
            passes._Pass(one.plan, {a: 3.0}, 2, Budget(1)).run()


def test_means_are_moved_by_their_errors_up_or_down():
    """By 1 to 1.3 times the error, or the rounding, that turns with the place; closed steps move too."""
    means = sympy.symbols("m0:6", real=True)
    steps = (*(Mean(m, Integrand((), (), a, (), (), ()), ()) for m in means), Closed(b, means[0] + a))
    one = passes._Pass(EvaluationPlan(steps, (("t", 2 * b),)), {a: 3.0}, 0, Budget(1))
    one.known = {a: 3.0, **{m: 1.0 + i for i, m in enumerate(means)}}
    one.errors = {m: 0.5 if i != 2 else 0.0 for i, m in enumerate(means)}
    for pattern, signs in ((1, "--++--"), (3, "-++--+")):
        known, targets = one.moved(pattern)
        for i, (m, sign) in enumerate(zip(means, signs, strict=True)):
            error = (3 * 2.0**-52 if i == 2 else 0.5) * (1 + 0.06 * (i % 5))
            assert known[m] - (1.0 + i) == pytest.approx(error if sign == "+" else -error, rel=0.3 if i == 2 else 1e-9)
        moves = (known[b] - (known[means[0]] + 3)) / (2.0**-52 * known[b])
        assert targets == {"t": 2 * known[b]} and 0.5 <= moves <= 2.0


def test_passes_that_agreed_by_chance_before_they_moved():
    """Two first passes may both be 0, where the grid is too coarse for what there is; the third sees it."""
    assert passes._disagreement([0.0, 0.0, 1e-3]) == 1e-3
    assert passes._disagreement([0.0, 0.0, 1e-3, 1.5e-3]) == pytest.approx(1e-3), "as large as the move before it"
    assert passes._disagreement([0.0, 0.0, 0.0]) == 0.0


def test_what_is_no_number_beside_a_zero_is_zero_within_its_error():
    """√(E σ(h) − ½) is √0, moved within the error of the mean the root of less: no warning but a refusal by name."""

    @tp.program
    def program(W: tp.Matrix, V: tp.Matrix, b: tp.Vector = 1):
        s = tp.avg(tp.sigmoid(W @ b))
        y = tp.sigmoid(W @ tp.sigmoid(W @ (b * tp.sqrt(s - 1 / 2))))
        return tp.avg(y), 2 * tp.avg(tp.step(V @ (y - tp.avg(y))))

    with pytest.raises(tp.EvaluationError, match=r"under the root in `sqrt\(s - 1/2\)` tends to 0 within its error"):
        tp.derive(program).evaluate()
