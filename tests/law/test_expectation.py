"""What a mean is taken to be by symmetry."""

import itertools

import numpy
import pytest
import sympy

import tplimits as tp
from tplimits.law import expectation
from tplimits.law.closed_forms.table import CLOSED_FORMS
from tplimits.law.expectation import Expectations
from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.moments import OpenMoment, _operations
from tplimits.law.turning import Turning
from tplimits.program.nodes.functions import relu

x, y = sympy.symbols("x y", real=True)
FACTORS = (
    *(x, x**2, x + y, x - y, sympy.tanh(x + y), sympy.tanh(x - y), sympy.sech(x - y), x - x**3, 1 + x, 1 - x),
    *(sympy.exp(x), sympy.exp(-x - y), relu(x), relu(-x), sympy.cos(x), relu(x + y), relu(y - x)),
)


@pytest.mark.long
def test_signs_of_factors_give_the_sign_of_their_product():
    """Against the product itself with the signs turned, as a polynomial in what does not expand."""
    turning = Turning(Gaussians().covariance)
    signs = set()
    for factors in itertools.chain(*(itertools.combinations(FACTORS, k) for k in (1, 2, 3))):
        product = sympy.Mul(*factors)
        for turned in (frozenset({x}), frozenset({y}), frozenset({x, y})):
            direct = sympy.expand(product.xreplace({v: -v for v in turned}))
            sign = turning._parity(product, turned)
            signs.add(sign)
            if sign:
                assert direct == sympy.expand(sign * product), (product, turned)
            else:  # not decided: no factor-wise reason
                assert product.xreplace({v: -v for v in turned}) not in (product, -product), (product, turned)
    assert signs == {-1, 0, 1}


def test_means_of_other_names_are_those_of_other_laws():
    """Three pairs with covariances of their own, one beside a constant, in every order of names: sums over a grid."""

    class Correlated(Gaussians):
        def covariance(self, a, b):
            return sympy.Integer(1) if a == b else sympy.Rational(abs(order[a] - order[b]), 5)

    law = Correlated()
    order = {law.add(name, InitialSource(i, ())): i for i, name in enumerate("vuw")}
    engine, c = Expectations(law), sympy.Symbol("c", positive=True)
    grid = numpy.linspace(-8, 8, 801)
    one, two = grid[:, None], grid
    for a, b in itertools.permutations(order, 2):
        ρ = abs(order[a] - order[b]) / 5
        density = numpy.exp(-(one**2 - 2 * ρ * one * two + two**2) / (2 * (1 - ρ**2)))
        weights = density / density.sum()
        kinked = engine.mean(c * relu(a) * relu(b) * b)
        expected = (weights * one.clip(0) * two.clip(0) * two).sum()
        assert float(kinked.subs(c, 3)) == pytest.approx(3 * expected, rel=1e-3)
        assert engine.mean(sympy.exp(a + 2 * b)) == sympy.exp(sympy.Rational(5, 2) + 2 * engine.covariance(a, b))
        opened = engine.moments[engine.mean(sympy.tanh(a) * relu(b))]
        assert isinstance(opened, OpenMoment) and opened.integrand == sympy.tanh(a) * relu(b)


def test_operations_are_counted_as_sympy_counts_them():
    """Whether a value gets a name hangs on the count; beyond the bound it may be any larger number."""
    a, b, c = sympy.symbols("a b c", real=True)
    long = sum(sympy.Symbol(f"d{i}") ** 2 for i in range(20))
    for value in (a * b + c, a * b * c + a * c + b, 2 * a - b, a**2 * b, sympy.sqrt(a) - c / b, sympy.exp(a) / (a + b)):
        assert _operations(value) == sympy.count_ops(value)
    assert 14 < _operations(sympy.exp(a) / long) <= sympy.count_ops(sympy.exp(a) / long)


def test_long_sums_by_their_covariances_have_the_mean_of_short_ones(monkeypatch):
    """Of pairs of terms that share nothing, the product of the means."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        h = tp.relu(W @ x) + tp.tanh(W @ y) + y
        return tp.avg((h + x + 1) * (tp.abs(W @ y) + x + 2)), tp.avg((1 + x) * (1 + y))

    known = [n.value for n in tp.derive(program).evaluate().values()]
    monkeypatch.setattr(expectation, "_MANY_PAIRS", 0)
    found = [n.value for n in tp.derive(program).evaluate().values()]
    assert found == pytest.approx(known, rel=1e-12)
    assert known[1] == 1


def test_pairs_of_variables_are_isserlis_and_say_so():
    """Where the table has that row, and where there is something to say."""

    class Correlated(Gaussians):
        def covariance(self, a, b):
            return sympy.Integer(1) if a == b else sympy.Rational(1, 3) if {a, b} == {one, two} else sympy.Integer(0)

    law = Correlated()
    one, two, three = (law.add(name, InitialSource(i, ())) for i, name in enumerate("uvw"))
    engine = Expectations(law)
    assert engine.mean(one * three) == 0 and not engine.used_rows
    assert engine.mean(one * two) == sympy.Rational(1, 3) and list(engine.used_rows) == ["isserlis"]
    others = [row for row in CLOSED_FORMS if row.name != "isserlis"]
    for table in ((), others[:1]):
        without = Expectations(law, table=table)
        found = without.mean(one * two)
        assert isinstance(without.moments[found], OpenMoment) and not without.used_rows


def test_means_over_boxes_of_shared_parts_have_variables_of_their_own():
    """tanh(x_b + x) stands in both bodies, and its b is another one in each."""

    @tp.program
    def program(x: tp.Vector):
        b = tp.neuron("b")
        y = tp.avg(tp.tanh(x[b] + x), over=b)
        z = tp.avg(tp.tanh(x[b] + x) * x[b], over=b)
        return tp.avg(y * y), tp.avg(z * z), tp.avg(y * z * x)

    nodes, weights = numpy.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    values = numpy.tanh(nodes[:, None] + nodes)
    y, z = values @ weights, (values * nodes) @ weights
    expected = [weights @ (y * y), weights @ (z * z), weights @ (y * z * nodes)]
    found = [n.value for n in tp.derive(program).evaluate().values()]
    assert found == pytest.approx(expected, abs=1e-7)


def test_entries_of_a_family_have_boxes_of_their_own():
    """One body for all tokens: the same b and the same tanh(x_b) stand in each, and mean another neuron."""

    @tp.program
    def program(x: tp.Vector, z: tp.Vector["token"]):
        b = tp.neuron("b")
        y = tp.avg(tp.tanh(x[b]) * tp.tanh(x[b] + z), over=b)
        return tp.avg(y * y), tp.avg(y * z)

    nodes, weights = numpy.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    y = (numpy.tanh(nodes) * numpy.tanh(nodes + nodes[:, None])) @ weights
    found = [n.value for n in tp.derive(program.bind(token=2)).evaluate().values()]
    assert found == pytest.approx([weights @ y**2] * 2 + [weights @ (y * nodes)] * 2, abs=1e-7)


def test_what_is_the_same_at_every_width_and_what_is_never_negative():
    """Functions of given scalars alone; products of what is not negative."""

    @tp.program
    def program(x: tp.Vector, s: tp.Scalar):
        t = tp.tanh(2 * s)
        r = tp.avg(x * x) * t
        u = tp.relu(x) * t
        w = tp.exp(x) * tp.relu(x + 1)
        k = w * tp.relu(x)
        return t, r, tp.avg(u), tp.avg(k)

    state = tp.derive(program).state
    named = {name: (program.position(name), ()) for name in ("t", "r", "u", "w", "k")}
    assert {name for name, key in named.items() if key in state.exact} == {"t"}
    assert {name for name, key in named.items() if key in state.nonnegative} == {"w", "k"}
    variable = next(s for s in state.gaussians.source if s.name == "x")
    assert state.covariance(variable, variable) == 1
    assert state.covariance(variable, sympy.Symbol("S")) == state.covariance(sympy.Symbol("S"), variable) == 0
