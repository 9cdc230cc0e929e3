"""Signs of what saturates: those of real numbers, where double precision has 0 for most arguments."""

import mpmath
import pytest
import sympy
from scipy.stats import norm

import tplimits as tp
from tplimits.program.nodes import functions
from tplimits.program.nodes.jump_signs import plain_sign, with_plain_signs

x, y = sympy.symbols("x y", real=True)
σ = functions.sigmoid


def mean(f):
    def program(x: tp.Vector):
        return tp.avg(f(x))

    return tp.derive(tp.program(program)).evaluate()["return"]


#: every difference is 0 in double precision for a good part of a standard normal x
MEANS = {
    "sigmoids": (lambda x: tp.step(tp.sigmoid(200 * (x - 2)) - tp.sigmoid(200 * (x - 2.2))), 1.0),
    "sigmoids, turned": (lambda x: tp.sign(tp.sigmoid(200 * (x - 2.2)) - tp.sigmoid(200 * (x - 2))), -1.0),
    "error functions": (lambda x: tp.step(3 * tp.erf(20 * (x + 1)) - 3 * tp.erf(20 * (x - 1))), 1.0),
    "below 1": (lambda x: tp.step(1 - tp.tanh(30 * x)), 1.0),
    "beside a factor": (lambda x: tp.step(x * (1 - tp.tanh(30 * x))), 0.5),
    "above −2": (lambda x: tp.where(tp.tanh(9 * x) + tp.erf(50 * x) + 2, tp.relu(x), 7), norm.pdf(0)),
    "peaks": (lambda x: tp.step(tp.exp(-300 * (x - 2) ** 2) - tp.exp(-300 * (x - 2.2) ** 2)), norm.cdf(2.1)),
    "falling": (lambda x: tp.step(tp.elementwise(sympy.erfc)(9 * x) - tp.elementwise(sympy.erfc)(9 * x * x)), None),
    "positive": (lambda x: tp.step(tp.exp(-2000 * x * x)), 1.0),
}


@pytest.mark.parametrize("case", MEANS)
def test_jumps_read_signs_of_real_numbers(case):
    f, expected = MEANS[case]
    if expected is None:  # erfc(9x) > erfc(9x²) for x < x², that is for x < 0 and x > 1
        expected = 0.5 + norm.sf(1)
    assert mean(f).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "u",
    [
        σ(40 * x) - σ(3 * x + 2 * y),
        sympy.tanh(x) - 1,
        2 * sympy.exp(y) - 2 * sympy.exp(x * y),
        x * (1 - sympy.erf(y)) * σ(x),
        sympy.erfc(x) - sympy.erfc(y),
        sympy.atan(x) - sympy.Rational(3, 2),
        sympy.sinh(x) - sympy.sinh(y),
        sympy.sin(x) - 1,
        functions.relu(x) - functions.relu(y),
        functions.gelu(x) + sympy.Rational(17, 100),
    ],
)
def test_a_plain_sign_is_that_of_many_digits(u):
    """mpmath with 400 digits at points where all that saturates does."""
    with mpmath.workdps(400):
        for a in (-7.25, -0.3, 0.0, 1.25, 8.5):
            for b in (-6.5, 0.75, 9.25):
                at = {x: sympy.Rational(a), y: sympy.Rational(b)}
                exact = functions.elementary(u).xreplace(at).evalf(400)
                assert sympy.sign(exact) == sympy.sign(plain_sign(u).xreplace(at).evalf(30))


def test_what_is_no_jump_stays_as_it_is():
    body = functions.relu(1 - sympy.tanh(x)) * (1 - sympy.tanh(y)) + functions.step(sympy.sin(x) - sympy.sin(y))
    assert with_plain_signs(body) == body


def test_what_is_further_out_than_nodes_is_in_the_error():
    """E tanh relu(x − 15) is 2·10⁻⁵³, and 0 at every node."""
    truth = mpmath.quad(lambda t: mpmath.tanh(t - 15) * mpmath.npdf(t), [15, 16, 20])
    found = mean(lambda x: tp.tanh(tp.relu(x - 15)))
    assert abs(found.value - truth) <= found.error < 1e-30
