"""Quotients of steep exponentials turn within 1/k where two exponents meet, and are functions of their differences."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp


def of_softmax(k):
    """E Σ p² for p = softmax(k g) of three standard normals: over the plane of differences, by rays and lengths."""
    plane = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    x, w = np.polynomial.legendre.leggauss(400)
    r, s = 6 * (x + 1), (x + 1) / 2
    weights = 6 * w * r * np.exp(-r * r / 2)
    total = 0.0
    # two are largest and equal at 90°, 210° and 330°: nodes crowd there from both sides
    for ridge in np.pi * np.array([1 / 2, 7 / 6, 11 / 6]):
        for side in (-1, 1):
            angle = ridge + side * np.pi / 3 * s**6
            logits = k * r[:, None] * (np.stack([np.cos(angle), np.sin(angle)], axis=-1) @ plane)[:, None]
            p = np.exp(logits - logits.max(axis=-1, keepdims=True))
            p /= p.sum(axis=-1, keepdims=True)
            total += float((w * np.pi / 3 * 3 * s**5) @ ((p * p).sum(axis=-1) @ weights))
    return total / (2 * np.pi)


@pytest.mark.parametrize("k", [5, 50, 200])
def test_softmax_of_steep_logits(k):
    """At k = 200 it was .9767 ± .0062 for .9958."""

    @tp.program
    def squares(a: tp.Vector, b: tp.Vector, c: tp.Vector):
        x, y, z = tp.exp(k * a), tp.exp(k * b), tp.exp(k * c)
        return tp.avg((x / (x + y + z)) ** 2 + (y / (x + y + z)) ** 2 + (z / (x + y + z)) ** 2)

    number = tp.derive(squares).evaluate()["return"]
    assert abs(number.value - of_softmax(k)) < 5 * number.error + 1e-12
    assert number.error < 1e-11


def test_exponentials_that_a_number_stands_beside():
    """E e^(300x)/(1 + e^(300x)) = ½, and of its square ½ − E p(1 − p), p(1 − p) = 1/(4 cosh²(150 x))."""

    @tp.program
    def logistic(x: tp.Vector, y: tp.Vector):
        p = tp.exp(300 * (x + y)) / (1 + tp.exp(300 * (x + y)))
        return tp.avg(p), tp.avg(p * p)

    first, second = tp.derive(logistic).evaluate().values()
    t = np.linspace(-0.3, 0.3, 60001)
    bump = float(np.trapezoid(np.exp(-t * t / 4) / np.sqrt(4 * np.pi) / (4 * np.cosh(150 * t) ** 2), t))
    assert first.value == pytest.approx(0.5, abs=1e-12)
    assert abs(second.value - (0.5 - bump)) < 5 * second.error + 1e-12


def test_exponentials_of_numbers_are_not_ones():
    """e^x/(e^x + e^(1/2)) is the logistic function of x − 1/2, and weights that are numbers have their own size."""

    @tp.program
    def beside(x: tp.Vector, y: tp.Vector, z: tp.Vector["token"]):
        s = tp.avg(y * y) / 2
        weights = tp.softmax(2 * tp.avg(tp.cos(z) * tp.relu(z).rename(token="key")), over="key")
        mixed = tp.sum(weights * z.rename(token="key"), over="key")
        return tp.avg((tp.exp(x) / (tp.exp(x) + tp.exp(s))) ** 2), tp.avg(tp.exp(-2 * tp.abs(mixed / 3)))

    found = list(tp.derive(beside.bind(token=2)).evaluate().values())
    t, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()
    assert found[0].value == pytest.approx(float(w @ (1 / (1 + np.exp(0.5 - t))) ** 2), abs=1e-12)
    t, w = np.polynomial.legendre.leggauss(200)
    t, w = 5 * (t + 1), 5 * w * np.exp(-((5 * (t + 1)) ** 2) / 2) * 2 / np.sqrt(2 * np.pi)
    own, other = float(w @ (np.cos(t) * t)) / 2, float(np.exp(-0.5) / np.sqrt(2 * np.pi))
    share = 1 / (1 + np.exp(2 * (other - own)))
    size = np.sqrt(share**2 + (1 - share) ** 2) / 3
    assert found[1].value == pytest.approx(float(w @ np.exp(-2 * size * t)), abs=1e-9)
