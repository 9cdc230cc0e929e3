"""Poles and roots of vectors at which nothing moves, and difference quotients: expanded, against other integrals."""

import math

import numpy as np
import pytest

import tplimits as tp


def of_program(function):
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.avg(function(W @ x, W @ y))

    found = tp.derive(tp.program(program), tp.FiniteWidth()).evaluate()["return"]
    return [found.limit, found.bias, found.variance]


def of_one(f):
    """L, b and C of avg f(W x) on nodes g = s³, where roots and poles at 0 are smooth, and what of C is due to |x|²."""
    s, w = np.polynomial.legendre.leggauss(300)
    s, w = (s + 1) * 12 ** (1 / 3) / 2, w * 12 ** (1 / 3) / 2
    g, w = s**3, 3 * s**2 * w * np.exp(-(s**6) / 2) / np.sqrt(2 * np.pi)
    g, w = np.concatenate([g, -g]), np.concatenate([w, w])
    m, slope, bend = (w @ (f(g) * h) for h in (1, (g**2 - 1) / 2, (g**4 - 6 * g**2 + 3) / 4))
    return [m, bend, w @ f(g) ** 2 - m**2 + 2 * slope**2], 2 * slope**2


ROOTS = {
    "|h|^(3/2)": (lambda h, _: tp.abs(h) ** 1.5, lambda h: abs(h) ** 1.5),
    "√|h|": (lambda h, _: tp.sqrt(tp.abs(h)), lambda h: abs(h) ** 0.5),
    "|h|^(−1/4)": (lambda h, _: tp.abs(h) ** -0.25, lambda h: abs(h) ** -0.25),
    "log |h|": (lambda h, _: tp.log(tp.abs(2 * h)), lambda h: np.log(abs(2 * h))),
    "|tanh h|^¼, named": (lambda h, _: tp.abs(tp.tanh(h).named("t")) ** 0.25, lambda h: abs(np.tanh(h)) ** 0.25),
    "h/(h + h³)": (lambda h, _: h / (h + h**3), lambda h: 1 / (1 + h**2)),
}


@pytest.mark.parametrize("kind", ROOTS)
def test_of_one_image(kind):
    function, f = ROOTS[kind]
    found, (wanted, fluctuating) = of_program(function), of_one(f)
    for number, truth in zip(found, wanted, strict=True):
        assert number.value == pytest.approx(truth, abs=max(2e-7, number.error))
        assert number.error < 1e-4
    # neurons as if their |x|² did not fluctuate
    assert found[2].value != pytest.approx(wanted[2] - fluctuating, abs=1e-3)


def of_directions(f, degree):
    """The same of f(h, k) of some degree: E rᵏ times a mean over directions; Var |x|², |y|², x·y = 2, 2, 1."""
    mean, square = (2 ** (p / 2) * math.gamma(1 + p / 2) for p in (degree, 2 * degree))
    angles = np.arange(4000) * np.pi / 2000 + 1e-4
    c, s = np.cos(angles), np.sin(angles)

    def at(a=1.0, b=1.0, d=0.0):
        slope = d / np.sqrt(a)
        return mean * f(np.sqrt(a) * c, slope * c + np.sqrt(b - slope**2) * s).mean()

    step, limit, bias = 1e-3, at(), 0.0
    variance = square * (f(c, s) ** 2).mean() - limit**2
    for name, of, start in (("a", 2, 1), ("b", 2, 1), ("d", 1, 0)):
        up, down = (at(**{name: start + sign * step}) for sign in (1, -1))
        bias += of * (up - 2 * limit + down) / step**2 / 2
        variance += of * ((up - down) / (2 * step)) ** 2
    return limit, bias, variance


PAIRS = {
    "h²/√(h² + k²)": (lambda h, k: h**2 / tp.sqrt(h**2 + k**2), lambda h, k: h**2 / np.hypot(h, k), 1),
    "√(h² + k²)": (lambda h, k: tp.sqrt(h**2 + k**2), np.hypot, 1),
    "hk/(h² + k²)": (lambda h, k: h * k / (h**2 + k**2), lambda h, k: h * k / (h**2 + k**2), 0),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", PAIRS)
def test_of_two_images(kind):
    function, f, degree = PAIRS[kind]
    for number, truth in zip(of_program(function), of_directions(f, degree), strict=True):
        assert number.value == pytest.approx(truth, abs=2e-5)
        assert number.error < 1e-3


@pytest.mark.long
def test_of_vectors_that_are_the_same_at_every_width():
    """x²/√(x² + y²) is r cos²θ: ½E r, b = 0, C = 2·3/8 − L²."""

    @tp.program
    def radial(x: tp.Vector, y: tp.Vector):
        return tp.avg(x**2 / tp.sqrt(x**2 + y**2))

    found = tp.derive(radial, tp.FiniteWidth()).evaluate()["return"]
    assert found.limit.value == pytest.approx(np.sqrt(np.pi / 8), abs=1e-9)
    assert found.bias.value == 0
    assert found.variance.value == pytest.approx(3 / 4 - np.pi / 8, abs=1e-9)


MOVING = {
    "a bias that is not in the direction": lambda h, k: tp.abs(h - k) ** 0.5,
    "a square that comes to 0 elsewhere": lambda h, k: tp.abs(((h - k) ** 2).named("v")) ** 0.25,
    "a scalar": lambda h, k: tp.abs(h + tp.avg(h * k)) ** 0.5,
}


@pytest.mark.parametrize("kind", MOVING)
def test_where_it_moves_it_is_refused(kind):
    with pytest.raises(
        tp.NoLimitError,
        match=r"has a pole or a root where .* comes near 0: there functions are expanded of what does not move",
    ):
        of_program(MOVING[kind])


def test_a_square_that_is_infinite_is_refused():
    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match="no finite second moment"):
        of_program(lambda h, _: tp.abs(h) ** -0.5)


def quotient(h, k):
    """(tanh h − tanh k)/(h − k)."""
    t = h - k
    small = np.abs(t) < 1e-3
    ratio = np.where(small, 1 + t**2 / 6 + t**4 / 120, np.sinh(t) / np.where(small, 1, t))
    return ratio / np.cosh(h) / np.cosh(k)


def test_difference_quotients():
    """E f(h, k) over a fine grid, differentiated by |x|², |y|² and x·y over n."""
    g = np.linspace(-9, 9, 181)
    w = np.exp(-(g**2) / 2)
    w /= w.sum()
    weights, (one, other) = np.outer(w, w), np.meshgrid(g, g, indexing="ij")

    def at(a=1.0, b=1.0, d=0.0, power=1):
        slope = d / np.sqrt(a)
        return (weights * quotient(np.sqrt(a) * one, slope * one + np.sqrt(b - slope**2) * other) ** power).sum()

    step, limit = 1e-3, at()
    bias, variance = 0.0, at(power=2) - limit**2
    for name, of, start in (("a", 2, 1), ("b", 2, 1), ("d", 1, 0)):
        up, down = (at(**{name: start + sign * step}) for sign in (1, -1))
        bias += of * (up - 2 * limit + down) / step**2 / 2
        variance += of * ((up - down) / (2 * step)) ** 2
    found = of_program(lambda h, k: (tp.tanh(h) - tp.tanh(k)) / (h - k))
    assert [number.value for number in found] == pytest.approx([limit, bias, variance], abs=2e-6)
    assert max(number.error for number in found) < 1e-8
    assert found[1].value != pytest.approx(0, abs=0.1)


@pytest.mark.long
def test_a_wrong_bias_of_a_difference_quotient_is_rejected():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        h, k = W @ x, W @ y
        return tp.avg((tp.sin(h) - tp.sin(k)) / (h - k))

    derived = tp.derive(program, tp.FiniteWidth())
    truth = derived.bias("return").value
    assert tp.check(derived, claims={"b(return)": truth}, seed=3).accepted
    assert not tp.check(derived, claims={"b(return)": truth + 0.1}, seed=3).accepted
