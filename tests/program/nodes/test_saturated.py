"""Sums that cancel where functions saturate, but for a small number, against many digits."""

import itertools

import mpmath
import pytest
import sympy

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.program.nodes import functions
from tplimits.program.nodes.saturated import by_sides, with_digits

x = sympy.Symbol("x", real=True)
ε = sympy.Rational(1, 10**20)
σ = functions.sigmoid


def mean(f):
    def program(x: tp.Vector):
        return tp.avg(f(x))

    return tp.derive(tp.program(program)).evaluate()["return"]


def in_digits(f):
    """E sign f(x) of a standard normal x, f in 60 digits: zeros bisected between points 1/32 apart."""
    with mpmath.workdps(60):
        ends = [mpmath.mpf(k) / 32 + mpmath.mpf("0.00123") for k in range(-288, 289)]
        cuts = [mpmath.mpf(-10)]
        for low, high in itertools.pairwise(ends):
            if f(low) * f(high) < 0:
                below = mpmath.sign(f(low))
                for _ in range(60):
                    middle = (low + high) / 2
                    low, high = (middle, high) if f(middle) * below > 0 else (low, middle)
                cuts.append(low)
        cuts.append(mpmath.mpf(10))
        pieces = itertools.pairwise(cuts)
        return float(mpmath.fsum(mpmath.sign(f((a + b) / 2)) * (mpmath.ncdf(b) - mpmath.ncdf(a)) for a, b in pieces))


TINY, HUGE = 1e-20, 1e20
tanh, erf, sigmoid = mpmath.tanh, mpmath.erf, lambda a: 1 / (1 + mpmath.exp(-a))
#: a function of the language, and the same in mpmath: in doubles each is rounding for a good part of a normal x
SIGNS = {
    "tanh": (lambda x: tp.tanh(30 * x) - 1 + TINY, lambda x: tanh(30 * x) - 1 + TINY),
    "erf": (lambda x: 1 - TINY * 3 - tp.erf(9 * x + 3), lambda x: 1 - TINY * 3 - erf(9 * x + 3)),
    "erf, below": (lambda x: 1 + tp.erf(9 * x) - TINY, lambda x: 1 + erf(9 * x) - TINY),
    "erfc": (lambda x: tp.elementwise(sympy.erfc)(9 * x) - 2 + TINY, lambda x: mpmath.erfc(9 * x) - 2 + TINY),
    "sigmoid": (lambda x: 2 * tp.sigmoid(60 * x) - 2 + TINY, lambda x: 2 * sigmoid(60 * x) - 2 + TINY),
    "sigmoid, below": (lambda x: tp.sigmoid(60 * x) - TINY, lambda x: sigmoid(60 * x) - TINY),
    "not so near": (lambda x: tp.tanh(5 * x) - 1 + 1e-8, lambda x: tanh(5 * x) - 1 + 1e-8),
    "two": (lambda x: tp.tanh(30 * x) + tp.erf(7 * x) - 2 + TINY, lambda x: tanh(30 * x) + erf(7 * x) - 2 + TINY),
    "difference": (
        lambda x: tp.tanh(30 * x) - tp.tanh(20 * x) - TINY,
        lambda x: tanh(30 * x) - tanh(20 * x) - TINY,
    ),
    "three": (
        lambda x: tp.tanh(30 * x) - tp.tanh(20 * x + 1) + tp.erf(9 * x) - 1 + TINY,
        lambda x: tanh(30 * x) - tanh(20 * x + 1) + erf(9 * x) - 1 + TINY,
    ),
    "a line": (
        lambda x: tp.tanh(30 * x) - 1 + TINY * (x + 0.5),
        lambda x: tanh(30 * x) - 1 + TINY * (x + 0.5),
    ),
    "an exponential": (
        lambda x: tp.tanh(30 * x) - 1 + tp.exp(-50 * x),
        lambda x: tanh(30 * x) - 1 + mpmath.exp(-50 * x),
    ),
    "a factor": (
        lambda x: (x - 0.125) * (tp.tanh(30 * x) - 1 + TINY),
        lambda x: (x - 0.125) * (tanh(30 * x) - 1 + TINY),
    ),
    "softplus, written out": (
        lambda x: tp.log(1 + tp.exp(-60 * x)) - TINY,
        lambda x: mpmath.log1p(mpmath.exp(-60 * x)) - TINY,
    ),
    "inside": (lambda x: tp.tanh(tp.tanh(30 * x) - 1 + TINY), lambda x: tanh(30 * x) - 1 + TINY),
}


@pytest.mark.parametrize("case", SIGNS)
def test_signs_are_those_of_many_digits(case):
    f, exact = SIGNS[case]
    truth = in_digits(exact)
    found = mean(lambda x: tp.sign(f(x)))
    assert abs(found.value - truth) <= 3e-14
    assert found.error < 1e-13
    assert mean(lambda x: tp.step(f(x))).value == pytest.approx((1 + truth) / 2, abs=3e-14)
    assert mean(lambda x: tp.where(f(x), 2, 3)).value == pytest.approx((5 - truth) / 2, abs=3e-14)


def test_a_kink_keeps_the_size_of_what_is_left():
    """E relu(10²⁰ (tanh 30x − 1) + 1): 0 in doubles, where the sum is."""
    with mpmath.workdps(60):
        zero = mpmath.atanh(1 - mpmath.mpf(TINY)) / 30
        f = lambda t: HUGE * (mpmath.tanh(30 * t) - 1 + TINY) * mpmath.npdf(t)  # noqa: E731
        truth = mpmath.quad(f, [zero, zero + 0.1, zero + 0.3, 1.5, 3, 12])
    found = mean(lambda x: HUGE * tp.relu(tp.tanh(30 * x) - 1 + TINY))
    assert abs(found.value - truth) <= 1e-13


def test_forms_are_the_same_function():
    for total in (sympy.tanh(x) - 1 + ε, 3 * σ(x) + sympy.exp(-x) - 3, 2 - sympy.erf(2 * x) - sympy.tanh(x) - ε):
        form = with_digits(total)
        assert form != total
        jump = by_sides(functions.step(sympy.erf(x) - sympy.tanh(2 * x) + ε))
        for at in (sympy.Rational(-7, 3), sympy.Rational(1, 5), sympy.Rational(9, 4)):
            ends = [functions.elementary(e).xreplace({x: at}).evalf(60, maxn=400) for e in (total, form)]
            assert abs(ends[0] - ends[1]) < 1e-50
            assert jump.xreplace({x: at}) == functions.step(sympy.erf(at) - sympy.tanh(2 * at) + ε)


def test_what_cancels_to_nothing_or_not_at_all_stays():
    for body in (1 - sympy.tanh(x), sympy.tanh(x) - sympy.Rational(1, 2), x + sympy.tanh(x) - 1 + ε, sympy.atan(x) - 2):
        assert with_digits(body) == body


#: what no form is known of: in doubles these had been 0.473, −0.74, …
LOST = {
    "square": lambda x: 1 - tp.tanh(30 * x) ** 2 - TINY,
    "product": lambda x: 1 - tp.tanh(30 * x) * tp.erf(5 * x) - TINY,
    "a circle": lambda x: tp.sin(x) ** 2 + tp.cos(x) ** 2 - 1 + TINY,
    "root": lambda x: tp.sqrt(1 + tp.exp(-60 * x)) - 1 - TINY,
    "exponential": lambda x: tp.exp(TINY * x) - 1,
    "softplus": lambda x: tp.softplus(60 * x) - 60 * x - TINY,
    "extreme": lambda x: tp.maximum(tp.tanh(30 * x), 1 - 1e-16) - 1 + 0.5e-16,
    "branches": lambda x: tp.where(x, tp.tanh(30 * x), -1) - 1 + TINY,
    "error functions, below": lambda x: tp.tanh(30 * x) - tp.erf(20 * x + 1) + TINY,
}


@pytest.mark.parametrize("case", LOST)
@pytest.mark.parametrize("jump", [tp.sign, tp.step, lambda u: tp.where(u, 1, 3)])
def test_what_double_precision_does_not_decide_is_refused(case, jump):
    with pytest.raises(
        EvaluationError, match=r"jumps where .* changes sign, of which double precision leaves rounding"
    ):
        mean(lambda x: jump(LOST[case](x)))
