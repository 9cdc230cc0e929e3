"""A closed form found on symbols is the closed form of the values."""

import pytest
import sympy
from sympy import Integer, Rational, Symbol

from tplimits.law.closed_forms.generic import Shape, is_regular
from tplimits.law.closed_forms.integrand import Law, NotClosed, recognise
from tplimits.law.closed_forms.table import close
from tplimits.program.nodes.functions import step

X, Y = sympy.symbols("x y", real=True)
FACTORS = {
    "relu·relu": [X, Y, step(X), step(Y)],
    "erf·erf": [sympy.erf(X), sympy.erf(Y)],
    "gelu·y": [X, sympy.erf(X), Y],
    "bump": [sympy.exp(-(X**2)), Y**2],
    "waves": [sympy.cos(X), sympy.cos(Y)],
}


@pytest.mark.parametrize("factors", FACTORS.values(), ids=FACTORS)
def test_symbols_then_values_or_values_at_once(factors):
    a, b, c = sympy.symbols("a b c", positive=True)
    symbolic, rows = close(factors, [X, Y], lambda: Law(((a, b), (b, c))))
    values = {a: Rational(3, 2), b: Rational(2, 5), c: Rational(5, 7)}
    direct, same_rows = close(factors, [X, Y], lambda: Law(((values[a], values[b]), (values[b], values[c]))))
    assert rows == same_rows
    assert abs(sympy.N(symbolic.xreplace(values) - direct, 30)) < 1e-25


def test_equal_values_share_a_symbol_and_numbers_stay():
    v = Symbol("v", positive=True)
    shape = Shape(Law(((v, Integer(1)), (Integer(1), v))), recognise([X, Y], [X, Y]))
    ((p, one), (_, q)) = shape.law.covariance
    assert p == q
    assert p.is_positive
    assert one == 1
    assert shape.restored(p) == v


def test_a_singular_law_is_not_taken_for_a_regular_one():
    v = Symbol("v", positive=True)
    assert not is_regular(Law(((v, 2 * v), (2 * v, 4 * v))))
    # x = y/2: E relu(x) relu(y) = 2 E relu(x)² = v
    value, _ = close([X, Y, step(X), step(Y)], [X, Y], lambda: Law(((v, 2 * v), (2 * v, 4 * v))))
    assert sympy.simplify(value - v) == 0


def test_a_form_outside_the_table_stays_open_for_every_value():
    v = Symbol("v", positive=True)
    for value in (v, Integer(2)):
        with pytest.raises(NotClosed):
            close([sympy.tanh(X)], [X], lambda value=value: Law(((value,),)))


def test_laws_are_regular_where_their_determinant_is_not_zero():
    """Of one, two and three variables; z = x + y has regular minors of every order below."""
    a, b = sympy.symbols("a b", positive=True)
    regular = [[[a]], [[a, 1], [1, a + 1 / a]], [[a, 0, 1], [0, b, 1], [1, 1, 2 + 1 / a + 1 / b]]]
    singular = [[[0]], [[a, 2 * b], [2 * b, 4 * b**2 / a]], [[a, 0, a], [0, b, b], [a, b, a + b]]]
    for rows, known in [*((r, True) for r in regular), *((r, False) for r in singular)]:
        assert is_regular(Law(tuple(tuple(map(sympy.sympify, row)) for row in rows))) == known, rows
