"""Straight kinks cut every coordinate where they are, and the earlier ones where two of them cross."""

from __future__ import annotations

import numpy
import pytest
import scipy.special
import sympy

import tplimits as tp
from tplimits.numbers.cuts import Cutting, Planes, roots, straight_root

RADIUS = 6.0


def inside(places):
    return sorted(p for p in places if abs(p) < RADIUS)


@pytest.mark.parametrize("seed", range(6))
def test_pieces_end_at_planes_and_at_their_crossings(seed):
    """Of planes s·u + o = 0 in the plane and in space, small slopes among them, by linear systems."""
    rng = numpy.random.default_rng(seed)
    for rank in (1, 2, 3):
        slopes = rng.uniform(-1, 1, (rank, rank)) * rng.choice([0.03, 1.0], (rank, 1))
        offsets = rng.uniform(-0.5, 0.5, rank)
        cutting = Cutting(Planes(tuple(map(tuple, slopes)), tuple(offsets)), rank, RADIUS)
        last = rng.uniform(-1, 1, (1, 5, rank - 1))
        found = cutting.edges(rank - 1, last)
        for node, edges in zip(last[0], found[0], strict=True):
            own = [-(s[:-1] @ node + o) / s[-1] for s, o in zip(slopes, offsets, strict=True)]
            assert edges[[0, -1]] == pytest.approx([-RADIUS, RADIUS])
            assert inside(edges[1:-1]) == pytest.approx(inside(own))
        if rank == 2:
            ((crossing, _),) = [numpy.linalg.solve(slopes, -offsets)]
            assert inside(cutting.edges(0, numpy.zeros((1, 1, 0)))[0, 0][1:-1]) == pytest.approx(inside([crossing]))
        if rank == 3:
            first = cutting.edges(0, numpy.zeros((1, 1, 0)))[0, 0]
            point = numpy.linalg.solve(slopes, -offsets)[0]
            assert inside([point]) == pytest.approx(inside({round(e, 9) for e in first[1:-1]}), abs=1e-6)


def test_planes_of_earlier_coordinates_and_equal_ones():
    slopes, offsets = ((2.0, 0.0), (1.0, 1.0), (-2.0, -2.0), (0.0, 1.0)), (1.0, 0.5, -1.0, 0.0)
    cutting = Cutting(Planes(slopes, offsets), 2, RADIUS)
    places = {round(e, 9) for e in cutting.edges(0, numpy.zeros((1, 1, 0)))[0, 0]}
    assert places == {-6.0, -0.5, 6.0}
    second = cutting.edges(1, numpy.array([[[1.0]]]))[0, 0]
    assert second == pytest.approx([-6, -1.5, 0, 6]), "of two equal planes one is left"


def test_offsets_move_with_outer_nodes():
    cutting = Cutting(Planes(((1.0,),), (numpy.array([0.5, -2.0, 9.0]),)), 1, RADIUS)
    edges = cutting.edges(0, numpy.zeros((3, 1, 0)))
    assert edges[:, 0, 1] == pytest.approx([-0.5, 2.0, -6.0])


def test_roots_of_functions_on_a_line():
    def cubic(line):
        return numpy.stack([(line - a) * (line - b) * (line - c) for a, b, c in PLACES])

    PLACES = ((-4.2, 0.1, 3.3), (1.0, 2.0, 7.0), (-7.0, 8.0, 9.0))

    def at(line):
        if line.ndim == 1:
            return cubic(line)
        return numpy.concatenate([cubic(line[i])[i : i + 1] for i in range(3)])

    found = roots(at, RADIUS)
    assert found == pytest.approx(numpy.array([[-4.2, 0.1, 3.3], [1.0, 2.0, 6.0], [6.0, 6.0, 6.0]]), abs=1e-9)
    lines = straight_root(lambda u: numpy.stack([2 * u - 3, -u + 8, 0 * u + 1]), RADIUS)
    assert lines[:, 0] == pytest.approx([1.5, 6.0, 6.0])


def test_planes_that_cross_at_a_small_angle_cut_where_they_cross():
    cutting = Cutting(Planes(((0.3, 1.0), (0.1, 1.0)), (0.2, -0.1)), 2, RADIUS)
    assert cutting.edges(0, numpy.zeros((1, 1, 0)))[0, 0] == pytest.approx([-6, -1.5, 6])
    parallel = Cutting(Planes(((0.3, 1.0), (0.3, 1.0)), (0.2, -0.1)), 2, RADIUS)
    assert parallel.edges(0, numpy.zeros((1, 1, 0)))[0, 0] == pytest.approx([-6, 6])


@pytest.mark.parametrize(
    ("wave", "mean"),
    [
        # over so many turns the law of x is that of a uniform phase, to e^(−30²/2)
        (lambda x: tp.step(tp.sin(100 * x) - sympy.Rational(1, 2)), 1 / 3),
        (lambda x: tp.abs(tp.cos(40 * x)), 2 / numpy.pi),
        (lambda x: tp.exp(-(10**6) * tp.sin(30 * x - 1) ** 2), scipy.special.ive(0, 5e5)),
    ],
    ids=["jumps", "kinks", "peaks"],
)
def test_waves_are_cut_as_often_as_they_turn(wave, mean):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(wave(x))

    found = tp.derive(program).evaluate("quadrature")["return"]
    assert abs(found.value - mean) <= 4 * found.error + 1e-15 < 1e-9 * mean


def test_waves_that_turn_too_often_are_left_to_particles():
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.abs(tp.sin(10**6 * x)))

    limit = tp.derive(program)
    with pytest.raises(tp.EvaluationError, match="turns 7639440 times between -12 and 12"):
        limit.evaluate("quadrature")
    found = limit.evaluate()["return"]
    assert found.method == "particles" and abs(found.value - 2 / numpy.pi) < 5 * found.error < 0.05


def test_earlier_coordinates_end_where_steep_planes_are_in_reach():
    cutting = Cutting(Planes(((1000.0, 1.0),), (-500.0,)), 2, RADIUS)
    first = cutting.edges(0, numpy.zeros((1, 1, 0)))[0, 0]
    assert first == pytest.approx([-RADIUS, 0.5 - RADIUS / 1000, 0.5 + RADIUS / 1000, RADIUS])
