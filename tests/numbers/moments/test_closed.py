"""Closed moments against the symbolic table at 130 digits, and against one-dimensional integrals in mpmath."""

import itertools
import math
from functools import cache, lru_cache
from typing import get_args

import mpmath
import numba
import numpy
import pytest
import sympy
from sympy import Rational

import tplimits as tp
from tplimits.law.closed_forms.integrand import Law, step_products
from tplimits.law.closed_forms.table import close
from tplimits.numbers.moments import closed
from tplimits.numbers.moments.atoms import Atom, Gate, Point, Power, Wave
from tplimits.numbers.moments.function import closed_code, moment
from tplimits.numbers.moments.tensor import tensor
from tplimits.numbers.moments.writing import function
from tplimits.program.nodes import functions as heads
from tplimits.program.nodes.evaluate import evaluate
from tplimits.regimes.kernels.numbers.precise import in_many_digits

X, Y = sympy.symbols("x y", real=True)
A, C = sympy.symbols("a c", positive=True)
B = sympy.Symbol("b", real=True)
ENTRIES = ("c11", "c12", "c22", "det")
QUARTER = Rational(1, 4)


def squared(head):
    return head(X) * head(Y)


INTEGRANDS = {
    "relu": squared(heads.relu),
    "step": squared(heads.step),
    "abs": squared(sympy.Abs),
    "sign": squared(sympy.sign),
    "leaky": squared(lambda t: heads.leaky_relu(t, QUARTER)),
    "leaky slopes": squared(lambda t: QUARTER + (1 - QUARTER) * heads.step(t)),
    "relu²": squared(lambda t: heads.relu(t) ** 2),
    "relu³": squared(lambda t: heads.relu(t) ** 3),
    "relu³ relu": heads.relu(X) ** 3 * heads.relu(Y),
    "opposite halves": heads.relu(X) * (heads.relu(-Y) - heads.relu(Y) / 3),
    "relu step": heads.relu(X) * heads.step(Y),
    "x relu": X * heads.relu(Y),
    "x² relu": X**2 * heads.relu(Y),
    "x + relu": squared(lambda t: t + heads.relu(t)),
    "x|x|": squared(lambda t: t * sympy.Abs(t)),
    "|x|³|y|": sympy.Abs(X) ** 3 * sympy.Abs(Y),
    "erf": squared(sympy.erf),
    "relu erf": heads.relu(X) * sympy.erf(Y),
    "bump": squared(lambda t: sympy.exp(-(t**2) / 2)),
    "bump relu": X * sympy.exp(-(X**2)) * heads.relu(Y),
    "sin": squared(lambda t: sympy.sin(2 * t)),
    "cos": squared(sympy.cos),
    "x + sin": squared(lambda t: t + sympy.sin(t)),
    "monomials": X**3 * Y,
    "x bump": X * sympy.exp(-(X**2)) * Y,
    "erf bump": sympy.erf(X) * sympy.exp(-(Y**2) / 2),
    "exp": sympy.exp(X / 2) * sympy.exp(Y / 2),
    "x² exp": X**2 * sympy.exp(Y / 2),
    "sin x": X * sympy.sin(Y),
}


#: means that cancel to zero at some laws, and products that the symbolic table closes at numbers alone
AT_NUMBERS = {
    "x² cos": X**2 * sympy.cos(Y),
    "x bump relu": X * sympy.exp(-(X**2)) * heads.relu(Y) * sympy.exp(-(Y**2) / 2),
    "bump relu bump relu": squared(lambda t: heads.relu(t) * sympy.exp(-(t**2))),
    "bump erf bump relu": sympy.erf(X) * sympy.exp(-(X**2)) * heads.relu(Y) * sympy.exp(-(Y**2) / 2),
    "bump erf bump erf": squared(lambda t: sympy.erf(t) * sympy.exp(-(t**2))),
    "bump erf x bump": sympy.erf(X) * sympy.exp(-(X**2)) * Y * sympy.exp(-(Y**2) / 2),
    "bump relu relu": heads.relu(X) * sympy.exp(-(X**2)) * heads.relu(Y),
    "bump erf relu": sympy.erf(X) * sympy.exp(-(X**2)) * heads.relu(Y),
    "bump relu erf": heads.relu(X) * sympy.exp(-(X**2)) * sympy.erf(Y),
    "bump erf erf": sympy.erf(X) * sympy.exp(-(X**2)) * sympy.erf(Y),
    "bump relu y": heads.relu(X) * sympy.exp(-(X**2)) * Y,
    "bump erf y": sympy.erf(X) * sympy.exp(-(X**2)) * Y,
    "sin cos": sympy.sin(X) * sympy.cos(Y),
    "x erf": X * sympy.erf(Y),
}


@lru_cache
def by_table(integrand):
    """The mean by the symbolic table, as a function in mpmath."""
    return sympy.lambdify((A, B, C), tabulated(integrand, A, B, C), "mpmath")


def tabulated(integrand, a, b, c):
    """The mean by the symbolic table."""
    terms = []
    for term in sympy.Add.make_args(sympy.expand(step_products(heads.elementary(sympy.expand(integrand))))):
        known = [f for f in sympy.Mul.make_args(term) if not f.free_symbols]
        random = [f for f in sympy.Mul.make_args(term) if f.free_symbols]
        variables = [v for v in (X, Y) if any(v in f.free_symbols for f in random)]
        rows = ((a, b), (b, c)) if len(variables) == 2 else ((a if variables == [X] else c,),)
        value = close(random, variables, lambda rows=rows: Law(rows))[0] if random else sympy.S.One
        terms.append(sympy.Mul(*known) * value)
    return sympy.Add(*terms)


def laws():
    """Covariances as doubles with the exact determinant, from independent to nearly collinear."""
    gaps = [1.0, 0.99, 0.5, *(10.0**-k for k in range(1, 17, 3)), 1e-16]
    for gap, sign, c11, ratio in itertools.product(gaps, (1, -1), (1e-8, 1.0, 20.0), (1e-8, 0.02, 1.0, 7.0, 1e8)):
        c22 = c11 * ratio
        if c22 <= 200:
            with mpmath.workdps(60):
                c12 = float(sign * (1 - mpmath.mpf(gap)) * mpmath.sqrt(mpmath.mpf(c11) * c22))
                det = float(mpmath.mpf(c11) * c22 - mpmath.mpf(c12) ** 2)
            if det > 0:
                yield c11, c12, c22, det


@pytest.mark.parametrize("name", INTEGRANDS)
def test_closed_moments_agree_with_the_table_to_rounding(name):
    found = moment(INTEGRANDS[name], (X, Y))
    assert found.route == "closed"
    table = numpy.array(list(laws()))
    c11, c12, c22, det = table.T
    values, errors = found(c11, c12, c22, det=det)
    with mpmath.workdps(130):
        expected = [mpmath.re(by_table(INTEGRANDS[name])(*map(mpmath.mpf, row[:3]))) for row in table.tolist()]
        differences = [float(abs(v - e)) for v, e in zip(values.tolist(), expected, strict=True)]
        sizes = [float(abs(e)) for e in expected]
    assert (numpy.array(differences) <= 1e-12 * numpy.array(sizes)).all()
    assert (numpy.array(differences) <= errors).all()


@pytest.mark.parametrize("name", INTEGRANDS)
def test_compiled_scalars_are_the_twin_of_the_arrays(name):
    found = moment(INTEGRANDS[name], (X, Y))
    code = closed_code([found])
    compiled = numba.njit(error_model="numpy")(function(code, "scalar", ENTRIES, scalar=True))
    for row in [
        *itertools.islice(laws(), 0, None, 9),
        (0.0, 0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0, 0.0),
        (1.0, 1.0, 1.0, 0.0),
    ]:
        value, error = found(*row[:3], det=row[3])
        assert abs(compiled(*row) - value) <= error


def gelu_smoothed(m, s2):
    """E gelu(m + s e)."""
    t = mpmath.sqrt(1 + s2)
    return m * mpmath.ncdf(m / t) + s2 / t * mpmath.npdf(m / t)


def gelu_slope_smoothed(m, s2):
    t = mpmath.sqrt(1 + s2)
    return mpmath.ncdf(m / t) + m / t**3 * mpmath.npdf(m / t)


def erf_slope_smoothed(m, s2):
    return 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-m * m / (1 + 2 * s2)) / mpmath.sqrt(1 + 2 * s2)


@pytest.mark.parametrize(
    ("head", "smoothed"),
    [
        (heads.gelu(X), gelu_smoothed),
        (heads.gelu(X).diff(X), gelu_slope_smoothed),
        (sympy.erf(X).diff(X), erf_slope_smoothed),
    ],
)
@pytest.mark.parametrize("c11", [1e-6, 0.5, 1e4])
@pytest.mark.parametrize("rho", [0.3, -0.999, 1.0, -1.0])
def test_gelu_and_slopes_agree_with_integrals(head, smoothed, c11, rho):
    c22 = c11 / 4  # √(c11 c22) is a double
    c12 = rho * c11 / 2
    det = mpmath.mpf(c11) * c22 - mpmath.mpf(c12) ** 2
    slope, deviation = mpmath.mpf(c12) / mpmath.sqrt(c11), mpmath.sqrt(c11)

    @cache  # the integral and its size are sums over the same points
    def integrand(z):
        return smoothed(deviation * z, mpmath.mpf(0)) * smoothed(slope * z, det / c11) * mpmath.npdf(z)

    half = sorted({min(q, mpmath.mpf(12)) for q in (1, 2, 4, 7, 12, 1 / deviation, 4 / deviation, 12 / deviation)})
    ends = [*(-q for q in reversed(half)), 0, *half]
    expected = mpmath.quad(integrand, ends)
    size = mpmath.quad(lambda z: abs(integrand(z)), ends)
    value, error = moment(head * head.xreplace({X: Y}), (X, Y))(c11, c12, c22, det=float(det))
    assert abs(value - expected) <= 1e-13 * size
    assert abs(value - expected) <= error + 1e-15 * size


def test_several_moments_share_their_roots_and_angles():
    moments = [moment(INTEGRANDS[name], (X, Y)) for name in ("relu", "step")]
    code = closed_code(moments)
    assert len(code.results) == 2
    assert sum("atan2" in text for _, text in code.assignments) == 1
    both = function(code, "both", ENTRIES, scalar=True)(2.0, 2.0, 2.0, 0.0)
    assert both == pytest.approx((1.0, 0.5), rel=1e-15)


def test_at_zero_variance_the_mean_is_the_value_at_zero():
    slope = heads.leaky_relu(X, QUARTER).diff(X)
    found = moment(slope * slope.xreplace({X: Y}), (X, Y))
    assert float(found(0.0, 0.0, 0.0)[0]) == 0.0625
    assert float(found(1.0, 0.0, 0.0)[0]) == pytest.approx(0.25 * (0.25 + 1) / 2, rel=1e-15)
    for name in ("relu", "step", "sign", "abs", "relu³", "erf"):
        assert float(moment(INTEGRANDS[name], (X, Y))(3.0, -0.0, 0.0)[0]) == 0.0


LAWS = ((1.0, 0.5, 2.0), (2.0, -1.2, 1.0), (0.3, 0.05, 0.2))


@pytest.mark.parametrize("integrand", [*INTEGRANDS.values(), *AT_NUMBERS.values()], ids=str)
def test_every_emitted_form_agrees_with_quadrature(integrand):
    """One text for arrays, scalars and many digits, the table for symbols: all against a cut tensor rule."""
    found = moment(integrand, (X, Y))
    assert found.route == "closed"
    scalar = function(closed_code([found]), "scalar", ENTRIES, scalar=True)
    integrals, errors = tensor(integrand, (X, Y), numpy.array(LAWS))
    for (c11, c12, c22), integral, error in zip(LAWS, integrals, errors, strict=True):
        det = c11 * c22 - c12 * c12
        forms = {
            "arrays": float(found(c11, c12, c22)[0]),
            "scalars": scalar(c11, c12, c22, det),
            "many digits": float(in_many_digits(found)(*map(mpmath.mpf, (c11, c12, c22, det)))),
            "symbols": float(tabulated(integrand, *map(Rational, map(str, (c11, c12, c22))))),
        }
        for form, value in forms.items():
            assert abs(value - integral) <= error + 1e-9, form
            assert abs(value + 1e-6 - integral) > error + 1e-9, form


def kind(atom):
    """What a formula tells atoms apart by: the class, and whether it is smoothed, tilted, which wave."""
    if isinstance(atom, Wave):
        return atom.kind
    soft = isinstance(atom, Gate) and atom.softness > 0
    return f"{'tilted ' if atom.tilt else ''}{'soft ' if soft else ''}{type(atom).__name__.lower()}"


def test_every_closed_pair_of_kinds_has_an_integrand_here():
    """A new kind of atom is a failing test until all its pairs have a case above."""
    kinds = {kind(a): a for a in (Power(1.0, 1), Power(1.0, 1, 1.0))}
    kinds |= {kind(a): a for t in (0.0, 1.0) for s in (0.0, 1.0) for a in (Gate(1.0, 0.0, 1, s, t),)}
    kinds |= {name: Wave(1.0, name, 1.0) for name in ("sin", "cos", "exp")}
    assert {type(a) for a in kinds.values()} | {Point} == set(get_args(Atom))  # Point: at zero variance, see above
    closing = {frozenset((p, q)) for p, a in kinds.items() for q, b in kinds.items() if closed.can_close((a,), (b,))}
    covered = {
        frozenset((kind(a), kind(b)))
        for integrand in (*INTEGRANDS.values(), *AT_NUMBERS.values())
        for left, right in moment(integrand, (X, Y)).pairs
        for a, b in itertools.product(left, right)
        if not isinstance(a, Point) and not isinstance(b, Point)
    }
    assert covered <= closing
    missing = sorted(" and ".join(sorted(pair)) for pair in closing - covered)
    assert missing == []


LINE = numpy.linspace(-13, 13, 26_000)
MASS = numpy.exp(-(LINE**2) / 2) / numpy.sqrt(2 * numpy.pi) * (LINE[1] - LINE[0])


@pytest.mark.parametrize("integrand", [*INTEGRANDS.values(), *AT_NUMBERS.values()], ids=str)
def test_a_variable_of_variance_zero_is_zero(integrand):
    """Against the mean of what the other variable alone leaves, on a line."""
    found = moment(integrand, (X, Y))
    for law in ((0.0, 0.0, 1.7), (0.6, 0.0, 0.0)):
        known = {X: law[0] ** 0.5 * LINE, Y: law[2] ** 0.5 * LINE}
        expected = float((MASS * evaluate(integrand, known)).sum())
        assert float(numpy.ravel(found(*law)[0])[0]) == pytest.approx(expected, rel=1e-6, abs=1e-9), law


@pytest.mark.parametrize("rho", [0.0, 0.6, -0.9, 1.0])
@pytest.mark.parametrize(("c11", "c22"), [(1.0, 1.0), (1e-3, 1.2), (1.2, 0.4)])
def test_growing_exponentials_weigh_the_tilted_law(c11, c22, rho):
    """E F exp((x² + y²)/5) is the root of a ratio of determinants times E F of the law with C⁻¹ − 2/5."""
    c12, det = rho * math.sqrt(c11 * c22), c11 * c22 * (1 - rho * rho)
    covariance = numpy.array([[c11, c12], [c12, c22]])
    moved = numpy.eye(2) - 0.4 * covariance
    (a, b), (_, c) = numpy.linalg.solve(moved, covariance)
    angle = math.acos(max(-1.0, min(1.0, b / math.sqrt(a * c))))
    relus = math.sqrt(a * c) * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)
    grown = {
        squared(lambda t: sympy.exp(t**2 / 5)): 1.0,
        squared(lambda t: t * sympy.exp(t**2 / 5)): b,
        X**2 * sympy.exp(X**2 / 5) * Y**2 * sympy.exp(Y**2 / 5): a * c + 2 * b * b,
        squared(lambda t: heads.relu(t) * sympy.exp(t**2 / 5)): relus,
    }
    for integrand, mean in grown.items():
        found = moment(integrand, (X, Y))
        value, error = found(c11, c12, c22, det=det)
        assert found.route == "closed"
        assert value == pytest.approx(mean / math.sqrt(numpy.linalg.det(moved)), rel=1e-12, abs=1e-15)
        assert error <= 1e-12 * abs(value) + 1e-13


@pytest.mark.parametrize("covariance", [(2.6, 0.0, 1.0), (10.0, 0.0, 10.0), (10.0, 5.0, 10.0), (1.3, 1.3, 1.3)])
def test_growing_exponentials_beyond_the_density_have_no_number(covariance):
    """I − 2/5 C has one or two eigenvalues that are not positive; of two the determinant is positive again."""
    found = moment(squared(lambda t: sympy.exp(t**2 / 5)), (X, Y))
    with pytest.raises(tp.EvaluationError, match="not a finite number"):
        found(*covariance)
    law = (*covariance, covariance[0] * covariance[2] - covariance[1] ** 2)
    text = function(closed_code([found]), "growing", ENTRIES, scalar=True)
    assert math.isnan(text(*law))
    with mpmath.workdps(30):
        assert mpmath.isnan(in_many_digits(found)(*map(mpmath.mpf, law)))
