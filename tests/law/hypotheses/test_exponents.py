"""Exponentials of polynomials of Gaussian variables, against rays and eigenvalues."""

from __future__ import annotations

import itertools
import random

import numpy
import pytest
import scipy
import sympy
from sympy import Rational

import tplimits as tp
from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.tails import Growth, InfiniteMoment
from tplimits.program.nodes import functions as tp_functions


class Correlated(Gaussians):
    """Variables of any covariance."""

    def __init__(self, covariance):
        super().__init__()
        self.all = [self.add(f"g{i}", InitialSource(i, ())) for i in range(covariance.rows)]
        self._entries = covariance

    def covariance(self, a, b):
        return self._entries[self.all.index(a), self.all.index(b)]


ANGLES = numpy.linspace(0, 2 * numpy.pi, 720, endpoint=False)


@pytest.mark.parametrize("seed", range(3))
def test_an_exponent_of_higher_order_is_refused_along_a_ray_where_it_grows(seed):
    rng = random.Random(seed)
    law = Correlated(sympy.eye(2))
    x, y = law.all
    kinds = set()
    for _ in range(40):
        degree = rng.choice((3, 4, 4))
        leading = sum(rng.choice((-3, -1, 0, 0, 1, 2)) * x**k * y ** (degree - k) for k in range(degree + 1))
        if leading == 0:
            continue
        lower = rng.choice((0, x, 5 * x * y, y**2))
        rays = sympy.lambdify((x, y), leading)(numpy.cos(ANGLES), numpy.sin(ANGLES)) + 0 * ANGLES
        corners = [leading.subs({x: a, y: b}) for a, b in itertools.product((-1, 0, 1), repeat=2)]
        found = tail(sympy.exp(leading + lower), law).kind
        if found is Growth.INFINITE:
            assert rays.max() > 0
        if max(corners) > 0:
            assert found is Growth.INFINITE, leading
        if rays.max() > 0:
            assert found in (Growth.INFINITE, Growth.UNKNOWN)
        kinds.add(found)
    assert {Growth.INFINITE, Growth.UNKNOWN} <= kinds


def test_the_powers_of_a_gaussian_exponential_are_those_of_its_eigenvalues():
    """E exp(q Q) is finite if and only if q · max eig(C H) < 1; a second moment asks for q = 2."""
    rng = random.Random(0)
    kinds = set()
    for _ in range(25):
        root = sympy.Matrix(2, 2, lambda *_: Rational(rng.randint(-4, 4), 4))
        covariance = root * root.T
        law = Correlated(covariance)
        hessian = sympy.Matrix(2, 2, lambda *_: Rational(rng.randint(-4, 4), 8))
        hessian += hessian.T
        vector = sympy.Matrix(law.all)
        exponent = sympy.expand((vector.T * hessian * vector)[0] / 2 + law.all[0] / 3)
        if not exponent.has(*law.all) or sympy.Poly(exponent, *law.all).total_degree() < 2:
            continue
        largest = max(numpy.linalg.eigvals(numpy.array(covariance * hessian, float)).real)
        found = tail(sympy.exp(exponent), law)
        if found.kind is Growth.BOUNDED:  # seen without looking at the law
            continue
        kinds.add(found.kind)
        assert (found.kind is Growth.EXPONENTIAL) == (2 * largest < 1 - 1e-9)
        assert (found.kind is Growth.INFINITE) == (2 * largest >= 1 - 1e-9)
        if found.kind is Growth.EXPONENTIAL:
            expected = 1 / largest if largest > 1e-9 else sympy.oo
            assert float(found.power) == pytest.approx(float(expected))
    assert kinds == {Growth.EXPONENTIAL, Growth.INFINITE}


X = sympy.Symbol("g0", real=True)


@pytest.mark.parametrize(
    ("exponent", "kind"),
    [
        (-(X**4) + 3 * X**3, Growth.BOUNDED),
        (-(X**3), Growth.INFINITE),  # on the other side
        (X**4 - X**3, Growth.INFINITE),
        (sympy.exp(-X), Growth.INFINITE),
        (sympy.Abs(X) ** 3 / 100 + X, Growth.UNKNOWN),  # true, and not seen so far out
        (3 * sympy.Abs(X) ** 3, Growth.INFINITE),
        (-(sympy.Abs(X) ** 3), Growth.BOUNDED),
        (2 * sympy.Abs(X) + X, Growth.EXPONENTIAL),
        (X**2 * sympy.tanh(X) / 8, Growth.UNKNOWN),  # grows as a square
        (3 * X**2 * sympy.tanh(X), Growth.UNKNOWN),  # as one that is too large
    ],
)
def test_exponents_of_one_variable(exponent, kind):
    assert tail(sympy.exp(exponent), Correlated(sympy.eye(1))).kind is kind


def test_of_many_variables_four_are_looked_at_and_the_others_left_at_zero():
    law = Correlated(sympy.eye(5))
    a, b, c, d, e = law.all
    assert tail(sympy.exp(a**4 - 20 * e**4 + b * c + d), law).kind is Growth.INFINITE
    assert tail(sympy.exp(e**4 - 20 * (a**4 + b**4 + c**4 + d**4)), law).kind is Growth.UNKNOWN


X, Y = sympy.symbols("g0 g1", real=True)
#: products whose second moment is E of e^(2 c x²) times a square, and what is said of it
BORDERLINE = {
    "its square is 1/(1 + x⁴)² times a constant": (sympy.exp(X**2 / 4) / (1 + X**4), Growth.UNKNOWN),
    "the same with a root below": (sympy.exp(X**2 / 4) / sympy.sqrt(1 + X**2), Growth.UNKNOWN),
    "alone": (sympy.exp(X**2 / 4), Growth.INFINITE),
    "beside what grows": (X * sympy.exp(X**2 / 4), Growth.INFINITE),
    "beyond": (sympy.exp(Rational(3, 10) * X**2) / (1 + X**4), Growth.INFINITE),
    "beside what is independent": (sympy.exp(X**2 / 4) / (1 + Y**4), Growth.INFINITE),
}


@pytest.mark.parametrize("function, kind", BORDERLINE.values(), ids=BORDERLINE)
def test_where_the_density_cancels_an_exponential_powers_beside_it_decide(function, kind):
    law = Correlated(sympy.eye(2))
    assert tail(function.xreplace(dict(zip((X, Y), law.all, strict=True))), law).kind is kind


def test_what_is_not_decided_there_is_not_told_to_be_infinite_and_may_be_taken_on():
    """E exp(g²/2)/(1 + g⁴) = √π/2, by 1/(1 + x⁴)."""

    @tp.program
    def ket(x: tp.Vector):
        z = tp.exp(x**2 / 4) / (1 + x**4)
        return tp.avg(z)

    @tp.program
    def constant(x: tp.Vector):
        return tp.avg(x * x) * tp.expect(lambda g: tp.exp(g**2 / 2) / (1 + g**4))

    with pytest.raises(tp.NoLimitError, match="is not seen to have a finite mean") as refusal:
        tp.derive(constant)
    assert not isinstance(refusal.value, InfiniteMoment)
    with pytest.raises(tp.EvaluationError, match="alone, and whether what stands beside it makes up for that"):
        tp.derive(ket).evaluate()
    truth, _ = scipy.integrate.quad(
        lambda x: numpy.exp(-(x**2) / 4) / (1 + x**4) / numpy.sqrt(2 * numpy.pi), -numpy.inf, numpy.inf
    )
    taken = tp.derive(ket, assume=("moment of z",)).evaluate()["return"]
    assert float(taken) == pytest.approx(truth, rel=1e-9)


def test_exponents_of_names_are_read_as_what_they_stand_for():
    """In kernels exp(−(x + 1)²) exp(.6(z + 1)) has a name for x + 1, and was refused."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.exp(-((x + 1) ** 2)) * tp.exp(0.3 * (W @ x + 1))

    @tp.network
    def infinite(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.exp(0.3 * (x + 1) ** 2) * tp.exp(0.3 * (W @ x + 1))

    found = tp.derive(net, tp.Kernels(train=("v",))).evaluate([[0.6, -0.8]]).nngp
    assert found.item() == pytest.approx(numpy.exp(-2 / 5 + 0.6 + 0.18) / 5**0.5, rel=1e-12)
    with pytest.raises(tp.TplimitsError, match=r"diverges|no finite second moment"):
        tp.derive(infinite, tp.Kernels(train=("v",))).evaluate([[0.6, -0.8]])


#: programs' functions of h and y, the same computed without overflow, and a wrong twin
LOGARITHMS = {
    "softplus of a product": (
        lambda h, y: tp.log(1 + tp.exp(h * y)),
        lambda h, y: numpy.logaddexp(0, h * y),
        lambda h, y: numpy.logaddexp(0, -h),
    ),
    "log cosh beside a divisor": (
        lambda h, y: tp.log((tp.exp(h * y) + tp.exp(-h * y)) / 2) / (1 + y * y),
        lambda h, y: (numpy.logaddexp(h * y, -h * y) - numpy.log(2)) / (1 + y * y),
        lambda h, y: numpy.logaddexp(h * y, -h * y) / (1 + y * y),
    ),
    "two powers": (
        lambda h, y: tp.log(tp.exp(h**3) + tp.exp(y)),
        lambda h, y: numpy.logaddexp(h**3, y),
        lambda h, y: numpy.maximum(h**3, y),
    ),
    "a product": (
        lambda h, y: tp.log(3 * tp.exp(h**3) + tp.exp(2 * h**3)),
        lambda h, y: h**3 + numpy.logaddexp(numpy.log(3), h**3),
        lambda h, y: h**3 + numpy.logaddexp(0, h**3),
    ),
    "twice": (
        lambda h, y: tp.log(1 + tp.log(1 + tp.exp(h**3))),
        lambda h, y: numpy.log1p(numpy.logaddexp(0, h**3)),
        lambda h, y: numpy.log1p(numpy.maximum(0, h**3)),
    ),
    "tanh of a cube": (
        lambda h, y: h * (tp.exp(h**3) - tp.exp(-(h**3))) / (tp.exp(h**3) + tp.exp(-(h**3))),
        lambda h, y: h * numpy.tanh(h**3),
        lambda h, y: numpy.abs(h),
    ),
}


@pytest.mark.parametrize("name", LOGARITHMS)
def test_logarithms_of_what_has_no_moments_have_a_limit(name):
    written, stable, twin = LOGARITHMS[name]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.avg(written(W @ x, y))

    grid = numpy.arange(-750, 750) * 0.012 + 0.006
    weights = numpy.exp(-(grid**2) / 2) / numpy.sqrt(2 * numpy.pi) * 0.012
    truth, wrong = (weights @ f(*numpy.meshgrid(grid, grid, indexing="ij")) @ weights for f in (stable, twin))
    number = tp.derive(program).evaluate()["return"]
    assert abs(number.value - truth) < 1e-4 < abs(number.value - wrong)
    assert number.error < 1e-6


def test_logarithms_that_may_be_infinite_stay_refused():
    law = Gaussians()
    x, y = (law.add(name, InitialSource(k, ())) for k, name in enumerate("xy"))
    zero_on_half = sympy.exp(tp_functions.relu(x) ** 3) - 1
    for argument in (sympy.exp(x**3) - sympy.exp(y**3), sympy.exp(x**3) * (1 + sympy.sign(y)), zero_on_half):
        assert not tail(sympy.log(argument), law).established


@pytest.mark.parametrize(
    "exponent",
    [
        lambda x, y: -tp.sqrt(x),
        lambda x, y: -(tp.log(x) ** 2),
        lambda x, y: tp.tanh(tp.sqrt(x)),
        lambda x, y: -tp.abs(tp.sqrt(x + y)),
        lambda x, y: tp.minimum(tp.log(x), 0),
        lambda x, y: tp.sin(tp.log(x) - y),
    ],
)
def test_bounded_exponentials_of_what_is_not_real_are_refused_as_that(exponent):
    """Half of the neurons of every network have no number, however small an exponential would be where it is real."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.exp(exponent(W @ x, y)))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
        return v * tp.exp(exponent(tp.sum(U * ξ, over="d"), tp.sum(V * ξ, over="d")))

    for derived in (lambda: tp.derive(program), lambda: tp.derive(network, tp.Kernels()).evaluate([[1.0, 0.0]])):
        with pytest.raises(tp.NoLimitError, match="is not real with positive probability"):
            derived()


@pytest.mark.parametrize(
    ("exponent", "stable"),
    [
        (lambda x: -(tp.log(tp.abs(x)) ** 2), lambda x: -(numpy.log(x) ** 2)),
        (lambda x: -tp.sqrt(tp.abs(x)), lambda x: -numpy.sqrt(x)),
    ],
)
def test_bounded_exponentials_of_what_is_real_have_a_mean(exponent, stable):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.exp(exponent(x)))

    grid = (numpy.arange(1_000_000) + 0.5) * 1.2e-5
    truth = 2 * 1.2e-5 * (numpy.exp(stable(grid) - grid**2 / 2)).sum() / numpy.sqrt(2 * numpy.pi)
    assert abs(tp.derive(program).evaluate()["return"].value - truth) < 1e-6
