"""Removable poles of functions that are no linear forms; and what only looks like them."""

from __future__ import annotations

import itertools

import numpy
import pytest
from scipy import integrate, stats

import tplimits as tp

SLOPE = 1 / (2 * numpy.pi)


def ratio(function):
    """function(t)/t."""
    return lambda t: function(t) / t


def share(t, y):
    return t**2 / (t**2 + y**2)


def normal(f, *points):
    """E f(x) for a standard normal, split at the kinks."""
    edges = [-12, *points, 12]
    return sum(integrate.quad(lambda x: f(x) * stats.norm.pdf(x), a, b)[0] for a, b in itertools.pairwise(edges))


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def of_clip(x):
    """E y² / (c² + y²) over y is 1 − c·√(π/2)·exp(c²/2)·erfc(c/√2), for c = |clip(x)|."""
    c = min(abs(x), 1.0)
    return c * numpy.sqrt(numpy.pi / 2) * numpy.exp(c * c / 2) * 2 * stats.norm.sf(c)


def of_two(f):
    """E f(x, y) for smooth functions, at nodes of two sizes: x = ±y at none of them."""
    (x, v), (y, w) = ((n[abs(n) < 8], w[abs(n) < 8]) for n, w in map(numpy.polynomial.hermite_e.hermegauss, (150, 151)))
    return float(v @ f(x[:, None], y) @ w) * SLOPE


def root(x):
    return x / (1 + x**2) ** 0.5


#: a ket of two standard normals, and its mean by another way
REMOVABLE = {
    "where": (
        lambda x, y: ratio(tp.tanh)(tp.where(x - 0.3, x, 0.5)),
        normal(lambda x: numpy.tanh(x) / x if x > 0.3 else numpy.tanh(0.5) / 0.5, 0.3),
    ),
    "y tanh y": (
        lambda x, y: ratio(tp.tanh)(x * tp.tanh(x)),
        normal(lambda x: ratio(numpy.tanh)(x * numpy.tanh(x)), 0),
    ),
    "tanh of sigmoid": (
        lambda x, y: ratio(tp.sin)(tp.tanh(tp.sigmoid(x))),
        normal(lambda x: ratio(numpy.sin)(numpy.tanh(sigmoid(x))), 0),
    ),
    "tanh + ½": (
        lambda x, y: ratio(tp.tanh)(tp.tanh(x) + 0.5),
        normal(lambda x: ratio(numpy.tanh)(numpy.tanh(x) + 0.5), -numpy.arctanh(0.5)),
    ),
    "clip": (lambda x, y: share(tp.clip(x, -1, 1), y), normal(of_clip, -1, 0, 1)),
    "relu beside a square": (lambda x, y: tp.relu(x) / tp.sqrt(tp.relu(x) ** 2 + y**2), None),
    "quadratic form": (lambda x, y: x**2 / (x**2 + x * y + y**2), None),
    "sum of roots": (
        lambda x, y: ratio(tp.tanh)(root(x) + root(y)),
        of_two(lambda x, y: ratio(numpy.tanh)(root(x) + root(y))),
    ),
    "sum and a function of it": (
        lambda x, y: ratio(lambda h: (h - tp.tanh(h)) / h)(tp.tanh(x) + tp.tanh(y)),
        0.0,  # odd
    ),
    "its square": (
        lambda x, y: ratio(lambda h: (h - tp.tanh(h)) / h)(tp.tanh(x) + tp.tanh(y)) ** 2,
        of_two(lambda x, y: ratio(lambda h: (h - numpy.tanh(h)) / h)(numpy.tanh(x) + numpy.tanh(y)) ** 2),
    ),
    "terms of a sum": (
        lambda x, y: (1 / x - tp.tanh(x) / x**2) ** 2,
        normal(lambda x: ((x - numpy.tanh(x)) / x**2) ** 2 if abs(x) > 1e-3 else (x / 3) ** 2, 0),
    ),
    "terms with poles of two functions": (
        lambda x, y: (1 / tp.tanh(x) - 1 / x) ** 2,
        normal(lambda x: (1 / numpy.tanh(x) - 1 / x) ** 2 if abs(x) > 1e-3 else (x / 3) ** 2, 0),
    ),
    "terms beside a pole": (
        lambda x, y: ((1 - tp.tanh(x) / x) / x) ** 2,
        normal(lambda x: ((1 - numpy.tanh(x) / x) / x) ** 2 if abs(x) > 1e-3 else (x / 3) ** 2, 0),
    ),
    "terms in two variables": (
        lambda x, y: (1 / x - tp.tanh(x) / x**2) ** 2 + y / tp.tanh(y),
        normal(lambda x: ((x - numpy.tanh(x)) / x**2) ** 2 if abs(x) > 1e-3 else (x / 3) ** 2, 0)
        + normal(lambda x: x / numpy.tanh(x), 0),
    ),
    "kink of a sum": (lambda x, y: ratio(tp.relu)(tp.tanh(x) + tp.tanh(y)), 0.5),
}


def of_angle(f):
    """The mean of a function of the direction of (x, y)."""
    return integrate.quad(lambda t: f(numpy.cos(t), numpy.sin(t)), 0, 2 * numpy.pi, points=(numpy.pi / 2,))[0] * SLOPE


RADIAL = {
    "relu beside a square": of_angle(lambda x, y: max(x, 0)),
    "quadratic form": of_angle(lambda x, y: x**2 / (1 + x * y)),
}


@pytest.mark.parametrize("case", REMOVABLE)
def test_removable_poles_are_seen(case):
    function, expected = REMOVABLE[case]
    expected = RADIAL[case] if expected is None else expected

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(function(x, y))

    number = tp.derive(program).evaluate()["return"].value
    assert number == pytest.approx(expected, abs=1e-6)
    assert number != pytest.approx(expected * 1.001 + 1e-5, abs=1e-6)


STAY = {
    "0/0 of relu": lambda x, y: ratio(tp.tanh)(tp.relu(x)),
    "0/0 of where": lambda x, y: ratio(tp.tanh)(tp.where(x - 0.3, x, 0)),
    "0/0 of two relus": lambda x, y: share(tp.relu(x), tp.relu(y)),
    "two poles, one numerator": lambda x, y: tp.sin(x) / (x * tp.tanh(x)),
    "(exp x − 0.9)/x": lambda x, y: (tp.exp(x) - 0.9) / x,
    "semidefinite": lambda x, y: y / (x**2 + 2 * x * y + y**2),
    "indefinite": lambda x, y: x**2 / (x**2 + 3 * x * y + y**2),
    "terms that do not cancel": lambda x, y: 1 / x - 2 * tp.tanh(x) / x**2,
    "terms that cancel too little": lambda x, y: (1 / tp.tanh(x) - 1 / x) / x**2,
    "terms of two variables": lambda x, y: 1 / x - tp.tanh(y) / y**2,
    "1/clip": lambda x, y: 1 / tp.clip(x, -1, 1),
}


@pytest.mark.parametrize("case", STAY)
def test_poles_that_stay_are_refused(case):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(STAY[case](x, y))

    with pytest.raises(tp.TplimitsError, match=r"second moment|moment not established"):
        tp.derive(program).evaluate()


@pytest.mark.parametrize("other", [0, 0.5])
def test_a_jump_beside_its_derivative_is_refused_in_a_tangent_kernel(other):
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.tanh(tp.where(tp.sum(U * ξ, over="d") - 0.3, tp.sum(U * ξ, over="d"), other))

    data = numpy.array([[0.6, 0.8]])
    whole = tp.derive(tp.network(network), tp.Kernels())
    with pytest.raises(tp.NoLimitError, match="the tangent kernel holds"):
        _ = whole.evaluate(data).ntk
    expected = normal(lambda x: numpy.tanh(x if x > 0.3 else other) ** 2, 0.3)
    behind = tp.derive(tp.network(network), tp.Kernels(train=("v",))).evaluate(data)
    assert behind.ntk.item() == pytest.approx(expected, rel=1e-6)


def test_a_multiple_of_what_vanishes_is_not_said_to_stay_away_from_zero():
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.sum(U * ξ, over="d")
        return v * (tp.cos(2 * h) - 1) / (h * tp.tanh(h))

    found = tp.derive(tp.network(network), tp.Kernels(train=("v",))).evaluate(numpy.array([[0.6, 0.8]]))
    expected = normal(lambda h: ((numpy.cos(2 * h) - 1) / (h * numpy.tanh(h))) ** 2, 0)
    assert found.nngp.item() == pytest.approx(expected, rel=1e-6)


def network_of(f, a):
    """A network with kets f(x), x a standard normal at |ξ| = 1; the second argument is a vector beside x."""

    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * f(x, W @ x if a == "image" else b)

    return tp.network(network)


#: zeros of some order above, increasing functions below: (ket, the same for quad, where it is singular)
ORDERS = {
    "(1 − cos x)/x²": (lambda x: (1 - tp.cos(x)) / x**2, lambda x: (1 - numpy.cos(x)) / x**2, 0.0),
    "(exp x − 1)/x": (lambda x: (tp.exp(x) - 1) / x, lambda x: numpy.expm1(x) / x, 0.0),
    "(exp x − 1 − x)/x²": (lambda x: (tp.exp(x) - 1 - x) / x**2, lambda x: (numpy.expm1(x) - x) / x**2, 0.0),
    "log(1 + x²)/x²": (lambda x: tp.log(1 + x**2) / x**2, lambda x: numpy.log1p(x**2) / x**2, 0.0),
    "log(1 + relu x)/x": (
        lambda x: tp.log(1 + tp.relu(x)) / x,
        lambda x: numpy.log1p(max(x, 0.0)) / x,
        0.0,
    ),
    "(softplus x − log 2)/x": (
        lambda x: (tp.softplus(x) - tp.log(2)) / x,
        lambda x: (numpy.logaddexp(0, x) - numpy.log(2)) / x,
        0.0,
    ),
    "(exp(2x + 1) − 1)/(2x + 1)": (
        lambda x: (tp.exp(2 * x + 1) - 1) / (2 * x + 1),
        lambda x: numpy.expm1(2 * x + 1) / (2 * x + 1),
        -0.5,
    ),
    "x/(exp x − 1)": (lambda x: x / (tp.exp(x) - 1), lambda x: x / numpy.expm1(x), 0.0),
    "sin of leaky": (
        lambda x: tp.sin(tp.leaky_relu(x, 0.1)) / tp.leaky_relu(x, 0.1),
        lambda x: numpy.sin(x if x > 0 else 0.1 * x) / (x if x > 0 else 0.1 * x),
        0.0,
    ),
}


@pytest.mark.parametrize("case", ORDERS)
def test_zeros_of_any_order_make_up_for_poles_on_width_and_kernels(case):
    f, g, at = ORDERS[case]

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(f(x))

    # beside the singular point quad would meet rounding: what is left out there is less than 1e-7
    expected = [
        sum(
            integrate.quad(lambda x, k=k: g(x) ** k * stats.norm.pdf(x), *ends, epsabs=1e-11)[0]
            for ends in ((-12, at - 1e-4), (at + 1e-4, 12))
        )
        + 2e-4 * g(at + 1e-3) ** k * stats.norm.pdf(at)
        for k in (1, 2)
    ]
    number = tp.derive(program).evaluate()["return"].value
    assert number == pytest.approx(expected[0], rel=2e-4)
    assert number != pytest.approx(expected[0] * 1.002, rel=2e-4)
    kernels = tp.derive(network_of(lambda x, b: f(x), ""), tp.Kernels(train=("v",)))
    assert kernels.evaluate(numpy.array([[0.6, 0.8]])).nngp.item() == pytest.approx(expected[1], rel=2e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (1 + tp.cos(x)) / x,
        lambda x: (tp.exp(x) - 0.9) / x,
        lambda x: (1 - tp.cos(x)) / x**3,
        lambda x: (tp.exp(2 * x) - 1) / (2 * x + 1),
        lambda x: x / (tp.exp(x) - 2),
        lambda x: tp.log(2 + x**2) / x,
    ],
)
def test_zeros_of_too_low_an_order_do_not(f):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(f(x))

    with pytest.raises(tp.TplimitsError, match=r"second moment|moment not established"):
        tp.derive(program).evaluate()
    with pytest.raises(tp.TplimitsError, match=r"second moment|moment not established"):
        tp.derive(network_of(lambda x, b: f(x), ""), tp.Kernels()).evaluate(numpy.array([[0.6, 0.8]]))


X = numpy.array([[0.6, 0.8], [1.0, 0.2]])
#: functions of two independent vectors that are square integrable, and have gradients that are not
INFINITE_GRADIENT = {
    "1/r in three dimensions": lambda x, h, b: (x**2 + h**2 + b**2) ** (-1 / 2),
    "max/r": lambda x, h, b: tp.maximum(x, h) / tp.sqrt(x**2 + h**2),
    "xy/r²": lambda x, h, b: x * h / (x**2 + h**2),
    "xy²/(x² + y⁴)": lambda x, h, b: x * h**2 / (x**2 + h**4),
    "log r²": lambda x, h, b: tp.log(x**2 + h**2),
    "log |xy|": lambda x, h, b: tp.log(tp.abs(x * h)),
    "x²/(x² + xy + y²)": lambda x, h, b: x**2 / (x**2 + x * h + h**2),
    "a root beside a sign, whose derivative is a delta": lambda x, h, b: tp.sqrt(tp.abs(x)) * tp.sign(x),
}


@pytest.mark.parametrize("case", INFINITE_GRADIENT)
def test_a_tangent_kernel_that_is_infinite_at_equal_inputs_is_refused(case):
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * INFINITE_GRADIENT[case](x, W @ x, b)

    limit = tp.derive(tp.network(network), tp.Kernels())
    assert "no finite second moment" in repr(limit)
    behind = tp.derive(tp.network(network), tp.Kernels(train=("v",)))
    assert "no tangent kernel" not in repr(behind)


@pytest.mark.long
def test_a_gradient_that_is_just_integrable_has_a_tangent_kernel():
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        h = W @ x
        return v * x / (x**2 + h**4) ** (1 / 4)

    found = tp.derive(tp.network(network), tp.Kernels()).evaluate(numpy.array([[0.6, 0.8]]))

    def mean(f):
        rows = numpy.linspace(0, 1, 2001)[1:] ** 4 * 10  # graded towards the singular point
        y, z = numpy.meshgrid(rows, rows)
        values = 4 * f(y, z) * stats.norm.pdf(y) * stats.norm.pdf(z)
        return integrate.trapezoid(integrate.trapezoid(values, rows, axis=1), rows)

    d = lambda x, h: x**2 + h**4  # noqa: E731
    by_x, by_h = (
        mean(lambda x, h: (d(x, h) ** -0.25 - x**2 / 2 * d(x, h) ** -1.25) ** 2),
        mean(lambda x, h: (h**3 * x * d(x, h) ** -1.25) ** 2),
    )
    ket = mean(lambda x, h: x**2 / numpy.sqrt(d(x, h)))
    # of v: E f², of U: E f_x² + E f_h², of W: E f_h², at |ξ| = 1
    assert found.nngp.item() == pytest.approx(ket, rel=2e-3)
    assert found.ntk.item() == pytest.approx(ket + by_x + 2 * by_h, rel=1e-2)


SHIFTED = tp.init(mean=0.5, std=1)


def test_the_mean_of_a_vector_stands_beside_its_pole():
    """E[(2 x b/(x² + b²))²] for b = ½ + g, which is bounded; terms of b = g + ½ have no moments each for itself."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Vector = SHIFTED):
        x = tp.sum(U * ξ, over="d")
        return v * (x * tp.log(x**2 + b**2))

    found = tp.derive(network, tp.Kernels(train=("b",))).evaluate([[1.0]]).ntk
    # in polar coordinates of (x, b) the integrand is sin²(2φ) whatever the radius
    expected, _ = integrate.dblquad(
        lambda b, x: 4 * (x * b / (x**2 + b**2)) ** 2 * numpy.exp(-(x**2) / 2 - (b - 0.5) ** 2 / 2) / (2 * numpy.pi),
        *(1e-12, 9, -9, 9),
    )
    assert found == pytest.approx(numpy.array([[2 * expected]]), rel=1e-5)


def test_signs_of_what_is_almost_never_zero_have_the_square_one():
    """E (x⁴ + |y|)^(−1/4) with y a signed root: integrable by P(D < ε) ~ ε^(5/4)."""

    @tp.program
    def program(y: tp.Vector, x: tp.Vector):
        root = tp.sqrt(tp.abs(y)) * tp.sign(y)
        return tp.avg((x**4 + root**2) ** (-1 / 4))

    expected, _ = integrate.dblquad(
        lambda v, u: 16 * u * v * (u**8 + v**2) ** -0.25 * numpy.exp(-(u**4) / 2 - v**4 / 2) / (2 * numpy.pi),
        *(0, 3.5, 0, 3.5),  # x = u², y = v², four quadrants
    )
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(expected, rel=1e-6)


def test_what_vanishes_far_out_alone_has_its_mean():
    """E (h² + exp(−2x²))^(−1/4): at h = 0 the integrand grows like the density falls, and beside it it does not."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg((h**2 + tp.exp(-2 * x**2)) ** (-1 / 4)), tp.avg(x**2 * tp.exp(-1 / x**2))

    found = tp.derive(program).evaluate()
    assert found["return[0]"].value == pytest.approx(1.10217727496059, abs=1e-9)  # mpmath, nested quadrature
    expected, _ = integrate.quad(lambda x: x**2 * numpy.exp(-(x**-2) - x**2 / 2) * numpy.sqrt(2 / numpy.pi), 0, 12)
    assert found["return[1]"].value == pytest.approx(expected, rel=1e-9)


def test_a_pole_that_is_just_not_integrable_is_told():
    def program(x: tp.Vector):
        return tp.avg((x**2 + tp.clip(x, -1, 0.5) ** 2) ** (-1 / 4))

    with pytest.raises(tp.EvaluationError, match="a pole where x vanishes, and its square is not integrable"):
        tp.derive(tp.program(program)).evaluate()


def test_a_displacement_that_opens_a_function_shows_what_it_reads():
    """u = tanh(h + s), s → 0, beside an image of u: moved by s it is a function of h, not of u."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        h = x * tp.tanh(x) / (1 + y**2)
        u = tp.tanh(h + tp.avg(x * h))
        image = W @ u
        return tp.avg((u * image) ** 2 / (u**2 + image**2))

    nodes, weights = numpy.polynomial.hermite_e.hermegauss(120)
    x, y = nodes[:, None], nodes[None, :]
    u = numpy.tanh(x * numpy.tanh(x) / (1 + y**2))
    law = numpy.outer(weights, weights) / weights.sum() ** 2
    size = numpy.sqrt((law * u**2).sum())
    image = size * nodes[:, None, None]
    expected = (law[None] * weights[:, None, None] / weights.sum() * (u * image) ** 2 / (u**2 + image**2)).sum()
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(expected, abs=1e-4)


def test_a_name_for_a_pole_changes_nothing():
    """E (tanh(h)/h)² of h ~ N(0, 1), in every engine, whatever has a name; what is averaged itself has no moments."""

    @tp.program
    def of_width(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        y = 1 / h
        z = 2 * y
        return tp.avg((tp.tanh(h) * z / 2) ** 2)

    @tp.network
    def of_kernels(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        y = 1 / h
        return v * tp.tanh(h) * y

    @tp.program
    def averaged(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        y = 1 / h
        return tp.avg(tp.tanh(h) * y), tp.avg(y)

    truth = normal(lambda t: (numpy.tanh(t) / t) ** 2, 0)
    kernel = tp.derive(of_kernels, tp.Kernels(train=())).evaluate(numpy.array([[0.6, 0.8]])).nngp.item()
    found = tp.derive(of_width).evaluate()["return"].value
    assert [found, kernel] == pytest.approx([truth, truth], abs=1e-9)
    with pytest.raises(tp.NoLimitError, match="no finite second moment"):
        tp.derive(averaged)
