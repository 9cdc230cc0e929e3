"""What evaluate() does when some number is hard, impossible, or not settled."""

import math

import mpmath
import pytest

import tplimits as tp
from tplimits.numbers.budget import Budget, TooManyNodes
from tplimits.numbers.number import Number
from tplimits.regimes.width import evaluation
from tplimits.regimes.width.derivation import derive_width
from tplimits.regimes.width.evaluation import _coarse


def ping_pong(rounds):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = x
        for _ in range(rounds):
            h = tp.tanh(W.T @ tp.tanh(W @ h))
        return tp.avg(h * x)

    return tp.derive(program)


@pytest.mark.long
def test_constants_inside_named_factors_are_part_of_the_plan():
    """Long factors hold values of their own; five rounds are the first that name them."""
    limit = ping_pong(5)
    number = limit.evaluate(particles=2048)["return"]
    assert math.isfinite(number.value)
    sampled = limit.evaluate("particles", particles=4096, seed=1)["return"]
    assert abs(number.value - sampled.value) < 5 * math.hypot(number.error, sampled.error)


@pytest.mark.long
def test_integrals_that_cost_too_much_together_are_left_to_particles():
    assert ping_pong(2).evaluate()["return"].method == "quadrature"
    assert ping_pong(5).evaluate(particles=1024)["return"].method == "particles"
    budget = Budget(1000)
    with pytest.raises(TooManyNodes, match="particles"):
        budget.spend(100, 10)


def test_a_jump_at_a_zero_in_disguise_has_no_value():
    """E x tanh x = E sech² x by Stein's lemma: the sign of the difference is a matter of rounding."""

    @tp.program
    def program(x: tp.Vector):
        difference = tp.avg(x * tp.tanh(x)) - tp.avg(1 - tp.tanh(x) ** 2)
        return tp.sign(difference), tp.avg(tp.tanh(x) ** 2)

    limit = tp.derive(program)
    for method in ("auto", "quadrature"):
        with pytest.raises(tp.EvaluationError, match="argument of sign is 0 within its error") as caught:
            limit.evaluate(method)
        assert "E[x*tanh(x)]" in str(caught.value)


@pytest.mark.parametrize("function", [tp.log, tp.sqrt, lambda s: 1 / s], ids=["log", "root", "pole"])
def test_nor_has_a_singular_point(function):
    @tp.program
    def program(x: tp.Vector):
        return function(tp.avg(x * tp.tanh(x)) - tp.avg(1 - tp.tanh(x) ** 2))

    with pytest.raises(tp.EvaluationError):
        tp.derive(program).evaluate()


def test_continuous_functions_of_a_zero_in_disguise_are_fine():
    @tp.program
    def program(x: tp.Vector):
        difference = tp.avg(x * tp.tanh(x)) - tp.avg(1 - tp.tanh(x) ** 2)
        return tp.exp(difference), tp.relu(difference)

    values = [n.value for n in tp.derive(program).evaluate().values()]
    assert values[:2] == pytest.approx([1, 0], abs=1e-14)


def test_a_sign_away_from_zero_is_settled():
    @tp.program
    def program(x: tp.Vector):
        return tp.sign(tp.avg(x * tp.tanh(x)) - 0.6)

    assert tp.derive(program).evaluate()["return"].value == 1  # E x tanh x = 0.6057…


def test_a_failing_value_does_not_take_the_others_with_it():
    @tp.program
    def program(x: tp.Vector, *, c):
        return tp.avg(x * x) / c, tp.avg(tp.tanh(x) ** 2)

    limit = tp.derive(program)
    with pytest.raises(tp.EvaluationError, match=r"no number for return\[0\].*only=\('return\[1\]',\)"):
        limit.evaluate(c=0)
    number = limit.evaluate(c=0, only=["return[1]"])
    assert list(number) == ["return[1]"]
    expected = mpmath.quad(lambda g: mpmath.tanh(g) ** 2 * mpmath.npdf(g), [-12, 0, 12])
    assert number["return[1]"].value == pytest.approx(float(expected), abs=1e-12)
    with pytest.raises(tp.EvaluationError, match="the labels are"):
        limit.evaluate(c=0, only=["return[7]"])


@pytest.mark.parametrize("method", ["auto", "exact", "quadrature"])
def test_a_division_by_a_constant_that_is_zero(method):
    @tp.program
    def program(x: tp.Vector, *, c):
        return tp.avg(x * x) / c

    with pytest.raises(tp.EvaluationError, match="at c = 0 has no finite value"):
        tp.derive(program).evaluate(method, c=0)


def test_a_division_by_a_given_scalar_that_is_zero():
    @tp.program
    def program(x: tp.Vector, s: tp.Scalar):
        return tp.avg(tp.tanh(x) ** 2) / s

    limit = tp.derive(program)
    with pytest.raises(tp.EvaluationError, match="at s = 0 has no finite value"):
        limit.evaluate(s=0)
    assert limit.evaluate(s=2)["return"].value == pytest.approx(0.19714724519892, abs=1e-12)  # E tanh² g / 2


@pytest.mark.parametrize(
    ("value", "error", "coarse"),
    [
        (0.01, 1e-4, True),
        (1.0, 1e-4, False),
        (0.0, 1e-10, False),
        (0.0, 1e-4, True),
        (1e-4, 1e-9, False),
        (1.0, math.nan, True),
    ],
)
def test_three_digits_are_asked_of_quadrature(value, error, coarse):
    """Relative to the value, however small it is; exact numbers and particles say themselves what they know."""
    assert _coarse(Number(value, error, "quadrature")) == coarse
    assert not _coarse(Number(value, 1.0, "particles"))


def test_the_derivation_with_nothing_closed_is_made_once(monkeypatch):
    made = []
    monkeypatch.setattr(evaluation, "derive_width", lambda *a, **k: made.append(k) or derive_width(*a, **k))

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, *, a=None):
        return tp.avg(tp.relu(a * (W @ x)) ** 2)

    limit = tp.derive(program)
    for a in (1.0, 2.0, 3.0):
        assert limit.evaluate("quadrature", a=a)["return"].value == pytest.approx(a**2 / 2, rel=1e-12)
    assert made == [{"table": (), "with_dots": True, "data": {}}]


@pytest.mark.parametrize("rate", [10, 50])
def test_closed_forms_of_large_terms_that_cancel(rate):
    """E e^(−rate y) relu(y) (1 + tanh(y)/10) is e^(rate²σ²/2) times what is left of a sum, and an integral."""

    @tp.program
    def falling(x: tp.Vector, W: tp.Matrix):
        y = W @ tp.tanh(W @ x)
        return tp.avg(tp.exp(-rate * y) * tp.relu(y) * (1 + tp.tanh(y) / 10))

    with mpmath.workdps(30):
        line = [-12, -4, 0, 4, 12]
        s = mpmath.sqrt(mpmath.quad(lambda g: mpmath.tanh(g) ** 2 * mpmath.npdf(g), line))

        def function(g):
            y = s * g
            return mpmath.exp(-rate * y) * y * (1 + mpmath.tanh(y) / 10) * mpmath.npdf(g)

        expected = float(mpmath.quad(function, [0, *(k / (rate * s) for k in (1, 4, 20, 100))]))
    limit = tp.derive(falling)
    for method in ("auto", "quadrature"):
        found = limit.evaluate(method=method)["return"]
        assert abs(found.value - expected) <= max(4 * found.error, 1e-12 * expected) < 1e-8 * expected


@pytest.mark.parametrize(("closed", "plain", "taken"), [(1e-4, 1e-6, 0.2), (1e-6, 1e-4, 0.1), (1e-10, 1e-12, 0.1)])
def test_of_a_rough_closed_form_and_its_integral_the_one_with_the_smaller_error_is_taken(
    monkeypatch, closed, plain, taken
):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.relu(W @ x))

    limit = tp.derive(program)
    found = evaluation._Evaluation(limit.program, limit.state, {}, "auto", lambda chosen: {})
    numbers = {True: Number(0.1, closed, "exact"), False: Number(0.2, plain, "quadrature")}
    monkeypatch.setattr(
        evaluation._Evaluation, "_integrated", lambda self, state, chosen: {"return": numbers[state is self.state]}
    )
    assert found._best_integrated(limit.observables)["return"].value == taken


def test_what_rounding_leaves_of_no_variance_is_not_below_zero():
    """step(s² + 1/n) is 1 whatever √n s is; second moments by quadrature leave some 1e-15 of its variance."""

    @tp.program
    def settled(x: tp.Vector, y: tp.Vector):
        return tp.step(tp.avg(x * y) ** 2 + 1 / tp.n)

    number = tp.derive(settled).evaluate()["return"]
    assert number.value == pytest.approx(1.0, abs=1e-12)
    assert number.variance == 0.0 < number.variance_error < 1e-12
