"""Closed values that cancel: 0 within the rounding of their digits, without a sign and without an inverse."""

import math

import mpmath
import pytest
import sympy
from sympy import Rational, S, Symbol, log, sqrt

import tplimits as tp
from tplimits.numbers.budget import AUTO, Budget
from tplimits.numbers.closed_values import exact
from tplimits.numbers.passes import quadrature
from tplimits.numbers.plan import Closed, EvaluationPlan
from tplimits.numbers.precision import Unsettled

a, b, c = (Symbol(name, real=True) for name in "abc")
#: a = b by an identity of nested roots, c = 2 a by one of logarithms
STEPS = (
    Closed(a, sqrt(2) + sqrt(3)),
    Closed(b, sqrt(5 + 2 * sqrt(6))),
    Closed(c, 2 * a + log(6) - log(2) - log(3)),
)


def plan(**targets: sympy.Expr) -> EvaluationPlan:
    return EvaluationPlan(STEPS, tuple(targets.items()))


def test_numbers_without_cancellation_are_rounded_once() -> None:
    found = exact(EvaluationPlan((), (("t", sympy.pi * a),)), {a: Rational(1, 3)})
    assert found["t"].value == float(sympy.pi / 3)
    assert found["t"].error == found["t"].value * 2.0**-52


@pytest.mark.parametrize(
    "target", [a - b, 10**9 * (a - b), (a - b) / (1 + c), c - a - b, (a - b) * a + b * (c - 2 * a)]
)
def test_what_cancels_is_zero_within_its_rounding(target: sympy.Expr) -> None:
    number = exact(plan(y=target), {})["y"]
    assert number.value == 0
    assert 0 < number.error < 1e-27


@pytest.mark.parametrize("target", [sympy.sign(a - b), 2 + tp.step(c - 2 * b), 1 / (a - b), a * log(abs(a - b))])
def test_no_side_of_it_is_told(target: sympy.Expr) -> None:
    with pytest.raises(Unsettled, match=r"is 0 within its error|divided by zero"):
        exact(plan(y=target), {})


@pytest.mark.parametrize("target", [sympy.sign(a - b), 1 / (a - b) ** 3])
def test_nor_is_it_in_doubles(target: sympy.Expr) -> None:
    with pytest.raises(Unsettled, match=r"is 0 within its error|divided by zero"):
        quadrature(plan(y=target), {}, Budget(AUTO))


def test_what_is_small_and_not_zero_has_a_side() -> None:
    small = Rational(1, 10**25)
    number = exact(plan(y=a - b + small, s=sympy.sign(b - a - small), p=1 / (a - b + small)), {})
    assert math.isclose(number["y"].value, 1e-25, rel_tol=1e-9)
    assert number["s"].value == -1
    assert math.isclose(number["p"].value, 1e25, rel_tol=1e-9)
    assert number["y"].error < 1e-34


def test_a_root_of_it_is_continuous_and_as_inaccurate_as_it_is() -> None:
    number = exact(plan(y=1 + sqrt(abs(a - b))), {})["y"]
    assert number.value == 1
    assert 1e-20 < number.error < 1e-15


def test_what_does_not_cancel_keeps_all_digits() -> None:
    number = exact(plan(y=a + b, z=a * b - 5), {})
    assert number["y"].value == float(2 * (sqrt(2) + sqrt(3)))
    assert number["y"].error == number["y"].value * 2.0**-52
    assert math.isclose(number["z"].value, 2 * math.sqrt(6), rel_tol=1e-15)


def test_constants_are_exact() -> None:
    given = {Symbol("k"): S.Half}
    assert exact(plan(y=Symbol("k") * (a - a / 2), z=sympy.sign(Symbol("k") - S.Half)), given)["z"].value == 0


@tp.program
def half_an_absolute_value(R: tp.Matrix, Z: tp.Matrix, W: tp.Matrix, x: tp.Vector, k: tp.Scalar):
    y = W @ (Z @ tp.gelu(R @ x))
    s = tp.avg(tp.relu(y)) - tp.avg(tp.abs(y)) / k
    return s, tp.avg(tp.sign(s**3) * y**2), tp.avg(y**2)


def test_a_limit_that_no_algebra_sees_is_zero_has_no_sign() -> None:
    """avg(relu(y)) − avg|y|/2 is avg(y)/2: of either sign at every width."""
    limit = tp.derive(half_an_absolute_value)
    number = limit.evaluate(only=("return[0]",), k=2)["return[0]"]
    assert number.value == 0
    assert number.error < 1e-30
    with pytest.raises(tp.TplimitsError, match="argument of sign is 0 within its error"):
        limit.evaluate(only=("return[1]",), k=2)


def test_its_neighbours_have_one() -> None:
    limit = tp.derive(half_an_absolute_value)
    for k, sign in ((3, 1), (1, -1)):
        numbers = limit.evaluate(k=k)
        assert math.isclose(numbers["return[1]"].value, sign * numbers["return[2]"].value, rel_tol=1e-12)


@tp.program
def tails(x: tp.Vector):
    far = tp.step(x - 30)
    return tp.avg(far), tp.avg(tp.relu(x - 30)), tp.avg(x * far) / tp.avg(far), tp.avg(tp.step(x - 60))


def test_probabilities_far_out_are_no_zeros_and_may_be_divided_by() -> None:
    """P(x > 30) = erfc(30/√2)/2, E relu(x − 30) = φ(30) − 30 P, E[x | x > 30] = φ(30)/P."""
    found = tp.derive(tails).evaluate()
    with mpmath.workdps(50):
        far = mpmath.erfc(30 / mpmath.sqrt(2)) / 2
        truths = far, mpmath.npdf(30) - 30 * far, mpmath.npdf(30) / far
    for k, truth in enumerate(truths):
        assert math.isclose(found[f"return[{k}]"].value, float(truth), rel_tol=1e-14, abs_tol=0)
        assert found[f"return[{k}]"].method == "exact"


def test_what_is_below_all_doubles_is_not_told_to_be_zero() -> None:
    number = tp.derive(tails).evaluate(only=("return[3]",))["return[3]"]
    assert number.value == 0 < number.error and str(number) == "0 ± 4.9e-324 (exact)"
    assert str(exact(plan(y=0 * a), {})["y"]) == "0 (exact)"
