"""Islands between the nodes of a grid: what kinks surround there is seen by no node, and is refused."""

from __future__ import annotations

import math

import numpy
import pytest

import tplimits as tp


def _island(x, y):
    return tp.relu(1e-3 - (x - 1) ** 2 - (y - 0.5) ** 2)


@pytest.mark.parametrize("radius", [0.0316, 1e-3])
@pytest.mark.parametrize("method", ["auto", "quadrature", "particles"])
def test_an_island_between_the_nodes_is_refused(radius, method):
    """L, b and C were 0 ± 1e-13, for 1.3e-7 and less."""

    @tp.program
    def island(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.relu(radius**2 - (x - 1) ** 2 - (y - 0.5) ** 2))

    with pytest.raises(tp.EvaluationError, match="island that lies between all nodes"):
        tp.derive(island, tp.FiniteWidth()).evaluate(method=method)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: tp.tanh(x) * _island(x, y),
        lambda x, y: tp.step(x) + 1000 * _island(x, y),
        lambda x, y: tp.relu(tp.sin(x) * tp.cos(y) - 0.9995),
    ],
)
def test_nor_is_one_beside_what_is_seen(f):
    @tp.program
    def island(x: tp.Vector, y: tp.Vector):
        return tp.avg(f(x, y))

    with pytest.raises(tp.EvaluationError, match="island that lies between all nodes"):
        tp.derive(island, tp.FiniteWidth()).evaluate()


@pytest.mark.parametrize(
    "f", [lambda x, y: tp.relu(-((x - y) ** 2) * (1 + x**2)), lambda x, y: tp.step(-1 - x * x - y * y)]
)
def test_what_is_nowhere_positive_is_zero(f):
    @tp.program
    def nothing(x: tp.Vector, y: tp.Vector):
        return tp.avg(f(x, y))

    assert tp.derive(nothing, tp.FiniteWidth()).evaluate()["return"].limit.value == 0


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: tp.exp(-1e10 * (x - 0.7) ** 2),
        lambda x, y: 1 / (1 + 1e12 * (x - 0.3) ** 2),
        lambda x, y: tp.exp(-1e10 * ((x - 1) ** 2 + (y - 0.5) ** 2)),
        lambda x, y: tp.tanh(x) + 1 / (1 + 1e8 * ((x - 1) ** 2 + (y - 0.5) ** 2)),
    ],
)
def test_peaks_between_the_nodes_are_refused(f):
    """They were 0 ± 1e-13, or a twentieth of what they are with an error as large as itself."""

    @tp.program
    def peak(x: tp.Vector, y: tp.Vector):
        return tp.avg(f(x, y))

    with pytest.raises(tp.EvaluationError, match="a peak that is narrower than the distance of nodes"):
        tp.derive(peak, tp.FiniteWidth()).evaluate()


def test_peaks_that_finer_nodes_see_have_numbers():
    """E 1/(1 + (sx)²) = √(π/2)/s · e^(1/2s²) erfc(1/(s√2))."""

    @tp.program
    def peak(x: tp.Vector):
        return tp.avg(1 / (1 + 2500 * x * x))

    found = tp.derive(peak, tp.FiniteWidth()).evaluate()["return"].limit
    a = 1 / 50
    wanted = math.sqrt(math.pi / 2) * a * math.exp(a * a / 2) * math.erfc(a / math.sqrt(2))
    assert abs(found.value - wanted) < 5 * found.error and found.error < 1e-5


def over_pieces(function, places, count):
    """E f(x, y, z): Gauss' rule in z between places that depend on x and y, a trapezoidal one in these."""
    step = 17 / count
    x, y = numpy.meshgrid(*(step * (numpy.arange(count) + share) - 8.5 for share in (0.37, 0.71)))
    inner = [numpy.clip(p(x, y), -9, 9) for p in places]
    ends = numpy.concatenate([numpy.linspace(-9, 9, 7)[:, None, None] + 0 * x, *[[one] for one in inner]])
    ends, total = numpy.sort(ends, axis=0), 0.0
    for share, weight in zip(*numpy.polynomial.legendre.leggauss(16), strict=True):
        z = (ends[1:] + ends[:-1]) / 2 + share * (ends[1:] - ends[:-1]) / 2
        values = function(x, y, z) * numpy.exp(-(x**2 + y**2 + z**2) / 2) * (ends[1:] - ends[:-1])
        total += weight * step**2 * values.sum() / 2
    return total / (2 * numpy.pi) ** 1.5


#: kinks in z at places that are functions of x and y, and cross: the nodes of z jump from one x to the next
CROSSING = {
    "lines": (
        lambda x, y, z: tp.relu(x - y - z) * tp.step(z + tp.sin(x) + y) * z * x,
        lambda x, y, z: numpy.maximum(x - y - z, 0) * (z + numpy.sin(x) + y > 0) * z * x,
        [lambda x, y: x - y, lambda x, y: -numpy.sin(x) - y],
    ),
    "a product": (
        lambda x, y, z: tp.relu(0.9 * x * y - z) * tp.step(z - tp.relu(x - 1) + y) * z * x,
        lambda x, y, z: numpy.maximum(0.9 * x * y - z, 0) * (z - numpy.maximum(x - 1, 0) + y > 0) * z * x,
        [lambda x, y: 0.9 * x * y, lambda x, y: numpy.maximum(x - 1, 0) - y],
    ),
}


@pytest.mark.parametrize("case", ["lines", pytest.param("a product", marks=pytest.mark.long)])
def test_nodes_that_jump_hide_no_island(case):
    function, plain, places = CROSSING[case]

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return tp.avg(function(x, y, z))

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"].limit
    first, second = (over_pieces(plain, places, count) for count in (150, 240))
    assert found.method == "quadrature"
    assert abs(found.value - second) < 3 * found.error + 3 * abs(first - second) < 1e-3
