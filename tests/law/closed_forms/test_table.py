"""Every row of the table of closed forms against mpmath integrals written here."""

import itertools
import math

import mpmath
import numpy
import pytest
import sympy
from sympy import Integer, Rational, Symbol

from tplimits.law.closed_forms.integrand import Affine, Law, NotClosed
from tplimits.law.closed_forms.orthant import orthant_probability
from tplimits.law.closed_forms.table import CLOSED_FORMS, close
from tplimits.law.closed_forms.tilting import InfiniteMoment
from tplimits.program.nodes.functions import step

g, h = sympy.symbols("g h", real=True)
C = ((Integer(1), Rational(1, 2)), (Rational(1, 2), Integer(2)))
LAW = Law(C)


NODES, WEIGHTS = numpy.polynomial.legendre.leggauss(48)


def pieces(edges):
    """Gauss-Legendre nodes and weights between consecutive edges."""
    for a, b in itertools.pairwise(sorted(edges)):
        yield from zip((a + b) / 2 + (b - a) / 2 * NODES, (b - a) / 2 * WEIGHTS, strict=True)


def integral(function, split=()):
    """E f(g, h) under covariance C: g outer, h given g inner, cut at the kinks h(g); values by mpmath."""
    deviation = math.sqrt(2 - 1 / 4)  # of h given g, whose mean is g/2
    total = mpmath.mpf(0)
    for x, w in pieces([-9, 0, 9]):
        edges = {-9.0, 0.0, 9.0, *(min(9, max(-9, (k(x) - x / 2) / deviation)) for k in split)}
        inner = sum(v * math.exp(-u * u / 2) * function(x, x / 2 + deviation * u) for u, v in pieces(edges))
        total += w * math.exp(-x * x / 2) * inner
    return total / (2 * mpmath.pi)


def positive(x):
    return mpmath.mpf(1) if x > 0 else mpmath.mpf(0)


ZERO = (lambda x: 0,)
CASES = {
    "isserlis": [([g**3, h], lambda x, y: x**3 * y, ())],
    "orthant": [
        ([g, h, step(g), step(h)], lambda x, y: x * y * positive(x) * positive(y), ZERO),
        ([h**3, step(h)], lambda x, y: y**3 * positive(y), ZERO),
        ([g**2, step(h - g)], lambda x, y: x**2 * positive(y - x), (lambda x: x,)),
        ([step(h + 1)], lambda x, y: positive(y + 1), (lambda x: -1,)),
    ],
    "error-function": [
        ([sympy.erf(g), sympy.erf(g + h)], lambda x, y: mpmath.erf(x) * mpmath.erf(x + y), ()),
        ([g, sympy.erf(g / 3), step(h)], lambda x, y: x * mpmath.erf(x / 3) * positive(y), ZERO),
        ([h, sympy.erf(h + 1)], lambda x, y: y * mpmath.erf(y + 1), ()),
    ],
    "gaussian-tilt": [
        ([sympy.exp(g + h / 2), g], lambda x, y: mpmath.exp(x + y / 2) * x, ()),
        ([sympy.exp(-(g**2)), h**2], lambda x, y: mpmath.exp(-(x**2)) * y**2, ()),
        ([sympy.exp(g / 3), step(h), h], lambda x, y: mpmath.exp(x / 3) * positive(y) * y, ZERO),
        ([sympy.exp(-g * h / 4)], lambda x, y: mpmath.exp(-x * y / 4), ()),
    ],
    "waves": [
        ([sympy.cos(g), sympy.sin(h), g], lambda x, y: mpmath.cos(x) * mpmath.sin(y) * x, ()),
        ([sympy.cos(g + 1) ** 2], lambda x, y: mpmath.cos(x + 1) ** 2, ()),
        ([sympy.exp(g / 2), sympy.sin(h)], lambda x, y: mpmath.exp(x / 2) * mpmath.sin(y), ()),
    ],
}


@pytest.mark.parametrize(
    ("row", "factors", "function", "kinks"),
    [(row, *case) for row, cases in CASES.items() for case in cases],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_row_against_mpmath(row, factors, function, kinks):
    value, used = close(factors, [g, h], lambda: LAW)
    assert row in used
    with mpmath.workdps(15):
        assert abs(mpmath.mpf(str(sympy.N(value, 20))) - integral(function, kinks)) < 1e-9


def test_delta_is_the_density_times_the_conditional_mean():
    value, used = close([sympy.DiracDelta(h - 1), g**2], [g, h], lambda: LAW)
    assert "delta" in used
    # h = 1: density e^(-1/4)/√(4π); g | h = 1 is N(1/4, 7/8)
    expected = sympy.exp(-Rational(1, 4)) / sympy.sqrt(4 * sympy.pi) * (Rational(1, 16) + Rational(7, 8))
    assert sympy.simplify(value - expected) == 0


def test_two_deltas_and_a_delta_on_a_jump_stay_open():
    for factors in (
        [sympy.DiracDelta(g), sympy.DiracDelta(h - 1)],
        [sympy.DiracDelta(g), step(g)],
        [sympy.DiracDelta(g), step(-2 * g), h],
    ):
        with pytest.raises(NotClosed):
            close(factors, [g, h], lambda: LAW)
    value, _ = close([sympy.DiracDelta(g), step(h - g), h], [g, h], lambda: LAW)
    # g = 0: h is N(0, 7/4), density of g 1/√(2π)
    assert float(value) == pytest.approx(math.sqrt(7 / 4) / (2 * math.pi), rel=1e-12)


def test_every_row_has_a_case_and_its_facts():
    tested = set(CASES) | {"delta"}
    assert {row.name for row in CLOSED_FORMS} == tested
    for row in CLOSED_FORMS:
        assert row.hypothesis and row.reference and row.statement and row.citation


def test_three_forms_close_and_four_do_not():
    size = 4
    law = Law(tuple(tuple(Rational(1, 2) if i != j else Integer(1) for j in range(size)) for i in range(size)))
    forms = tuple(Affine(tuple(Integer(int(i == j)) for j in range(size)), Integer(0)) for i in range(size))
    # equicorrelated at 1/2: the k-dimensional orthant has probability 1/(k + 1)
    assert [orthant_probability(law, forms[:k]) for k in (1, 2, 3)] == [Rational(1, 2), Rational(1, 3), Rational(1, 4)]
    with pytest.raises(NotClosed):
        orthant_probability(law, forms)


def test_collinear_steps_merge():
    law = Law(((Integer(1),),))
    up, down = Affine((Integer(2),), Integer(0)), Affine((Integer(-1),), Integer(0))
    assert orthant_probability(law, (up, Affine((Integer(1),), Integer(0)))) == Rational(1, 2)
    assert orthant_probability(law, (up, down)) == 0


@pytest.mark.parametrize("slope", [1, 3, Rational(1, 2)])
def test_of_two_steps_in_one_direction_the_narrower_one_is_left(slope):
    """step(rx) step(x + 1) = step(x), step(rx) step(x − 1) = step(x − 1), in any order; step(x) step(−x − 1) = 0."""
    law = Law(((Integer(1),),))
    here, up, down = (Affine((Integer(s),), Integer(c)) for s, c in ((1, 0), (1, 1), (1, -1)))
    scaled = Affine((sympy.sympify(slope),), Integer(0))
    below = (1 + sympy.erf(-1 / sympy.sqrt(2))) / 2
    for forms, expected in (((scaled, up), Rational(1, 2)), ((scaled, down), below), ((here, down, up), below)):
        for order in itertools.permutations(forms):
            assert abs(sympy.N(orthant_probability(law, order) - expected, 30)) < 1e-25
    assert orthant_probability(law, (here, Affine((Integer(-1),), Integer(-1)))) == 0


def test_singular_law_without_a_syntactic_relation():
    """h = 2g in law only: repeated steps must not meet each other's delta."""
    law = Law(((Integer(1), Integer(2)), (Integer(2), Integer(4))))
    value, _ = close([g, h, step(g), step(h)], [g, h], lambda: law)
    assert value == 1  # 2 E g² step(g)


def test_a_bump_of_four_variables_with_long_covariances():
    """E P(g) e^(−½ gᵀAg) against linear algebra in numbers: det(I + CA)^(−½), and C' = (I + CA)⁻¹ C for P."""
    variables = sympy.symbols("a b c d", real=True)
    # a Gram matrix with long entries: of 1, √2 t, π t², √5 t³ on [0, 1], and the identity
    scales = [Integer(1), sympy.sqrt(2), sympy.pi, sympy.sqrt(5)]
    rows = [[s * t * Rational(1, i + j + 1) for j, t in enumerate(scales)] for i, s in enumerate(scales)]
    law = Law(tuple(tuple(x + int(i == j) for j, x in enumerate(row)) for i, row in enumerate(rows)))
    a, b, c, _ = variables
    bump = sympy.exp(-(a**2) / 2 - (b + 2 * c) ** 2 / 2)
    covariance = numpy.array(law.covariance, dtype=float)
    A = numpy.array([[1, 0, 0, 0], [0, 1, 2, 0], [0, 2, 4, 0], [0, 0, 0, 0]])
    factor = numpy.eye(4) + covariance @ A
    tilted, weight = numpy.linalg.solve(factor, covariance), numpy.linalg.det(factor) ** -0.5
    for polynomial, mean in (
        ((), 1.0),
        ((a, b), tilted[0, 1]),
        ((a, variables[3]), tilted[0, 3]),
        ((b, b), tilted[1, 1]),
    ):
        value, used = close([bump, *polynomial], variables, lambda: law)
        assert float(value) == pytest.approx(weight * mean, rel=1e-12)
        assert used[0] == "gaussian-tilt"
        assert float(value) != pytest.approx(weight * mean * 1.001, rel=1e-12)


def test_an_infinite_exponential_moment_is_refused():
    with pytest.raises(InfiniteMoment, match="diverges"):
        close([sympy.exp(g**2)], [g], lambda: Law(((Integer(1),),)))


def test_unknown_factors_are_not_closed():
    with pytest.raises(NotClosed):
        close([sympy.tanh(g)], [g], lambda: Law(((Integer(1),),)))
    with pytest.raises(NotClosed):
        close([step(g**2 - 1)], [g], lambda: Law(((Integer(1),),)))


def test_symbolic_variance_gives_the_arc_cosine_kernel():
    """E relu(u) relu(v) for symbolic variances and covariance: Cho & Saul (2009), order 1."""
    a, b, c = Symbol("a", positive=True), Symbol("b", positive=True), Symbol("c", real=True)
    value, _ = close([g, h, step(g), step(h)], [g, h], lambda: Law(((a, c), (c, b))))
    angle = sympy.acos(c / sympy.sqrt(a * b))
    kernel = sympy.sqrt(a * b) / (2 * sympy.pi) * (sympy.sin(angle) + (sympy.pi - angle) * c / sympy.sqrt(a * b))
    for numbers in ({a: 1, b: 2, c: 0.5}, {a: 3, b: 0.7, c: -1.1}):
        assert abs(float((value - kernel).subs(numbers))) < 1e-14
