"""Means over one standard normal, beside poles, far out and where rounding alone is left, against other routes."""

import mpmath
import pytest
import sympy

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.program.nodes.evaluate import constant_mean


def mean(function):
    """`tp.expect` of a function of one SymPy variable."""

    @tp.program
    def constant(x: tp.Vector):
        return tp.avg(x * x) * tp.expect(lambda g: tp.elementwise(function)(g))

    return tp.derive(constant).evaluate(method="quadrature")["return"]


def density(x):
    return mpmath.npdf(x)


def over(weight):
    """∫₀¹ (1 − s) E f″(s g) ds, of which (f(g) − f(0) − f′(0) g)/g² is the mean."""
    return mpmath.quad(lambda s: (1 - s) * weight(s), [0, 1])


def sided(function, *places):
    return mpmath.quad(lambda x: function(x) * density(x), [-mpmath.inf, *places, mpmath.inf])


#: beside removable poles double precision leaves rounding alone: f, and its mean by Taylor's formula
REMOVABLE = {
    "(1 − cos g)/g²": (lambda g: (1 - sympy.cos(g)) / g**2, lambda: over(lambda s: mpmath.exp(-s * s / 2))),
    "(eᵍ − 1 − g)/g²": (lambda g: (sympy.exp(g) - 1 - g) / g**2, lambda: over(lambda s: mpmath.exp(s * s / 2))),
    "log(1 + g²)/g²": (
        lambda g: sympy.log(1 + g**2) / g**2,
        lambda: sided(lambda x: mpmath.log1p(x * x) / x**2, -1, 0, 1),
    ),
    "(g − tanh g)/g³": (
        lambda g: (g - sympy.tanh(g)) / g**3,
        lambda: sided(lambda x: (x - mpmath.tanh(x)) / x**3 if abs(x) > 1e-12 else mpmath.mpf(1) / 3, -1, 0, 1),
    ),
}

SINGULAR = {
    "log|g|": (lambda g: sympy.log(abs(g)), lambda: -(mpmath.euler + mpmath.log(2)) / 2),
    "|g|^(−1/2)": (
        lambda g: 1 / sympy.sqrt(abs(g)),
        lambda: mpmath.mpf(2) ** -0.25 * mpmath.gamma(0.25) / mpmath.sqrt(mpmath.pi),
    ),
    "sign(g − 1)/|g − 1|^(1/3)": (
        lambda g: sympy.sign(g - 1) / abs(g - 1) ** sympy.Rational(1, 3),
        lambda: sided(lambda x: mpmath.sign(x - 1) * abs(x - 1) ** (-mpmath.mpf(1) / 3), -1, 1, 3),
    ),
    "log²|1 + g|": (lambda g: sympy.log(abs(1 + g)) ** 2, lambda: sided(lambda x: mpmath.log(abs(1 + x)) ** 2, -1, 1)),
}

FAR_OUT = {
    "e^(30g) − e^(29g)": (
        lambda g: sympy.exp(30 * g) - sympy.exp(29 * g),
        lambda: mpmath.exp(450) - mpmath.exp(mpmath.mpf(841) / 2),
    ),
    "g sinh(25g)": (lambda g: g * sympy.sinh(25 * g), lambda: 25 * mpmath.exp(mpmath.mpf(625) / 2)),
    "cosh(25g)/(1 + g²)": (
        lambda g: sympy.cosh(25 * g) / (1 + g**2),
        lambda: mpmath.exp(mpmath.mpf(625) / 2) * sided(lambda x: 1 / (1 + (x + 25) ** 2), -5, 5),
    ),
    "e^(−50g) relu(g)": (
        lambda g: sympy.exp(-50 * g) * sympy.Max(g, 0),
        lambda: mpmath.quad(lambda x: x * mpmath.exp(-50 * x) * density(x), [0, 0.1, 1, 5]),
    ),
    "e^(10g)/√|g − 10|": (
        lambda g: sympy.exp(10 * g) / sympy.sqrt(abs(g - 10)),
        lambda: mpmath.exp(50) * 2 * mpmath.quad(lambda x: density(x) / mpmath.sqrt(x), [0, 1, 5, 40]),
    ),
}


@pytest.mark.parametrize("name", [*REMOVABLE, *SINGULAR, *FAR_OUT])
def test_means_are_within_their_errors(name):
    function, truth = (REMOVABLE | SINGULAR | FAR_OUT)[name]
    with mpmath.workdps(30):
        expected = truth()
        found = mean(function)
        assert found.error < 1e-11 * abs(expected)
        assert abs(found.value - expected) < found.error + 1e-15 * abs(expected)
        # what rounding beside the pole had taken away
        assert abs(found.value - expected * (1 + mpmath.mpf("1e-9"))) > 10 * found.error


@pytest.mark.parametrize(
    "function", [lambda g: 1 / abs(g) ** sympy.Rational(3, 2), lambda g: sympy.exp(g**2), lambda g: 1 / (g * g)]
)
def test_what_has_no_mean_is_refused(function):
    with pytest.raises((EvaluationError, tp.NoLimitError), match=r"no finite mean|infinite"):
        mean(function)


def test_what_is_too_large_for_a_double_is_refused():
    with pytest.raises(EvaluationError, match="too large for a double"):
        mean(lambda g: sympy.exp(50 * g) * sympy.tanh(g) ** 2)


def between_zeros(power, rate, offset):
    """E |sin(rate g + offset)|^power in 30 digits: by the distance from each zero, on either side."""
    with mpmath.workdps(30):
        power, q = mpmath.mpf(power), 1 / (1 + mpmath.mpf(power))
        end, total = (mpmath.pi / 2 / rate) ** (1 / q), mpmath.mpf(0)
        for k in range(-14 * rate, 14 * rate):
            zero = (k * mpmath.pi - mpmath.mpf(offset)) / rate
            for side in (-1, 1) if abs(zero) < 13 else ():

                def part(u, zero=zero, side=side):
                    return (
                        abs(mpmath.sin(rate * u**q)) ** power
                        * mpmath.exp(-((zero + side * u**q) ** 2) / 2)
                        * q
                        * u ** (q - 1)
                    )

                total += mpmath.quad(part, [0, end / 4, end])
        return total / mpmath.sqrt(2 * mpmath.pi)


@pytest.mark.parametrize(("power", "rate", "offset"), [("-1/2", 1, 0), ("-9/10", 1, 0), ("-1/4", 3, 1)])
def test_poles_at_all_zeros_of_a_wave(power, rate, offset):
    """Those at π and beyond were known to rounding alone, within which 1e-10 of |x|^(−½) lies: told was 1e-12."""
    g, power = sympy.Symbol("g", real=True), sympy.Rational(power)
    found = constant_mean(sympy.Abs(sympy.sin(rate * g + offset)) ** power, g)
    wanted = between_zeros(mpmath.mpf(power.p) / power.q, rate, offset)
    assert abs(found.value - wanted) <= found.error < 3e-9


def test_a_pole_at_a_place_of_rounding():
    """E |g² − 2|^(−1/3) was off by ten of its errors."""
    g = sympy.Symbol("g", real=True)
    found = constant_mean(sympy.Abs(g**2 - 2) ** sympy.Rational(-1, 3), g)
    with mpmath.workdps(30):
        root, total = mpmath.sqrt(2), mpmath.mpf(0)
        for low, high in ((root, 14), (root, 0)):
            side, length = (1 if high > low else -1), abs(high - low)

            def part(u, side=side):
                x = root + side * u**3
                return abs(side * u**3 * (x + root)) ** (-mpmath.mpf(1) / 3) * mpmath.exp(-x * x / 2) * 3 * u**2

            ends = [0, *(mpmath.cbrt(length) * k / 8 for k in range(1, 9))]
            total += 2 * mpmath.quad(part, ends)
        wanted = total / mpmath.sqrt(2 * mpmath.pi)
    assert abs(found.value - wanted) <= found.error < 1e-10
