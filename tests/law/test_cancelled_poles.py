"""What multiplies 1/(√n s)ᵏ cancels in the limit: √n s is of order 1, and the product tends to 0 in every spelling."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp


def program(read):
    @tp.program
    def subject(x: tp.Vector, a: tp.Vector, t: tp.Vector):
        y = read(t, tp.avg(a * x), tp.avg(a**2), tp.avg(x**2))
        return tp.avg(y * y)

    return subject


def cos(s):
    return 1 - tp.cos(tp.sqrt(tp.n) * s)


SPELLINGS = {
    "together": lambda t, s, A, B: t * cos(s) / (tp.sqrt(tp.n) * s) ** 2 * (1 / A - B),
    "one by one": lambda t, s, A, B: t * cos(s) * (1 / (s * tp.sqrt(tp.n)) ** 2) / A - t * cos(s) / (tp.n * s**2) * B,
    "powers apart": lambda t, s, A, B: t * cos(s) / s**2 / A / tp.n - t * cos(s) / s**2 / tp.n * B,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_cancels_beside_a_pole_of_order_one(spelling):
    assert float(tp.derive(program(SPELLINGS[spelling])).evaluate(only=("return",))["return"]) == 0


def networks(n, power, draws=2000):
    """avg y², y = t (1 − cos √n s) n^(−power) (1/A − B)/s²."""
    x, a, t = np.random.default_rng(n).standard_normal((3, draws, n))
    s, A, B = (a * x).mean(axis=1), (a * a).mean(axis=1), (x * x).mean(axis=1)
    y = t * ((1 - np.cos(np.sqrt(n) * s)) * n**-power * (1 / A - B) / s**2)[:, None]
    found = (y * y).mean(axis=1)
    return found.mean(), found.std() / np.sqrt(draws)


def test_another_power_of_n_has_another_limit():
    """At 1/(√n s²) what cancels is of order 1: 4 E[(1 − cos S)²/S⁴], which is .8639, beside the 0 of 1/(n s²)."""
    other = program(
        lambda t, s, A, B: t * cos(s) / (tp.sqrt(tp.n) * s**2) / A - t * cos(s) / (tp.sqrt(tp.n) * s**2) * B
    )
    value = float(tp.derive(other).evaluate(only=("return",))["return"])
    z, w = np.polynomial.hermite_e.hermegauss(100)
    assert value == pytest.approx(4 * (w @ ((1 - np.cos(z)) ** 2 / z**4)) / w.sum(), rel=1e-6)
    (few, _), (many, error) = networks(100, 1), networks(400, 1)
    assert many < few / 2 and few < 0.02
    mean, error = networks(400, 0.5)
    assert abs(mean - value) < 4 * error + 5 / 400


def test_a_pole_that_no_power_of_n_is_beside_is_one():
    """(1/A − B)/s is a quotient of two fluctuations."""
    with pytest.raises(tp.NoLimitError, match="not finite at the limit"):
        tp.derive(program(lambda t, s, A, B: t * (1 / A - B) / s))
