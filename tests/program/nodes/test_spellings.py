"""Functions written by their definitions: the same numbers as by their heads, and what was refused still is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import tplimits as tp


def quotient(one, other):
    """(1 − e^(−S²))²/T² with S = √n ⟨a|f(x)⟩ and T = √n ⟨a|g(x)⟩."""

    @tp.program
    def program(x: tp.Vector, a: tp.Vector):
        above, below = (tp.sqrt(tp.n) * tp.avg(a * f(x)) for f in (one, other))
        return tp.avg(x**2) * ((1 - tp.exp(-(above**2))) / below) ** 2

    return tp.derive(program)


SPELLED = {
    "relu": (tp.relu, lambda x: tp.maximum(x, 0), 0.5),
    "sigmoid": (tp.sigmoid, lambda x: 1 / (1 + tp.exp(-x)), 0.293379),
    "step": (tp.sign, lambda x: tp.step(x) - tp.step(-x), 1),
    "modulus": (tp.abs, lambda x: tp.relu(x) + tp.relu(-x), 1),
}


def mean_of(square):
    """E ((1 − e^(−S²))/S)² for S of this variance."""
    scale = np.sqrt(square)
    value = integrate.quad(lambda s: (np.expm1(-(s**2)) / s) ** 2 * stats.norm.pdf(s, scale=scale), 1e-9, 12 * scale)[0]
    return 2 * value


@pytest.mark.parametrize("name", SPELLED)
def test_two_spellings_are_one_fluctuation(name):
    one, other, square = SPELLED[name]
    if name == "sigmoid":
        square = integrate.quad(lambda x: stats.norm.pdf(x) / (1 + np.exp(-x)) ** 2, -12, 12)[0]
    found = quotient(one, other).evaluate()["return"].value
    assert found == pytest.approx(mean_of(square), rel=1e-6)
    assert found != pytest.approx(mean_of(1.01 * square), rel=1e-4)


def test_two_functions_are_two_fluctuations():
    """Beside it S is independent of T, or nearly: (1 − e^(−S²))/T has a pole."""
    for other in (lambda x: tp.relu(-x), lambda x: tp.maximum(x, 1e-3)):
        with pytest.raises(tp.TplimitsError, match=r"not established|not finite|converge"):
            quotient(tp.relu, other).evaluate()


def test_a_root_that_a_spelling_leaves_is_refused():
    """√(max(x, 0) − 1) is real nowhere near 0, in either spelling; √(max(x, 0)) is everywhere."""

    def program(f):
        @tp.program
        def of(x: tp.Vector):
            return tp.avg(tp.sqrt(f(x)) ** 2)

        return tp.derive(of)

    assert program(lambda x: tp.maximum(x, 0)).evaluate()["return"].value == pytest.approx(1 / np.sqrt(2 * np.pi))
    with pytest.raises(tp.TplimitsError, match=r"not real|root"):
        program(lambda x: tp.maximum(x, 0) - 1).evaluate()


@pytest.mark.parametrize("named", [True, False], ids=["named", "written"])
def test_a_sigmoid_of_a_sum_is_one_head_at_every_depth(named):
    """h ← h/2 + eʰ/(1 + eʰ), three times: exponents that are sums cancel, too."""

    def named_parts(h):
        above = tp.exp(h)
        below = 1 + above
        share = above / below
        return h / 2 + share

    def written(h):
        return h / 2 + tp.exp(h) / (1 + tp.exp(h))

    @tp.program
    def program(x: tp.Vector):
        layer = named_parts if named else written
        return tp.avg(layer(layer(layer(x))))

    def truth(shift):
        def value(h):
            for _ in range(3):
                h = h / 2 + shift / (1 + np.exp(-h))
            return h

        return integrate.quad(lambda x: value(x) * stats.norm.pdf(x), -12, 12)[0]

    found = tp.derive(program).evaluate()["return"].value
    assert found == pytest.approx(truth(1), rel=1e-9)
    assert found != pytest.approx(truth(1.0001), rel=1e-6)


def test_a_power_that_is_a_constant_stands_beside_an_exponential():
    @tp.program
    def program(x: tp.Vector, *, c):
        return tp.avg(tp.sigmoid(x) ** c * tp.exp(-x))

    limit = tp.derive(program)
    for c in (0.5, 2):
        truth = integrate.quad(lambda x, c=c: (1 + np.exp(-x)) ** -c * np.exp(-x) * stats.norm.pdf(x), -20, 20)[0]
        found = limit.evaluate(constants={"c": c})["return"].value
        assert found == pytest.approx(truth, rel=1e-8)
        assert found != pytest.approx(1.0001 * truth, rel=1e-6)
