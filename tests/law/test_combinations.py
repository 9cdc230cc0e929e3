"""Sums, products, derivatives and means of kets, names of long factors among them, against SymPy and nodes."""

from __future__ import annotations

import itertools
import math
import random

import numpy
import pytest
import sympy
from sympy import Rational

import tplimits as tp
from tplimits.law import combinations
from tplimits.law.expanding import is_long
from tplimits.law.expectation import Expectations
from tplimits.law.gaussians import Gaussians, InitialSource
from tplimits.law.moments import NamedValue
from tplimits.law.span import Span

COVARIANCE = sympy.Matrix([[2, Rational(1, 2)], [Rational(1, 2), 1]])


class Correlated(Gaussians):
    def covariance(self, a, b):
        return COVARIANCE[self.source[a].position, self.source[b].position]

    def family(self, symbol):
        return 0


@pytest.fixture
def engine():
    law = Correlated()
    made = Expectations(law)
    made.x, made.y = (law.add(name, InitialSource(i, ())) for i, name in enumerate("xy"))
    return made


def written(engine, expr):
    """Without names of any kind."""
    while names := {s: engine.gaussians.definition(s) for s in expr.free_symbols if s in engine.gaussians.long}:
        expr = expr.xreplace(names)
    while names := {s: engine.moments[s].value for s in expr.free_symbols if s in engine.moments}:
        expr = expr.xreplace(names)
    return expr


def long_sum(v):
    """Of so many functions that products of it get names."""
    return sum(sympy.cos(k * v) / k for k in range(1, 50))


class Point:
    """Expressions at one point, names by their definitions; beside it by an imaginary part their slopes are read."""

    def __init__(self, engine, moved=None):
        self.engine = engine
        self.known = {engine.x: 0.43, engine.y: -0.4, sympy.Symbol("c"): 1.6}
        self.known |= {moved: self.known[moved] + 1e-30j} if moved is not None else {}

    def __call__(self, expr):
        if expr not in self.known:
            self.known[expr] = self.read(expr)
        return self.known[expr]

    def read(self, expr):
        if expr.is_number:
            return complex(expr)
        if expr.is_Symbol:
            long = self.engine.gaussians.long
            return self(self.engine.gaussians.definition(expr) if expr in long else self.engine.moments[expr].value)
        parts = [self(a) for a in expr.args]
        if expr.is_Add or expr.is_Mul:
            return sum(parts) if expr.is_Add else math.prod(parts)
        if expr.is_Pow:
            return parts[0] ** parts[1]
        return 1 / numpy.cosh(parts[0]) if expr.func is sympy.sech else getattr(numpy, expr.func.__name__)(parts[0])


def equal(a, b, engine):
    place = {engine.x: Rational(3, 7), engine.y: Rational(-2, 5), sympy.Symbol("c"): Rational(5, 3)}
    return abs(complex((a - b).xreplace(place).evalf(30))) < 1e-20


def test_derivatives_go_through_names_of_long_factors(engine):
    x, y, c = engine.x, engine.y, sympy.Symbol("c")
    inner = long_sum(x + 2 * y) + x
    one = engine.shortened(sympy.exp(inner), "one")  # f of a long argument: its slope has a name of its own
    two = engine.shortened(1 / (1 + inner**2) + 0 * x, "two")
    assert one in engine.gaussians.long and two in engine.gaussians.long
    third = engine.gaussians.name_long("three", sympy.tanh(one) * y + long_sum(y) * one)
    here, beside = Point(engine), {v: Point(engine, v) for v in (x, y)}
    for expr in (one, c * one, one * two + x**2, third + 3 * x, sympy.sin(one) * y, one**2 * third, x * y + 1):
        for v in (x, y):
            slope = beside[v](expr).imag / 1e-30
            assert here(engine.derivative(expr, v)).real == pytest.approx(slope, rel=1e-10, abs=1e-12), (expr, v)
    assert engine.derivative(sympy.tanh(x), x) == sympy.sech(x) ** 2
    assert engine.derivative(engine.gaussians.name_long("of x", long_sum(x)), y) == 0


def test_short_parts_stay_and_long_ones_get_a_name(engine):
    x, y = engine.x, engine.y
    many = long_sum(x)
    assert is_long(many) and engine.shortened(many, "z") == many, "each of many terms is short"
    whole = engine.shortened(3 * sympy.sqrt(many + 60) + sympy.sin(y), "z")
    (name,) = whole.free_symbols - {y}
    assert whole == 3 * name + sympy.sin(y)
    assert engine.gaussians.definition(name) == sympy.sqrt(many + 60)
    assert engine.lengthened(name) == sympy.sqrt(many + 60)
    assert engine.shortened(sympy.tanh(x) * y, "z") == sympy.tanh(x) * y


def test_combinations_collect_what_is_alike(engine):
    x, y, c = engine.x, engine.y, sympy.Symbol("c")
    parts = [(c, x + 2 * sympy.sin(y)), (sympy.Integer(3), x * c - sympy.sin(y) * c), (-c, 2 * x + 4), (c * c, 1 + x)]
    found = engine.combination(parts)
    assert equal(written(engine, found), sum(a * b for a, b in parts), engine)
    assert engine.terms(found).keys() == {x, sympy.sin(y), 1}
    assert engine.combination([(c, x), (-c, x)]) == 0


@pytest.mark.parametrize("many", [0, 8])
def test_sums_of_many_products_are_named_and_mean_the_same(engine, many, monkeypatch):
    monkeypatch.setattr(combinations, "_MANY_PRODUCTS", many)
    symbols = sympy.symbols("p0:12", real=True)
    sums = [symbols[i] + symbols[i + 1] for i in range(11)]
    products = [(symbols[i], sums[(5 * i) % 11]) for i in range(11)] + [(sympy.Integer(2), sympy.Integer(3))]
    found = engine._summed(products)
    assert found.is_Symbol and isinstance(engine.moments[found], NamedValue)
    assert sympy.expand(written(engine, found) - sum(a * b for a, b in products)) == 0
    assert engine._summed(list(reversed(products))) == found, "in any order"
    twice = engine._summed([*products, products[0]])
    assert sympy.expand(written(engine, twice - found) - symbols[0] * sums[0]) == 0
    cancelling = [(p, s) for p, s in products[:5]] + [(-p, s) for p, s in products[:5]]
    assert written(engine, engine._summed(cancelling)) == 0


NODES = numpy.polynomial.hermite_e.hermegauss(50)


def by_nodes(f, x, y):
    points, weights = NODES[0], NODES[1] / NODES[1].sum()
    root = numpy.linalg.cholesky(numpy.array(COVARIANCE, float))
    u, v = numpy.meshgrid(points, points, indexing="ij")
    at = numpy.einsum("ij,jkl->ikl", root, numpy.stack([u, v]))
    values = sympy.lambdify((x, y), f, "numpy")(*at) + 0 * u
    return float(numpy.einsum("i,j,ij->", weights, weights, values))


def test_means_of_products_of_correlated_variables(engine):
    """Polynomials, waves and exponentials, as products and as squares."""
    x, y = engine.x, engine.y
    rng = random.Random(0)
    pieces = (x, y, x + y, x * y - 1, sympy.exp(x / 2), sympy.exp(-y / 3), sympy.cos(x), sympy.sin(x - y), 2 + x**2)
    for _ in range(12):
        a = rng.choice(pieces) * rng.choice(pieces) + rng.choice((0, 1, 3)) * rng.choice(pieces)
        b = rng.choice(pieces) - rng.choice((0, 2)) * rng.choice(pieces)
        for found, expected in ((engine.mean(a), a), (engine.inner(a, b), a * b), (engine.inner(b, b), b * b)):
            value = complex(written(engine, found).evalf()).real
            assert value == pytest.approx(by_nodes(expected, x, y), rel=1e-9, abs=1e-9), (a, b)


def test_spans_are_those_of_linear_algebra():
    """Random whole vectors, dependent and not: against ranks and solutions of rational systems."""
    rng, atoms = random.Random(1), sympy.symbols("a b c d")
    for _ in range(25):
        span, known = Span(), []
        for name in range(6):
            if known and rng.random() < 0.5:
                factors = [rng.randint(-2, 2) for _ in known]
                row = [sum(f * v[i] for f, v in zip(factors, known, strict=True)) for i in range(4)]
            else:
                row = [rng.choice((0, 0, 1, -2, 3)) for _ in atoms]
            vector = {a: sympy.Rational(c) for a, c in zip(atoms, row, strict=True) if c}
            before = sympy.Matrix(known).rank() if known else 0
            found = span.add(vector, name)
            known.append(row)
            assert (found is not None) == (sympy.Matrix(known).rank() == before)
            if found is not None:
                assert all(k < name for k in found)
                assert [sum(c * known[k][i] for k, c in found.items()) for i in range(4)] == row


def test_what_is_dependent_up_to_rounding_is_so_for_data_alone():
    a, b = sympy.symbols("a b")
    for tolerance, seen in ((0.0, False), (1e-12, True)):
        span = Span(tolerance)
        span.add({a: sympy.Float(1), b: sympy.Float(0.1)}, 0)
        found = span.add({a: sympy.Float(3), b: sympy.Float(0.1) * 3 + sympy.Float("1e-14")}, 1)
        assert (found is not None) is seen is span.judged
    for pair in itertools.permutations(({a: sympy.S.One}, {b: sympy.S.One})):
        assert [Span().add(v, 0) for v in pair] == [None, None]


def test_means_over_boxes_leave_other_variables_alone():
    """E□ x f(b) + x y b² = x E f(b) + x y: x and y are other neurons' and stand still."""
    law = Gaussians()
    engine = Expectations(law)
    x, y = (law.add(name, InitialSource(i, ())) for i, name in enumerate("xy"))
    b, copies = law.copied(y, law.new_box())
    assert copies == {b} and b != y
    assert engine.mean(x * y * b**2 + 3 * x * b + y, over=copies) == x * y + y
    assert engine.mean(sympy.tanh(x) * b**4 + x, over=copies) == 3 * sympy.tanh(x) + x
    assert engine.mean(engine.mean(x**2 * b**2 * y**4, over=copies)) == 3
    assert engine.mean(sympy.tanh(x * b) ** 2, over=copies).has(x)
    assert engine.mean(x**2 * y**2 + x**4) == 4


def test_tails_of_sums_are_judged_by_the_forms_of_their_kets():
    """Where one of them has a form of its own; the others are what they are."""

    @tp.program
    def plain(W: tp.Matrix, x: tp.Vector):
        return tp.avg(W @ x)

    state = tp.derive(plain).state
    (x,) = (s for s in state.gaussians.source if s.name == "x")
    a, b, c, form, other = sympy.symbols("a b c form other")
    state.judged |= {a: form, b: other}
    for parts, expected in (
        ([(2, a), (3, x)], 2 * form + 3 * x),
        ([(c, a)], c * form),
        ([(1, x), (-1, b), (4, a)], x - other + 4 * form),
        ([(2, x), (1, c)], None),
    ):
        total = state.combined([(sympy.sympify(k), ket) for k, ket in parts])
        assert sympy.expand(total - sum(k * ket for k, ket in parts)) == 0
        assert state.judged.pop(total, None) == expected
