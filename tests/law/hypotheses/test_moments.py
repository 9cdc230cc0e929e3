"""Second moments: radial and removable poles, means over boxes, numbers too large; and what stays in doubt."""

from __future__ import annotations

import re

import mpmath
import numpy
import pytest
import scipy.special
import sympy
from sympy import Rational, sqrt

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses.bounds import keeps_off
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.products import of_product
from tplimits.law.hypotheses.quotients import by_argument
from tplimits.law.hypotheses.tails import Growth, Tail
from tplimits.law.hypotheses.vanishing import almost_never_zero
from tplimits.program.nodes import functions as tp_functions


def radial(power):
    """E r^power for two standard normals."""
    return float(2 ** (mpmath.mpf(power) / 2) * mpmath.gamma(1 + mpmath.mpf(power) / 2))


def normal(f):
    return float(mpmath.quad(lambda g: f(g) * mpmath.npdf(g), [-30, -1, 0, 1, 30]))


SLOPE = normal(lambda g: mpmath.tanh(g) / g if g else 1)
POLES = {
    "x²/r": (lambda x, y: x**2 / sqrt(x**2 + y**2), radial(1) / 2),
    "|x|/r": (lambda x, y: sympy.Abs(x) / sqrt(x**2 + y**2), 2 / mpmath.pi),
    "y²/r²": (lambda x, y: y**2 / (y**2 + x**2), 0.5),
    "r^(−1/2)": (lambda x, y: (x**2 + y**2) ** Rational(-1, 4), radial(-0.5)),
    "tanh(x)/x": (lambda x, y: sympy.tanh(x) / x + y, SLOPE),
    "sin(3x)/x": (lambda x, y: sympy.sin(3 * x) / x, normal(lambda g: mpmath.sin(3 * g) / g if g else 3)),
    "(x+y)²/(…)": (lambda x, y: (x + y) ** 2 / (2 * x**2 + 2 * y**2), 0.5),
    "|x|^(−1/3)": (
        lambda x, y: sympy.Abs(x) ** Rational(-1, 3),
        normal(lambda g: abs(g) ** mpmath.mpf(-1 / 3) if g else 0),
    ),
    "a pole in a norm": (
        lambda x, y: sympy.sin(x) / x / sqrt((sympy.sin(x) / x) ** 2 + x**2),
        normal(lambda g: mpmath.sin(g) / g / mpmath.hypot(mpmath.sin(g) / g, g) if g else 1),
    ),
    "product": (
        lambda x, y: sympy.tanh(x) * sympy.tanh(y) / (x * y),
        normal(lambda g: mpmath.tanh(g) / g if g else 1) ** 2,
    ),
}
GRID = numpy.linspace(-9, 9, 1801)


def pair(f):
    """E f(x, y) of two standard normals on a grid, which is exact for smooth functions; no node is 0.

    To be taken by the test: files are collected by every process.
    """

    def taken():
        u = GRID + 0.005
        weights = numpy.exp(-(u[:, None] ** 2 + u**2) / 2) / (2 * numpy.pi) * 0.01**2
        return numpy.sum(weights * f(u[:, None], u))

    return taken


def over(f):
    return lambda t: f(t) / t


POLES |= {
    "tanh(xy)/(xy)": (lambda x, y: sympy.tanh(x * y) / (x * y), pair(lambda x, y: over(numpy.tanh)(x * y))),
    "sin² (xy)/(x²y²)": (
        lambda x, y: (sympy.sin(x * y) / (x * y)) ** 2,
        pair(lambda x, y: over(numpy.sin)(x * y) ** 2),
    ),
    "sin t/t, t = tanh(xy)": (
        lambda x, y: sympy.sin(sympy.tanh(x * y)) / sympy.tanh(x * y),
        pair(lambda x, y: over(numpy.sin)(numpy.tanh(x * y))),
    ),
    "(x² + σ(y tanh y)²)^(−1/4)": (
        lambda x, y: (x**2 + tp_functions.sigmoid(y * sympy.tanh(y)) ** 2) ** Rational(-1, 4),
        pair(lambda x, y: (x**2 + (1 + numpy.exp(-y * numpy.tanh(y))) ** -2.0) ** -0.25),
    ),
    "log beside a sign": (
        lambda x, y: sympy.log(x**2 + (sympy.sin(sympy.sign(y)) / sympy.sign(y)) ** 2),
        pair(lambda x, y: numpy.log(x**2 + numpy.sin(1) ** 2)),
    ),
    "√(x tanh x)": (lambda x, y: sqrt(x * sympy.tanh(x)), normal(lambda g: mpmath.sqrt(g * mpmath.tanh(g)))),
}


@pytest.mark.parametrize("case", POLES)
def test_radial_and_removable_poles_are_seen(case):
    function, expected = POLES[case]
    expected = expected() if callable(expected) else expected

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.elementwise(function)(x, y))

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(float(expected), abs=1e-6)


x, y = (sympy.Symbol(name, real=True) for name in "xy")


@pytest.fixture
def law():
    gaussians = Gaussians()
    for position, symbol in enumerate((x, y)):
        assert gaussians.add(symbol.name, InitialSource(position, ())) == symbol
    return gaussians


@pytest.mark.parametrize(
    "ket",
    [
        1 / sqrt(x**2 + y**2),  # E r^(−2) diverges
        x / (sympy.Abs(x) * sqrt(x**2 + y**2)),  # one numerator does not make up for two poles
        1 / (x**2 + 2 * x * y + y**2) ** Rational(1, 4),  # one form, not two
        sympy.sin(x) / x**2,
        sympy.exp(1 / sympy.Abs(x) ** Rational(1, 3)),
        sympy.exp(x**2 / 5) * sympy.cosh(x**2 / 5),
        1 / sqrt(sympy.Abs(x) * sympy.Abs(sympy.tanh(x))),
        sympy.tanh(x * y) / (x * y**2),
        sympy.sin(sympy.tanh(x * y)) / sympy.tanh(x * y) ** 2,
        sympy.sin(x * y) / sympy.sin(x),  # sin x vanishes elsewhere, too
        1 / (tp_functions.relu(x) + sympy.tanh(y) ** 2),
        sympy.tanh(sqrt(sympy.tanh(x) + y)),  # not real, however bounded
        sympy.sin(1 / tp_functions.step(x)),  # no number for x < 0, however bounded
    ],
)
def test_what_is_not_square_integrable_is_not_established(ket, law):
    assert not tail(ket, law).established


def test_a_pole_under_a_logarithm_or_a_root_is_not_called_infinite(law):
    for ket in (sympy.log(1 + 1 / sympy.Abs(sympy.sin(y))), (1 + 1 / sympy.Abs(sympy.sin(y))) ** Rational(1, 4)):
        assert tail(ket, law).kind is not Growth.INFINITE


def test_integrable_powers(law):
    assert tail((x**2 + y**2) ** Rational(-1, 4), law).power == 4
    assert tail((x**2 + sympy.Abs(y)) ** Rational(-1, 2), law).power == 3  # P(D < ε) ~ ε^(3/2)
    assert tail(sympy.exp(x**2 / 6), law).power == pytest.approx(3)
    assert tail(sympy.Abs(x) ** Rational(-1, 3) * sympy.Abs(y) ** Rational(-1, 3), law).power == 3  # independent
    assert tail(sympy.Abs(x * y) ** Rational(-1, 3), law).power == 3
    assert tail(x / sqrt(x**2 + y**2), law).power == sympy.oo


def test_a_mean_over_boxes_has_the_tail_of_what_is_averaged():
    """avg over b of relu(h + h_b) times h: a closed form with exp(h²/v)·exp(−h²/v) inside."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h, b = W @ tp.sin(x), tp.neuron("b")
        y = tp.avg(tp.relu(h + h[b]), over=b)
        return tp.avg(y * h), tp.avg((W.T @ y) * x)

    numbers = tp.derive(program).evaluate()
    assert numbers["return[0]"].value == pytest.approx(float((1 - mpmath.exp(-2)) / 4), abs=1e-12)
    # W.T y = … + E[∂y/∂h]·sin x and E x sin x = exp(−1/2), E ∂y/∂h = 1/2
    assert numbers["return[1]"].value == pytest.approx(float(mpmath.exp(-0.5) / 2), abs=1e-12)


def test_a_mean_over_boxes_may_have_moments_that_what_is_averaged_has_not():
    """E_b |x + y_b|^(−1/2) is bounded: a doubt, which can be taken on, and no infinite moment."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        b = tp.neuron("b")
        z = tp.avg(1 / tp.sqrt(tp.abs(x + y[b])), over=b)
        both = (z * x * x).named("both")
        return tp.avg(both)

    with pytest.raises(EvaluationError, match="moment not established: z at"):
        tp.derive(program).evaluate()
    number = tp.derive(program, assume=("moment of z", "moment of both")).evaluate()["return"]
    # x + y = √2 u and x = (u + w)/√2
    known = 2**-1.25 * (normal(lambda u: abs(u) ** 1.5) + normal(lambda u: abs(u) ** -0.5 if u else 0))
    assert number.value == pytest.approx(known, rel=1e-6)


#: a body, and its mean by another route
BENT = {
    "relu(x)/x": (lambda x: tp.relu(x) / x, lambda: 0.5),
    "relu(x)² tanh(x)/x³": (
        lambda x: tp.relu(x) ** 2 / x**3 * tp.tanh(x),
        lambda: normal(lambda x: mpmath.tanh(x) / x if x else 1) / 2,
    ),
    "log(2 − max(t, −t))": (
        lambda x: tp.log(2 - tp.maximum(tp.tanh(x), -tp.tanh(x))),
        lambda: normal(lambda x: mpmath.log(2 - abs(mpmath.tanh(x)))),
    ),
    "√(1 − min(x, −x))": (
        lambda x: tp.sqrt(1 - tp.minimum(x, -x)),
        lambda: normal(lambda x: mpmath.sqrt(1 + abs(x))),
    ),
    "a mean that moves with x inside of another": (
        lambda x: x * x * tp.expect(lambda g: tp.tanh(g) * tp.expect(lambda h: tp.relu(g + h))),
        lambda: normal(lambda g: g * mpmath.tanh(g)) / 2,
    ),
    "a mean that is a number inside of another": (
        lambda x: x * x * tp.expect(lambda g: tp.exp(g / 4) * tp.expect(lambda h: tp.relu(h) * h)),
        lambda: mpmath.exp(mpmath.mpf(1) / 32) / 2,
    ),
}


@pytest.mark.parametrize("name", BENT)
def test_means_of_bent_functions_and_of_means(name):
    function, known = BENT[name]

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x))

    number = tp.derive(program).evaluate()["return"]
    assert number.error < 1e-12
    assert number.value == pytest.approx(float(known()), rel=1e-11)


@pytest.mark.parametrize("root", [lambda x: 2 + tp.sqrt(x), lambda x: 1 + tp.abs(tp.sqrt(x))])
@pytest.mark.parametrize("function", [tp.log, tp.sqrt])
def test_functions_of_what_is_not_real_are_refused_for_that(function, root):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(root(x)))

    with pytest.raises(tp.NoLimitError, match=re.escape("(x)**(1/2) is not real with positive probability")):
        tp.derive(program)


def test_a_mean_of_a_sign_over_boxes():
    """E_b sign(h1 x1_b + h2 x2_b) x1_b = √(2/π) h1/√(h1² + h2²), whose average with h1 is ½."""

    @tp.program
    def program(x1: tp.Vector, x2: tp.Vector, h1: tp.Vector, h2: tp.Vector):
        b = tp.neuron("b")
        y = tp.avg(tp.sign(h2 * x2[b] + h1 * x1[b]) * x1[b], over=b)
        return tp.avg(y * h1), tp.avg(y * y)

    numbers = tp.derive(program).evaluate()
    assert [n.value for n in numbers.values()] == pytest.approx([0.5, float(1 / mpmath.pi)], abs=1e-9)


def test_means_inside_means_with_a_kink_have_a_numerical_form():
    @tp.program
    def program(x: tp.Vector):
        b, c = tp.neuron("b"), tp.neuron("c")
        y = tp.avg(tp.tanh(x + x[b]), over=b)
        return tp.avg(tp.tanh(tp.avg(tp.relu(y[c] - x), over=c)))

    number = tp.derive(program).evaluate()["return"]
    assert number.error < 3e-4
    assert number.value == pytest.approx(nested(), abs=2e-3)


def nested():
    """The nested mean by Gauss–Hermite rules, to three digits: it has a kink."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    inner = (numpy.tanh(nodes[:, None] + nodes) * weights).sum(axis=1)
    outer = (numpy.maximum(inner[None] - nodes[:, None], 0) * weights).sum(axis=1)
    return float((numpy.tanh(outer) * weights).sum())


def test_numbers_too_large_for_doubles_are_not_printed():
    @tp.program
    def closed(x: tp.Vector):
        return tp.avg(tp.exp(40 * x)), tp.avg(x * x)

    @tp.program
    def integrated(x: tp.Vector):
        return tp.avg(tp.exp(40 * x) * tp.tanh(x) ** 2)

    limit = tp.derive(closed)
    assert limit.scalar("return[0]") == sympy.exp(800)
    with pytest.raises(tp.EvaluationError, match=r"exp\(800\).*too large for a double"):
        limit.evaluate()
    assert limit.evaluate(only=["return[1]"])["return[1]"].value == 1
    with pytest.raises(tp.EvaluationError, match="further out than quadrature looks"):
        tp.derive(integrated).evaluate()


@pytest.mark.parametrize("slope", [3, 5])
def test_mass_beyond_the_nodes_is_in_the_error(slope):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.exp(slope * x) * tp.tanh(x) ** 2)

    with mpmath.workdps(30):
        shifted = mpmath.quad(lambda g: mpmath.tanh(g + slope) ** 2 * mpmath.npdf(g), [-20, -slope, 0, 20])
        expected = mpmath.exp(mpmath.mpf(slope) ** 2 / 2) * shifted
    number = tp.derive(program).evaluate()["return"]
    assert abs(number.value - float(expected)) <= number.error <= 1e-9 * number.value


SCALARS = {
    "gelu": (tp.gelu, lambda s: s * mpmath.ncdf(s)),
    "softplus": (tp.softplus, lambda s: mpmath.log(1 + mpmath.exp(s))),
    "sigmoid": (tp.sigmoid, lambda s: 1 / (1 + mpmath.exp(-s))),
}


@pytest.mark.parametrize("case", SCALARS)
def test_functions_of_scalars(case):
    function, expected = SCALARS[case]

    @tp.program
    def program(x: tp.Vector):
        s = tp.avg(x * x)
        return function(s), tp.sqrt(function(2 * s)) / function(s), tp.avg(tp.relu(x - function(s)) ** 2)

    found = [n.value for n in tp.derive(program).evaluate().values()][:3]
    at = expected(mpmath.mpf(1))
    third = mpmath.quad(lambda g: (g - at) ** 2 * mpmath.npdf(g), [at, 12])
    assert found == pytest.approx([float(v) for v in (at, mpmath.sqrt(expected(mpmath.mpf(2))) / at, third)], abs=1e-12)


@tp.program
def doubtful(x: tp.Vector, y: tp.Vector):
    """E 1/r exists, E 1/r² does not."""
    z = tp.elementwise(lambda u, v: 1 / sqrt(u**2 + v**2))(x, y)
    return tp.avg(z), tp.avg(x * x)


def test_a_doubt_blocks_what_rests_on_it_and_can_be_taken_on():
    limit = tp.derive(doubtful)
    assert "not established: moment of z" in repr(limit)
    with pytest.raises(tp.EvaluationError, match=r"moment not established: z at .*assume=\('moment of z',\)"):
        limit.evaluate()
    assert limit.evaluate(only=["return[1]"])["return[1]"].value == 1
    assumed = tp.derive(doubtful, assume=("moment of z",))
    assert assumed.evaluate()["return[0]"].value == pytest.approx(radial(-1), abs=1e-6)
    assert "assumed: moment of z" in repr(assumed)
    assert assumed.steps[-1].rule == "assumption" and "moment of z" in str(assumed.steps[-1])


def test_only_doubts_can_be_assumed():
    with pytest.raises(tp.ProgramError, match="its doubts are 'moment of z'"):
        tp.derive(doubtful, assume="moment of y")

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.sum(U * ξ, over="d")

    with pytest.raises(tp.ProgramError, match="`network` has no such doubt; its doubts are none"):
        tp.derive(network, tp.Kernels(), assume=("moment of z",))


def test_a_sum_keeps_off_zero_where_a_term_does_and_none_is_negative():
    assert keeps_off(sympy.exp(x) + x**2) and keeps_off(sympy.exp(x) + sympy.Abs(y))
    assert not keeps_off(sympy.exp(x) + y) and not keeps_off(x**2 + y**2)


@pytest.mark.parametrize(
    ("argument", "known"),
    [(tp_functions.relu(x), False), (x**2 + tp_functions.relu(x), True), (x * tp_functions.relu(y), False)],
)
def test_logarithms_of_what_vanishes_on_half_of_all_neurons(law, argument, known):
    assert (tail(sympy.log(argument), law).kind is Growth.POLYNOMIAL) == known


@pytest.mark.parametrize(
    ("expr", "seen"),
    [
        (y * sympy.tanh(x) + sympy.exp(x), True),  # given x, a density
        (tp_functions.relu(x) * y + tp_functions.relu(x), False),
        (y * tp_functions.relu(x) + sympy.exp(x), False),
        (y + tp_functions.relu(x), True),
        (sympy.tanh(y + tp_functions.relu(x)), True),
        (sympy.tanh(tp_functions.relu(x)), False),
        (tp_functions.leaky_relu(tp_functions.relu(x), Rational(1, 2)), False),
        (tp_functions.leaky_relu(x * y, Rational(1, 2)), True),
        (sympy.sign(sympy.sin(x) * y), True),
        (sympy.sign(tp_functions.relu(x)), False),
        (tp_functions.where(x, y, 1 + x), True),
        (tp_functions.where(x, y, tp_functions.relu(x)), False),
        (tp_functions.maximum(x, y), True),
        (tp_functions.minimum(x, tp_functions.relu(y)), False),
        (sympy.cos(3 * x) ** 2, True),
        (x * tp_functions.sigmoid(y), True),
        (sympy.sqrt(sympy.Abs(x)) * 0, False),
    ],
)
def test_affine_functions_of_a_variable_of_their_own_vanish_almost_never(law, expr, seen):
    assert almost_never_zero(expr, law) == seen


@pytest.mark.parametrize(
    ("expr", "kind"),
    [
        (sympy.exp(-x * tp_functions.relu(x)), Growth.BOUNDED),  # exp(−x²) on one side, 1 on the other
        (sympy.exp(tp_functions.relu(x) ** 2 / 8), Growth.EXPONENTIAL),
        (sympy.exp(tp_functions.leaky_relu(x, Rational(1, 4)) ** 2 / 8), Growth.EXPONENTIAL),
        (sympy.exp(tp_functions.relu(x) ** 2 / 2), Growth.UNKNOWN),  # its second moment is infinite on one side
    ],
)
def test_what_is_seen_on_each_side_of_a_kink_is_seen(law, expr, kind):
    assert tail(expr, law).kind is kind


@pytest.mark.parametrize(
    ("expr", "kind"),
    [
        (sympy.exp(x**2 / 2) * sympy.exp(y - x**2 / 2), Growth.EXPONENTIAL),  # e^y: one tames the other
        (sympy.exp(x**2 / 3) * sympy.exp(y + x**2 / 3), Growth.INFINITE),  # none would be infinite alone
        (sympy.exp(x) / (sympy.exp(x) + sympy.exp(y)), Growth.BOUNDED),  # softmax
        (3 * sympy.exp(x**2) / (2 * sympy.exp(x**2) + x**2), Growth.BOUNDED),
        (sympy.exp(x**2) * y / (sympy.exp(x**2) + 1), Growth.POLYNOMIAL),
        (sympy.exp(2 * x**2) / (sympy.exp(x**2) + y**2) ** 2, Growth.BOUNDED),
        (x**2 * y / (x**2 + y**2), Growth.POLYNOMIAL),
        (tp_functions.relu(x) / (tp_functions.relu(x) + tp_functions.relu(y)), Growth.UNKNOWN),  # 0/0 on a quarter
        (sympy.exp(x**2) / (sympy.exp(x**2) - y), Growth.INFINITE),  # a difference, 0 at y = exp(x²)
        (sympy.cosh(x) * sympy.sinh(y), Growth.EXPONENTIAL),
        (sympy.sinh(x**2 / 2), Growth.INFINITE),
        (sympy.sinh(-(x**2) / 2), Growth.INFINITE),
        (sympy.tan(x), Growth.INFINITE),
        (sympy.log(sympy.Abs(x)) * y, Growth.POLYNOMIAL),
        (sympy.log(x), Growth.INFINITE),
        (sympy.log(1 + sympy.sign(x) * sympy.tanh(y)), Growth.POLYNOMIAL),  # log(1 ± tanh y)
        (sympy.log(1 + sympy.sign(x) * sympy.sign(y)), Growth.UNKNOWN),  # log 0 on a half
        (sympy.sqrt(x), Growth.INFINITE),
        (sympy.sqrt(sympy.Abs(x) + 1), Growth.POLYNOMIAL),
        (1 / sympy.exp(-x), Growth.EXPONENTIAL),
        (1 / tp_functions.sigmoid(x), Growth.EXPONENTIAL),  # 1 + e^(−x)
        (1 / tp_functions.sigmoid(x**2 / 2), Growth.BOUNDED),  # at most 2
        (1 / sympy.sech(x) ** 2, Growth.EXPONENTIAL),
        (1 / tp_functions.relu(x), Growth.INFINITE),
        (1 / (x - 1), Growth.INFINITE),
        ((x - 1) / (x - 1) ** 2, Growth.INFINITE),
        (y / (x - 1), Growth.INFINITE),
        (1 / (2 + sympy.sin(x)), Growth.BOUNDED),
        (1 / (-2 - sympy.Abs(x)), Growth.BOUNDED),
        (x**3 / (1 + y**2), Growth.POLYNOMIAL),
        # what the terms of a divisor share is a pole of its own
        (x / (x + x**3), Growth.BOUNDED),
        (sympy.tanh(x) / (x + x * y**2), Growth.BOUNDED),
        (x**2 / (x + x * sympy.exp(y)), Growth.POLYNOMIAL),
        ((x + y) / (x + x**3), Growth.INFINITE),
        (x / (x**2 + x), Growth.INFINITE),
        # 0/0 on a half
        (tp_functions.relu(x) / (tp_functions.relu(x) + tp_functions.relu(x) ** 2), Growth.UNKNOWN),
    ],
    ids=str,
)
def test_growth_of_quotients_logarithms_and_exponentials(law, expr, kind):
    assert tail(expr, law).kind is kind


@pytest.mark.parametrize(
    ("expr", "degree"),
    [
        (x**2 * y + x, 3),
        (sympy.tanh(x) * y**2, 2),
        (tp_functions.relu(x) ** 3 * sympy.Abs(y), 4),
        (sympy.sqrt(1 + x**4), 2),
        (sympy.log(1 + x**2) * x, 3),
        ((1 + x**2) ** 2, 4),
    ],
    ids=str,
)
def test_degrees_add_in_products_and_are_the_largest_in_sums(law, expr, degree):
    assert tail(expr, law).degree == degree


def test_powers_by_hoelder_are_shared_by_dependent_factors_alone(law):
    """1/q = Σ 1/q_i: of two factors in L^q for q < 3 the product is in L^(3/2), and in L³ if independent."""
    pole = sympy.Abs(x) ** Rational(-1, 3)
    assert tail(pole * sympy.exp(y**2 / 6), law).power == pytest.approx(3)
    assert not tail(pole * sympy.exp(x**2 / 6), law).established
    assert tail(sympy.Abs(x) ** Rational(-1, 8) * sympy.exp(x**2 / 16), law).power == pytest.approx(4)
    assert tail(sympy.Abs(x) ** Rational(-1, 8) + sympy.exp(x**2 / 6), law).power == pytest.approx(3)


@pytest.mark.parametrize(
    ("first", "second", "dependent", "independent"),
    [
        (1, 1, Rational(1, 2), 1),
        (2, 4, Rational(4, 3), 2),
        (3, sympy.oo, 3, 3),
        (sympy.oo, sympy.oo, sympy.oo, sympy.oo),
    ],
)
def test_of_two_factors_reciprocal_powers_add_where_they_are_dependent(law, first, second, dependent, independent):
    tails = [Tail(Growth.POLYNOMIAL, power=sympy.sympify(p)) for p in (first, second)]
    pair = list(zip((x, x + y), tails, strict=True))
    assert of_product(pair, law).power == of_product(pair[::-1], law).power == dependent
    assert of_product(list(zip((x, y), tails, strict=True)), law).power == independent


def test_of_three_factors_each_is_counted_once(law):
    """x beside y, then x + y beside both: 1/q = 1/4 + 1/4 + 1/2."""
    tails = [Tail(Growth.POLYNOMIAL, power=sympy.Integer(p)) for p in (4, 4, 2)]
    assert of_product(list(zip((x, y, x + y), tails, strict=True)), law).power == 1


def test_poles_at_one_form_are_one_pole(law):
    """(x² + x⁴)^(−1/8) |x|^(−p) is as |x|^(−1/4−p): square integrable for p < 1/4."""
    other = (x**2 + x**4) ** Rational(-1, 8)
    assert tail(other * sympy.Abs(x) ** Rational(-1, 8), law).established
    assert not tail(other * sympy.Abs(x) ** Rational(-1, 3), law).established
    assert tail(other * sympy.Abs(y) ** Rational(-1, 3), law).established


@pytest.mark.parametrize(
    ("head", "inside", "plain"),
    [
        (sympy.asin, tp.sin, lambda u: numpy.arcsin(numpy.sin(u))),
        (sympy.asin, tp.tanh, lambda u: numpy.arcsin(numpy.tanh(u))),
        (sympy.acos, tp.erf, lambda u: numpy.arccos(scipy.special.erf(u))),
        (sympy.atanh, lambda x: tp.tanh(x) / 2, lambda u: numpy.arctanh(numpy.tanh(u) / 2)),
    ],
)
def test_inverse_functions_of_what_stays_in_their_domain(head, inside, plain):
    @tp.program
    def inverse(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg(tp.elementwise(head)(inside(h)) * h)

    u = numpy.linspace(-9, 9, 200_001)
    true = (plain(u) * u * numpy.exp(-(u**2) / 2)).sum() * (u[1] - u[0]) / numpy.sqrt(2 * numpy.pi)
    assert abs(tp.derive(inverse).evaluate()["return"].value - true) < 1e-8


@pytest.mark.parametrize("head", [sympy.asin, sympy.acos, sympy.atanh])
@pytest.mark.parametrize("inside", [lambda x: x, lambda x: 2 * tp.sin(x)])
def test_inverse_functions_that_leave_their_domain_are_said_to(head, inside):
    @tp.program
    def inverse(x: tp.Vector):
        return tp.avg(tp.erf(tp.elementwise(head)(inside(x))))

    with pytest.raises(tp.NoLimitError, match="is not real with positive probability"):
        tp.derive(inverse)


def test_artanh_has_moments_and_its_exponential_none():
    """exp(2 artanh s) = (1 + s)/(1 − s) has a pole of second order in h where s = sin h is 1."""

    @tp.program
    def grown(W: tp.Matrix, x: tp.Vector):
        y = tp.elementwise(sympy.atanh)(tp.sin(W @ x))
        return tp.avg(y**2), tp.avg(tp.exp(2 * y))

    with pytest.raises(EvaluationError, match="moment not established"):
        tp.derive(grown).evaluate(only=("return[1]",))
    law = Gaussians()
    x = law.add("x", InitialSource(0, ()))
    grown_tail = tail(sympy.atanh(sympy.sin(x)), law)
    assert (grown_tail.kind, grown_tail.degree) == (Growth.POLYNOMIAL, 1)


def test_what_is_only_tried_is_not_written_out(monkeypatch):
    """Bounds by shares are tried by the hundred: sentences about them, and common factors of one sum, cost the most."""
    written, factored = [], []
    told, common = sympy.printing.str.StrPrinter.doprint, sympy.factor_terms
    monkeypatch.setattr(sympy.printing.str.StrPrinter, "doprint", lambda self, e: (written.append(e), told(self, e))[1])
    monkeypatch.setattr(sympy, "factor_terms", lambda e, *a, **k: (factored.append(e), common(e, *a, **k))[1])
    engine = Gaussians()
    x, y, z, w = (engine.add(name, InitialSource(k, ())) for k, name in enumerate("xyzw"))
    total = x**2 + sympy.tanh(y) ** 2 + z**2 + w**4
    doubt = tail(sympy.cos(x * y) / total**2, engine)
    assert not doubt.established
    assert len(factored) == len(set(factored)) > 0
    assert not [e for e in written if isinstance(e, sympy.Add | sympy.Pow)]  # symbols are sorted by name
    assert doubt.reason.startswith("whether (")


def test_a_function_of_other_variables_is_no_function_of_a_product(monkeypatch):
    """By its variables: products are put in order, and put in for, where they may take a pole away alone."""
    counted, ops = [], sympy.count_ops
    monkeypatch.setattr(sympy, "count_ops", lambda e, *a: (counted.append(e), ops(e, *a))[1])
    x, y, z = sympy.symbols("x y z", real=True)
    other = sympy.exp(x * y * z) * sympy.cos(x * y + z)
    assert not list(by_argument([1 / x, 1 / y], [sympy.exp(x * y + z), other]))
    assert not counted
    (found,) = by_argument([1 / x, 1 / y], [sympy.sin(x * y)])
    assert found == (sympy.sin(x * y), 1)


def outside(f, pole, ε):
    """E f(g)² where g keeps ε from a pole."""
    with mpmath.workdps(30):
        parts = [[-9, -3, pole - 1, pole - ε], [pole + ε, pole + 1, 3, 9]]
        return float(sum(mpmath.quad(lambda g: f(g) ** 2 * mpmath.npdf(g), part) for part in parts))


gelu, relu, sigmoid = tp_functions.gelu, tp_functions.relu, tp_functions.sigmoid
sinh = (sympy.exp(x) - sympy.exp(-x)) / 2
#: products, what they are in mpmath, the pole
AT_POLES = {
    "sinh/(1 + sinh)": (sinh / (1 + sinh), lambda g: mpmath.sinh(g) / (1 + mpmath.sinh(g)), -mpmath.asinh(1)),
    "exp/(x² − 1)": (sympy.exp(x) / (x**2 - 1), lambda g: mpmath.exp(g) / (g * g - 1), mpmath.mpf(1)),
    "σ/(x³ − 1)": (
        tp_functions.sigmoid(x) / (x**3 - 1),
        lambda g: 1 / (1 + mpmath.exp(-g)) / (g**3 - 1),
        mpmath.mpf(1),
    ),
}


@pytest.mark.parametrize("case", AT_POLES)
def test_factors_that_fade_elsewhere_make_up_for_no_pole(law, case):
    expr, f, pole = AT_POLES[case]
    if case == "exp/(x² − 1)":  # the other pole is left out on both sides of the comparison
        f = (lambda g: lambda t: g(t) if abs(t + 1) > 0.1 else mpmath.mpf(0))(f)
    # a simple pole: twice as much a decade nearer would be 1/ε
    near, nearer = (outside(f, pole, mpmath.mpf(10) ** -k) for k in (5, 6))
    assert nearer / near == pytest.approx(10, rel=1e-2)
    found = tail(expr, law)
    assert found.kind is Growth.INFINITE and "has a pole where" in found.reason


#: what is finite although a factor alone has no second moment: E of the square
MADE_UP_FOR = {
    "relu(1/(x − 1))·(x − 1)": (relu(1 / (x - 1)) * (x - 1), lambda g: mpmath.mpf(g > 1), 1),
    "relu(1/(x − 1))²·(x − 1)²": (relu(1 / (x - 1)) ** 2 * (x - 1) ** 2, lambda g: mpmath.mpf(g > 1), 1),
    "exp(x³)·erfc(x³)": (
        sympy.exp(x**3) * (1 - sympy.erf(x**3)) * tp_functions.step(x),
        lambda g: mpmath.exp(g**3) * mpmath.erfc(g**3) if g > 0 else mpmath.mpf(0),
        0,
    ),
    "(1 − tanh(x³))·exp(x³)": (
        sympy.exp(x**3) * (1 - sympy.tanh(x**3)),
        lambda g: 2 / (mpmath.exp(g**3) + mpmath.exp(-(g**3))),
        0,
    ),
}


@pytest.mark.parametrize("case", MADE_UP_FOR)
def test_nothing_is_certain_beside_a_factor_that_makes_up_for_it(law, case):
    expr, f, edge = MADE_UP_FOR[case]
    with mpmath.workdps(30):
        square = mpmath.quad(lambda g: f(g) ** 2 * mpmath.npdf(g), [-9, -1, *{0, edge}, 1.5, 3, 9])
    assert 0.05 < square < 2
    assert tail(expr, law).kind is not Growth.INFINITE
    # beside what is independent of it, it is
    for factor in (sympy.exp(x**3), relu(1 / (x - 1))):
        assert tail(factor * relu(y), law).kind is Growth.INFINITE


def test_factors_may_vanish_together_where_none_does_alone(law):
    """relu(x + y)·relu(−y)/x lives between −x < y < 0 alone, where it is at most x/4."""
    square = mpmath.quad(
        lambda g, t: (g * t * (1 - t)) ** 2 * g * mpmath.npdf(g) * mpmath.npdf(g * t), [0, 3, 9], [0, 1]
    )
    assert 0 < square < 0.01
    assert tail(relu(x + y) * relu(-y) / x, law).kind is not Growth.INFINITE
    assert tail(relu(y - 3) * relu(-3 - y) / x, law).kind is not Growth.INFINITE, "0 everywhere"
    for beside in (relu(x + y) * relu(1 - y), relu(y) * relu(1 - y), relu(-y), relu(x - y)):
        assert tail(beside / x, law).kind is Growth.INFINITE, "∫ beside(0, y)²/x² diverges"


def test_a_name_may_vanish_at_a_pole(law):
    """sin(t)/t at t = gelu(x) − 1 by the name of sin(t): the pole of 1/t is not seen to be one."""
    t = gelu(x) - 1
    name = law.name_long("a", sympy.sin(t))
    assert tail(name / t * sympy.exp(x), law).kind is not Growth.INFINITE
    assert tail(law.name_long("b", 1 + sympy.sin(t)) / t * sympy.exp(x), law).kind is Growth.INFINITE
