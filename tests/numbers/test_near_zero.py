"""What cancels beside a pole: quadrature reads it off its power series, and does not add rounding."""

from __future__ import annotations

import mpmath
import numpy
import pytest
import sympy
from scipy import integrate

import tplimits as tp
from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.vanishing import FORM
from tplimits.law.means import BoxMean
from tplimits.numbers.moments.tensor import tensor
from tplimits.numbers.near_zero import _series, continued, of_differences
from tplimits.program.nodes import functions
from tplimits.program.nodes.evaluate import evaluate


def remainder(k, derivative):
    """E f for f = (F(x) − its Taylor polynomial)/x^k: ∫ (1 − s)^(k − 1)/(k − 1)! E F⁽ᵏ⁾(s x) ds over [0, 1]."""
    scale = 1 / float(sympy.factorial(k - 1))
    return integrate.quad(lambda s: (1 - s) ** (k - 1) * scale * derivative(s), 0, 1, epsabs=1e-13)[0]


def mean(f):
    return integrate.quad(lambda x: f(x) * numpy.exp(-x * x / 2), -30, 30, epsabs=1e-14)[0] / (2 * numpy.pi) ** 0.5


def slope(x):
    """σ′, the second derivative of softplus."""
    return 1 / (4 * numpy.cosh(x / 2) ** 2)


#: a ket with a removable pole, and its mean as an integral without any
CANCELLING = {
    "cosh": (lambda x: (tp.exp(x) + tp.exp(-x) - 2) / x**2, remainder(2, lambda s: 2 * numpy.exp(s * s / 2))),
    "exp": (lambda x: (tp.exp(x) - 1 - x) / x**2, remainder(2, lambda s: numpy.exp(s * s / 2))),
    "cosh, fourth order": (
        lambda x: (tp.exp(x) + tp.exp(-x) - 2 - x**2) / x**4,
        remainder(4, lambda s: 2 * numpy.exp(s * s / 2)),
    ),
    "cos, fourth order": (
        lambda x: (tp.cos(x) - 1 + x**2 / 2) / x**4,
        remainder(4, lambda s: numpy.exp(-s * s / 2)),
    ),
    "a bump": (lambda x: (tp.exp(-x * x) - 1) / x**2, 1 - 3**0.5),
    "softplus": (
        lambda x: (tp.softplus(x) - tp.log(2) - x / 2) / x**2,
        remainder(2, lambda s: mean(lambda x: slope(s * x))),
    ),
    "elsewhere": (
        lambda x: (tp.exp(2 * x + 1) - 2 - 2 * x) / (2 * x + 1) ** 2,
        # 2x + 1 has mean 1 and variance 4
        remainder(2, lambda s: numpy.exp(s + 2 * s * s)),
    ),
    "of a kink": (
        lambda x: (tp.exp(tp.relu(x)) - 1 - tp.relu(x)) / x**2,
        remainder(2, lambda s: mean(lambda x: numpy.exp(s * x) * (x > 0)) if s else 0.5),
    ),
    "in a function": (
        lambda x: tp.sin(tp.exp(-x * x) - 1) / x**2,
        mean(lambda x: numpy.sin(numpy.expm1(-x * x)) / x**2 if x else -1),
    ),
}


@pytest.mark.parametrize("case", CANCELLING)
def test_quadrature_does_not_add_the_rounding_beside_a_pole(case):
    function, expected = CANCELLING[case]

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x))

    number = tp.derive(program).evaluate()["return"]
    assert number.method == "quadrature"
    assert number.value == pytest.approx(expected, rel=1e-9)
    assert number.value != pytest.approx(expected * (1 + 3e-9), rel=1e-9)
    assert number.error < 1e-12


def test_a_refusal_shows_the_function_and_not_its_series():
    @tp.program
    def program(x: tp.Vector):
        return tp.avg((tp.exp(30 * x) - 1 - 30 * x) / x**2)

    with pytest.raises(tp.EvaluationError, match=r"lies further out") as refusal:
        tp.derive(program).evaluate()
    assert "near" not in str(refusal.value)


def taylor(k, derivative):
    """f of (F(x) − its Taylor polynomial)/x^k by Taylor's formula with an integral remainder, without any pole."""
    s, w = numpy.polynomial.legendre.leggauss(40)
    s, w = (s + 1) / 2, w / 2
    weights = w * (1 - s) ** (k - 1) / float(sympy.factorial(k - 1))
    return lambda x: (weights * derivative(numpy.multiply.outer(x, s))).sum(axis=-1)


#: an activation with a removable pole, and the same without one
ACTIVATIONS = {
    "cos": (lambda x: (tp.cos(x) - 1 + x**2 / 2) / x**4, taylor(4, numpy.cos)),
    "exp": (lambda x: (tp.exp(x) - 1 - x) / x**2, taylor(2, numpy.exp)),
    "cosh": (
        lambda x: (tp.exp(x) + tp.exp(-x) - 2 - x**2) / x**4,
        taylor(4, lambda s: 2 * numpy.cosh(s)),
    ),
    "softplus": (lambda x: (tp.softplus(x) - tp.log(2) - x / 2) / x**2, taylor(2, slope)),
    "a logarithm": (
        lambda x: (tp.log(1 + x**2) - x**2) / x**4,
        # log(1 + u) − u = −u² ∫ (1 − s)/(1 + s u)² ds
        lambda x: taylor(2, lambda su: -1 / (1 + su) ** 2)(x * x),
    ),
}


@pytest.mark.parametrize("case", ACTIVATIONS)
def test_kernels_of_activations_with_a_removable_pole(case):
    function, plain = ACTIVATIONS[case]

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        return v * function(h)

    X = numpy.array([[1.0, 0.0], [0.6, 0.8]])
    found = tp.derive(network, tp.Kernels()).evaluate(X)
    z, w = numpy.polynomial.hermite_e.hermegauss(150)
    u = numpy.stack(numpy.meshgrid(z, z, indexing="ij"), axis=-1) @ X.T
    values, step = plain(u), 1e-4
    slopes = (8 * (plain(u + step) - plain(u - step)) - plain(u + 2 * step) + plain(u - 2 * step)) / (12 * step)
    density = numpy.multiply.outer(w, w) / (2 * numpy.pi)
    nngp, moved = (numpy.einsum("ija,ijb,ij->ab", f, f, density) for f in (values, slopes))
    numpy.testing.assert_allclose(found.nngp, nngp, rtol=1e-8)
    numpy.testing.assert_allclose(found.ntk, nngp + moved * (X @ X.T), rtol=1e-7)
    assert found.nngp_error < 1e-12


x, y, c = sympy.symbols("x y c", real=True)
PAIR = independent([x, y])


@pytest.mark.parametrize("at", [0.3, 1e-2, 1e-5, 1e-9, 1e-14])
@pytest.mark.parametrize(
    "function",
    [(sympy.exp(x) - 1 - x) / x**2, (sympy.log(1 + x**2) - x**2) / x**4, (sympy.exp(60 * x) - 1) / x],
    ids=str,
)
def test_all_digits_are_kept_on_the_way_to_the_pole(function, at):
    exact = function.xreplace({x: sympy.Rational(at)}).evalf(30, maxn=400)
    found = evaluate(continued(function, PAIR), {x: numpy.array([at])})[0]
    assert found == pytest.approx(float(exact), rel=2e-14)


#: near the pole, where series end, and beyond
PLACES = (0.0, 1e-60, -1e-9, 1e-3, -0.0311, 0.0623, 0.0626, 0.249, 0.26, -0.7, 3.0)
REMOVABLE = {
    "a wave": (1 - sympy.cos(x)) / x**2,
    "its derivative": sympy.sin(x) / x**2 - 2 * (1 - sympy.cos(x)) / x**3,
    "tanh": (1 - sympy.tanh(x) ** 2) / x - sympy.tanh(x) / x**2,
    "a logistic function": (functions.sigmoid(x) - sympy.Rational(1, 2)) / x,
    "two functions": sympy.erf(x) / sympy.tanh(x),
    "a root": (sympy.sqrt(1 + x**2) - 1) / x**2,
}


@pytest.mark.parametrize("name", REMOVABLE)
def test_values_are_those_of_many_digits(name):
    function = REMOVABLE[name]
    found = evaluate(continued(function, PAIR), {x: numpy.array(PLACES)})
    exact = sympy.lambdify(x, function.replace(functions.sigmoid, lambda x: 1 / (1 + sympy.exp(-x))), "mpmath")
    with mpmath.workdps(400):
        truth = [float(exact(mpmath.mpf(place) if place else mpmath.mpf(10) ** -90)) for place in PLACES]
    numpy.testing.assert_allclose(found, truth, rtol=4e-15, atol=1e-15)


def test_other_variables_stand_in_front():
    """y tanh(y sin(x)/x) cos(x): the quotient alone is continued, and a sum is taken together."""
    whole = sympy.tanh(y * sympy.sin(x) / x) + y * sympy.sin(x) / x**2 - 2 * y * (1 - sympy.cos(x)) / x**3
    found = evaluate(continued(whole, PAIR), {x: numpy.array(1e-40), y: numpy.array(0.5)})
    assert found == pytest.approx(numpy.tanh(0.5), abs=1e-15)


def test_a_numerator_beside_a_pole_of_more_variables():
    """(cos x − 1 + x²/2)/(x² + y²)² is x⁴/24 over it, with a pole that stays."""
    function = (sympy.cos(x) - 1 + x**2 / 2) / (x**2 + y**2) ** 2
    found = evaluate(continued(function, PAIR), {x: numpy.array(1e-6), y: numpy.array(1e-6)})
    assert found == pytest.approx(1 / 96, rel=1e-11)


@pytest.mark.parametrize(
    "function",
    [
        (1 + x) / x**2,  # does not vanish
        (sympy.exp(x) - 1 - x) / (1 + x**2),  # no pole
        (sympy.exp(c * x) - 1) / x,  # not a function of x alone
        (x + sympy.Abs(x)) / x**2,  # not analytic
        (2 * x + 4) / (x + 2) ** 2,  # all digits there
        *(sympy.exp(x) / x, sympy.exp(60 * x) / x, sympy.sin(x) / x**2),  # poles
        sympy.sin(x) / (x - 1),
    ],
    ids=str,
)
def test_other_functions_are_left_as_they_are(function):
    assert continued(function, PAIR) == function


def test_quadrature_meets_no_rounding_beside_a_pole():
    """E (∂_z tanh(y g(z)))² with g = (1 − cos z)/z², whose slope divides by z³, by a grid that has no node at 0."""
    z = sympy.Symbol("z", real=True)
    g, derivative = (1 - sympy.cos(z)) / z**2, sympy.sin(z) / z**2 - 2 * (1 - sympy.cos(z)) / z**3
    value, error = tensor((y * derivative * (1 - sympy.tanh(y * g) ** 2)) ** 2, [z, y], numpy.array([[1.3, 0.0, 0.8]]))
    x, w = numpy.polynomial.hermite_e.hermegauss(100)
    a, b, density = numpy.sqrt(1.3) * x[:, None], numpy.sqrt(0.8) * x, numpy.outer(w, w) / (2 * numpy.pi)
    f = b * (numpy.sin(a) / a**2 - 2 * (1 - numpy.cos(a)) / a**3) / numpy.cosh(b * (1 - numpy.cos(a)) / a**2) ** 2
    assert value[0] == pytest.approx((f**2 * density).sum(), rel=1e-8)
    assert error[0] < 1e-10


def test_means_over_other_neurons_have_no_power_series_and_are_left_alone():
    x, b = sympy.symbols("x b", real=True)
    average = BoxMean(sympy.tanh(x + b), b)
    for quotient in ((average + sympy.sin(x)) / x, average / x - 1 / x, (average + 1) / (1 + x)):
        assert continued(quotient, independent([x])) == quotient


def test_a_mean_over_other_neurons_stands_beside_a_pole():
    """E cos((m(x) + sin x)/x) for m(x) = E tanh(x + g), by Gauss–Hermite nodes."""

    @tp.program
    def divided(x: tp.Vector, y: tp.Vector):
        b = tp.neuron("b")
        z = tp.avg(tp.tanh(x + y[b]), over=b)
        return tp.avg(tp.cos((z + tp.sin(x)) / x))

    nodes, weights = numpy.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    inner = numpy.tanh(nodes[:, None] + nodes) @ weights
    expected = numpy.cos((inner + numpy.sin(nodes)) / nodes) @ weights
    found = tp.derive(divided).evaluate()["return"]
    assert abs(found.value - expected) < 1e-9


@pytest.mark.parametrize("inner", [x, sympy.tanh(x) + sympy.tanh(y), x * y**2 + sympy.sin(x)], ids=str)
def test_kinks_beside_a_pole_have_no_pole(inner):
    """relu(t)/t is the step of t and |t|³/t² = |t|, which are numbers where t is 0, also of −t."""
    for function, expected in (
        (functions.relu(inner) / inner, functions.step(inner)),
        (functions.relu(-inner) / inner, -functions.step(-inner)),
        (functions.relu(inner) ** 3 / inner**2, inner * functions.step(inner) ** 3),
        (sympy.Abs(inner) / inner, sympy.sign(inner)),
    ):
        assert continued(function, PAIR) == expected
    # where the pole stays so does the kink
    assert continued(functions.relu(x) / y, PAIR) == functions.relu(x) / y


#: quotients of differences that are functions of x − y alone, whose series have six terms
OF_ONE_DIFFERENCE = {
    "exp": ((sympy.exp(x) - sympy.exp(y)) * sympy.exp(-y) / (x - y), lambda t: mpmath.expm1(t) / t),
    "a steeper one": (
        (sympy.exp(3 * x) - sympy.exp(3 * y)) * sympy.exp(-3 * y) / (x - y),
        lambda t: mpmath.expm1(3 * t) / t,
    ),
    "twice": (
        (sympy.exp(x) - sympy.exp(2 * y - x)) * sympy.exp(-y) / (x - y),
        lambda t: 2 * mpmath.sinh(t) / t,
    ),
}


@pytest.mark.parametrize("name", OF_ONE_DIFFERENCE)
def test_a_short_series_stands_only_where_its_end_is_nothing(name):
    function, truth = OF_ONE_DIFFERENCE[name]
    at = numpy.array([1e-9, 1e-3, 0.02, 0.1, 0.3, 0.49, 0.51, -0.2])
    found = evaluate(of_differences(function, [x, y]), {x: at, y: numpy.zeros(at.shape)})
    numpy.testing.assert_allclose(found, [float(truth(mpmath.mpf(t))) for t in at], rtol=2e-13)


def test_the_mean_of_a_quotient_of_differences_is_good_to_the_error_told():
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg((tp.exp(x) - tp.exp(y)) / (x - y) * tp.exp(-y))

    found = tp.derive(program).evaluate()["return"]
    # (exp(√2 g) − 1)/(√2 g) is the integral of exp(√2 u g) over u in [0, 1]
    truth = integrate.quad(lambda u: numpy.exp(u * u), 0, 1, epsabs=1e-15)[0]
    assert abs(found.value - truth) < found.error < 1e-11


@pytest.mark.parametrize("power", [3, 4, 5, 8])
def test_poles_inside_of_the_circle_are_no_series(power):
    """(1 + t²)^(−4) beyond |t| = 1 begins with t^(−8): no lower order tells, and 0 had been read off for |t| < 1."""
    series = _series((1 + FORM**2) ** -power)
    if series is not None:
        δ, *c = map(float, series)
        assert sum(a * (δ / 4) ** k for k, a in enumerate(c)) == pytest.approx((1 + δ**2 / 16) ** -power, rel=1e-9)

    @tp.program
    def subject(x: tp.Vector):
        return tp.avg((1 - tp.tanh(x) ** 2) / (1 + tp.relu(x) ** 2) ** power)

    expected = mpmath.quad(
        lambda x: mpmath.sech(x) ** 2 / (1 + max(x, 0) ** 2) ** power * mpmath.npdf(x), [-9, -2, 0, 1, 3, 9]
    )
    assert tp.derive(subject).evaluate()["return"].value == pytest.approx(float(expected), abs=1e-12)
