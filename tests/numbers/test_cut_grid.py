"""How many nodes are asked for is known before they are made."""

from __future__ import annotations

import math

import numpy
import pytest
import scipy

import tplimits as tp
from tplimits.numbers import cut_grid
from tplimits.numbers.budget import TooManyAtOnce
from tplimits.numbers.cuts import Cutting, Planes

SMOOTH = Cutting(Planes((), ()), 2, cut_grid.RADIUS[2])
CUT = Cutting(Planes(((1.0, 0.0), (1.0, 1.0)), (0.0, 0.0)), 2, cut_grid.RADIUS[2])


@pytest.mark.parametrize(
    "make",
    [
        lambda: cut_grid._cut(SMOOTH, 0, 3, 2),
        lambda: cut_grid._cut(CUT, 0, 3, 2),
        lambda: cut_grid._cut(SMOOTH, 0, 3, 2, (1, 0)),
        lambda: cut_grid.grid(SMOOTH, 0, 3),
    ],
)
def test_as_many_nodes_as_there_is_room_for(make, monkeypatch):
    nodes, weights = make()
    monkeypatch.setattr(cut_grid, "MAX_NODES", weights.size)
    assert make()[0].shape == nodes.shape
    monkeypatch.setattr(cut_grid, "MAX_NODES", weights.size - 1)
    with pytest.raises(TooManyAtOnce, match=f"{weights.size} quadrature nodes in 2 dimensions"):
        make()
    total = weights.sum(axis=1)
    assert total == pytest.approx([1, 1, 1], rel=1e-12)
    assert (weights[..., None] * nodes**2).sum(axis=1) == pytest.approx(1 + 0 * nodes[:, 0], rel=1e-9)


def test_gradings_crowd_towards_both_ends():
    """φ′ = 30 s² (1 − s)², φ from 0 to 1; Legendre's nodes through it integrate |x|^(−1/2) from −1 on."""
    s = numpy.linspace(0, 1, 7)
    place, speed = cut_grid.grading(s)
    assert speed == pytest.approx(30 * s**2 * (1 - s) ** 2)
    assert place == pytest.approx([scipy.integrate.quad(lambda r: 30 * r**2 * (1 - r) ** 2, 0, x)[0] for x in s])
    x, w = cut_grid._graded(40)
    assert w.sum() == pytest.approx(2) and w @ x**4 == pytest.approx(0.4)
    assert w @ (1 + x) ** -0.5 == pytest.approx(2 * 2**0.5, rel=1e-4) == w @ (1 - x) ** -0.5


def test_nodes_between_edges_and_off_them():
    edges = numpy.array([[[-2.0, 0.5, 0.5, 3.0]]])
    x, w = numpy.polynomial.legendre.leggauss(4)
    nodes, weights = cut_grid._between(edges, (x, w), numpy.zeros((1, 1)))
    assert nodes.shape == weights.shape == (1, 1, 12)
    assert (weights * nodes**6).sum() == pytest.approx((3**7 + 2**7) / 7)
    assert numpy.sort(nodes[0, 0, :4]) == pytest.approx(1.25 * x - 0.75) and (weights[0, 0, 4:8] == 0).all()
    low, high = numpy.array([1.0, 0.0, -4.0]), numpy.array([2.0, 1.0, -2.0])
    for u, ends in ((low, low), (high, high)):
        moved = cut_grid.off_the_edges(u, low, high, numpy.zeros(3))
        assert abs(moved - ends) == pytest.approx(4 * numpy.spacing(abs(ends)) + 1e-60, rel=1e-12, abs=0)
        assert ((low < moved) & (moved < high)).all()
    none = numpy.zeros(1)
    assert cut_grid.off_the_edges(numpy.array([1.5]), low[:1], high[:1], none) == 1.5
    # an end at 0 that is a sum of larger terms is as far off as these are rounded
    assert cut_grid.off_the_edges(none, none, none + 1, none + 8) == 4 * numpy.spacing(8.0)


@pytest.mark.parametrize("doubled", [(), (1, 0), (0, 2)])
def test_resolutions_of_a_grid(doubled):
    """Smooth coordinates by the trapezoidal rule, cut ones piece by piece; doubled ones have half the distance."""
    nodes, weights = cut_grid.grid(SMOOTH, 1, doubled=doubled)
    for k in range(2):
        line = numpy.unique(nodes[0, :, k].round(9))
        finer = 2 ** (doubled[k] if doubled else 0)
        assert numpy.diff(line) == pytest.approx(22 / (96 * finer)) and abs(line).max() <= 11
    assert weights.sum() == pytest.approx(1, rel=1e-12) and (weights > 1e-19).all()
    nodes, weights = cut_grid.grid(CUT, 1, doubled=doubled)
    halves = [weights[0][nodes[0, :, 0] > 0].sum(), weights[0][nodes[0].sum(axis=1) > 0].sum()]
    both = weights[0][(nodes[0, :, 0] > 0) & (nodes[0].sum(axis=1) > 0)].sum()
    assert (*halves, both) == pytest.approx((0.5, 0.5, 3 / 8), abs=1e-10)


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("rank", [1, 2])
def test_weights_of_plain_rules_add_up_to_one(rank, level):
    """To rounding: with the step as a difference of two nodes they had been 1 − 10⁻¹⁴."""
    _, weights = cut_grid.grid(Cutting(Planes((), ()), rank, cut_grid.RADIUS[rank]), level)
    assert abs(math.fsum(weights.ravel()) - 1) < 1e-15
    assert abs(math.fsum(weights.ravel() * (1 + 1e-14)) - 1) > 1e-15  # as it was


def test_told_errors_hold_what_rounding_leaves():
    """E e^h/(e^h + e^g) is ½ by symmetry: it had been off by 5.2e-15, told as 2.7e-15."""

    @tp.program
    def share(h: tp.Vector, g: tp.Vector):
        return tp.avg(tp.exp(h) / (tp.exp(h) + tp.exp(g)))

    found = tp.derive(share).evaluate()["return"]
    assert abs(found.value - 0.5) <= found.error < 1e-14
