"""Spellings of one function: their difference is 0 in programs, and what only comes near stays as it is."""

import itertools

import numpy as np
import pytest
import sympy
from scipy import integrate, special, stats

import tplimits as tp
from tplimits.program.nodes.fuse import _Builder
from tplimits.program.nodes.identities import is_zero

ROOT = tp.sqrt(2)
SPELLINGS = {
    "relu": [tp.relu, lambda x: tp.maximum(x, 0), lambda x: tp.where(x, x, 0), lambda x: (x + tp.abs(x)) / 2],
    "absolute": [tp.abs, lambda x: tp.maximum(x, -x), lambda x: tp.where(x, x, -x), lambda x: x * tp.sign(x)],
    "leaky": [lambda x: tp.leaky_relu(x, 0.25), lambda x: tp.maximum(x, 0.25 * x)],
    "sigmoid": [
        tp.sigmoid,
        lambda x: 1 / (1 + tp.exp(-x)),
        lambda x: tp.exp(x) / (1 + tp.exp(x)),
        lambda x: (1 + tp.tanh(x / 2)) / 2,
    ],
    "softplus": [
        tp.softplus,
        lambda x: tp.log(1 + tp.exp(x)),
        lambda x: tp.log(tp.exp(x) + tp.exp(2 * x)) - x,
        lambda x: x + tp.softplus(-x),
        lambda x: tp.maximum(x, 0) + tp.log(1 + tp.exp(-tp.abs(x))),
    ],
    "gelu": [tp.gelu, lambda x: x * (1 + tp.erf(x / ROOT)) / 2],
    "tanh": [
        tp.tanh,
        lambda x: (tp.exp(x) - tp.exp(-x)) / (tp.exp(x) + tp.exp(-x)),
        lambda x: 2 * tp.sigmoid(2 * x) - 1,
        lambda x: 1 - 2 / (tp.exp(2 * x) + 1),
    ],
    "elu": [lambda x: tp.where(x, x, tp.exp(x) - 1), lambda x: tp.relu(x) + tp.exp(tp.minimum(x, 0)) - 1],
}
PAIRS = [(name, k) for name, many in SPELLINGS.items() for k in range(1, len(many))]


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_a_difference_of_spellings_is_nothing_beside_a_pole_and_in_a_jump(name, other):
    """(tanh written out − tanh)/h³ had been 3·10¹⁵ ± 10⁹, and step of such a difference .09 ± .01."""
    first, second = SPELLINGS[name][0], SPELLINGS[name][other]

    @tp.program
    def pole(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg((first(h) - second(h)) / h**3)

    @tp.program
    def jump(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg(x**2 * tp.step(x * first(h) - x * second(h)))

    @tp.program
    def by_names(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        f, g = first(h), second(h)
        products = tp.avg(f * x), tp.avg(g * x)
        return tp.avg((f - g) / h**3) + products[0] - products[1]

    for program in (pole, jump, by_names):
        found = tp.derive(program).evaluate()["return"]
        assert abs(found.value) <= 1e-9 and found.error <= 1e-9
    assert float(pole.run(n=50, seed=0)["return"]) == float(jump.run(n=50, seed=0)["return"]) == 0


NEAR = {
    "gelu": (
        lambda x: tp.gelu(x) - x * tp.sigmoid(1.702 * x),
        lambda x: x * (1 + special.erf(x / np.sqrt(2))) / 2 - x * special.expit(1.702 * x),
    ),
    "relu": (lambda x: tp.relu(x) - tp.maximum(x, -0.01), lambda x: np.maximum(x, 0) - np.maximum(x, -0.01)),
    "softplus": (lambda x: tp.softplus(x) - tp.relu(x), lambda x: np.logaddexp(0, x) - np.maximum(x, 0)),
    "tanh": (
        lambda x: tp.tanh(x) - 2 * tp.sigmoid(2.01 * x) + 1,
        lambda x: np.tanh(x) - 2 * special.expit(2.01 * x) + 1,
    ),
}


@pytest.mark.parametrize("case", NEAR)
def test_what_only_comes_near_stays(case):
    of_program, of_numpy = NEAR[case]

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(of_program(x) ** 2)

    found = tp.derive(program).evaluate()["return"]
    expected = sum(
        integrate.quad(lambda t: of_numpy(t) ** 2 * stats.norm.pdf(t), a, b, epsabs=1e-14)[0]
        for a, b in itertools.pairwise([-12, -0.01, 0, 12])
    )
    assert found.value == pytest.approx(expected, rel=1e-6) and expected > 0


def test_domains_and_poles_stay():
    """log x · 0 is no number at x < 0, nor are networks there, and 1/0 is refused as it stands."""

    @tp.program
    def logarithm(x: tp.Vector):
        return tp.avg(tp.log(x) * (tp.sigmoid(x) - 1 / (1 + tp.exp(-x))))

    @tp.program
    def pole(x: tp.Vector):
        return tp.avg(1 / (tp.sigmoid(x) - 1 / (1 + tp.exp(-x))))

    for program in (logarithm, pole):
        with pytest.raises(tp.TplimitsError, match=r"positive|tends to 0|is 0: |pole|negative"):
            tp.derive(program).evaluate()


def of_two_names(x: tp.Vector, y: tp.Vector):
    other = -x
    top = tp.maximum(x, other)
    size = tp.abs(x)
    zero = size - top
    return tp.avg(tp.sign(zero) * y**2)


def of_a_name_alone(x: tp.Vector, y: tp.Vector):
    size = tp.abs(x) ** 3
    zero = size - tp.abs(x) ** 3
    return tp.avg(tp.sign(zero) * y**2)


def a_half(x: tp.Vector, y: tp.Vector):
    other = -x
    top = tp.maximum(x, other) / 2
    size = tp.abs(x)
    rest = size - top
    return tp.avg(tp.sign(rest) * y**2)


@pytest.mark.parametrize(("function", "expected"), [(of_two_names, 0), (of_a_name_alone, 0), (a_half, 1)])
def test_sums_of_several_names_are_read_through_to_one_vector(function, expected):
    """|x| − max(x, −x) is 0 whatever −x is called, and so is its sign."""
    program = tp.program(function)
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(expected, abs=1e-12)
    assert program.run(n=500, seed=2)["return"] == pytest.approx(expected, abs=0.3)


def test_domains_that_cancel_by_their_names_stay():
    def program(x: tp.Vector, y: tp.Vector):
        first = tp.log(x)
        second = tp.log(1 * x)
        zero = first - second
        return tp.avg((zero + y) ** 2)

    with pytest.raises(tp.TplimitsError, match=r"may be no number|negative|cancels"):
        tp.derive(tp.program(program)).evaluate()


def test_functions_of_functions_are_read_through_so_many_names_only():
    """Written out the last of these has 2⁴⁰ nodes."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        y = W @ x
        for _ in range(40):
            y = tp.tanh(y) + tp.sigmoid(y)
        return tp.avg(y)

    assert len(program) == 44


def test_each_name_of_a_chain_is_read_through_once(monkeypatch):
    """Behind a chain of 40 functions all of it had been read through at each of them."""
    read = []
    through = _Builder._read_through

    def counted(self, entry):
        read.append(entry)
        return through(self, entry)

    monkeypatch.setattr(_Builder, "_read_through", counted)

    @tp.program
    def program(x: tp.Vector):
        y = x
        for k in range(40):
            y = tp.tanh(y + k)
        return tp.avg(y)

    assert len(program) == 42 and len(read) == len(set(read)) <= 41


@pytest.mark.parametrize(("beside", "expected"), [(-1, True), (-1 + 1e-9, False), (-2, False)])
def test_terms_that_are_large_beside_their_sum_are_looked_at_in_many_digits(beside, expected):
    """e^(60x) (1 + e^(−60x)) − e^(60x) − 1: terms of size 10³⁶, whose sum is 0 or is not."""
    x = sympy.Symbol("x", real=True)
    function = sympy.exp(60 * x) * (1 + sympy.exp(-60 * x)) - sympy.exp(60 * x) + sympy.Rational(beside)
    assert is_zero(function, x) is expected


def test_functions_of_a_chain_are_asked_for_decimals_alone(monkeypatch):
    """Sums of a chain hold all that came before: of exact ones SymPy asks for the sign of each function inside."""
    asked, tanh = [], sympy.tanh.eval
    monkeypatch.setattr(sympy.tanh, "eval", classmethod(lambda cls, u: (asked.append(u), tanh(u))[1]))

    @tp.program
    def chain(x: tp.Vector):
        y = x
        for k in range(24):
            y = tp.tanh(0.9 * y + (k + 24) / 64)
        return tp.avg(y)

    assert len(chain) > 1
    assert any(u.is_Float for u in asked)
    assert not [u for u in asked if u.has(sympy.Symbol("x", real=True))]
