"""Quadrature against closed forms, mpmath and itself; kinks straight, oblique, curved and nested."""

import itertools

import mpmath
import numpy
import pytest
import scipy.special
import sympy
from scipy.stats import norm

import tplimits as tp
from tplimits.numbers.cut_grid import grid
from tplimits.numbers.cuts import Cutting, Planes, roots
from tplimits.numbers.frame import independent_frame
from tplimits.numbers.precision import Unsettled


def numbers(function, method="auto"):
    program = tp.program(function)
    return tp.derive(program).evaluate(method)


def close_to(number, expected, tolerance=1e-8):
    assert number.method == "quadrature"
    assert abs(number.value - float(expected)) <= tolerance
    assert abs(number.value - float(expected)) <= 10 * number.error + 1e-13


def test_smooth_integrands():
    def program(x: tp.Vector):
        return tp.avg(tp.tanh(3 * x) ** 2 / (1 + x * x))

    expected = mpmath.quad(lambda x: mpmath.tanh(3 * x) ** 2 / (1 + x * x) * mpmath.npdf(x), [-12, 0, 12])
    close_to(numbers(program)["return"], expected, 1e-12)


def test_steep_integrands_are_refined():
    def program(x: tp.Vector):
        return tp.avg(tp.tanh(40 * x) * tp.tanh(x))

    expected = mpmath.quad(lambda x: mpmath.tanh(40 * x) * mpmath.tanh(x) * mpmath.npdf(x), [-12, -0.5, 0, 0.5, 12])
    close_to(numbers(program)["return"], expected)


@pytest.mark.parametrize("power", [0.5, 1.5, -0.25])
def test_roots_at_a_kink(power):
    def program(x: tp.Vector):
        return tp.avg(tp.abs(x) ** power)

    expected = 2 ** (power / 2) * mpmath.gamma((power + 1) / 2) / mpmath.sqrt(mpmath.pi)
    close_to(numbers(program)["return"], expected, 1e-9)


def test_curved_kinks():
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.relu(x**2 - 1)), tp.avg(tp.sign(x**2 + y**2 - 1)), tp.avg(tp.step(tp.sin(3 * x)))

    found = numbers(program)
    close_to(found["return[0]"], 2 * mpmath.npdf(1), 1e-12)  # 2 ∫₁^∞ (x² − 1) φ = 2 φ(1)
    close_to(found["return[1]"], 2 * mpmath.exp(-0.5) - 1)
    close_to(found["return[2]"], 0.5)


def test_oblique_kinks_in_two_and_three_dimensions():
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        two = tp.avg(tp.relu(x + 2 * y) * tp.tanh(y) * tp.step(x - y))
        three = tp.avg(tp.maximum(x, tp.maximum(y, z)) * tp.tanh(x))
        return two, three

    found = numbers(program)

    def inner(y):  # ∫ over x of (x + 2y)⁺ 1[x > y] φ(x)
        low = mpmath.mpf(max(y, -2 * y))
        return mpmath.npdf(low) + 2 * y * mpmath.ncdf(-low)

    expected = mpmath.quad(lambda y: inner(y) * mpmath.tanh(y) * mpmath.npdf(y), [-12, 0, 12])
    close_to(found["return[0]"], expected)

    nodes, weights = numpy.polynomial.legendre.leggauss(100)

    def over(pieces, of):
        return sum((b - a) / 2 * weights @ of((a + b) / 2 + (b - a) / 2 * nodes) for a, b in itertools.pairwise(pieces))

    def largest(x):  # E max(x, y, z) given x
        return x * norm.cdf(x) ** 2 + over([x, x + 3, 12], lambda m: 2 * m * norm.cdf(m) * norm.pdf(m))

    def outer(xs):
        return numpy.array([largest(x) for x in xs]) * numpy.tanh(xs) * norm.pdf(xs)

    close_to(found["return[1]"], over([-10, -3, 0, 3, 10], outer))


def test_nested_means_over_boxes():
    def program(x: tp.Vector):
        β = tp.neuron("β")
        y = tp.avg(tp.tanh(tp.abs(x - x[β])), over=β)
        return tp.avg(tp.sin(y + x))

    nodes, weights = numpy.polynomial.legendre.leggauss(120)

    def pieces(*edges):
        x = numpy.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in itertools.pairwise(edges)])
        w = numpy.concatenate([(b - a) / 2 * weights for a, b in itertools.pairwise(edges)])
        return x, w * numpy.exp(-(x**2) / 2) / numpy.sqrt(2 * numpy.pi)

    def inner(x):
        u, w = pieces(-10, x, 10)
        return float(w @ numpy.tanh(numpy.abs(x - u)))

    xs, ws = pieces(-9, 0, 9)
    expected = sum(w * numpy.sin(inner(x) + x) for x, w in zip(xs, ws, strict=True))
    close_to(numbers(program)["return"], expected, 1e-10)


def test_a_kink_of_a_nested_mean_in_the_outer_variable():
    def program(x: tp.Vector, u: tp.Vector):
        β = tp.neuron("β")
        y = tp.avg(tp.sign(x * tp.tanh(u[β])) * tp.tanh(u[β]), over=β)
        return tp.avg(tp.tanh(y) ** 2)

    inner = 2 * mpmath.quad(lambda u: mpmath.tanh(u) * mpmath.npdf(u), [0, 12])
    close_to(numbers(program)["return"], mpmath.tanh(inner) ** 2, 1e-10)


def test_kinks_of_means_over_oblique_kinks_are_integrated():
    """Not left to particles: the cuts of both integrals are lines in their last coordinate."""

    def program(W: tp.Matrix, x: tp.Vector):
        h, β = W @ x, tp.neuron("β")
        return tp.avg(tp.relu(tp.avg(tp.relu(h + h[β] * x[β]), over=β) - x))

    found = numbers(program)["return"]
    assert found.method == "quadrature"

    def relu_mean(mean, deviation):
        ratio = mean / deviation
        density = numpy.exp(-(ratio**2) / 2) / numpy.sqrt(2 * numpy.pi)
        return mean * scipy.special.ndtr(ratio) + deviation * density

    nodes, weights = numpy.polynomial.legendre.leggauss(200)
    nodes, weights = 5 * (nodes + 1), 5 * weights  # of one half of a normal law, [0, 10]
    weights = weights * numpy.exp(-(nodes**2) / 2) / numpy.sqrt(2 * numpy.pi)
    expected = 0.0
    for h in (-nodes[:, None], nodes[:, None]):  # h[β] given x[β] has deviation |x[β]|; then x has deviation 1
        expected += weights @ relu_mean(2 * relu_mean(h, nodes) @ weights, 1.0)
    assert abs(found.value - expected) < min(5 * found.error, 2e-4)
    assert abs(found.value - 0.999 * expected) > 5 * found.error


def test_the_quadrature_method_closes_nothing_and_agrees():
    def program(W: tp.Matrix, V: tp.Matrix, a: tp.Vector, b: tp.Vector):
        left, right = tp.relu(W @ a), tp.relu(W @ (a + b))
        z = W.T @ tp.gelu(V @ left)
        return tp.avg(tp.relu(V @ left) * tp.relu(V @ right)), tp.avg(z * z)

    closed, integrated = numbers(program), numbers(program, "quadrature")
    for name, number in closed.items():
        assert integrated[name].method == "quadrature"
        assert integrated[name].value == pytest.approx(number.value, abs=1e-9)


def test_singular_grams_seen_only_by_numbers():
    """tanh and (e^2x − e^−2x)/(e^x + e^−x)² are one function, which no symbol tells."""

    def program(W: tp.Matrix, x: tp.Vector):
        a, c = tp.tanh(x), (tp.exp(2 * x) - tp.exp(-2 * x)) / (tp.exp(x) + tp.exp(-x)) ** 2
        return tp.avg(tp.relu(W @ a) * tp.relu(W @ c)), tp.avg(tp.tanh(W @ a) * tp.tanh(W @ c))

    found = numbers(program)
    variance = mpmath.quad(lambda x: mpmath.tanh(x) ** 2 * mpmath.npdf(x), [-12, 0, 12])
    squared = mpmath.quad(lambda x: mpmath.tanh(mpmath.sqrt(variance) * x) ** 2 * mpmath.npdf(x), [-12, 0, 12])
    assert abs(found["return[0]"].value - float(variance / 2)) < 1e-6
    assert abs(found["return[1]"].value - float(squared)) < 1e-6
    limit = tp.derive(tp.program(program))
    assert any("judges it numerically" in r for s in limit.steps for r in s.remarks)


def test_grid_integrates_the_gaussian_and_meets_crossing_planes():
    nodes, weights = grid(Cutting(Planes((), ()), 3, 9.0), 1)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert numpy.einsum("on,oni,onj->ij", weights, nodes, nodes) == pytest.approx(numpy.eye(3), abs=1e-11)
    crossing = Planes(((1.0, 1.0), (1.0, -2.0)), (0.3, 0.0))
    nodes, weights = grid(Cutting(crossing, 2, 11.0), 2)
    inside = (nodes[..., 0] + nodes[..., 1] + 0.3 > 0) & (nodes[..., 0] - 2 * nodes[..., 1] > 0)
    rng = numpy.random.default_rng(0)
    u = rng.standard_normal((2_000_000, 2))
    sampled = ((u[:, 0] + u[:, 1] + 0.3 > 0) & (u[:, 0] - 2 * u[:, 1] > 0)).mean()
    assert (weights * inside).sum() == pytest.approx(sampled, abs=4 * 0.5 / numpy.sqrt(2_000_000))


def test_roots_are_found_at_grid_points_too():
    found = roots(lambda u: numpy.sin(numpy.atleast_2d(u)), numpy.pi * 1.5)
    assert numpy.sort(found[0])[:3] == pytest.approx([-numpy.pi, 0, numpy.pi], abs=1e-9)


def test_rank_revealing_frame():
    covariance = numpy.array([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.5, 1.0, 1.0]])
    frame = independent_frame(covariance)
    assert frame.rank == 2
    assert frame.factor @ frame.factor.T == pytest.approx(covariance, abs=1e-12)


def test_rounding_is_no_direction_but_a_small_variance_is():
    """The variance of a − b against the size of a and b: 1e-16 of it is rounding, 1e-12 is not."""
    rounding = independent_frame(numpy.array([[-1.1e-16]]), numpy.array([4.0]))
    small = independent_frame(numpy.array([[4e-12]]), numpy.array([4.0]))
    assert (rounding.rank, small.rank) == (0, 1)
    assert small.factor[0, 0] == pytest.approx(2e-6)
    with pytest.raises(tp.EvaluationError, match="not a Gram matrix"):
        independent_frame(numpy.array([[-1e-3]]), numpy.array([4.0]))


def test_what_never_moves_has_covariances_of_rounding():
    """As the features of an input of zeros have after some steps: none of its own, 1e-16 with those of another."""
    still = independent_frame(numpy.array([[1.2, -1.1e-16], [-1.1e-16, 0.0]]))
    assert still.rank == 1
    with pytest.raises(tp.EvaluationError, match="not a Gram matrix"):
        independent_frame(numpy.array([[1.2, -1e-8], [-1e-8, 0.0]]))


def test_what_is_too_much_for_quadrature_says_so():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector["t"]):
        return tp.avg(tp.tanh(tp.sum(tp.softplus(x), over="t")))

    limit = tp.derive(program.bind(t=7))
    with pytest.raises(tp.EvaluationError, match="particles"):
        limit.evaluate("quadrature")
    assert limit.evaluate()["return"].method == "particles"


def test_errors_of_evaluate():
    @tp.program
    def program(x: tp.Vector, s: tp.Scalar, *, γ):
        return s * tp.avg(tp.tanh(γ * x) ** 2)

    limit = tp.derive(program)
    with pytest.raises(tp.EvaluationError, match="constant `γ`"):
        limit.evaluate(s=1)
    with pytest.raises(tp.EvaluationError, match="scalar `s`"):
        limit.evaluate(γ=1)
    with pytest.raises(tp.EvaluationError, match="finite number"):
        limit.evaluate(γ=float("nan"), s=1)
    with pytest.raises(tp.EvaluationError, match="not a constant"):
        limit.evaluate(γ=1, s=1, δ=2)
    with pytest.raises(tp.EvaluationError, match="give one of the words"):
        limit.evaluate("guess", γ=1, s=1)
    with pytest.raises(tp.EvaluationError, match="no closed form for return"):
        limit.evaluate("exact", γ=1, s=1)
    with pytest.raises(tp.EvaluationError, match=r"widths of `\w+` besides n are"):
        limit.evaluate(γ=1, s=1, ratios={"k": 2})


@pytest.mark.long
def test_means_inside_a_mean_that_are_nothing_are_not_said_to_lie_too_far_out():
    """E_y relu(x + y) for x at eleven standard deviations below zero lies out there, and is 0."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        β = tp.neuron("β")
        z = y * tp.tanh(y)
        return tp.avg(tp.cos(tp.avg(tp.relu(x + z[β]), over=β)))

    found = tp.derive(program).evaluate(method="quadrature")["return"]
    draws = [program.run(n=2000, seed=seed)["return"] for seed in range(40)]
    assert found.value == pytest.approx(sum(draws) / 40, abs=5e-3)
    assert found.error < 1e-4


def test_what_has_no_value_names_the_constants_that_take_part():
    a, b = sympy.symbols("a b")
    found = Unsettled("`{}` has no sign", a + 1).told(lambda e: e, {a: sympy.Rational(1, 3), b: sympy.S.One})
    assert str(found) == "`a + 1` at a = 0.333333 has no sign"


def test_exact_numbers_are_off_by_their_rounding():
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.abs(x)), tp.avg(tp.abs(x) ** 3)

    for number in tp.derive(program).evaluate().values():
        assert number.method == "exact" and 2.0**-54 < number.error / number.value < 2.0**-50


def silu(x):
    return x * tp.sigmoid(x)


#: functions that are positive between two zeros which may be nearer than any grid looks, and how often they are
NARROW = {
    "interval": (
        lambda x, y: sympy.Rational(1, 10**4) - (x - sympy.Rational(1, 2)) ** 2,
        norm.cdf(0.51) - norm.cdf(0.49),
    ),
    "band": (
        lambda x, y: sympy.Rational(1, 10**4) - (tp.sin(x) - y) ** 2,
        mpmath.quad(
            lambda x: (mpmath.ncdf(mpmath.sin(x) + 0.01) - mpmath.ncdf(mpmath.sin(x) - 0.01)) * mpmath.npdf(x),
            range(-10, 11),
        ),
    ),
    # whichever of two that are alike is larger: on a fold both sides meet
    "fold of silu": (lambda x, y: silu(x) - silu(y), 0.5),
    "fold of gelu": (lambda x, y: tp.gelu(x) - tp.gelu(y), 0.5),
    "folds of a cubic": (lambda x, y: x**3 - x - y**3 + y, 0.5),
}


@pytest.mark.long
@pytest.mark.parametrize("name", NARROW)
def test_zeros_nearer_than_a_grid_cut_it(name):
    function, share = NARROW[name]

    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.step(function(x, y)))

    close_to(numbers(program)["return"], share, 1e-9)


def test_constants_are_cut_at_near_zeros():
    constant = tp.expect(lambda g: tp.step(sympy.Rational(1, 10**4) - (g - sympy.Rational(1, 2)) ** 2))

    def program(x: tp.Vector):
        return tp.avg(x * x * constant)

    close_to(numbers(program)["return"], norm.cdf(0.51) - norm.cdf(0.49), 1e-13)


def test_nodes_that_are_alike_are_found_column_by_column(monkeypatch):
    """E cos E[step(x + tanh y) x | y]: NumPy compares rows ten times as slowly as numbers, nine tenths of the time."""

    @tp.program
    def two_means(x: tp.Vector):
        β = tp.neuron("β")
        return tp.avg(tp.cos(tp.avg(tp.step(tp.tanh(x) + x[β]) * x[β], over=β)))

    rows, unique = [], numpy.unique

    def counted(array, *given, **options):
        rows.append(options.get("axis"))
        return unique(array, *given, **options)

    monkeypatch.setattr(numpy, "unique", counted)
    (found,) = tp.derive(two_means).evaluate(method="quadrature").values()
    assert rows and set(rows) == {None}
    x = numpy.linspace(-9, 9, 20001)
    inside = numpy.exp(-(numpy.tanh(x) ** 2) / 2) / numpy.sqrt(2 * numpy.pi)
    weights = numpy.exp(-(x**2) / 2) / numpy.exp(-(x**2) / 2).sum()
    assert abs(found.value - weights @ numpy.cos(inside)) < found.error + 1e-10
    assert abs(found.value - numpy.cos(weights @ inside)) > 1e-4
