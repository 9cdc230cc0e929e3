"""Functions of random logits that cancel beside a pole: doubles lose their digits there, and many digits do not."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tplimits as tp

INPUT = [[1.0, 0.5]]
MANY = 300
#: u as a function of a logit s, and in many digits
INNER = {
    "s²/2": (lambda s: s**2 / 2, lambda s: s**2 / 2),
    "s³/6": (lambda s: s**3 / 6, lambda s: s**3 / 6),
    "s/50": (lambda s: s / 50, lambda s: s / 50),
}
QUOTIENTS = {
    "log(1 + u²)/u²": (lambda u: tp.log(1 + u * u) / u**2, lambda u: mpmath.log(1 + u * u) / u**2),
    "(tanh(u) − u)/u³": (lambda u: (tp.tanh(u) - u) / u**3, lambda u: (mpmath.tanh(u) - u) / u**3),
}


def kernels(function):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, M: tp.Matrix, v: tp.Vector):
        h = tp.tanh(tp.sum(U * ξ, over="d"))
        a = tp.avg((W @ h) * (M @ h)).named("a")
        return v * h * function(tp.sqrt(tp.n) * a)

    sample = tp.derive(network, tp.Kernels()).sample(INPUT, draws=MANY)
    return sample.nngp.ravel(), sample.ntk.ravel()


def mean(function):
    r = mpmath.sqrt(sum(x * x for x in INPUT[0]))
    density = mpmath.npdf
    return mpmath.quad(lambda x: function(mpmath.tanh(r * x), r) * density(x), mpmath.linspace(-12, 12, 13))


@pytest.fixture(scope="module")
def law():
    """E h², Θ of h, and |s| at the draws."""
    with mpmath.workdps(20):
        second, slope = mean(lambda t, r: t * t), mean(lambda t, r: r * r * (1 - t * t) ** 2)
    size = np.sqrt(kernels(lambda s: s)[0] / float(second))
    return second, slope, size


def wanted(of_u, inner, law):
    second, slope, sizes = law
    moved = 2 * second * (second + slope)  # of the logit
    found = []
    with mpmath.workdps(60):
        for s in map(mpmath.mpf, sizes):
            value, derivative = of_u(inner(s)), mpmath.diff(lambda x: of_u(inner(x)), s)
            found.append(
                (value**2 * second, second * derivative**2 * moved + value**2 * (second + slope))  # E h² Θ + K + Θ_h
            )
    return np.array(found, dtype=float).T


@pytest.mark.parametrize("quotient", QUOTIENTS)
@pytest.mark.parametrize("inner", INNER)
def test_all_draws_have_their_digits(quotient, inner, law):
    (written, of_u), (of_s, alone) = QUOTIENTS[quotient], INNER[inner]
    for found, exact in zip(kernels(lambda s: written(of_s(s))), wanted(of_u, alone, law), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_sums_of_logits_are_variables_of_their_own():
    """(log(1 + u²)/u²)² is at most 1, and never 0."""

    def network(quotient):
        @tp.network
        def heads(ξ: tp.Input["token", "d"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            s = tp.sum(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
            return v * (V @ x) * quotient(s**3 / 600)

        return tp.derive(heads, tp.Kernels()).sample(np.eye(2)[None] + 0.1, draws=MANY).nngp[:, 0, 0, 0, 0]

    of_squares = network(lambda u: u)
    found = network(lambda u: tp.log(1 + u * u) / u**2)
    second = 1.1**2 + 0.1**2  # E x²
    squares = of_squares / second
    with mpmath.workdps(60):
        exact = [second * (mpmath.log(1 + u) / u) ** 2 for u in map(mpmath.mpf, squares)]
    np.testing.assert_allclose(found, np.array(exact, dtype=float), rtol=1e-9)
