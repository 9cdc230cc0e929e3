"""The rules of one box: exact for the polynomials that they are built for."""

from __future__ import annotations

import mpmath
import numpy
import pytest

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.numbers.cells import _Boxes, _coarse, _fejer, _Measured, _Rule, _worst, adaptive
from tplimits.numbers.cuts import Cutting, Planes, roots

RADIUS = 11.0


@pytest.mark.parametrize("count", [5, 9, 11, 15])
def test_rules_integrate_polynomials(count):
    nodes, weights = _fejer(count)
    assert len(nodes) == count and (nodes > 0).all() and (nodes < 1).all() and (weights > 0).all()
    for power in range(count):
        assert weights @ nodes**power == pytest.approx(1 / (power + 1), rel=1e-12)
    coarse = _coarse(count)
    for power in range(count // 2):
        assert coarse @ nodes**power == pytest.approx(1 / (power + 1), rel=1e-12)
    assert abs(coarse - weights).max() > 1e-3


def circle(centre=0.0):
    """Cut at the unit circle around (centre, 0), and how far from its middle nodes (1, count, 2) are."""
    height = lambda nodes: roots(lambda v: (nodes - centre) ** 2 + v**2 - 1, RADIUS)  # noqa: E731
    return Cutting(Planes((), ()), 2, RADIUS, {1: [height]}), lambda u: numpy.hypot(u[..., 0] - centre, u[..., 1])


def over_the_disc(f, centre):
    """E[f(u); |u − c| < 1] in polar coordinates around c."""
    nodes, weights = numpy.polynomial.legendre.leggauss(40)
    r, phi = (nodes[:, None] + 1) / 2, numpy.pi * numpy.arange(40) / 20
    x, y = centre + r * numpy.cos(phi), r * numpy.sin(phi)
    return float((weights / 2 @ (f(x) * numpy.exp(-(x**2 + y**2) / 2) * r)).sum() / 40)


@pytest.mark.parametrize("centre", [0.0, 2.0])
def test_pieces_inside_of_a_curve(centre):
    """The curve meets few of the first coordinates: each is cut in three, which are integrated apart."""
    cutting, distance = circle(centre)
    assert _Rule(cutting, distance, lambda count: None).pieces() == [3, 3]
    inside, spent = lambda u: numpy.where(distance(u) < 1, 2 + u[..., 0], 0.0), []
    value, error, size, far = adaptive(cutting, inside, 0, spent.append)
    assert value == pytest.approx(over_the_disc(lambda x: 2 + x, centre), abs=1e-11) and size == value
    assert far == 0 and 0 <= error < 1e-10 and sum(spent) % 15**2 == 0


def test_boxes_that_a_curve_does_not_reach_count_once():
    """A narrow ridge is halved where the second coordinate has no cuts: of the three pieces one is left."""
    cutting, distance = circle(2.0)
    ridge = lambda x: 1 / (1e-4 + (x + 1) ** 2)  # noqa: E731
    value, error, size, _ = adaptive(cutting, lambda u: numpy.where(distance(u) < 1, 0, ridge(u[..., 0])), 0, [].append)
    everywhere = mpmath.quad(lambda x: ridge(x) * mpmath.npdf(x), [-11, -2, -1.1, -1.01, -1, -0.99, -0.9, 0, 2, 11])
    assert value == pytest.approx(float(everywhere) - over_the_disc(ridge, 2.0), rel=1e-9) and size == value
    assert error < 1e-9


@pytest.mark.parametrize("power", [-0.4, -0.49, 0.5])
def test_what_lies_too_near_to_a_cut_for_doubles_is_an_error(power):
    """E|g − 1|^p = 2^(p/2) Γ((1 + p)/2)/√π ₁F₁(−p/2, ½, −½): of poles 10⁻⁹ lies within 10⁻¹⁵ of them."""
    cutting = Cutting(Planes(((1.0,),), (-1.0,)), 1, 12.0)
    value, error, *_ = adaptive(cutting, lambda u: abs(u[..., 0] - 1) ** power, 0, [].append)
    scale = mpmath.power(2, power / 2) * mpmath.gamma((1 + power) / 2) / mpmath.sqrt(mpmath.pi)
    off = abs(value - float(scale * mpmath.hyp1f1(-power / 2, 0.5, -0.5)))
    assert off <= error + 1e-14 and error < (5e-14 if power > 0 else 10 * off)


def test_what_grows_too_fast_at_a_cut_has_no_mean():
    cutting = Cutting(Planes(((1.0,),), (-1.0,)), 1, 12.0)
    with pytest.raises(EvaluationError, match="does not converge at a singular point, and may be infinite"):
        adaptive(cutting, lambda u: 1e-9 / abs(u[..., 0] - 1), 0, [].append)


@pytest.mark.parametrize(("power", "value"), [(0, 1.0), (2, 1.0), (4, 3.0)])
def test_what_lies_at_the_outermost_nodes_is_told(power, value):
    """On [−4, 4] a moment lacks its tails, and of what is there the part beyond 3.8 is far."""
    cutting = Cutting(Planes((), ()), 1, 4.0)
    found, error, size, far = adaptive(cutting, lambda u: -(u[..., 0] ** power), 1, lambda count: None)
    between = lambda a, b: 2 * float(mpmath.quad(lambda g: g**power * mpmath.npdf(g), [a, b]))  # noqa: E731
    assert -found == pytest.approx(between(0, 4), rel=1e-12) and size == -found
    assert far == pytest.approx(between(3.8, 4), rel=0.3) and 0.5 * value < size < value
    assert error < 1e-13 * size


def test_boxes_that_are_halved_next():
    """Those that err by more than their part of what is allowed, the worst of them first, while there is room."""
    n = 4
    boxes = _Boxes(
        numpy.zeros((n, 1), dtype=numpy.int64), numpy.zeros((n, 1)), numpy.array([[1.0], [1.0], [1e-13], [1.0]])
    )
    doubt, resolved = numpy.array([[1e-3], [1e-20], [1e-3], [1e-3]]), numpy.array([True, True, True, False])
    at_cut = numpy.zeros(doubt.shape, dtype=bool)
    found = _Measured(numpy.ones(n), numpy.ones(n), numpy.zeros(n), numpy.zeros(n), doubt, at_cut, resolved)
    assert _worst(boxes, found).tolist() == [True, False, False, False], "one is small, one not resolved"
    found.doubt = doubt * 1e-14
    assert not _worst(boxes, found).any(), "accurate enough"


def test_no_more_boxes_are_halved_at_once_than_there_is_room_for():
    n = 700
    boxes = _Boxes(numpy.zeros((n, 1), dtype=numpy.int64), numpy.zeros((n, 1)), numpy.ones((n, 1)))
    doubt = numpy.arange(1.0, n + 1)[:, None]
    one, at_cut = numpy.ones(n), numpy.zeros(doubt.shape, dtype=bool)
    found = _Measured(one, one, 0 * one, 0 * one, doubt, at_cut, one > 0)
    assert numpy.flatnonzero(_worst(boxes, found)).tolist() == list(range(n - 512, n))


def test_a_disagreement_that_is_small_is_an_error_that_is_smaller():
    """As 200 d/s to the power ½ beside s; never larger than itself; of nothing it is nothing."""
    doubt, size = numpy.array([[1e-6, 2e-6], [0.5, 0.1], [0.0, 0.0], [0.0, 3.0]]), numpy.array([1.0, 1.0, 0.0, 0.0])
    found = _Measured(size, size, size, size, doubt, numpy.zeros(doubt.shape, dtype=bool), size > 0)
    assert found.error == pytest.approx([2e-6 * 0.02, 0.5, 0.0, 0.0])


def test_halves_meet_in_the_middle_of_one_axis():
    boxes = _Boxes(
        numpy.array([[0, 1], [2, 3]]), numpy.array([[0.0, 0.2], [0.5, 0.0]]), numpy.array([[1.0, 0.6], [0.7, 1.0]])
    )
    halves = boxes.halved(numpy.array([1, 0]))
    assert halves.piece.tolist() == [[0, 1], [2, 3]] * 2
    assert halves.low == pytest.approx(numpy.array([[0, 0.2], [0.5, 0], [0, 0.4], [0.6, 0]]))
    assert halves.high == pytest.approx(numpy.array([[1, 0.4], [0.6, 1], [1, 0.6], [0.7, 1]]))


def test_nodes_keep_off_a_logarithm_whose_place_cancels():
    # the line x + y = 0 meets nodes near 0 as a sum of larger terms, by whose rounding they may be off
    def f(x: tp.Vector = tp.init(mean=0, std=2), y: tp.Vector = tp.init(mean=-1, std=2)):  # noqa: B008
        return tp.avg(tp.log(tp.abs(0.3 * y + 0.3 * x)) * tp.maximum(0.5 - x + 0.3 * y, 0.5 - 0.7 * y))

    found = tp.derive(tp.program(f)).evaluate()["return"]

    # s = x + y and d = x − y are independent, of variance 8, and the maximum is ½ − .35 (s − d) + relu(−d)
    deviation = mpmath.sqrt(8)
    law = lambda s: mpmath.npdf(s, -1, deviation)  # noqa: E731
    log, moment = (
        mpmath.quad(lambda s, p=p: s**p * mpmath.log(abs(0.3 * s)) * law(s), [-40, -1, 0, 1, 40]) for p in (0, 1)
    )
    below = mpmath.quad(lambda d: -d * mpmath.npdf(d, 1, deviation), [-40, 0])
    expected = log * (0.5 + 0.35 + below) - 0.35 * moment
    assert found.value == pytest.approx(float(expected), rel=1e-11) and found.error < 1e-10
