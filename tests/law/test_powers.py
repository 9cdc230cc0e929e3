"""Powers of n in the terms of a sum."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from sympy import Rational, S

import tplimits as tp
from tplimits.program.nodes.entries import N
from tplimits.program.nodes.scale import powers_of_n

x = sympy.Symbol("x", real=True)


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        (x, (0,)),
        (x * N + 2 * sympy.sqrt(N), (Rational(1, 2), 1)),
        (x**2 / N - sympy.sqrt(N) * N * x, (-1, Rational(3, 2))),
        (x * sympy.exp(N), ()),
        (x + sympy.tanh(x * N), ()),
        (N**x, ()),
        (x + N ** sympy.sqrt(2), ()),
        (S.Zero, ()),
    ],
    ids=str,
)
def test_they_are_those_of_all_terms_or_none(expr, found):
    assert set(powers_of_n(expr)) == set(found)


@tp.program
def kink_in_a_kink(x: tp.Vector, a: tp.Vector, V: tp.Matrix):
    y = tp.tanh(x)
    # max(s, t) with s − t → 0, inside of min(…, 2)
    ones = tp.clip(2 * tp.avg(tp.step(V @ y)), tp.avg((V @ y) ** 2) / tp.avg(y * y), 2)
    return tp.avg(y * y * ones * tp.sigmoid(1 + tp.sqrt(tp.n) * tp.avg(a * x)))


def test_a_kink_inside_of_one_that_is_decided_keeps_its_own_side():
    nodes, step = np.linspace(-9, 9, 2001, retstep=True)
    law = step * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    wanted = (law @ np.tanh(nodes) ** 2) * (law @ (1 / (1 + np.exp(-1 - nodes))))
    limit = tp.derive(kink_in_a_kink)
    assert limit.evaluate()["return"].value == pytest.approx(wanted, rel=1e-9)
    # max(s, t) is above 1 by n^(−1/2)
    at_width = np.mean([kink_in_a_kink.run(n=300, seed=s)["return"] for s in range(200)])
    assert abs(at_width - wanted) < 0.15 * wanted < abs(at_width - 2 * wanted)


n = tp.n
#: functions of y, of the mean of y² and of the width, and what they are of numbers
QUOTIENTS = {
    "relu(y √(n/(n − 1)))": (
        lambda y, m: tp.relu(y * tp.sqrt(n / (n - 1))),
        lambda y, n: max(y, 0) * (n / (n - 1)) ** 0.5,
    ),
    "tanh(y √n/√(n + 3))²": (
        lambda y, m: tp.tanh(y * tp.sqrt(n) / tp.sqrt(n + 3)) ** 2,
        lambda y, n: mpmath.tanh(y * mpmath.sqrt(n / (n + 3))) ** 2,
    ),
    "relu(y/√(m n/(2n − 1)))": (
        lambda y, m: tp.relu(y / tp.sqrt(m * n / (2 * n - 1))),
        lambda y, n: max(y, 0) / mpmath.sqrt(n / (2 * n - 1)),
    ),
    "exp(y √n (√(n + m) − √n))": (
        lambda y, m: tp.exp(y * tp.sqrt(n) * (tp.sqrt(n + m) - tp.sqrt(n))),
        lambda y, n: mpmath.exp(y * mpmath.sqrt(n) * (mpmath.sqrt(n + 1) - mpmath.sqrt(n))),
    ),
}


@pytest.mark.parametrize("case", QUOTIENTS)
def test_roots_of_quotients_of_the_width_tend_to_numbers(case):
    body, f = QUOTIENTS[case]

    @tp.program
    def program(y: tp.Vector):
        return tp.avg(body(y, tp.avg(y * y)))

    found = float(tp.derive(program).evaluate()["return"])

    def at(width):
        return mpmath.quad(lambda y: f(y, width) * mpmath.npdf(y), [-12, 0, 12])

    with mpmath.workdps(40):
        far, farther = (at(mpmath.mpf(10) ** k) for k in (8, 10))
    assert abs(farther - far) < 1e-7, "it tends to something"
    assert found == pytest.approx(float(farther), abs=1e-9)


def test_roots_of_what_grows_have_no_limit():
    @tp.program
    def grows(y: tp.Vector):
        return tp.avg(tp.tanh(y * tp.sqrt(n * n / (n - 1))))

    with pytest.raises(tp.NoLimitError, match="grows with n"):
        tp.derive(grows)


def _normed(factor):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        c = h - tp.avg(h)
        return v * tp.tanh(c / tp.sqrt(tp.avg(c * c) * factor))

    return net


def test_networks_with_unbiased_variances_train_as_others_do():
    X, error = np.array([[1.0, 0.5], [-0.3, 1.2]]), tp.squared_error(np.array([1.0, -1.0]))

    def trained(factor):
        limit = tp.derive(_normed(factor), tp.MaximalUpdate(tp.SGD()))
        return limit.evaluate(X, error=error, lr=0.5, steps=2, particles=256, replicates=4, seed=0).f

    plain = trained(1)
    assert abs(trained(n / (n - 1)) - plain).max() < 1e-12
    # a variance of half the size is another network
    assert abs(trained(n / (2 * n - 1)) - plain).max() > 1e-2
