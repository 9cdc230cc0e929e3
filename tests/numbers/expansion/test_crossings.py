"""Places that cross at which a variable is divided: means against pieces of pieces, and the crossings by hand."""

from __future__ import annotations

import numpy
import pytest

import tplimits as tp
from tplimits.numbers.expansion.crossings import NOWHERE, crossing
from tplimits.numbers.expansion.fields import Field, constant
from tplimits.numbers.expansion.nodes import Frame

NODES, WEIGHTS = numpy.polynomial.legendre.leggauss(60)


def relu(x):
    return numpy.maximum(x, 0.0)


def step(x):
    return numpy.heaviside(x, 0.5)


def gauss(ends):
    """Gauss' rule on pieces, those of no length included."""
    middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    return (middle[:, None] + half[:, None] * NODES).ravel(), (half[:, None] * WEIGHTS).ravel()


def by_pieces(function, places, ends):
    """E f(x, y), y between places that are functions of x, and x between ends."""
    total = 0.0
    for x, weight in zip(*gauss(numpy.array(sorted([-9.0, 9.0, *ends]))), strict=True):
        y, w = gauss(numpy.clip(sorted([-9.0, 0.0, 9.0, *(p(x) for p in places)]), -9, 9))
        total += weight * (w * function(x, y) * numpy.exp(-(x**2 + y**2) / 2)).sum() / (2 * numpy.pi)
    return total


#: in the language and in NumPy, places of y, and where they cross or bend: the width of a piece of y has a kink there
CASES = {
    "a jump and two kinks": (
        lambda x, y: tp.step(y + tp.abs(x)) * tp.clip(y, -1, 2),
        lambda x, y: step(y + abs(x)) * numpy.clip(y, -1, 2),
        [lambda x: -abs(x), lambda x: -1, lambda x: 2],
        [-1, 0, 1],
    ),
    "lines": (
        lambda x, y: tp.sign(y - 1.11 * x + 0.41) * tp.relu(0.02 * x - 0.2 - y) * (1 + x),
        lambda x, y: numpy.sign(y - 1.11 * x + 0.41) * relu(0.02 * x - 0.2 - y) * (1 + x),
        [lambda x: 1.11 * x - 0.41, lambda x: 0.02 * x - 0.2],
        [0.21 / 1.09],
    ),
    "a place that jumps": (
        lambda x, y: tp.abs(y - 0.24 * tp.sign(x - 0.08)) * tp.sign(y + 1 - 1.17 * tp.abs(x)) * x,
        lambda x, y: abs(y - 0.24 * numpy.sign(x - 0.08)) * numpy.sign(y + 1 - 1.17 * abs(x)) * x,
        [lambda x: 0.24 * numpy.sign(x - 0.08), lambda x: -1 + 1.17 * abs(x)],
        [0, 0.08, 1.24 / 1.17, -0.76 / 1.17],
    ),
    "three places": (
        lambda x, y: tp.step(y - 1 - 0.2 * x) * tp.sign(y - tp.relu(x + 0.3)) * tp.sign(y - tp.clip(x, -0.2, 0.25)),
        lambda x, y: step(y - 1 - 0.2 * x) * numpy.sign(y - relu(x + 0.3)) * numpy.sign(y - numpy.clip(x, -0.2, 0.25)),
        [lambda x: 1 + 0.2 * x, lambda x: relu(x + 0.3), lambda x: numpy.clip(x, -0.2, 0.25)],
        [-0.3, -0.2, -0.05, 0.25, 0.7 / 0.8, -6, -5, -3.75],
    ),
    "a place that is at infinity for some": (
        lambda x, y: tp.step(tp.tanh(y) - x) * tp.relu(y - 0.5 * x),
        lambda x, y: step(numpy.tanh(y) - x) * relu(y - 0.5 * x),
        [lambda x: numpy.arctanh(numpy.clip(x, -1 + 1e-15, 1 - 1e-15)), lambda x: x / 2],
        [s * (1 - 0.1**k) for k in range(16) for s in (-1, 1)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_means_where_places_cross(case):
    function, plain, places, ends = CASES[case]

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(function(x, y))

    @tp.program
    def other_way(y: tp.Vector, x: tp.Vector):
        return tp.avg(function(x, y))

    mean, square = by_pieces(plain, places, ends), by_pieces(lambda x, y: plain(x, y) ** 2, places, ends)
    # what jumps or turns in a later variable is read off points that are spread, or refused
    orders = ((program, 1e-6), (other_way, 1e-2))
    if case in ("a place that jumps", "three places"):
        orders = orders[:1]
    for p, most in orders:
        found = tp.derive(p, tp.FiniteWidth()).evaluate()["return"]
        for number, true in ((found.limit, mean), (found.variance, square - mean**2)):
            assert abs(number.value - true) < 2 * number.error + 1e-11 and number.error < most


def test_the_place_is_where_both_are_the_same():
    """x and ½ − x², at (±√3 − 1)/2: one after the other."""
    marks = []
    for true in (-(numpy.sqrt(3) + 1) / 2, (numpy.sqrt(3) - 1) / 2):
        frame = Frame(0.27, frozenset({0, 1}), {0: marks})
        x = frame.normal("n")
        found = crossing([constant(30.0), x, Field(x.dims, 0.5 - x.values**2)], frame.variables)
        assert found is not None and (found[0], found[1].dims) == (0, ())
        assert float(found[1].values) == pytest.approx(true, abs=1e-8)
        marks.append(found[1])
    frame = Frame(0.27, frozenset({0, 1}), {0: marks})
    x = frame.normal("n")
    assert crossing([x, Field(x.dims, 0.5 - x.values**2)], frame.variables) is None


def test_a_crossing_may_be_a_function_of_earlier_variables():
    """2y and y + x/3 + 0.1 are the same at y = x/3 + 0.1."""
    frame = Frame(0.3, frozenset({0, 1, 2}))
    x, y = frame.normal("n"), frame.normal("n")
    line = x.values / 3 + 0.1
    found = crossing([Field((1,), 2 * y.values), Field((0, 1), y.values + line[:, None])], frame.variables)
    assert found is not None and (found[0], found[1].dims) == (1, (0,))
    near = abs(x.values) < 6
    assert found[1].values[near] == pytest.approx(line[near], abs=1e-10)


def test_of_a_sign_the_earlier_variable_is_divided():
    frame = Frame(0.3, frozenset({0, 2}))
    x, sign = frame.normal("n"), frame.signs("n")
    found = crossing([Field((0, 1), x.values[:, None] * sign.values), constant(0.7)], frame.variables)
    assert found is not None and (found[0], found[1].dims) == (0, ())
    assert abs(float(found[1].values)) == pytest.approx(0.7, abs=1e-8)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x + 1,  # parallel
        lambda x: numpy.where(x < 0.3, x + 1, NOWHERE),  # is nowhere for some
        lambda x: numpy.where(x < 0.3, x + 1, x),  # the same for some, on one side elsewhere
        lambda x: x + 1e-11 * numpy.sin(40 * x),  # the same, by rounding
        lambda x: numpy.where(abs(x) < 8, x + 1, x - 1),  # where no neuron is
        lambda x: x + numpy.where(x < 0.3, -9, 9),  # comes from beyond all neurons
    ],
)
def test_what_crosses_nothing(other):
    frame = Frame(0.3, frozenset({0, 1}))
    x = frame.normal("n")
    assert crossing([x, Field(x.dims, other(x.values)), constant(12.0)], frame.variables) is None
