"""Where an integrand lies: its coordinates, straight kinks as planes, curved ones by the roots of their values."""

from __future__ import annotations

import numpy
import pytest
import sympy

from tplimits.numbers.forms import Form, Integrand
from tplimits.numbers.layout import Basis, Layout, at_zero, gradient
from tplimits.program.nodes.evaluate import evaluate

g, h, s, t, c, m = sympy.symbols("g h s t c m", real=True)
ONE, TWO = sympy.S.One, sympy.Integer(2)
COVARIANCE = {(g, g): 1.0, (g, h): 0.6, (h, g): 0.6, (h, h): 4.0}


def layout(*kinks, given=None, locals=()):
    """Forms s = g + 2 and t = c h − g of two correlated variables."""
    forms = ((s, Form(((g, ONE),), TWO)), (t, Form(((h, c), (g, -ONE)), sympy.S.Zero)))
    integrand = Integrand((g, h), forms, s * t, (), tuple(locals), kinks)
    return Layout(Basis(integrand, COVARIANCE, {c: 0.5}), given or {})


def values_of(laid):
    return lambda kink, values, flat: numpy.broadcast_to(evaluate(kink, {**values, c: 0.5}), flat)


def test_forms_have_their_means_and_covariances():
    """Var(h/2 − g) = 1 − 0.6 + 1, Cov(g, h/2 − g) = 0.3 − 1."""
    laid = layout()
    assert laid.rank == 2 and laid.dimension == 2
    assert laid.factor @ laid.factor.T == pytest.approx(numpy.array([[1, -0.7], [-0.7, 1.4]]))
    u = numpy.array([[[0.3, -1.0], [2.0, 0.1]]])
    values = laid.values(u)
    assert values[s] == pytest.approx(u @ laid.factor[0] + 2) and values[t] == pytest.approx(u @ laid.factor[1])


def test_kinked_forms_come_last_and_bent_ones_behind_them():
    """The first coordinate moves what comes last, the last one nothing before it."""
    free = layout()
    assert free.factor[0, 1] == pytest.approx(0, abs=1e-14)
    kinked = layout(s)
    assert kinked.factor[1, 1] == pytest.approx(0, abs=1e-14) and abs(kinked.factor[0, 1]) > 0.1
    bent = layout(s, t**2 - 1)
    assert bent.factor[0, 1] == pytest.approx(0, abs=1e-14) and abs(bent.factor[1, 1]) > 0.1
    assert free.coordinates([s]) == [0] and free.coordinates([t]) == [0, 1] and free.coordinates([c]) == []


@pytest.mark.parametrize(("slope", "steep"), [(29, False), (31, True)])
def test_one_form_of_many_may_be_steep(slope, steep):
    """Each moves alone by its deviation to either side: 58 or 62 of the argument, 2 of all others."""
    many = sympy.symbols("u:100", real=True)
    forms = tuple((u, Form(((g, sympy.Integer(slope) if u == many[70] else ONE),), TWO)) for u in many)
    argument = sympy.Add(*many)
    integrand = Integrand((g,), forms, sympy.tanh(argument), (), (), (), turns=((argument, argument),))
    assert Basis(integrand, COVARIANCE, {}).kinks == ((argument,) if steep else ())


def test_straight_kinks_are_planes_through_their_zeros():
    laid = layout(2 * s - t + c, s * 0 + c, m - t, given={m: numpy.array([[1.0], [3.0]])})
    planes = laid.cutting(values_of(laid)).planes
    assert len(planes.slopes) == 2
    (first, second), (offset, moving) = planes.slopes, planes.offsets
    for u in numpy.random.default_rng(0).normal(size=(3, 2)):
        place = laid.factor @ u + [2.0, 0.0]
        assert numpy.dot(first, u) + offset == pytest.approx(2 * place[0] - place[1] + 0.5)
        assert numpy.dot(second, u) + moving == pytest.approx(numpy.array([1.0, 3.0]) - place[1])


def test_curved_kinks_cut_the_last_coordinate_that_they_move_along():
    laid = layout(s**2 + t**2 - 9)
    cutting = laid.cutting(values_of(laid))
    assert cutting.planes.slopes == () and list(cutting.curved) == [1]
    first = numpy.array([[[0.2], [-0.4]]])
    for u, edges in zip(first[0, :, 0], cutting.edges(1, first)[0], strict=True):
        assert len(edges) == 4
        for v in edges[1:3]:
            place = laid.factor @ [u, v] + [2.0, 0.0]
            assert (place**2).sum() == pytest.approx(9)


def test_kinks_of_what_is_computed_first_are_followed_through_it():
    """m = t² stands in the kink: what m leans on moves it."""
    laid = layout(s - m, locals=[(m, t**2)])
    assert laid.coordinates([m]) == laid.coordinates([t]) != []
    assert laid.cutting(values_of(laid)).planes.slopes == ()
    assert list(laid.cutting(values_of(laid)).curved) == [1]


def test_gradients_of_affine_kinks():
    assert gradient(2 * s - c * t + c**2, (s, t)) == (2, -c)
    assert gradient(s * t, (s, t)) is None and gradient(s * t, (s,)) == (t,)
    assert at_zero(2 * s - c * t + c**2, (s, t)) == c**2


def test_kinks_that_do_not_move_or_are_too_costly_to_follow_cut_nothing():
    unmoved = layout(m - c, locals=[(m, c**2)])
    inside = layout(s - m, locals=[(m, t**2)], given={sympy.Symbol("x"): numpy.array([[1.0]])})
    for laid in (unmoved, inside):
        cutting = laid.cutting(values_of(laid))
        assert not cutting.curved and not cutting.planes.slopes


def test_one_variable_is_cut_in_its_own_units():
    """|g + 2| = 3 at 1 and −5; in one dimension of its own or in the third of an integral."""
    forms = ((s, Form(((g, ONE),), TWO)),)
    basis = Basis(Integrand((g,), forms, s, (), (), (s**2 - 9,)), {(g, g): 4.0}, {})
    cutting = Layout(basis).cutting(values_of(None))
    assert cutting.edges(0, numpy.zeros((1, 1, 0)))[0, 0] == pytest.approx([-12, -2.5, 0.5, 12])
    assert Layout(basis, used=2).cutting(values_of(None)).radius == 9.0


def test_a_kink_that_is_affine_in_the_last_coordinate_needs_no_search():
    laid = layout(s * t, locals=[(m, t**2)])
    assert [laid._is_affine(kink, 1) for kink in (s * t, s**2 + t, t**2, s - m)] == [True, True, False, False]
    assert not laid._is_affine(s * t, 0)


def test_forms_of_one_function_do_not_differ():
    """h − h′ of equal variables beside a large constant slope: 10⁻¹⁵ of what is subtracted is no variance."""
    forms = ((s, Form(((g, ONE), (h, -ONE)), TWO)),)
    covariance = {(g, g): 0.01, (h, h): 0.01 + 4e-17, (g, h): 0.01, (h, g): 0.01}
    assert Layout(Basis(Integrand((g, h), forms, s, (), (), ()), covariance, {})).rank == 0


def test_powers_are_regressed_on_the_coordinates_once():
    x, y, f = sympy.symbols("x y f", real=True)
    integrand = Integrand((x, y), ((f, Form(((x, TWO),), sympy.S.Zero)),), sympy.tanh(f), ((y, 2),), (), ())
    basis = Basis(integrand, {(x, x): 4.0, (x, y): 1.0, (y, x): 1.0, (y, y): 3.0}, {})
    slopes, left = basis.regression
    # one coordinate u = x/2: Cov(y, u) = 1/2, and 3 − 1/4 is left
    assert abs(slopes) == pytest.approx(numpy.array([[0.5]])) and left == [[pytest.approx(2.75)]]
    assert basis.regression is basis.regression
