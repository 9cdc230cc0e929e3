"""Which grids have room for a program, and long programs."""

import numpy
import pytest
from expanded import recurrent, tied, tied_relu

import tplimits as tp
from tplimits.numbers.expansion.resolutions import STEPS, drawn, fitting
from tplimits.numbers.expansion.tables import numbers_of


def resolutions(program):
    bound, numbers = numbers_of(program, {}, {})
    return fitting(bound, numbers, drawn(bound, numbers))


def loop(steps):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = x
        for _ in range(steps):
            h = tp.tanh(W @ h)
        return tp.avg(h**2)

    return program


def test_short_programs_are_read_at_the_finest_resolutions():
    assert resolutions(tied)[:2] == STEPS[:2]
    assert resolutions(tied_relu)[:2] == STEPS[:2]
    assert resolutions(recurrent)[:2] == STEPS[:2]


def test_no_grid_is_tried_where_none_has_room():
    assert resolutions(loop(12)) == ()


def test_long_programs_are_read_on_points():
    """Limits of h_t² are those of a recursion of scalars: E tanh(√K g)², time after time."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(60)
    k = 1.0
    for _ in range(8):
        k = float(weights @ numpy.tanh(k**0.5 * nodes) ** 2) / (2 * numpy.pi) ** 0.5
    found = tp.derive(loop(8), tp.FiniteWidth()).evaluate(particles=512, replicates=3)["return"]
    assert found.limit.method == "particles"
    assert abs(float(found.limit) - k) < 6 * found.limit.error + 1e-6
    assert found.limit.error < 1e-2 * k


@pytest.mark.parametrize("k", [50, 500, 2000])
def test_functions_that_turn_between_two_nodes_are_met_by_more(k):
    """E exp(−2k q g²) = m(q) = (1 + 4k q)^(−½) at q = |x|²/n, which has the variance 2/n: b = m″(1)."""

    @tp.program
    def sharp(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.exp(-k * (W @ x) ** 2) ** 2)

    found = tp.derive(sharp, tp.FiniteWidth()).evaluate()["return"]
    c = 4 * k + 1
    assert found.limit.value == pytest.approx(c**-0.5, rel=1e-6)
    assert found.bias.value == pytest.approx(12 * k**2 * c**-2.5, rel=1e-6)
    own = (8 * k + 1) ** -0.5 - 1 / c
    assert found.variance.value == pytest.approx(own + 2 * (2 * k * c**-1.5) ** 2, rel=1e-6)
