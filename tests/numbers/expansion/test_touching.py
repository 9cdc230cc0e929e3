"""Kinks that an argument comes to without crossing: more than 1/n where it moves there, nothing where it cannot."""

import numpy
import pytest

import tplimits as tp
from tplimits.errors import NoLimitError
from tplimits.numbers.expansion.fields import Field
from tplimits.numbers.expansion.nodes import Frame
from tplimits.numbers.expansion.touching import touches

#: of a vector y and scalars s → 0, t → 1
MOVES = {
    "parabola": lambda x, y, s, t: tp.relu(y**2 - s),
    "times a vector": lambda x, y, s, t: tp.relu(s * x + y**2),
    "between nodes": lambda x, y, s, t: tp.relu((y - 0.377) ** 2 - s),
    "full square in expanded form": lambda x, y, s, t: tp.relu(y**2 - t * y + t / 4),
    "wave": lambda x, y, s, t: abs(t - tp.cos(y)),
    "at a kink": lambda x, y, s, t: tp.relu(abs(y) - s),
    "along a line": lambda x, y, s, t: tp.relu((x - y) ** 2 - s),
    "at a point": lambda x, y, s, t: abs(x**2 + y**2 + 1 - t),
    "beside a crossing": lambda x, y, s, t: tp.relu(y**2 * (y - 1) - s),
    "jump": lambda x, y, s, t: tp.step(y**2 + s),
}
#: and of images of vectors: no square is ever negative, and near to 0 is not at it
STAYS = {
    "square": (lambda h, k, t: tp.relu(h**2), lambda g, f: g**2),
    "square of a sum": (lambda h, k, t: abs((h + k) ** 2), lambda g, f: (g + f) ** 2),
    "two squares": (lambda h, k, t: tp.relu(h**2 + (k - h) ** 2), lambda g, f: g**2 + (f - g) ** 2),
    "away from it": (lambda h, k, t: abs(h**2 + 0.6 - t / 2), lambda g, f: g**2 + 0.1),
}


@pytest.mark.parametrize("case", MOVES)
def test_arguments_that_move_where_they_touch_a_kink_are_refused(case):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(MOVES[case](x, y, tp.avg(x), tp.avg(x * x)))

    with pytest.raises(NoLimitError, match="comes to without crossing it, and moves there"):
        tp.derive(program, tp.FiniteWidth()).evaluate()


def test_what_is_refused_is_larger_than_a_multiple_of_one_over_the_width():
    """n (E relu(y² − s) − 1) for s ~ N(0, 1/n): E relu(y² − s) = 1 − s + 2 ∫_{y² < s} (s − y²) φ(y) dy."""
    s, y = numpy.linspace(0, 9, 2001)[1:], (numpy.arange(400) + 0.5) / 400

    def excess(n):
        at = s[:, None] / n**0.5
        inside = 2 * at**1.5 * (1 - y**2) * numpy.exp(-at * y**2 / 2) / (2 * numpy.pi) ** 0.5
        return n * (inside.mean(axis=1) * numpy.exp(-(s**2) / 2)).sum() * (s[1] - s[0]) / (2 * numpy.pi) ** 0.5

    growth = numpy.log(excess(1e8) / excess(1e4)) / numpy.log(1e4)
    assert abs(growth - 0.25) < 0.01 and excess(1e4) > 1


@pytest.mark.parametrize("case", STAYS)
def test_arguments_that_stay_on_their_side_have_an_expansion(case):
    function, plain = STAYS[case]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.avg(function(W @ x, W @ y, tp.avg(x * x)))

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    g, f = numpy.meshgrid(*[numpy.linspace(-9, 9, 401)] * 2)
    weights = numpy.exp(-(g**2 + f**2) / 2) / (2 * numpy.pi) * 0.045**2
    assert abs(found.limit.value - (weights * plain(g, f)).sum()) < 1e-8
    # means of squares of images are exact at every width
    assert abs(found.bias.value) <= max(found.bias.error, 1e-8)


@pytest.mark.parametrize(
    ("u", "slope", "found"),
    [
        (lambda y: y**2, lambda y: 1 + 0 * y, True),
        (lambda y: -(y**2), lambda y: 1 + 0 * y, True),
        (lambda y: y**2, lambda y: 2 * y, False),  # it moves nowhere at 0
        (lambda y: 0.5 + abs(y), lambda y: 1 + 0 * y, False),
        (lambda y: y, lambda y: 1 + 0 * y, False),  # a crossing
    ],
)
def test_points_in_no_order_tell_by_those_nearest_to_it(u, slope, found):
    y = numpy.random.default_rng(0).standard_normal(4096)
    assert touches(Frame(0.3, divides=False), Field((1,), u(y)), [Field((1,), slope(y))]) is found
