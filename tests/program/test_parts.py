"""Parts of long bodies, against SymPy, which walks through all of a body every time."""

import pytest
import sympy

from tplimits.program.nodes.entries import Entry, GaussMean
from tplimits.program.nodes.functions import relu, step
from tplimits.program.parts import found, put_in, symbols

X = sympy.symbols("x:12", real=True)
LINEAR = sum((i - 3) * x for i, x in enumerate(X))
SOFTMAX = sympy.exp(X[0]) / sum(map(sympy.exp, X))
BODIES = [
    SOFTMAX,
    sympy.tanh(LINEAR) * relu(X[3] - X[4]) + step(X[1]) ** 2,
    sympy.log(1 + sympy.exp(LINEAR)) + sympy.erf(X[0] - X[1]),
    Entry(sympy.Integer(2), X[0], sympy.Integer(1)) + X[1],
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kinds", [(sympy.Pow,), (sympy.Symbol,), (relu, step), (Entry,), (sympy.exp, sympy.log)])
def test_parts_are_the_atoms_of_sympy(body, kinds):
    assert found(body, *kinds) == body.atoms(*kinds)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("head", [sympy.tanh, sympy.erf, sympy.atan, sympy.asinh, sympy.sin, relu])
def test_values_are_put_in_as_sympy_does_it(body, head):
    """Long sums of either sign, sums that vanish, numbers."""
    over = head(X[0]) + body
    numbers = (sympy.Integer(0), sympy.Rational(1, 3), sympy.pi, 1 + sympy.sqrt(2), X[1] + sympy.I * sympy.pi)
    for value in (LINEAR, -LINEAR, LINEAR - X[2], *numbers):
        values = {X[0]: value, X[5]: -X[6]}
        assert put_in(over, values, {}) == over.xreplace(values)
    several = head(LINEAR + 2 * X[1])
    signs = {x: -x for x in X}
    assert put_in(several, signs, {}) == several.xreplace(signs)
    assert put_in(several, dict.fromkeys(X, sympy.Integer(0)), {}) == several.xreplace(
        dict.fromkeys(X, sympy.Integer(0))
    )


@pytest.mark.parametrize("body", BODIES)
def test_free_symbols_are_those_of_sympy(body):
    mean = GaussMean(body * X[7], X[1])
    for expr in (body, mean, mean**2 + X[1], sympy.Integral(body, (X[0], 0, X[11])) * X[2], sympy.Integer(2)):
        assert symbols(expr) == expr.free_symbols


PRODUCTS = [
    sympy.sqrt(2) * X[0] * sympy.exp(-(X[1] ** 2) / 2) / sympy.sqrt(sympy.pi),
    -3 * X[0] * sympy.erf(sympy.sqrt(2) * X[1] / 2) * sympy.exp(-(X[2] ** 2)),
    X[0] * sympy.sqrt(X[1]) * X[2] ** 2 / X[3],
    2 * X[0] * sympy.exp(X[1]) * sympy.tanh(X[2] * X[3]),
    sympy.Rational(1, 2) * sympy.asinh(X[0] / X[1]) * sympy.atan(X[2] ** 2) * relu(X[3]),
    sympy.pi ** X[0] * X[1] * Entry(sympy.Integer(2), X[2]),
]


@pytest.mark.parametrize("body", PRODUCTS)
def test_products_are_put_together_as_sympy_does_it(body):
    """Over values that have nothing to do with one another, that have bases in common, that are numbers or sums."""
    x, y, z = X[9:]
    e, log = sympy.exp, sympy.log
    several = (x, y, -x, 2 * x, x * y, x**2, 1 / x, sympy.sqrt(x), x + y, -x - y, x - y, e(x), e(-y), e(x + 1), log(x))
    numbers = (sympy.Integer(0), sympy.Integer(1), -sympy.sqrt(2), sympy.sqrt(sympy.pi), sympy.E, sympy.pi / 3)
    for i, first in enumerate((*several, *numbers)):
        for second in (*several[i % 3 :: 3], *numbers[i % 2 :: 2]):
            values = {X[0]: first, X[1]: second, X[2]: z * first, X[3]: first + second}
            if first == 0 or second == 0 or first + second == 0:
                values = {X[0]: first, X[2]: -second}
            assert put_in(body, values, {}) == body.xreplace(values)


def test_exponentials_of_logarithms_are_seen_whatever_stood_there_before():
    """e^(log a), e^(2 log a) and e^(x + log a) for a symbol, a multiple and a sum."""
    x, y, z = X[:3]
    for old, value in ((x, y), (2 * x, y**2), (x + z, y * sympy.exp(z))):
        assert put_in(sympy.exp(old), {x: sympy.log(y)}, {}) == value


def test_what_was_put_into_a_part_serves_the_next_body():
    done: dict[sympy.Expr, sympy.Expr] = {}
    values = {x: x**2 for x in X}
    first = put_in(SOFTMAX, values, done)
    denominator = SOFTMAX.subs(X[0], X[0]).as_numer_denom()[1]
    assert put_in(denominator, values, done) is done[denominator]
    assert first == SOFTMAX.xreplace(values)
