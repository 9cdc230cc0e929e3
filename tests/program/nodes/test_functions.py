"""The heads: values at kinks, derivatives, elementary forms, and the table of them."""

import math

import numpy as np
import pytest
import sympy
from sympy import Integer, Rational, Symbol

from tplimits.program.language import entrywise, refusals
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS, evaluate
from tplimits.program.nodes.functions import (
    HEADS,
    elementary,
    gelu,
    kinks,
    leaky_relu,
    maximum,
    minimum,
    relu,
    sigmoid,
    softplus,
    step,
    stop_gradient,
    where,
)

x, y = sympy.symbols("x y", real=True)
POINTS = np.array([-2.3, -1.0, -0.4, 0.7, 1.0, 1.9])

ONE = [step, relu, sigmoid, softplus, gelu, sympy.Abs, sympy.sign]
TWO = [leaky_relu, maximum, minimum]


def test_the_values_that_the_language_fixes_at_zero():
    assert step(0) == 0 and relu(0) == 0 and sympy.sign(0) == 0
    assert relu(x).diff(x).subs(x, 0) == 0
    for head, value in ((step, 0), (relu, 0), (sympy.sign, 0), (sympy.Abs, 0), (sigmoid, 0.5), (gelu, 0)):
        assert ARRAY_FUNCTIONS[head](np.zeros(1))[0] == value
    assert ARRAY_FUNCTIONS[where](np.zeros(1), 1.0, 2.0) == 2
    assert ARRAY_FUNCTIONS[leaky_relu](np.zeros(1), 0.1) == 0


def test_numbers_are_evaluated():
    assert relu(Integer(-3)) == 0 and relu(Rational(5, 2)) == Rational(5, 2)
    assert step(sympy.pi - 3) == 1 and step(3 - sympy.pi) == 0
    assert leaky_relu(Integer(-2), Rational(1, 10)) == Rational(-1, 5)
    assert maximum(2, sympy.sqrt(5)) == sympy.sqrt(5) and minimum(2, 3) == 2
    assert where(Integer(1), x, y) == x and where(Integer(0), x, y) == y
    assert sigmoid(Integer(0)) == Rational(1, 2) and softplus(Integer(0)) == sympy.log(2) and gelu(Integer(0)) == 0


def test_equal_functions_are_equal():
    assert step(3 * x) == step(x) and step(-2 * x) == step(-x)
    assert maximum(x, y) == maximum(y, x) and minimum(x, y) == minimum(y, x)
    assert maximum(x, x) == x and where(y, x, x) == x
    assert maximum(x + 1, x) == x + 1


@pytest.mark.parametrize("head", ONE)
def test_derivatives_agree_with_differences(head):
    derivative = head(x).diff(x)
    at = POINTS + 1e-3
    numerical = (evaluate(head(x), {x: at + 1e-6}) - evaluate(head(x), {x: at - 1e-6})) / 2e-6
    known = {x: at}
    exact = evaluate(derivative, {**known, sympy.DiracDelta(x): 0.0}) if derivative != 0 else 0 * at
    np.testing.assert_allclose(np.broadcast_to(exact, at.shape), numerical, atol=1e-7)


@pytest.mark.parametrize("head", TWO)
@pytest.mark.parametrize("variable", [x, y])
def test_derivatives_of_two_arguments(head, variable):
    known = {x: POINTS, y: np.array([0.3, 0.2, -0.9, 0.1, 1.4, 2.5])}
    up, down = ({**known, variable: known[variable] + s} for s in (1e-6, -1e-6))
    numerical = (evaluate(head(x, y), up) - evaluate(head(x, y), down)) / 2e-6
    exact = evaluate(head(x, y).diff(variable), known)
    np.testing.assert_allclose(np.broadcast_to(exact, POINTS.shape), numerical, atol=1e-7)


@pytest.mark.parametrize("head", [*ONE, *TWO, where], ids=lambda h: h.__name__)
def test_the_elementary_form_is_the_same_function(head):
    z = Symbol("z", real=True)
    args = (x, y, z)[: 3 if head is where else 2 if head in TWO else 1]
    known = {x: POINTS, y: POINTS[::-1].copy(), z: np.ones(6)}
    form = elementary(head(*args))
    assert not form.has(relu, leaky_relu, maximum, minimum, where, sigmoid, gelu, sympy.Abs, sympy.sign)
    np.testing.assert_allclose(evaluate(form, known), evaluate(head(*args), known), atol=1e-14)


def test_elementary_forms_go_inside():
    assert elementary(sympy.exp(relu(x))) == sympy.exp(x * step(x))
    assert elementary(relu(relu(x))) == x * step(x) * step(x * step(x))


def test_kinks():
    assert kinks(relu(x - 1) + sympy.Abs(y) * maximum(x, y)) == {x - 1, y, x - y}
    assert kinks(sympy.tanh(x)) == set()


def test_softplus_and_sigmoid_do_not_overflow():
    big = np.array([-1e4, 1e4])
    assert ARRAY_FUNCTIONS[softplus](big).tolist() == [0.0, 1e4]
    assert ARRAY_FUNCTIONS[sigmoid](big).tolist() == [0.0, 1.0]


def test_gelu_is_the_exact_form():
    assert ARRAY_FUNCTIONS[gelu](1.3) == pytest.approx(1.3 * (1 + math.erf(1.3 / math.sqrt(2))) / 2, abs=1e-15)


def test_every_head_has_an_array_form():
    structural = {"add", "mul", "pow", "dirac"}
    missing = {name for name, (head, _) in HEADS.items() if head not in ARRAY_FUNCTIONS} - structural
    assert not missing


def test_every_head_has_the_arity_of_its_class():
    for name, (head, arity) in HEADS.items():
        if arity is not None and name != "pow":
            assert arity in head.nargs, name


@pytest.mark.parametrize("name", [name for name, (head, arity) in HEADS.items() if arity and name != "dirac"])
def test_what_is_no_number_stays_no_number(name):
    """SymPy asks nan > 0 of what is comparable, and fails; what is chosen is a number whatever is not chosen."""
    head, arity = HEADS[name]
    assert head(sympy.nan, *[Integer(2)] * (arity - 1)) is sympy.nan
    assert where(-1, sympy.nan, 3) == 3


def test_every_entrywise_function_of_the_language_is_known_to_the_messages():
    public = {name for name, f in vars(entrywise).items() if getattr(f, "__module__", "") == entrywise.__name__}
    public -= {"elementwise", "expect", "stop_gradient"} | {name for name in public if name.startswith("_")}
    assert public == refusals.ENTRYWISE


def test_a_choice_by_a_comparison_is_one_by_what_is_compared():
    """torch.where(h > 0, h, 0) compares step(h), which no derivative passes, with ½: its value is nowhere near ½."""
    half, values = Rational(1, 2), {x: 0, y: 3}
    for condition, expected in (
        (step(x) - half, where(x, y, 7)),
        (stop_gradient(step(x)) - half, where(stop_gradient(x), y, 7)),
        (half - step(x), where(x, 7, y)),
        (3 * step(-x) - 2, where(-x, y, 7)),
        (1 - 2 * stop_gradient(step(x)), where(stop_gradient(x), 7, y)),
    ):
        chosen = where(condition, y, 7)
        assert chosen == expected
        for at in (-2, 0, 2):
            number = float(elementary(condition).subs(x, at))
            assert elementary(chosen).subs(values | {x: at}) == (3 if number > 0 else 7)
    # not one by x where no side changes the sign, or another part of the condition has any
    assert where(step(x) + 1, y, 7) != where(x, y, 7) != where(step(x) - half + y, y, 7)
    assert where(step(x) + step(y) - half, y, 7) not in (where(x, y, 7), where(y, y, 7))


def test_heads_of_what_is_never_negative_are_seen():
    """relu(|x|) is |x| and max(x, −x) is |x|, at every number; relu(x² − 1) is no such thing."""
    same = {
        relu(sympy.Abs(x)): abs,
        maximum(x, -x): abs,
        minimum(x - 1, 1 - x): lambda v: -abs(v - 1),
        relu(sympy.exp(x)): math.exp,
    }
    for expr, f in same.items():
        assert not expr.has(relu, maximum, minimum)
        assert all(float(expr.subs(x, v)) == pytest.approx(f(v)) for v in (-1.7, 0.0, 0.4, 2.0))
    assert relu(x**2 - 1).has(relu) and maximum(x, 1 - x).has(maximum)
