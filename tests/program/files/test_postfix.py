"""Bodies as postfix lists of words."""

import pytest
import sympy
from sympy import Integer, Rational, Symbol

from tplimits.errors import ProgramError
from tplimits.program.files.postfix import MAX_WORDS, Budget, expression, shown, words
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    Entry,
    GaussMean,
    Lookup,
    N,
    axis_symbol,
    bound_axis_symbol,
    constant_symbol,
    normal_symbol,
    size_symbol,
    slot_symbol,
    width_symbol,
)
from tplimits.program.nodes.functions import maximum, where

a, token = axis_symbol("a"), axis_symbol("token")
x = Entry(Integer(0), OWN, token)
BODIES = {
    "a rational": Rational(-7, 3),
    "named numbers": sympy.pi + sympy.E * sympy.EulerGamma,
    "symbols": N ** Rational(1, 2) * width_symbol("k") * constant_symbol("γ") / size_symbol("token"),
    "a constant, a width and an axis of one name": constant_symbol("k")
    * width_symbol("k")
    * Entry(Integer(0), OWN, axis_symbol("k")),
    "entries": Entry(Integer(3), NO_NEURON) * x * Entry(Integer(1), slot_symbol(1), Integer(2), token) ** 2,
    "arrays and tables": ArrayEntry(Integer(0), a, Integer(1)) * Entry(Integer(0), OWN, Lookup(Integer(1), a, token)),
    "sums": AxisSum(
        x.xreplace({token: bound_axis_symbol("token", 1)}) ** 2, bound_axis_symbol("token", 1), Symbol("token")
    ),
    "means": GaussMean(sympy.tanh(normal_symbol(1) * constant_symbol("γ")), normal_symbol(1)) + x,
    "functions": where(x, maximum(x, 1), sympy.exp(-x)) / sympy.log(2),
}


@pytest.mark.parametrize("name", BODIES)
def test_there_and_back(name):
    body = BODIES[name]
    written = words(body, (slot_symbol(1),))
    assert all(isinstance(word, str) for word in written)
    back = expression(written, slots=1)
    assert back == body and back.args == body.args and hash(back) == hash(body)


def test_a_list_that_people_can_read():
    body = 2 * sympy.tanh(x) + constant_symbol("γ")
    assert words(body) == ["constant γ", "2", "index token", "entry 0 own 1", "tanh", "mul 2", "add 2"]


def test_what_has_no_word():
    for body, found in [
        (sympy.gamma(x), "has no form in a file; its heads are add, mul"),
        (Symbol("q") * x, "the symbol `q` has no form in a file"),
        (Symbol("γ", positive=True, integer=True), "the symbol `γ` has no form"),
        (sympy.Float(0.5), "has no form in a file"),
        (sympy.oo, "has no form in a file"),
    ]:
        with pytest.raises(ProgramError, match=found):
            words(body)


def test_a_body_that_is_too_long_is_not_written_even_if_it_is_small_in_memory():
    body = x
    for _ in range(40):
        body = sympy.Mul(body, sympy.tanh(body, evaluate=False), evaluate=False)  # 2^40 words, 80 objects
    with pytest.raises(
        ProgramError, match=f"more than {MAX_WORDS} words cannot be written; give intermediate values names"
    ):
        words(body)


def test_reading_simplifies_nothing():
    assert str(expression(["1", "1", "add 2"])) == "1 + 1"
    assert expression(["index a", "-1", "mul 2", "index a", "add 2"]) != 0


def test_a_budget_is_shared():
    budget = Budget(3)
    expression(["1", "2", "add 2"], budget=budget)
    with pytest.raises(ProgramError, match="more than 3 words; split the program"):
        expression(["1"], budget=budget)


def test_what_is_shown_of_a_file_is_short_and_printable():
    assert shown("a\x1b[2J\ud800") == r"'a\x1b[2J\ud800'"
    assert len(shown("x" * 1000)) == 60 and len(shown(list(range(1000)))) <= 60


@pytest.mark.parametrize(
    "constant",
    [
        ["2", "1/2", "pow", "step"],
        ["1/2", "log"],
        ["3", "relu", "-1/2", "1/10", "leaky_relu", "add 2"],
        ["1", "2", "maximum", "3", "minimum"],
        ["-1", "1", "2", "where"],
        ["1/3", "sigmoid", "softplus", "gelu", "abs", "sign"],
        ["1/2", "asin", "acos", "atan", "asinh", "sinh", "cosh", "tanh", "erf", "erfc", "sin", "cos", "tan"],
        ["1/2", "atanh", "exp"],
        ["2", "-3", "pow"],
        ["-2", "3", "pow"],
        ["1", "dirac"],
        ["0", "0", "pow"],
        ["2", "1/2", "pow", "-7/5", "add 2", "step"],
    ],
    ids=" ".join,
)
def test_honest_constants_are_read(constant):
    assert expression(constant).is_number


def test_numbers_are_read_exactly():
    assert expression(["-12345678901234567890/7"]) == Rational(-12345678901234567890, 7)
    assert expression(["6/4"]) == Rational(3, 2)
