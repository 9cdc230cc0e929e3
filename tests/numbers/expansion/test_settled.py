"""Powers of scalars that settle at a kink: moments of two normal variables, and which way each power is read."""

from __future__ import annotations

from types import SimpleNamespace

import mpmath
import numpy
import pytest
import shaped
from sympy import Rational, S

import tplimits as tp
from tplimits.errors import NoLimitError
from tplimits.numbers.expansion.covariances import fixed
from tplimits.numbers.expansion.explicit import Explicit, turned
from tplimits.numbers.expansion.fields import constant
from tplimits.numbers.expansion.settled import Settled, _absolute, _Power, _product
from tplimits.regimes.depth.expanded.layers import Layers

HALF = Rational(1, 2)


def power(p, sign, slopes=(1.0,), deviation=1.0):
    return _Power(p, sign, numpy.array(slopes), deviation)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_means_and_slopes_of_powers(p):
    radial = lambda q: mpmath.quad(lambda r: r**q * mpmath.npdf(r), [0, 1, 4, 14]) * 2  # noqa: E731
    assert _absolute(p) == pytest.approx(float(radial(p)), rel=1e-10)
    even, odd = power(p, False, deviation=1.7), power(p, True, deviation=1.7)
    assert (even.mean, odd.mean) == (pytest.approx(float(1.7**p * radial(p)), rel=1e-10), 0)
    assert (even.line, odd.line) == (0, pytest.approx(float(1.7 ** (p - 1) * radial(p + 1)), rel=1e-10))


@pytest.mark.parametrize("rho", [-1.0, -0.6, 0.0, 0.3, 1.0])
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.0, 1.0), (0.5, 2.0), (3.0, 2.0)])
def test_means_of_products_of_powers(p, q, rho):
    """E |g|^p |h|^q, with signs of both or of one: in polar coordinates g = r cos t, h = r cos(t − a), cos a = ρ."""
    radius = mpmath.quad(lambda r: r ** (p + q + 1) * mpmath.exp(-(r**2) / 2), [0, 1, 4, 14])
    quarter, a = mpmath.pi / 2, mpmath.acos(rho)
    size = lambda t: abs(mpmath.cos(t)) ** p * abs(mpmath.cos(t - a)) ** q  # noqa: E731
    both = ([a - quarter, quarter], [quarter, a + quarter])  # where the signs are the same, and where not
    same, apart = (radius * mpmath.quad(size, ends) / mpmath.pi for ends in both)
    assert _product(power(p, False), power(q, False), rho) == pytest.approx(float(same + apart), abs=1e-9)
    assert _product(power(p, True), power(q, True), rho) == pytest.approx(float(same - apart), abs=1e-9)
    assert _product(power(p, True), power(q, False), rho) == 0 == _product(power(p, False), power(q, True), rho)


def test_covariances_of_what_is_left_beside_the_line():
    """Z = f(R) − E f − β R of correlated R, by sampling on a grid of their angle."""
    root = numpy.array([[1.3, 0.0], [0.4, 0.8]])
    covariance = root @ root.T
    settled = Settled(SimpleNamespace(covariance=covariance))
    nodes, weights = numpy.polynomial.legendre.leggauss(200)
    x = numpy.concatenate([4.5 * nodes - 4.5, 4.5 * nodes + 4.5])
    w = numpy.concatenate([weights, weights]) * 4.5 * numpy.exp(-(x**2) / 2) / numpy.sqrt(2 * numpy.pi)
    first, second = root[0, 0] * x[:, None] + 0 * x, root[1, 0] * x[:, None] + root[1, 1] * x
    rest = []
    for number, (r, p, sign) in enumerate([(first, 2.0, True), (second, 3.0, True), (first, 2.0, False)]):
        f = abs(r) ** p * (numpy.sign(r) if sign else 1)
        average = lambda y: w @ y @ w  # noqa: E731
        made = power(p, sign, numpy.eye(2)[number % 2][: 1 + number % 2], numpy.sqrt(average(r * r)))
        rest.append((made, f - average(f) - average(f * r) / average(r * r) * r))
    for a, z in rest[:2]:
        assert settled._covariance(rest[1][0], a) == pytest.approx(w @ (rest[1][1] * z) @ w, abs=2e-3)
    assert settled._covariance(rest[1][0], rest[2][0]) == pytest.approx(0, abs=1e-12)


def route(p, sign, order, values_only=False):
    """What becomes of n^order |R|^p sgn(R)^s where R is one average of variance 4."""
    average = SimpleNamespace(
        known=[0, 1], covariance=numpy.diag([1.0, 4.0]), values_only=values_only,
        derivatives=lambda x: numpy.array([0.0, 1.0]), by_root=lambda x: 0.0,
        scaled=lambda x, c: ("scaled", c), sum=lambda *a: a,
        beside=lambda name, mean, others, variance: SimpleNamespace(slopes={7: 1}, mean=mean, variance=variance),
    )  # fmt: skip
    x = SimpleNamespace(slopes={1: constant(1.0)})
    return Settled(average).power(x, p, sign, order, NoLimitError)


def test_powers_by_their_size():
    """n^(−1/2) f(R) is a line and one average more, n^(−1) f(R) its mean; what is smaller is nothing."""
    (scaled, line), beside = route(S(3), True, -HALF)
    assert (scaled, line) == ("scaled", pytest.approx(4 * 3)) and beside.mean == 0  # E R⁴ = 3·16 beside E R² = 4
    assert beside.variance == pytest.approx(64 * 15 - 12**2 * 4)
    _, beside = route(S(1), False, -HALF)
    assert beside.mean == pytest.approx(2 * numpy.sqrt(2 / numpy.pi)) and beside.variance == pytest.approx(
        4 - 8 / numpy.pi
    )
    whole = route(S(2), False, -S.One)
    assert float(whole.shift.values) == pytest.approx(4) and float(whole.value.values) == 0 == len(whole.slopes)
    for p, sign, order in ((S(2), False, -Rational(3, 2)), (S(3), True, -S.One), (S(3), True, -Rational(3, 4))):
        nothing = route(p, sign, order)
        assert float(nothing.value.values) == 0 and not nothing.slopes and nothing.shift is None
    with pytest.raises(NoLimitError, match="stays random in the limit, or grows"):
        route(S(1), True, -Rational(1, 4))
    with pytest.raises(NoLimitError, match=r"is of size n\^\(-3/4\), between those"):
        route(HALF, False, -Rational(3, 4))
    assert float(route(S(1), True, -HALF, values_only=True).value.values) == 0


@tp.program
def dots(W: tp.Matrix, V: tp.Matrix, x: tp.Vector):
    """Scalars whose sign turns with that of W, of none, of V through a function, of none, of either."""
    s = tp.avg(x * (W @ x))
    square = tp.avg((W @ x) * (V.T @ x) * (W @ x))
    return s, tp.avg(x * x) + s, tp.tanh(square), s * s, s * square


def test_what_turns_with_a_matrix_is_seen_through_functions():
    assert [p in turned(dots) for p in dots.returns] == [True, False, True, False, True]


def read(p, sign, power, together=True):
    """How n^power |x|^p sgn(x)^s is read: ["n^power", x, x, …], or the order of a power that is read as one."""
    averages = SimpleNamespace(product=lambda a, b: [*a, b])
    bodies = SimpleNamespace(power_of_width=lambda n, ratio: [n * ratio], told=lambda expr: "f")
    explicit = Explicit(None, averages, dots)
    explicit._powers = SimpleNamespace(power=lambda x, p, sign, order, refuse: order)
    entry = SimpleNamespace(source=dots.returns[0 if together else 1])
    return explicit._power(bodies, S.One, entry, "x", (p, sign), power)


def test_whole_powers_are_products_where_no_power_of_the_width_grows():
    assert read(S(0), False, S.Zero) == [0]
    assert read(S(1), True, -HALF) == [-0.5, "x"]
    assert read(S(2), False, S.Zero) == [0, "x", "x"]
    assert read(S(2), False, HALF) == -HALF, "beside √n a square is read as a power"
    assert [read(S(p), s, S.Zero) for p, s in ((1, False), (2, True), (0, True), (3, True))] == [
        -HALF,
        -1,
        0,
        -3 * HALF,
    ]
    assert read(HALF, False, S.Zero) == -Rational(1, 4)


def test_third_cumulants_are_read_where_a_matrix_turns_the_sign():
    """Of odd powers of size n^(−1/2) that are no line."""
    assert read(S(3), True, S.One) == -HALF
    with pytest.raises(NoLimitError, match="f holds the third cumulant of its argument"):
        read(S(3), True, S.One, together=False)
    assert read(S(3), False, S.One, together=False) == -HALF
    assert read(S(1), True, S.Zero, together=False) == [0, "x"]
    assert read(S(3), True, HALF, together=False) == -1


def test_a_pass_reads_kinks_by_the_series_it_is_given():
    """Of the shaped ReLU cov(h, h′) drifts by (c₊ + c₋)²/2π (√(1 − ρ²) − ρ arccos ρ) of its deviations."""
    constants = {"c_plus": 0.3, "c_minus": -0.7}
    V = numpy.array([[1.1, 0.4], [0.4, 0.9]])
    law, _ = Layers.at(shaped.relu_mlp, 2, constants, None).moved(fixed(V))
    rho = 0.4 / numpy.sqrt(0.99)
    drift = numpy.sqrt(0.99) / (2 * numpy.pi) * (numpy.sqrt(1 - rho**2) - rho * numpy.arccos(rho))
    assert law.shift == pytest.approx([0, drift, 0], abs=1e-8)
