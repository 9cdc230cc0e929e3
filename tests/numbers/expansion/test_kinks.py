"""Where functions cross zero, and Dirac's delta there, against the functions' own zeros and slopes."""

from __future__ import annotations

import math

import numpy
import pytest

import tplimits as tp
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.numbers.expansion.fields import Field, mapped, times
from tplimits.numbers.expansion.jets import Jet, Slopes
from tplimits.numbers.expansion.kinks import Kinks, _Zero
from tplimits.numbers.expansion.nodes import APART, OTHER, Frame, Moved, Split, Variable
from tplimits.program.nodes.rules import density

LINE = numpy.linspace(-9, 9, 61)


@pytest.mark.parametrize("place", [-8.95, -5.0, -1.3, 0.02, 2.8, 8.9])
def test_zeros_and_slopes_are_interpolated(place):
    """sinh((g − g₀)/2) for one g₀, and for several at once; at the ends of the line, too."""
    places = numpy.array([place, place / 2, 0.3])
    values = numpy.sinh((LINE - places[:, None]) / 2) * numpy.array([[1.0], [-2.0], [0.5]])
    (zero,) = Kinks(Frame(0.3), "f")._zeros(values, numpy.broadcast_to(LINE, values.shape), 0)
    assert zero.root == pytest.approx(places, abs=1e-7)
    assert zero.slope == pytest.approx([0.5, -1.0, 0.25], rel=1e-5)


@pytest.mark.parametrize("place", [-8.9, -8.2, -1.3, 0.02, 2.8, 8.6])
def test_nodes_that_fall_together_change_no_zero(place):
    """Where two places coincide, at which a variable is divided: the same polynomial, through the nodes that differ."""
    few = numpy.linspace(-9, 9, 25)
    twice = numpy.sort([*few, *few[abs(few - place) < 1.6]])
    found = []
    for nodes in (few, twice):
        values = numpy.sinh((nodes - place) / 2)
        (zero,) = Kinks(Frame(0.3), "f")._zeros(values[None], nodes[None], 0)
        found.append((zero.root[0], zero.slope[0]))
    assert found[0] == pytest.approx((place, 0.5), abs=1e-3)
    assert found[1] == pytest.approx(found[0], abs=1e-12)


@pytest.mark.parametrize("place", [-8.9, -8.2, -1.3, 0.02, 2.8, 8.6])
def test_zeros_are_those_of_the_polynomial_through_four_nodes_on_either_side(place):
    """Through the outermost eight near the ends; against its roots as NumPy has them."""
    nodes = numpy.linspace(-9, 9, 25)
    values = numpy.sinh((nodes - place) / 2)
    first = min(max(int((nodes < place).sum()) - 4, 0), len(nodes) - 8)
    fitted = numpy.polynomial.Polynomial.fit(nodes[first : first + 8], values[first : first + 8], 7)
    zeros = fitted.roots()
    expected = float(zeros[numpy.argmin(abs(zeros - place))].real)
    (zero,) = Kinks(Frame(0.3), "f")._zeros(values[None], nodes[None], 0)
    assert zero.root[0] == pytest.approx(expected, abs=1e-10)
    assert zero.slope[0] == pytest.approx(fitted.deriv()(expected), rel=1e-9)


def test_several_zeros_are_found_in_order_whatever_the_order_of_nodes():
    mixed = numpy.random.default_rng(0).permutation(LINE)
    values = (mixed + 4.1) * (mixed - 0.25) * (mixed - 6.3)
    zeros = Kinks(Frame(0.3), "f")._zeros(values, mixed, 0)
    assert [float(zero.root) for zero in zeros] == pytest.approx([-4.1, 0.25, 6.3], abs=1e-10)
    assert [float(zero.slope) for zero in zeros] == pytest.approx([4.35 * 10.4, -4.35 * 6.05, 10.4 * 6.05], rel=1e-9)


def test_one_that_is_there_for_some_values_alone_is_beyond_all_for_the_others():
    values = numpy.stack([LINE - 1.5, LINE**2 + 1])
    (zero,) = Kinks(Frame(0.3), "f")._zeros(values, numpy.broadcast_to(LINE, values.shape), 0)
    assert zero.root[0] == pytest.approx(1.5) and zero.root[1] > 9
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


def test_the_last_of_three_variables_is_divided_where_the_others_say():
    frame = Frame(0.3, frozenset({0, 1, 2}))
    u, g, h = (frame.normal("n") for _ in range(3))
    with pytest.raises(Split) as asked:
        Kinks(frame, "f").delta(Jet(mapped(lambda a, b, c: c - numpy.tanh(a * b), u, g, h)))
    place = asked.value.place
    assert (asked.value.number, place.dims) == (2, (0, 1))
    assert place.values == pytest.approx(numpy.tanh(u.values[:, None] * g.values), abs=1e-9)


def test_what_does_not_change_sign_has_no_delta():
    frame, u, g = frame_with()
    kinks = Kinks(frame, "f")
    assert kinks.delta(Jet(mapped(lambda a, b: a**2 + numpy.exp(b), u, g))) is None
    assert kinks.delta(Jet(mapped(lambda a, b: -(a**2) * numpy.exp(b), u, g))) is None
    assert kinks.delta(Jet(Field((), numpy.array(0.0)))) is None, "a scalar at the kink that does not move"


LEFT = numpy.array([-2.0, -0.5, 0.3, 1.9])
RIGHT = Field((2,), numpy.array([1.0, -1.0]))


@pytest.mark.parametrize(
    ("slopes", "fine"),
    [
        ((3.0 * LEFT,), True),  # a scalar that moves times a vector has its kink where it was
        ((-1e5 * LEFT, 0.2 * LEFT), True),
        ((1e5 * (LEFT + 0.5e-9),), True),  # as far as rounding goes
        ((LEFT + 0.5e-9,), True),
        ((LEFT + 1.7e-9,), True),
        ((LEFT + 3e-9,), False),
        ((0.1 * LEFT + 1.2e-9,), False),
        ((LEFT**2,), False),
        ((2e-9 * LEFT**2,), False),
        ((LEFT, LEFT + 1), False),
        ((0.0,), True),
        ((0.5,), False),
        ((RIGHT,), False),
    ],
)
def test_on_points_that_are_spread_a_kink_must_stay_where_it_is(slopes, fine):
    fields = [
        d if isinstance(d, Field) else Field((1,) if numpy.ndim(d) else (), numpy.asarray(d, dtype=float))
        for d in slopes
    ]
    x = Jet(Field((1,), LEFT), Slopes.of(dict(enumerate(fields))))
    kinks = Kinks(Frame(0.3, divides=False), "f")
    if fine:
        assert kinks.delta(x) is None
    else:
        with pytest.raises(EvaluationError, match="at a place that moves with averages"):
            kinks.delta(x)


@pytest.mark.parametrize(
    ("dims", "place", "number", "own"),
    [
        ((1, 2), (1,), 2, (1,)),
        ((0,), (), 0, ()),
        ((OTHER,), (), 0, ()),  # variables are divided at the first neuron for both
        ((OTHER + 1, OTHER + 3), (OTHER + 1,), 3, (1,)),
        ((1, APART), (1,), APART, (1,)),
        ((APART,), (), APART, ()),
        ((OTHER + 1, APART + 1), (OTHER + 1,), APART + 1, (OTHER + 1,)),
        ((1, OTHER + 2), None, None, None),
        ((1, OTHER), None, None, None),
    ],
)
def test_which_variable_is_divided(dims, place, number, own):
    kinks, u = Kinks(Frame(0.3), "f"), Field(dims, numpy.zeros((2,) * len(dims)))
    if place is None:
        with pytest.raises(EvaluationError, match="two neurons decide together"):
            kinks._split(u, Field((), numpy.zeros(())), None)
        return
    values = numpy.full((2,) * len(place), 0.7)
    for mark, kind in ((None, Split), (0, Moved), (2, Moved)):
        asked = kinks._split(u, Field(place, values), mark, values / 7)
        assert type(asked) is kind and getattr(asked, "mark", None) == mark
        assert mark is None or (asked.value.dims == own and (asked.value.values == values / 7).all())
        assert (asked.number, asked.place.dims) == (number, own) and (asked.place.values == values).all()


def test_marks_are_those_of_zeros_that_are_near():
    """All of them nearer than .3, and on the whole much nearer; where there is no zero any mark will do."""
    root = numpy.array([0.5, -0.5, 1.0, 30.0])
    far, near = root + 0.35, root + numpy.array([0.02, -0.01, 0.0, 9.0])

    def mark(*marks, taken=(), others=()):
        places = numpy.stack(marks, axis=-1)
        zero = _Zero(root, numpy.ones(4), places, places)
        return Kinks(Frame(0.3), "f")._mark(places, places - root[:, None], zero, set(taken), set(others))

    assert mark(far, near) == 1
    assert mark(near, far) == 0
    assert mark(far) is None
    assert mark(near + numpy.array([0.0, 0.31, 0.0, 0.0])) is None
    assert mark(root + 0.04) is None, "on the whole nearer than .03"
    assert mark(root - 0.02) == 0
    assert mark(root - 0.02, root + 0.01) == 1, "the nearest"
    assert mark(root - 0.02, root, others=[0, 1]) == 1, "what lies on the kink of another function may be shared"
    assert mark(root - 0.02, root + 0.01, others=[1]) == 0, "and else is not moved away from it"
    assert mark(root, others=[0], taken=[0]) is None, "two zeros of one function are at two places"


def test_slopes_that_vanish_or_turn_are_refused_where_neurons_are():
    kinks, u = Kinks(Frame(0.3), "f"), Field((0, 1), numpy.zeros((3, 3)))
    root = numpy.array([0.5, 7.9, 30.0])
    for slope in ([1.0, 2.0, -1.0], [-1.0, -2.0, 0.0]):
        kinks._refuse_grazing(root, numpy.array(slope), u)
    for slope in ([1.0, -2.0, 1.0], [1.0, 1e-12, 1.0], [0.0, 1.0, 1.0]):
        with pytest.raises(EvaluationError, match="no definite value"):
            kinks._refuse_grazing(root, numpy.array(slope), u)
    kinks._refuse_grazing(numpy.array([30.0, -30.0]), numpy.array([1.0, -1.0]), u)
    with pytest.raises(EvaluationError, match="no definite value"):
        kinks._refuse_grazing(numpy.array([0.5, numpy.nan]), numpy.ones(2), u)


@pytest.mark.parametrize("moves", [True, False])
def test_arguments_that_are_zero_for_a_share_of_neurons(moves):
    """A fifth of them, where the argument moves: refused; fewer, or where nothing moves: a kink as any other."""
    values = numpy.array([-1.0, -2.0, 0.0, 3.0, 4.0])
    for at, share in ((values, True), (numpy.array([*values, 5.0]), False)):
        slope = Field((1,), numpy.where(at == 0, 1.0 * moves, at))
        for x in (Jet(Field((1,), at), Slopes.of({0: slope})), Jet(Field((1,), at), shift=slope)):
            neurons = Variable(1, "n", (), at, numpy.full(len(at), 1 / len(at)))
            kinks = Kinks(Frame(0.3, frozenset({1}), {}, {1: neurons}), "f")
            if share and moves:
                with pytest.raises(NoLimitError, match="tends to 0 for many neurons and moves"):
                    kinks._refuse_flat(x)
            else:
                kinks._refuse_flat(x)


def test_nodes_between_places_that_fall_together_are_no_share_of_neurons():
    """A quarter of the nodes at the kink, with the weight of a piece of no length."""
    at = numpy.array([-1.0, 0.0, 1e-9, 2.0, 3.0])
    neurons = Variable(1, "n", (), at, numpy.array([0.3, 1e-9, 1e-9, 0.4, 0.3]))
    x = Jet(Field((1,), at), Slopes.of({0: Field((1,), at + 1)}))
    Kinks(Frame(0.3, frozenset({1}), {}, {1: neurons}), "f")._refuse_flat(x)


def nowhere_beyond(values):
    return numpy.where(abs(values) < 9, values, 30.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("function", "places", "slope"),
    [
        (lambda u, g: (g - u / 2 - 1) * (g - u / 2 + 1.5), (lambda u: u / 2 - 1.5, lambda u: u / 2 + 1), 2.5),
        (lambda u, g: (g - u / 2 - 1) * (g - u / 2 + 1.5), (lambda u: u / 2 + 1, lambda u: u / 2 - 1.5), 2.5),
        (lambda u, g: 1e6 * (3 * g - u), (lambda u: u / 3,), 3e6),
        (lambda u, g: 0.7 * (g - 3.1 * u), (lambda u: nowhere_beyond(3.1 * u),), 0.7),  # beyond all nodes for large u
    ],
)
def test_every_zero_has_its_share_of_the_delta(function, places, slope, sign):
    frame, u, g = frame_with(*places)
    x = mapped(lambda a, b: sign * function(a, b), u, g)
    delta = Kinks(frame, "f").delta(Jet(x))
    tested = mapped(lambda a, b: 1 + a * b + b**2, u, g)
    line = numpy.linspace(-12, 12, 8001)
    shares = []
    for root in (place(line) for place in places):
        near = numpy.where(abs(root) < 9, root, 0.0)
        shares.append(numpy.where(abs(root) < 9, density(near) * (1 + line * near + near**2), 0.0))
    expected = (density(line) * sum(shares) / slope).sum() * (line[1] - line[0])
    assert frame.expectation(times(delta, tested)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("number", [0, 1])
def test_a_place_that_is_not_exact_is_moved(number):
    places = [lambda u: u / 2 - 1.5, lambda u: u / 2 + 1]
    exact = places[number]
    places[number] = lambda u: exact(u) + 1e-4
    frame, u, g = frame_with(*places)
    with pytest.raises(Moved) as asked:
        Kinks(frame, "f").delta(Jet(mapped(lambda a, b: (b - a / 2 - 1) * (b - a / 2 + 1.5), u, g)))
    assert (asked.value.number, asked.value.mark, asked.value.place.dims) == (1, number, (0,))
    assert asked.value.place.values == pytest.approx(exact(u.values), abs=1e-9)


@pytest.mark.parametrize("steep", [3.0, 30.0])
def test_a_place_in_a_steep_function_is_read_off_until_it_is_exact(steep):
    """atanh(½)/c of tanh(cg) − ½, which polynomials through nodes beside it miss: its own values make it exact."""
    frame, delta = Frame(0.3, frozenset({0})), None
    for _ in range(15):
        g = frame.normal("n")
        try:
            delta = Kinks(frame, "f").delta(Jet(mapped(lambda a: numpy.tanh(steep * a) - 0.5, g)))
            break
        except Split as asked:
            places = [*frame.splits.get(0, []), asked.place]
        except Moved as asked:
            places = list(frame.splits[0])
            places[asked.mark] = asked.place
        frame = Frame(0.3, frozenset({0}), {0: places})
    root = math.atanh(0.5) / steep
    assert delta is not None
    assert frame.expectation(delta) == pytest.approx(float(density(numpy.array(root))) / (0.75 * steep), rel=1e-6)


def test_scalars_and_what_touches_its_kink():
    frame, u, g = frame_with()
    kinks, one = Kinks(frame, "f"), Field((), numpy.array(1.0))
    for at, refused in ((0.0, True), (5e-7, True), (-5e-7, True), (1e-5, False), (-0.3, False)):
        x = Jet(Field((), numpy.array(at)), Slopes.of({0: one}))
        if refused:
            with pytest.raises(NoLimitError, match="a scalar that moves"):
                kinks.delta(x)
        else:
            assert kinks.delta(x) is None
    for offset, crosses in ((0.0, False), (0.5e-9, False), (5e-9, True)):
        for sign in (1, -1):
            x = Jet(mapped(lambda a, b, o=offset, s=sign: s * (numpy.abs(b) - o), u, g))
            if crosses:
                with pytest.raises((Split, EvaluationError)):
                    kinks.delta(x)
            else:
                assert kinks.delta(x) is None


@pytest.mark.parametrize("apart", [1e-13, 1e-14, 1e-15])
def test_a_zero_at_which_places_fall_together_keeps_its_slope(apart):
    """Between two places that are all but one, as of relu(z) + c for small c, lie as many nodes as between others."""
    place, beside = 0.28, numpy.linspace(0.05, 3, 12)
    crowd = place + apart * numpy.linspace(0, 1, 12)
    nodes = numpy.sort(numpy.concatenate([place - beside, crowd, place + beside]))
    values = (nodes + 0.72) - 1  # with the rounding that numbers of order 1 have
    (found,) = Kinks(Frame(0.3), "f")._zeros(values[None], nodes[None], 0)
    assert abs(found.root[0] - place) < 1e-9 and abs(found.slope[0] - 1) < 1e-6


@pytest.mark.parametrize(("a", "b"), [(0.26, -0.3), (0.3, 0.1)])
def test_a_jump_at_nodes_of_an_undivided_grid_by_chance(a, b):
    """E z step(z − ax − by) = 1/√(2π(1 + a² + b²)): nodes stand on the plane, up to rounding of a and b."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return tp.avg(z * tp.step(z - a * x - b * y))

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"].limit
    assert abs(found.value - 1 / math.sqrt(2 * math.pi * (1 + a**2 + b**2))) < 1e-12 > found.error
