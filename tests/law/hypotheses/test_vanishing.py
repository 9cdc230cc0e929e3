"""Powers up to which quotients are integrable, against how their integrals grow towards the zeros of the divisor."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from sympy import Rational, oo, sqrt

from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses.vanishing import almost_never_zero, integrable, locus, without_even_signs
from tplimits.program.nodes import functions
from tplimits.program.nodes.evaluate import evaluate

x, y, z = sympy.symbols("x y z", real=True)
Abs, tanh, sin, cos, exp = sympy.Abs, sympy.tanh, sympy.sin, sympy.cos, sympy.exp
#: by decades towards the axes, on both sides of them
DEPTHS = np.linspace(-11, 1, 150)
ARMS = np.concatenate([-np.exp(DEPTHS[::-1] * np.log(10)), np.exp(DEPTHS * np.log(10))])
X, Y = ARMS[:, None], ARMS[None, :]
AREA = abs(X * Y) * np.exp(-(X**2 + Y**2) / 2)


@pytest.fixture
def law():
    gaussians = Gaussians()
    for position, symbol in enumerate((x, y, z)):
        assert gaussians.add(symbol.name, InitialSource(position, ())) == symbol
    return gaussians


#: coordinates whose axes are where a divisor vanishes, if these are not x and y
TURNED = {
    3 * x - 4 * y: {x: (X + 4 * Y) / 3, y: Y},
    x + y: {x: X - Y, y: Y},
    x - 2: {x: 2 + X, y: Y},
    exp(x) - 2: {x: np.log(2) + X, y: Y},
    functions.softplus(x) - 1: {x: np.log(np.e - 1) + X, y: Y},
}


def seen(base, power, numerator):
    """The q at which E (|numerator| base^−power)^q stops being finite: shells of the base weigh ε^(w − q (p − μ))."""

    def slope(q):
        with np.errstate(all="ignore"):
            at = TURNED.get(base, {x: X, y: Y})
            low, above = (abs(np.asarray(evaluate(f, at), dtype=float) + 0 * X * Y) for f in (base, numerator))
            weights = np.where(low > 0, AREA * (above * low**-power) ** q, 0.0)
        shells = [weights[(low > 10.0**-k) & (low < 10.0 ** (1 - k))].sum() for k in (4, 5)]
        return float(np.log10(shells[0] / shells[1]))

    weight = slope(0.0)
    left = weight - slope(1.0)
    return oo if left <= 0.02 else weight / left


CASES = [
    (x, 1, 1),
    (x, Rational(1, 3), 1),
    (Abs(x), Rational(1, 2), 1),
    (x**2, Rational(1, 3), 1),
    (3 * x - 4 * y, 1, 1),
    (x**2 + y**2, Rational(1, 2), 1),
    (x**2 + y**2, 1, x),
    (x**2 + y**2, 1, x - 2 * y),
    (x**2 + Abs(y), 1, 1),
    (x**2 + Abs(y), 1, x),
    (x**2 + Abs(y), 1, tanh(y)),
    (x**2 + Abs(y), Rational(3, 2), sin(x) * sqrt(Abs(x))),
    (sqrt(Abs(x)) + Abs(y), 2, 1),
    (x**2 + 2 * x * y + 3 * y**2, 1, x),
    ((x**2 + y**2) * (2 + cos(x)), 1, 1),
    (tanh(x) * (1 + y**2), Rational(1, 2), 1),
    (3 * tanh(x), 2, x),
    (tanh(x) ** 2 + y**4, 1, x * y),
    (x, 2, 1 - cos(x)),
    (x, 3, x - sin(x)),
    (x, 3, x - sin(x) + x**2 / 2),
    (x, 4, exp(x) - 1 - x),
    (x, 1, functions.relu(x)),
    (x - 2, 1, sin(x - 2)),
    (x - 2, 1, x + 2),
    (exp(x) - 1, 1, 1),
    (exp(x) - 2, 2, x - sympy.log(2)),
    (2 * functions.sigmoid(x) - 1, 1, 1),
    (functions.softplus(x) - 1, 2, 1),
    (x + y, 2, (x + y) * (x - y)),
    (3 * x - 4 * y, 4, (3 * x - 4 * y) ** 2 * (1 - cos(3 * x - 4 * y))),
    (3 * x - 4 * y, 3, sin(6 * x - 8 * y) - 6 * x + 8 * y),
    (x**2 + y**4, 1, 1 - cos(y)),
    (x**2 + y**2 + Abs(x), 1, y),
]


@pytest.mark.parametrize(("base", "power", "numerator"), CASES, ids=str)
def test_quotients_are_integrable_as_far_as_their_integrals_are_finite(law, base, power, numerator):
    numerator = sympy.sympify(numerator)
    found = integrable(base, sympy.sympify(power), sympy.Mul.make_args(numerator), law)
    expected = seen(base, float(power), numerator)
    assert found is not None
    if expected == oo:
        assert found == oo
    else:
        assert float(found) == pytest.approx(float(expected), rel=0.08)


@pytest.mark.parametrize(
    ("base", "numerator"),
    [
        (functions.relu(x), 1),
        (functions.relu(x) * y, y),
        (x * functions.step(y), x),
    ],
)
def test_what_vanishes_on_whole_regions_has_no_power(law, base, numerator):
    assert integrable(base, sympy.S.One, (sympy.sympify(numerator),), law) is None


@pytest.mark.parametrize(
    ("base", "power", "numerator", "found"),
    [(x + y, 2, x**2 - y**2, Rational(1, 2))],
)
def test_what_is_not_seen_is_promised_less(law, base, power, numerator, found):
    """A zero of the numerator: it would be integrable up to 1."""
    assert integrable(base, sympy.sympify(power), (sympy.sympify(numerator),), law) == found


@pytest.mark.parametrize(
    ("base", "exponents"),
    [
        (x, {x: 1}),
        (2 + cos(x), None),
        (x**2 + y**4, {x: 2, y: 4}),
        (Abs(x) + x**2 + y**2, {x: 1, y: 2}),
        (x**2 + (x + y) ** 2, {x: 2, x + y: 2}),
        (x**2 + 2 * x * y + y**2, {x + y: 2}),
        (x**2 - 2 * x + 1, {x - 1: 2}),
        (x**2 - 3 * x * y + y**2, None),
        (x**2 + 4 * x * y + 5 * y**2 - 2 * y + 1, {x + 2 * y: 2, y - 1: 2}),
        (x**2 - y**2, None),
        (x**2 + 3 * y**2 + z**2 + x * z, {x: 2, y: 2, z: 2}),
        (x**2 + y**2 + 1, None),
        ((x + 2 * y) ** 2 + (2 * x + y) ** 2, {x + 2 * y: 2, 2 * x + y: 2}),
        (Abs(x + 2 * y) + (3 * x + 6 * y) ** 2, {x + 2 * y: 1}),
        (sin(x), None),
        (sympy.log(x**2 + 1), {x: 2}),
        (tanh(3 * x + y) ** Rational(2, 3), {3 * x + y: Rational(2, 3)}),
        (exp(x) + 1, None),
        (exp(2 * x) - 3, {2 * x - sympy.log(3): 1}),
        (2 * exp(x) - 1, {x + sympy.log(2): 1}),
    ],
    ids=str,
)
def test_where_divisors_vanish(law, base, exponents):
    found = locus(base, law)
    assert (found and {sympy.expand(f): a for f, a in found.forms}) == exponents


relu, half = functions.relu, functions.leaky_relu(x, Rational(1, 2))
SEEN = (
    *(
        x,
        3 * x - y,
        exp(x),
        x * y,
        tanh(x) ** 3,
        sin(2 * x + 1),
        cos(x),
        sympy.sign(x * y),
        x**2 - y**2,
        half,
        sympy.S(2),
    ),
    *(x + y**2 * sin(z), functions.where(x, y, z), functions.maximum(x, y), sin(x) + y**3 - 1, x * tanh(y) + z),
    sin(x) + sympy.sqrt(2) * y**3 - 1,
)
NOT_SEEN = (
    *(relu(x), functions.step(x), sympy.S.Zero, functions.maximum(x, relu(y)), functions.where(x, y, relu(z))),
    *(x * relu(y), Abs(x) - Abs(y) + sin(Abs(x)), sympy.Symbol("a", real=True), relu(x) + functions.step(x) * y),
    sin(relu(x)),
)


@pytest.mark.parametrize("expr", [*SEEN, *NOT_SEEN], ids=str)
def test_functions_that_vanish_with_probability_zero(law, expr):
    assert almost_never_zero(expr, law) is (expr in SEEN)


def test_signs_squared_are_one_where_they_are_seen(law):
    s = sympy.sign
    assert without_even_signs(s(x) ** 2 * y + s(y), law) == y + s(y)
    assert without_even_signs((1 + s(x)) ** 2, law) == (1 + s(x)) ** 2
    assert without_even_signs(sin(s(x)) ** 2, law) == sin(sympy.S.One) ** 2
    kept = s(functions.relu(x)) ** 2
    assert without_even_signs(kept, law) == kept and without_even_signs(x**2, law) == x**2
