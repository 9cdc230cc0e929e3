"""Where functions cross zero, and Dirac's delta there, against the functions' own zeros and slopes."""

from __future__ import annotations

import numpy
import pytest

from tplimits.errors import EvaluationError
from tplimits.numbers.expansion.jets import Jet
from tplimits.numbers.expansion.kinks import Kinks
from tplimits.numbers.expansion.nodes import Field, Frame, Split, density, mapped, times

LINE = numpy.linspace(-9, 9, 61)


@pytest.mark.parametrize("place", [-8.95, -5.0, -1.3, 0.02, 2.8, 8.9])
def test_zeros_and_slopes_are_interpolated(place):
    """sinh((g − g₀)/2) for one g₀, and for several at once; at the ends of the line, too."""
    places = numpy.array([place, place / 2, 0.3])
    values = numpy.sinh((LINE - places[:, None]) / 2) * numpy.array([[1.0], [-2.0], [0.5]])
    (root,), (slope,) = Kinks(Frame(0.3), "f")._zeros(values, numpy.broadcast_to(LINE, values.shape), 0)
    assert root == pytest.approx(places, abs=1e-7)
    assert slope == pytest.approx([0.5, -1.0, 0.25], rel=1e-5)


def test_several_zeros_are_found_in_order_whatever_the_order_of_nodes():
    mixed = numpy.random.default_rng(0).permutation(LINE)
    values = (mixed + 4.1) * (mixed - 0.25) * (mixed - 6.3)
    roots, slopes = Kinks(Frame(0.3), "f")._zeros(values, mixed, 0)
    assert [float(r) for r in roots] == pytest.approx([-4.1, 0.25, 6.3], abs=1e-10)
    assert [float(s) for s in slopes] == pytest.approx([4.35 * 10.4, -4.35 * 6.05, 10.4 * 6.05], rel=1e-9)


def test_one_that_is_there_for_some_values_alone_is_beyond_all_for_the_others():
    values = numpy.stack([LINE - 1.5, LINE**2 + 1])
    (root,), _ = Kinks(Frame(0.3), "f")._zeros(values, numpy.broadcast_to(LINE, values.shape), 0)
    assert root[0] == pytest.approx(1.5) and root[1] > 9
    with pytest.raises(EvaluationError, match="at no definite value"):
        Kinks(Frame(0.3), "f")._zeros(numpy.stack([LINE - 1.5, LINE**2 - 1]), numpy.stack([LINE, LINE]), 0)


def frame_with(*places):
    """Two normal variables, the second divided at places that depend on the first."""
    frame = Frame(0.3, frozenset({0, 1}))
    first = frame.normal("n")
    if places:
        frame.splits[1] = [mapped(place, first) for place in places]
    return frame, first, frame.normal("n")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_delta_integrates_to_the_density_at_its_zero(sign):
    """E δ(2g − u) F(g, u) = ½ E_u φ(u/2) F(u/2, u), by a rule on the line of u."""
    frame, u, g = frame_with(lambda v: v / 2)
    x = Jet(mapped(lambda a, b: sign * (2 * b - a), u, g))
    delta = Kinks(frame, "f").delta(x)
    assert delta is not None
    tested = mapped(lambda a, b: 1 + a * b + b**2, u, g)
    line = numpy.linspace(-12, 12, 4001)
    expected = (density(line) * density(line / 2) * (1 + line**2 / 2 + line**2 / 4) / 2).sum() * (line[1] - line[0])
    assert frame.expectation(times(delta, tested)) == pytest.approx(expected, rel=1e-9)


def test_a_variable_is_asked_to_be_divided_where_it_is_not():
    frame, u, g = frame_with()
    with pytest.raises(Split) as asked:
        Kinks(frame, "f").delta(Jet(mapped(lambda a, b: b - numpy.tanh(a), u, g)))
    assert asked.value.number == 1
    assert asked.value.place.values == pytest.approx(numpy.tanh(u.values), abs=1e-9)


def test_what_does_not_change_sign_has_no_delta():
    frame, u, g = frame_with()
    kinks = Kinks(frame, "f")
    assert kinks.delta(Jet(mapped(lambda a, b: a**2 + numpy.exp(b), u, g))) is None
    assert kinks.delta(Jet(mapped(lambda a, b: -(a**2) * numpy.exp(b), u, g))) is None
    assert kinks.delta(Jet(Field((), numpy.array(0.0)))) is None, "a scalar at the kink that does not move"
