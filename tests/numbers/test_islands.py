"""Islands between the nodes: what lies where a curved kink is crossed and crossed back between all lines of a grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tplimits as tp
from tplimits.numbers.islands import islands

CENTRE = np.array([1.0, 0.5])


def disc(radius, weight):
    """E weight(|u − c|) over a disc about the centre for standard normal u, by rings."""
    s, t = (np.arange(2000) + 0.5) / 2000 * radius, (np.arange(400) + 0.5) / 400 * 2 * np.pi
    u, v = CENTRE[0] + s[:, None] * np.cos(t), CENTRE[1] + s[:, None] * np.sin(t)
    density = np.exp(-(u * u + v * v) / 2).mean(axis=1)
    return float((s * weight(s) * density).sum() * radius / 2000)


@pytest.mark.parametrize("radius", [0.0316, 1e-3])
def test_an_island_of_two_vectors(radius):
    """It was 0 ± 0."""

    @tp.program
    def island(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.relu(radius**2 - (x - 1) ** 2 - (y - 0.5) ** 2))

    number = tp.derive(island).evaluate()["return"]
    wanted = disc(radius, lambda s: radius**2 - s * s)
    assert abs(number.value - wanted) < 5 * number.error + 1e-6 * wanted
    assert number.method == "quadrature" and 0 < number.error < 1e-6 * wanted


def test_an_island_beside_what_is_seen():
    @tp.program
    def island(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.step(x + y) + 100 * tp.step(1e-4 - (x - 1) ** 2 - (y - 0.5) ** 2))

    number = tp.derive(island).evaluate()["return"]
    assert abs(number.value - 0.5 - 100 * disc(1e-2, np.ones_like)) < 5 * number.error + 1e-8


def test_an_island_that_kernels_do_not_see_is_refused():
    """⟨x x⟩ of an input was 0 after 23 seconds: means of pairs are drawn, and hardly any point makes them."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
        a, b = tp.sum(U * ξ, over="d"), tp.sum(V * ξ, over="d")
        return v * tp.step(1e-3 - (a - 1) ** 2 - (b - 0.5) ** 2)

    with pytest.raises(tp.EvaluationError, match="not 0: their spread says nothing of its error"):
        tp.derive(net, tp.Kernels()).evaluate([[1.0, 0.0]])


@pytest.mark.parametrize("seed", range(6))
def test_points_of_islands_are_found_whichever_way_they_lie(seed):
    rng = np.random.default_rng(seed)
    centre, ratio = rng.normal(size=2), float(rng.choice([0.0, 0.9, -0.99]))
    q = np.linalg.inv([[1, ratio], [ratio, 1]])
    found = islands(lambda u: 1e-6 - np.einsum("ni,ij,nj->n", u - centre, q, u - centre), 11.0, 2)
    assert len(found) and np.abs(found - centre).max() < 1e-3


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: -(x**2),
        lambda x, y: -1 - x**2 - y**2,
        lambda x, y: -(x**2) + 2 * x * y - y**2,
        lambda x, y: np.sin(x) * np.cos(y) - 1,
        lambda x, y: x**2 + y**2 - 1,
    ],
)
def test_what_touches_zero_or_is_seen_by_the_grid_is_no_island(function):
    assert not len(islands(lambda u: function(*u.T), 11.0, 2))


def test_what_is_nowhere_positive_stays_zero():
    @tp.program
    def nothing(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.relu(-((x - y) ** 2) * (1 + x**2))), tp.avg(tp.step(-1 - x**2 - y**2))

    assert [n.value for n in tp.derive(nothing).evaluate().values()] == [0.0, 0.0]


def test_islands_of_three_coordinates_are_left_to_points():
    found = islands(lambda u: 4e-4 - ((u - np.array([0.3, 0.7, -1.1])) ** 2).sum(axis=1), 9.0, 3)
    assert len(found) == 1 and np.abs(found[0] - [0.3, 0.7, -1.1]).max() < 1e-6


@pytest.mark.parametrize("k", [100, 1000, 1e5])
def test_curves_that_lines_pass_by_from_end_to_end(k):
    """P(y > k sin x) is ½ by symmetry, and so with x² beside it: at k = 1000 it was .49938 ± 3e-12."""

    @tp.program
    def waves(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.step(y - k * tp.sin(x)) * x * x)

    number = tp.derive(waves).evaluate()["return"]
    assert abs(number.value - 0.5) < 5 * number.error + 1e-12 and number.error < 1e-9


@pytest.mark.parametrize("ratio", [1e-3, 1e-6])
def test_wedges_between_vectors_that_are_nearly_equal(ratio):
    """E tanh(x) sign(x + εz) = E|tanh x| − 2 E |tanh x| P(ε|z| > |x|): where x is small ε was not seen, nor told."""

    @tp.program
    def wedge(x: tp.Vector, z: tp.Vector):
        return tp.avg(tp.tanh(x) * tp.sign(x + ratio * z))

    t, s = np.linspace(0, 12, 1_200_001), np.linspace(0, 12 * ratio, 20001)
    tail = np.array([math.erfc(x / ratio / 2**0.5) / 2 for x in s])
    density = np.sqrt(2 / np.pi) * np.exp(-t * t / 2)
    wanted = np.trapezoid(np.tanh(t) * density, t) - 2 * np.trapezoid(np.tanh(s) * np.sqrt(2 / np.pi) * tail, s)
    number = tp.derive(wedge).evaluate()["return"]
    assert abs(number.value - wanted) < 5 * number.error + 1e-11


def test_a_shell_of_three_vectors_has_an_error_that_holds():
    """P(1 < |x|² < 1.01) in three dimensions was .001977 ± 4e-7 for .00242."""

    @tp.program
    def shell(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        square = x * x + y * y + z * z
        return tp.avg(tp.step(1.01 - square) * tp.step(square - 1))

    number = tp.derive(shell).evaluate()["return"]
    q = np.linspace(1, 1.01, 2001)
    wanted = np.trapezoid(np.sqrt(q / (2 * np.pi)) * np.exp(-q / 2), q)
    assert abs(number.value - wanted) < 5 * number.error


def test_an_island_of_three_vectors_that_particles_miss_too_is_refused():
    @tp.program
    def ball(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return tp.avg(tp.step(1e-6 - (x - 1) ** 2 - y**2 - (z - 0.5) ** 2))

    with pytest.raises(tp.EvaluationError, match="lies between all nodes"):
        tp.derive(ball).evaluate()
