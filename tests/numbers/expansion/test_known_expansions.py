"""Programs whose L, b and C are known: exact ones, published ones, and those that were found by hand."""

import math

import pytest
import sympy
from expanded import KNOWN, cubed, norm, recurrent, tied, tied_relu

import tplimits as tp


@pytest.mark.parametrize("name", KNOWN)
def test_limit_bias_and_variance(name):
    program, ratios, known = KNOWN[name]
    found = list(tp.derive(program, tp.FiniteWidth()).evaluate(ratios=ratios).values())
    for e, row in zip(found, known, strict=False):
        for number, stated in zip((e.limit, e.bias, e.variance), row.split(), strict=True):
            if stated != "?":
                digits = 10.0 ** -len(stated.partition(".")[2]) if "." in stated else 1e-9
                assert abs(float(number) - float(sympy.sympify(stated))) < digits
            assert number.error < 1e-5


def test_skewness_by_its_textbook_bias():
    """b = γ (15 (μ4 − 1)/8 − 3/2) − 3/2 (μ5 − 4γ) for a variable of variance 1."""
    γ, μ4, μ5 = 14 / 27**0.5, 123 / 9, 1284 / 3**2.5
    b = γ * (15 * (μ4 - 1) / 8 - 1.5) - 1.5 * (μ5 - 4 * γ)
    assert abs(float(tp.derive(cubed, tp.FiniteWidth()).bias("return")) - b) < 1e-9


def test_bias_of_a_square_is_half_a_second_derivative():
    """One product: b = Φ''(1) for Φ(K) = E tanh(√K g)², as the mean square of the input has C = 2."""
    mpmath = pytest.importorskip("mpmath")

    def power(k):
        density = lambda g: mpmath.tanh(mpmath.sqrt(k) * g) ** 2 * mpmath.npdf(g)  # noqa: E731
        return mpmath.quad(density, [-9, -3, 0, 3, 9])

    second = float(mpmath.diff(power, 1, 2))
    assert abs(float(tp.derive(norm, tp.FiniteWidth()).bias("return[1]")) - second) < 1e-6


def test_deep_relu_fluctuates_with_five_a_layer():
    @tp.program
    def deep(W: tp.Matrix["n", "n", "layer"], h: tp.Vector):
        x = tp.sqrt(2) * tp.relu(h)
        for i in range(9):
            x = tp.sqrt(2) * tp.relu(W.sel(layer=i) @ x)
        return tp.avg(x**2)

    found = tp.derive(deep.bind(layer=9), tp.FiniteWidth())
    assert abs(float(found.covariance("return")) - 50) < 1e-9
    assert abs(float(found.bias("return"))) < 1e-9


def test_covariances_are_of_pairs():
    found = tp.derive(norm, tp.FiniteWidth())
    a, b = "return[0]", "return[1]"
    assert found.covariance(a, b) == found.covariance(b, a)
    assert float(found.covariance(a, b)) ** 2 < float(found.covariance(a)) * float(found.covariance(b))


def test_the_parts_of_a_breakdown_add_up():
    for program in (tied, recurrent, tied_relu):
        found = tp.derive(program, tp.FiniteWidth())
        for name in found.labels:
            shares = found.breakdown(name).values()
            assert math.isclose(sum(s.bias for s in shares), float(found.bias(name)), abs_tol=1e-10)
            assert math.isclose(sum(s.variance for s in shares), float(found.covariance(name)), abs_tol=1e-10)


def test_programs_that_are_the_same_have_the_same_expansion():
    @tp.program
    def rewritten(x: tp.Vector, W: tp.Matrix["k", "n"]):
        z = W.T @ (0.5 * tp.tanh(W @ x)) + 0.5 * (W.T @ tp.tanh(W @ x))
        return tp.avg(z * x), tp.avg(z**2)

    one = tp.derive(tied, tp.FiniteWidth()).evaluate()
    other = tp.derive(rewritten, tp.FiniteWidth()).evaluate(ratios={"k": 1})
    for a, b in zip(one.values(), other.values(), strict=True):
        assert abs(float(a.bias) - float(b.bias)) < 1e-9
        assert abs(float(a.variance) - float(b.variance)) < 1e-9


def test_points_agree_with_a_grid():
    program = KNOWN["layer norm"][0]
    grid, points = (tp.derive(program, tp.FiniteWidth()).evaluate(m, seed=1) for m in ("quadrature", "particles"))
    for name, e in grid.items():
        assert abs(float(points[name].bias) - float(e.bias)) < 6 * points[name].bias.error + 0.01 * abs(float(e.bias))
        assert abs(float(points[name].variance) - float(e.variance)) < 0.02 * float(e.variance)


def test_a_kink_is_the_same_kink_however_it_is_written():
    """|h| = 2 relu(h) − h, about a mean that is not 0."""

    def expanded(kinked):
        @tp.program
        def program(W: tp.Matrix, x: tp.Vector):
            return tp.avg(kinked(W @ tp.tanh(x) + 0.3) ** 2 * x**2), tp.avg(kinked(W @ x + 0.5))

        return tp.derive(program, tp.FiniteWidth()).evaluate()

    one, other = expanded(tp.abs), expanded(lambda h: 2 * tp.relu(h) - h)
    for a, b in zip(one.values(), other.values(), strict=True):
        for part in ("limit", "bias", "variance"):
            assert float(getattr(a, part)) == pytest.approx(float(getattr(b, part)), abs=1e-6)


@pytest.mark.parametrize(("law", "variance"), [(lambda k: k.signs(1.5), 2), (lambda k: k.normal(0, 1.5), 4)])
def test_signs_have_a_square_that_does_not_fluctuate(law, variance):
    """Given x, avg (W x)² has variance 2 s⁴/n, s² = avg x²: of signs that is all, of normal entries 2 s⁴/n is added."""

    def square(W: tp.Matrix, x: law(tp.Vector)):
        return tp.avg((W @ x) ** 2)

    found = tp.derive(tp.program(square), tp.FiniteWidth())
    assert float(found.covariance("return")) == pytest.approx(variance * 1.5**4, rel=1e-9)
    assert abs(float(found.bias("return"))) < 1e-9
