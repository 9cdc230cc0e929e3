"""Which grids have room for a program, and long programs."""

import numpy
import pytest
import scipy.special
import scipy.stats
from expanded import expansion_of_one_layer, recurrent, tied, tied_relu

import tplimits as tp
from tplimits.numbers.expansion.fields import constant
from tplimits.numbers.expansion.kinks import NoDefinitePlace
from tplimits.numbers.expansion.nodes import Moved
from tplimits.numbers.expansion.resolutions import STEPS, Bracket, Divisions, drawn, fitting
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


def by_parts(f, *places):
    """L, b and C of Avg f(W x): derivatives of E f(√q g) by q = |x|²/n, of variance 2/n, by Stein's identity."""
    near = numpy.logspace(-6, 0, 50)
    near = numpy.concatenate([-near, [0], near])
    ends = numpy.unique(numpy.concatenate([numpy.linspace(-11, 11, 90), *(place + near for place in places)]))
    x, w = numpy.polynomial.legendre.leggauss(16)
    g = ((ends[1:] + ends[:-1])[:, None] + numpy.diff(ends)[:, None] * x).ravel() / 2
    w = (numpy.diff(ends)[:, None] * w).ravel() / 2 * numpy.exp(-(g**2) / 2) / (2 * numpy.pi) ** 0.5
    mean = w @ f(g)
    return mean, w @ (f(g) * (g**4 - 6 * g**2 + 3)) / 4, w @ (f(g) - mean) ** 2 + (w @ (f(g) * (g**2 - 1))) ** 2 / 2


SHARP = {
    "square of a softplus": (lambda u: tp.softplus(100 * u) ** 2, lambda u: numpy.logaddexp(0, 100 * u) ** 2, 0),
    "where few neurons are": (lambda u: tp.softplus(100 * (u + 5)), lambda u: numpy.logaddexp(0, 100 * (u + 5)), -5),
    "between nodes": (
        lambda u: tp.softplus(30 * (u - 0.37)) * u**3,
        lambda u: numpy.logaddexp(0, 30 * (u - 0.37)) * u**3,
        0.37,
    ),
    "nested": (
        lambda u: tp.tanh(tp.softplus(50 * (u - 0.2))),
        lambda u: numpy.tanh(numpy.logaddexp(0, 50 * (u - 0.2))),
        0.2,
    ),
    "almost a jump": (
        lambda u: tp.tanh(200 * (u - 0.3)) * u,
        lambda u: numpy.tanh(200 * (u - 0.3)) * u,
        0.3,
    ),
    "beside a kink": (
        lambda u: tp.relu(u - 0.37) * tp.gelu(100 * (u - 0.5)),
        lambda u: numpy.maximum(u - 0.37, 0) * 100 * (u - 0.5) * scipy.special.ndtr(100 * (u - 0.5)),
        0.37,
    ),
    "a wave as slow on all nodes": (lambda u: tp.sin(40 * u) * u, lambda u: numpy.sin(40 * u) * u, 0),
    "too sharp for any nodes": (lambda u: tp.softplus(1e5 * u) ** 2, lambda u: numpy.logaddexp(0, 1e5 * u) ** 2, 0),
}


@pytest.mark.parametrize("name", SHARP)
def test_derivatives_that_nodes_miss_are_no_small_error(name):
    """Second derivatives of these are peaks that grids of several distances miss alike."""
    f, plain, at = SHARP[name]

    found = expansion_of_one_layer(f)
    truth = by_parts(plain, at)
    for number, true in zip((found.limit, found.bias, found.variance), truth, strict=True):
        assert abs(number.value - true) < number.error + 1e-10 * (1 + truth[0])
        # and numbers are of use, but for the last one
        assert number.error < 0.1 * abs(true) + 1e-4 or name.startswith("too sharp")


def _of(kinked, plain, *places):
    return kinked, plain, places


KINKED = {
    "behind what is sharp": _of(
        lambda u: tp.relu(tp.sigmoid(100 * u - 1) - 0.5),
        lambda u: numpy.maximum(scipy.special.expit(100 * u - 1) - 0.5, 0),
        0.01,
    ),
    "in front of what is sharp": _of(
        lambda u: tp.sigmoid(50 * tp.relu(u) - 1), lambda u: scipy.special.expit(50 * numpy.maximum(u, 0) - 1), 0.02, 0
    ),
    "beside another one": _of(
        lambda u: tp.relu(u - 1) + tp.relu(u - 1.02),
        lambda u: numpy.maximum(u - 1, 0) + numpy.maximum(u - 1.02, 0),
        *(1, 1.02),
    ),
    "between nodes": _of(
        lambda u: tp.relu(1 - 400 * (u - 1.03) ** 2),
        lambda u: numpy.maximum(1 - 400 * (u - 1.03) ** 2, 0),
        *(0.98, 1.08),
    ),
    "twice in .03": _of(
        lambda u: tp.relu(tp.log(1 + (25 * u - 1.5) ** 2) - 0.12),
        lambda u: numpy.maximum(numpy.log(1 + (25 * u - 1.5) ** 2) - 0.12, 0),
        *((1.5 + sign * numpy.expm1(0.12) ** 0.5) / 25 for sign in (1, -1)),
    ),
    "around a kink inside": _of(
        lambda u: tp.relu(1 - 20 * tp.abs(u - 0.3)),
        lambda u: numpy.maximum(1 - 20 * abs(u - 0.3), 0),
        *(0.25, 0.3, 0.35),
    ),
}


@pytest.mark.parametrize("name", KINKED)
def test_kinks_that_nodes_miss_are_no_small_error(name):
    f, plain, places = KINKED[name]

    @tp.program
    def kinked(W: tp.Matrix, x: tp.Vector):
        return tp.avg(f(W @ x))

    found = tp.derive(kinked, tp.FiniteWidth()).evaluate()["return"]
    for number, true in zip((found.limit, found.bias, found.variance), by_parts(plain, *places), strict=True):
        assert abs(number.value - true) < number.error + 1e-10
        assert number.error < 1e-6


@pytest.mark.parametrize("steep", [400, 1000])
def test_a_kink_in_a_step_that_is_all_but_a_jump(steep):
    """Polynomials through nodes beside it lead to either side for ever."""

    @tp.program
    def kinked(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.maximum(tp.tanh(steep * (W @ x + 0.866)), 0.55))

    found = tp.derive(kinked, tp.FiniteWidth()).evaluate()["return"]
    place = numpy.arctanh(0.55) / steep - 0.866
    expected = by_parts(lambda u: numpy.maximum(numpy.tanh(steep * (u + 0.866)), 0.55), place)
    for number, true in zip((found.limit, found.bias, found.variance), expected, strict=True):
        assert abs(number.value - true) < number.error + 1e-9 and number.error < 1e-2 * abs(true)


def test_brackets_close_in_on_a_zero():
    """A step that no chord meets: its sides come together all the same."""
    zero, place = 0.37, numpy.array([0.0, -1.0])
    bracket, before = Bracket.around(place), numpy.full(2, numpy.nan)
    for k in range(60):
        value = numpy.tanh(1e3 * (place - zero)) - 0.1
        before, bracket = bracket.last, bracket.narrowed(place, value)
        place = bracket.nearer(place + 2 * (-1) ** k, before)  # what is read off is of no use
    assert abs(place - zero - numpy.arctanh(0.1) / 1e3).max() < 1e-12


def test_a_kink_that_few_nodes_meet_has_an_error():
    @tp.program
    def kinked(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.relu(1 - 1e7 * (W @ x - 0.3) ** 2))

    found = tp.derive(kinked, tp.FiniteWidth()).evaluate()["return"].limit
    half = 1e-7**0.5
    assert abs(found.value - 4 / 3 * half * numpy.exp(-0.045) / (2 * numpy.pi) ** 0.5) < found.error


def test_a_function_of_two_variables_that_bends_between_their_nodes():
    """softplus(100 (u − v)): Avg |x|² and Avg |y|² both have the variance 2/n, and u − v the variance of their sum."""

    @tp.program
    def sharp(W: tp.Matrix, V: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.softplus(100 * (W @ x - V @ y) / 2**0.5) ** 2)

    found = tp.derive(sharp, tp.FiniteWidth()).evaluate()["return"]
    limit, bias, _ = by_parts(lambda u: numpy.logaddexp(0, 100 * u) ** 2, 0)
    assert abs(found.limit.value - limit) < found.limit.error and found.limit.error < 1e-4 * limit
    assert abs(found.bias.value - bias / 2) < found.bias.error


def moved(value, times, start=None):
    """One place moved so often, with the values of its function there; as what has been moved before."""
    found = start or Divisions(splits={0: [constant(0.3)]})
    for k in range(times):
        found.move(Moved(0, constant(0.3 + 0.001 * k), 0, constant(value(k))))
    return found


def test_a_place_that_comes_no_nearer_to_a_zero_is_at_none():
    """As of y − sign(x)/4 in x, which jumps over 0; what comes nearer at last, or is another place, has time."""
    with pytest.raises(NoDefinitePlace, match="jumps over 0"):
        moved(lambda k: 0.2 + 0.001 * k, 60)
    found = moved(lambda k: 2.0 ** (-k // 8), 150)  # as of a steep function: slowly
    assert len(found.splits[0]) == 1
    found = moved(lambda k: 0.2, 30)
    found.splits[0].append(constant(0.7))
    found.move(Moved(0, constant(0.8), 1, constant(0.2)))
    moved(lambda k: 0.2, 30, found)


@pytest.mark.long
@pytest.mark.parametrize("place", [0.08, -0.7])
def test_kinks_of_what_jumps_in_a_later_variable(place):
    """E |y − s|, s = ±¼ as x is beyond a place: on points that are spread, for in x there is no kink."""

    @tp.program
    def program(y: tp.Vector, x: tp.Vector):
        return tp.avg(tp.abs(y - tp.sign(x - place) / 4))

    normal = scipy.stats.norm
    mean = 2 * normal.pdf(0.25) + 0.25 * (2 * normal.cdf(0.25) - 1)
    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    for number, true in ((found.limit, mean), (found.variance, 17 / 16 - mean**2)):
        assert number.method == "particles"
        assert abs(number.value - true) < 5 * number.error < 0.01
