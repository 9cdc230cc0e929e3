"""Peaks, logarithms, roots and poles: the cells adapt, and what diverges is refused."""

import math

import mpmath
import numpy
import pytest
import sympy
from scipy import integrate, special

import tplimits as tp
from tplimits.numbers.budget import Budget
from tplimits.numbers.cut_grid import RADIUS, grid
from tplimits.numbers.cuts import Cutting, Planes
from tplimits.numbers.forms import Form, Integrand
from tplimits.numbers.quadrature import Quadrature

METHODS = ["auto", "quadrature"]


def integral(f, edge=1e-3):
    """E f(g) for a standard normal g; f is even or is given with both signs."""
    points = [0, edge / 30, edge, 30 * edge, 0.5, 1, 2, 4, 7, 12]
    return mpmath.quad(lambda g: (f(g) + f(-g)) * mpmath.npdf(g), points)


HERE = mpmath.mpf("0.37")


def steep_off_zero(f):
    """E f(1000 (g − 0.37)) where f is 1 unless its argument is small."""
    density = lambda t: mpmath.npdf(t / 1000 + HERE)  # noqa: E731
    return 1 + mpmath.quad(lambda t: (f(t) - 1) * density(t) / 1000, [-60, -20, -6, -2, 0, 2, 6, 20, 60])


EPS = mpmath.mpf(10)
ONE_DIMENSION = {
    "log of a square": (lambda h: tp.log(h**2), -mpmath.euler - mpmath.log(2)),
    "its square": (lambda h: tp.log(h**2) ** 2, (mpmath.euler + mpmath.log(2)) ** 2 + mpmath.pi**2 / 2),
    "square of a log": (lambda h: tp.log(tp.abs(h)) ** 2, ((mpmath.euler + mpmath.log(2)) ** 2 + mpmath.pi**2 / 2) / 4),
    "rounded corner": (lambda h: tp.sqrt(h**2 + 1e-6), integral(lambda g: mpmath.sqrt(g**2 + EPS**-6))),
    "log with a floor": (lambda h: tp.log(h**2 + 1e-4), integral(lambda g: mpmath.log(g**2 + EPS**-4), 1e-2)),
    "narrow peak": (lambda h: 1 / (h**2 + 1e-4), integral(lambda g: 1 / (g**2 + EPS**-4), 1e-2)),
    "steep step": (lambda h: h * tp.tanh(100 * h), integral(lambda g: g * mpmath.tanh(100 * g), 1e-2)),
    "steeper than nodes are near": (
        lambda h: tp.tanh(1e4 * h) ** 2,
        integral(lambda g: mpmath.tanh(10**4 * g) ** 2, 1e-4),
    ),
    "the same of a softplus": (
        lambda h: tp.softplus(3000 * h) / 3000,
        # softplus(x) + softplus(−x) = |x| + 2 log(1 + e^(−|x|))
        integral(lambda g: g / 2 + mpmath.log1p(mpmath.exp(-3000 * g)) / 3000, 1e-3),
    ),
    "steep off zero": (lambda h: tp.tanh(1000 * (h - 0.37)) ** 2, steep_off_zero(lambda t: 1 - mpmath.sech(t) ** 2)),
    "a peak between nodes": (
        lambda h: 1 + tp.exp(-((1000 * (h - 0.37)) ** 2)) * h**2 / (1 + h**2),
        steep_off_zero(lambda t: 1 + mpmath.exp(-(t**2)) * (g := t / 1000 + HERE) ** 2 / (1 + g**2)),
    ),
    "root of a pole": (
        lambda h: tp.abs(h) ** -0.4,
        2**-0.2 * mpmath.gamma(mpmath.mpf("0.3")) / mpmath.sqrt(mpmath.pi),  # E|g|^p = 2^(p/2) Γ((p+1)/2)/√π
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ONE_DIMENSION)
def test_one_dimension(name, method):
    function, expected = ONE_DIMENSION[name]

    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(function(W @ x))

    number = tp.derive(tp.program(program)).evaluate(method)["return"]
    off = abs(number.value - float(expected))
    assert number.method == "quadrature"
    assert off < 1e-11 * max(1, abs(number.value)) and off <= 3 * number.error + 1e-14


@pytest.mark.parametrize("method", METHODS)
def test_two_dimensions(method):
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        a, b = W @ x, W @ y
        radius = a * a + b * b
        return (
            tp.avg(tp.sqrt(radius + 1e-6)),
            tp.avg(tp.log(radius)),
            tp.avg(tp.tanh(100 * (a - b)) * a),
            tp.avg(tp.tanh(7000 * (a - b - 0.2)) ** 2),
        )

    found = list(tp.derive(tp.program(program)).evaluate(method).values())
    expected = [  # in polar coordinates; a² + b² is twice a standard exponential
        mpmath.quad(lambda r: mpmath.sqrt(r**2 + EPS**-6) * r * mpmath.exp(-(r**2) / 2), [0, 1e-3, 0.03, 1, 4, 12]),
        mpmath.log(2) - mpmath.euler,
        integral(lambda g: mpmath.tanh(100 * mpmath.sqrt(2) * g) * g / mpmath.sqrt(2), 1e-2),
        # 1 − E sech²(7000 (√2 g − 0.2)): ∫ sech² = 2, and the density is even flat where it is not 0
        1 - 2 * mpmath.npdf(mpmath.mpf("0.2") / mpmath.sqrt(2)) / (7000 * mpmath.sqrt(2)),
    ]
    for number, value in zip(found, expected, strict=True):
        assert number.method == "quadrature"
        assert number.value == pytest.approx(float(value), abs=1e-9)
        assert abs(number.value - float(value)) <= 3 * number.error + 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_batch_norm_over_three_tokens_with_a_small_floor(method):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector["b"]):
        h = W @ x
        centred = h - tp.mean(h, over="b")
        return tp.avg(tp.relu(centred / tp.sqrt(tp.mean(centred**2, over="b") + 1e-5)).sel(b=0))

    number = tp.derive(program.bind(b=3)).evaluate(method)["return"]
    # h − mean = r (cos, sin) in a plane, the first entry √(2/3) r cos; the angle gives E cos⁺ = 1/π
    scaled = mpmath.quad(
        lambda r: mpmath.sqrt(mpmath.mpf(2) / 3) * r / mpmath.sqrt(r**2 / 3 + EPS**-5) * r * mpmath.exp(-(r**2) / 2),
        [0, 1e-3, 1e-2, 0.1, 1, 4, 12],
    )
    assert number.method == "quadrature"
    assert number.value == pytest.approx(float(scaled / mpmath.pi), abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_curved_kink_in_three_dimensions(method):
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return tp.avg(tp.abs(x * y - z))

    number = tp.derive(tp.program(program)).evaluate(method)["return"]
    # given x and y it is E|N(xy, 1)|, given x alone z − xy is N(0, 1 + x²)
    expected = mpmath.quad(lambda x: mpmath.sqrt(2 * (1 + x**2) / mpmath.pi) * mpmath.npdf(x), [-12, 0, 12])
    assert number.method == "quadrature"
    assert number.value == pytest.approx(float(expected), abs=1e-8)
    assert abs(number.value - float(expected)) <= number.error


@pytest.mark.parametrize(("power", "place"), [(1, 0), (2, 0), (1, 1)])
def test_poles_are_refused_even_where_they_cancel_by_symmetry(power, place):
    x, f = sympy.symbols("x f", real=True)
    forms = ((f, Form(((x, sympy.S.One),), sympy.S.Zero)),)
    pole = Integrand((x,), forms, (f - place) ** -power, (), (), (f - place,))
    with pytest.raises(tp.EvaluationError, match="does not converge"):
        Quadrature({(x, x): 1.0}, {}, 0, Budget(10**9)).mean(pole)


def test_crossing_curved_kinks_in_three_dimensions():
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return tp.avg(tp.maximum(tp.tanh(z), tp.maximum(x, y)))

    number = tp.derive(tp.program(program)).evaluate("quadrature")["return"]

    def above(t):  # E max(t, x, y) = t + ∫ 1 − Φ² from t
        return t + integrate.quad(lambda m: 1 - special.ndtr(m) ** 2, t, t + 14, epsabs=1e-13)[0]

    density = lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    expected, _ = integrate.quad(lambda z: above(math.tanh(z)) * density(z), -9, 9, epsabs=1e-13)
    assert number.value == pytest.approx(expected, abs=1e-9)
    assert number.value != pytest.approx(expected + 1e-8, abs=1e-9)


def curved(m, x, y):
    """Two surfaces that cross, z at which they stand over x and y."""
    return 0.75 * y - 0.63 - 1.14 * m.abs(x), 1.18 * m.tanh(x + y)


@pytest.mark.long
@pytest.mark.parametrize("above", [False, True])
def test_curves_that_cross_surfaces_with_kinks_have_errors_that_hold(above):
    """E sign(z − A) step(z − B) was .499974 ± 2.0e-5 for .499902: two resolutions agreed by chance."""
    outer = tp.step if above else tp.sign

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        a, b = curved(tp, x, y)
        return tp.avg(outer(z - a) * tp.step(z - b))

    number = tp.derive(program).evaluate()["return"]
    line = -8.5 + 0.01 * (numpy.arange(1700) + 0.37)
    weights = 0.01 * numpy.exp(-line * line / 2) / math.sqrt(2 * math.pi)
    a, b = curved(numpy, line[:, None], line)
    both, second = special.ndtr(-numpy.maximum(a, b)), special.ndtr(-b)
    expected = float(weights @ (both if above else 2 * both - second) @ weights)
    assert number.method == "quadrature"
    assert abs(number.value - expected) < 2 * number.error
    assert number.error < 1e-3


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_second_rule_of_three_coordinates_has_other_nodes_between_cuts(rank):
    """Pieces of fewer coordinates are told by two resolutions, and are the same."""
    cutting = Cutting(Planes(tuple(map(tuple, numpy.eye(rank))), (0.3,) * rank), rank, RADIUS[rank])
    (nodes, weights), (others, _) = (grid(cutting, 0, dimension=rank, shifted=shifted) for shifted in (False, True))
    assert (nodes.shape == others.shape) == (rank < 3)
    assert float((weights * nodes[..., 0] ** 2).sum()) == pytest.approx(1, abs=1e-6)
