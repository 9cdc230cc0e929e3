"""How fast drawn kets grow, against exponents at lines through the origin, and quadratic forms, counted by hand."""

from __future__ import annotations

import itertools
import random

import numpy
import pytest
import sympy
from sympy import Rational, S

from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses.moments import _Analysis, tail
from tplimits.law.hypotheses.products import of_product
from tplimits.law.hypotheses.quotients import shares_of_pole
from tplimits.law.hypotheses.tails import Growth, Tail, of_sum
from tplimits.program.nodes.functions import sigmoid, softplus

x, y, z = (sympy.Symbol(name, real=True) for name in "xyz")
LINES = (x, y, x + y, x - 2 * y)
POWERS = tuple(Rational(p, 20) for p in (-14, -10, -9, -8, -5, -3, 4, 20, 40))


@pytest.fixture
def law():
    gaussians = Gaussians()
    for position, symbol in enumerate((x, y, z)):
        assert gaussians.add(symbol.name, InitialSource(position, ())) == symbol
    return gaussians


def reach(exponents):
    """Up to which q Π |ℓ|^e is in L^q: near each line q e > −1, near the origin q Σe > −2."""
    worst = [-1 / e for e in exponents.values() if e < 0]
    total = sum(exponents.values())
    return min([*worst, *([-2 / total] if total < 0 else [])], default=S.Infinity)


def test_products_of_powers_are_in_no_larger_space_than_is_said(law):
    rng, established = random.Random(0), 0
    for _ in range(40):
        exponents = {}
        for line in rng.sample(LINES, rng.choice((1, 2, 2, 3))):
            exponents[line] = rng.choice(POWERS)
        found = tail(sympy.Mul(*(sympy.Abs(line) ** e for line, e in exponents.items())), law)
        most = reach(exponents)
        established += found.established
        if found.established:
            assert most > 2 and found.power <= most, exponents
            assert found.degree >= sum(exponents.values())
        if found.kind is Growth.INFINITE:
            assert most <= 2, exponents
        if len(exponents) == 1 or exponents.keys() == {x, y}:  # one line, and two that are independent
            assert found.established == (most > 2) and (most <= 2 or found.power == most), exponents
    assert established > 10


def test_exponentials_of_quadratic_forms_have_a_second_moment_where_the_form_is_small(law):
    """E exp(2Q) of two standard normals is finite where all eigenvalues of Q are below ¼, whatever is linear."""
    rng, seen = random.Random(1), set()
    for _ in range(40):
        a, b, c = (Rational(rng.choice((-6, -3, -1, 0, 1, 2, 4, 6)), 20) for _ in range(3))
        form = a * x**2 + b * x * y + c * y**2
        found = tail(sympy.exp(form + rng.choice((0, 3)) * x - rng.choice((0, 1)) * y), law)
        largest = max(numpy.linalg.eigvalsh([[float(a), float(b) / 2], [float(b) / 2, float(c)]]))
        if found.established:
            assert largest < 0.25, form
            assert found.degree == 2 * (found.kind is Growth.EXPONENTIAL) or form == 0
            assert largest <= 0 or found.power <= (1 + 1e-9) / (2 * largest), form
        if found.kind is Growth.INFINITE:
            assert largest >= 0.25 - 1e-12, form
        if b == 0:
            assert found.established == (largest < 0.25), form
        seen.add(found.kind)
    assert {Growth.EXPONENTIAL, Growth.INFINITE} <= seen


FORMS = (x, x + y, z - x)
#: functions that leave zero like |t|^a, with a: powers, and others
PLAIN = ((sympy.Abs, S(1)), (lambda t: t**2, S(2)), (lambda t: sympy.Abs(t) ** S.Half, S.Half), (lambda t: t**4, S(4)))
BENT = (
    (lambda t: sympy.tanh(t) ** 2, S(2)),
    (lambda t: t * sympy.tanh(t), S(2)),
    (lambda t: sympy.Abs(sympy.erf(t)), S(1)),
)


def test_denominators_that_vanish_where_several_forms_do(law):
    """D = Σ |ℓ_i|^(a_i): ℓ_1^m D^(−p) is in L^q for q (p − m/a_1) < Σ 1/a_i, by scaling ℓ_i by ε^(1/a_i)."""
    rng, exact = random.Random(2), 0
    for _ in range(40):
        many = rng.choice((1, 2, 2, 3))
        chosen = [rng.choice(rng.choice((PLAIN, PLAIN, BENT))) for _ in range(many)]
        denominator = sum(rng.choice((1, 2)) * f(line) for (f, _), line in zip(chosen, FORMS, strict=False))
        reached = sum(1 / a for _, a in chosen)
        power, zeros = Rational(rng.choice((1, 1, 2, 3, 5)), 4), rng.choice((0, 0, 1))
        left = power - zeros / chosen[0][1]
        most = reached / left if left > 0 else sympy.oo
        found = tail(FORMS[0] ** zeros * denominator ** (-power), law)
        if found.established:
            assert most > 2 and found.power <= most, (denominator, power, zeros)
        if found.kind is Growth.INFINITE:
            assert most <= 2, (denominator, power, zeros)
        if not zeros and all(one in PLAIN for one in chosen):
            assert found.established == (most > 2), (denominator, power)
            assert most <= 2 or found.power == most, (denominator, power)
            exact += bool(most > 2)
    assert exact > 3


def q(power, kind=Growth.BOUNDED, degree=0):
    return Tail(kind, S(degree), (), S(power))


def test_sums_take_the_worst(law):
    one, two = q(3, Growth.POLYNOMIAL, 1), q(5, Growth.EXPONENTIAL, 2)
    for order in itertools.permutations((one, two, q(4))):
        assert of_sum(order) == Tail(Growth.EXPONENTIAL, S(2), (), S(3))
    infinite, unreal = Tail(Growth.INFINITE, why=("i",)), Tail(Growth.INFINITE, unreal=True)
    assert of_sum([]).kind is Growth.BOUNDED
    assert of_sum([one, infinite]).kind is Growth.INFINITE and of_sum([one, infinite]).reason == "i"
    for others in ([infinite, infinite], [infinite, Tail(Growth.INFINITE)], [infinite, Tail(Growth.UNKNOWN)]):
        assert of_sum(others).kind is Growth.UNKNOWN, "they may cancel"
    assert of_sum([unreal, infinite]).kind is Growth.INFINITE, "what is not real stays so"
    assert of_sum([unreal, one]).unreal and not of_sum([infinite, one]).unreal


def test_products_go_by_hölder_where_factors_depend_on_one_another(law):
    """1/q = Σ 1/q_i among dependent factors, the least q among independent ones."""
    tails = [(sympy.Abs(x), q(4, Growth.POLYNOMIAL, 1)), (sympy.tanh(x) * y, q(6, degree=2)), (z, q(5))]
    for order in itertools.permutations(tails):
        found = of_product(order, law)
        assert (found.power, found.degree, found.kind) == (Rational(12, 5), 3, Growth.POLYNOMIAL)
    assert of_product([(x, q(4)), (y, q(6)), (z, q(5))], law).power == 4
    for order in itertools.permutations([(x, q(4)), (x * y, q(sympy.oo)), (y, q(6))]):
        assert of_product(order, law).power == 4, "bounded ones link nothing"
    assert of_product([(x, q(4)), (x * y, q(12)), (y, q(6))], law).power == 2
    assert of_product([(x, q(sympy.oo)), (x, q(sympy.oo))], law).power == sympy.oo


def test_correlated_variables_depend_on_one_another():
    class Correlated(Gaussians):
        def covariance(self, a, b):
            return S(1) if a == b else S.Half if {a, b} == {x, y} else S(0)

    law = Correlated()
    for position, symbol in enumerate((x, y, z)):
        law.add(symbol.name, InitialSource(position, ()))
    assert of_product([(x, q(4)), (y, q(6)), (z, q(3))], law).power == Rational(12, 5)


def test_what_is_infinite_may_be_tamed_by_what_stands_beside_it(law):
    infinite, bounded = Tail(Growth.INFINITE, why=("i",)), Tail(Growth.BOUNDED)
    pole = 1 / sympy.Abs(x)
    for beside, kind in ((y, Growth.INFINITE), (sympy.sech(x), Growth.UNKNOWN), (sympy.exp(x), Growth.UNKNOWN)):
        assert of_product([(pole, infinite), (beside, bounded)], law).kind is kind
    for apart in (sympy.exp(sympy.Symbol("c")), sympy.exp(y)):
        assert of_product([(pole, infinite), (apart, bounded)], law).kind is Growth.INFINITE, "independent of it"
    assert of_product([(pole, infinite), (1 / x**2, infinite)], law).kind is Growth.UNKNOWN, "two that may cancel"
    unreal = Tail(Growth.INFINITE, unreal=True)
    found = of_product([(sympy.sqrt(x), unreal), (sympy.sech(x), bounded)], law)
    assert found.kind is Growth.INFINITE and found.unreal


def test_powers_of_sums_of_squares_are_shared_between_a_term_and_the_others(law):
    """r^(−2p) of three standard normals has a second moment for 4p < 3; of shares that show it there is one for .6."""
    squares = (x**2, y**2, z**2)
    for power, shown in ((Rational(6, 10), True), (Rational(8, 10), False)):
        tails = list(map(_Analysis(law).growth, shares_of_pole(squares, power)))
        assert any(t.established and t.power > 2 for t in tails) == shown
    assert len(tails) == 3 * len(list(shares_of_pole(squares[:2], power)))


@pytest.mark.parametrize("head", [sigmoid, softplus], ids=["sigmoid", "softplus"])
def test_what_fades_may_make_up_for_what_grows(law, head):
    """E (exp(x²) σ(−2x²))² ≤ E exp(−2x²): no infinite moment, though exp(x²) alone has one; beside tanh it has."""
    assert tail(sympy.exp(x**2) * head(-2 * x**2), law).kind is not Growth.INFINITE
    assert tail(sympy.exp(x**2) * (2 + sympy.tanh(x)), law).kind is Growth.INFINITE
