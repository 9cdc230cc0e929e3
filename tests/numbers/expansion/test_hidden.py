"""Islands between the nodes of a grid: what kinks surround there is seen by no node, and is refused."""

from __future__ import annotations

import math

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
