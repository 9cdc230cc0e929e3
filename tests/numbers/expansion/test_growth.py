"""Exponentials that are read where they are small alone: expansions of ELU and SELU, against closed forms."""

import mpmath
import pytest

import tplimits as tp

avg = tp.avg


def elu(slope, size):
    return lambda u: size * tp.where(u, u, slope * (tp.exp(u) - 1))


def moments(slope, size, v):
    """E f and E f² of ELU at a normal of variance v."""
    s, Φ = mpmath.sqrt(v), mpmath.ncdf
    below = mpmath.exp(v / 2) * Φ(-s), mpmath.exp(2 * v) * Φ(-2 * s)
    first = s / mpmath.sqrt(2 * mpmath.pi) + slope * (below[0] - 0.5)
    return size * first, size**2 * (v / 2 + slope**2 * (below[1] - 2 * below[0] + 0.5))


@pytest.mark.parametrize("slope, size", [(1, 1), (0.4, 1), (1.67326, 1.0507)])
def test_units_that_are_exponential_on_one_side(slope, size):
    """E avg f(W x) = E g(|x|²/n) with g(v) = E f(√v z): b = g″(1), C = Var f + 2 g′(1)²."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return avg(elu(slope, size)(W @ x))

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    mean = lambda v: moments(slope, size, v)[0]  # noqa: E731
    first, second = (float(m) for m in moments(slope, size, mpmath.mpf(1)))
    assert found.limit.value == pytest.approx(first, abs=1e-9)
    assert found.bias.value == pytest.approx(float(mpmath.diff(mean, 1, 2)), abs=1e-8)
    assert found.variance.value == pytest.approx(second - first**2 + 2 * float(mpmath.diff(mean, 1)) ** 2, abs=1e-8)


def test_networks_accept_it():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return avg(elu(1, 1)(W @ tp.tanh(x)) * elu(1, 1)(W @ x))

    found = tp.derive(program, tp.FiniteWidth())
    assert tp.check(found, widths=(16, 32, 64), draws=400, seed=0, progress=False).accepted


@pytest.mark.parametrize("function", [tp.exp, lambda u: tp.where(u, tp.exp(u), 1 + u), lambda u: tp.exp(-tp.exp(u))])
def test_what_no_power_bounds_is_refused(function):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return avg(function(W @ x))

    with pytest.raises(tp.NoLimitError, match="grows faster than any power"):
        tp.derive(program, tp.FiniteWidth()).evaluate()


def test_the_value_at_the_border_counts_once():
    """where(u, 1 + u, eᵘ) is 1 above an ELU."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        u = W @ x
        return avg(tp.where(u, 1 + u, tp.exp(u)))

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    first, second = (float(m) for m in moments(1, 1, mpmath.mpf(1)))
    slope = float(mpmath.diff(lambda v: moments(1, 1, v)[0], 1))
    assert found.limit.value == pytest.approx(1 + first, abs=1e-9)
    assert found.variance.value == pytest.approx(second - first**2 + 2 * slope**2, abs=1e-8)


@pytest.mark.parametrize("rates", [(1, -1, 1, -2), (2, -1, 3, -2)])
def test_quotients_of_sums_of_exponentials_that_are_bounded(rates):
    """(eᵃʰ − eᵇʰ)/(eᶜʰ + eᵈʰ), d ≤ b < a ≤ c: b = g″(1) of g(v) = E f(√v z)², the square of it."""
    a, b, c, d = rates

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return avg(((tp.exp(a * h) - tp.exp(b * h)) / (tp.exp(c * h) + tp.exp(d * h))) ** 2)

    def mean(v):
        def integrand(z):
            h = mpmath.sqrt(v) * z
            f = (mpmath.exp(a * h) - mpmath.exp(b * h)) / (mpmath.exp(c * h) + mpmath.exp(d * h))
            return f**2 * mpmath.npdf(z)

        return mpmath.quad(integrand, [-12, -4, -1, 0, 1, 4, 12])

    found = tp.derive(program, tp.FiniteWidth()).evaluate()["return"]
    assert found.limit.value == pytest.approx(float(mean(1)), rel=1e-6)
    curvature = float(mpmath.diff(mean, 1, 2, h=mpmath.mpf("1e-3")))
    assert found.bias.value == pytest.approx(curvature, rel=1e-3)
    assert found.bias.value != pytest.approx(1.05 * curvature, rel=1e-3)
