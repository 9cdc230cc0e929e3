"""Divisors whose parts a power of n weighs against each other, in scalars and in vectors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

import tplimits as tp


def mean(function):
    """E f(g), g standard normal."""
    return scipy.integrate.quad(lambda g: function(g) * np.exp(-g * g / 2) / np.sqrt(2 * np.pi), -12, 12)[0]


@pytest.mark.parametrize(
    ("quotient", "of_s"),
    [
        (lambda s: tp.n * s * s / (1 + tp.n * s * s), lambda g: g * g / (1 + g * g)),
        (lambda s: tp.n * s * s / (2 + tp.n * s * s), lambda g: g * g / (2 + g * g)),
        (lambda s: tp.n**2 * s**4 / (1 + tp.n**2 * s**4), lambda g: g**4 / (1 + g**4)),
        (lambda s: (1 + 2 * tp.n * s * s) / (1 + tp.n * s * s), lambda g: (1 + 2 * g * g) / (1 + g * g)),
        (lambda s: tp.n**1.5 * tp.abs(s) / (1 + tp.n**1.5 * tp.abs(s)), lambda g: 1.0),
    ],
    ids=["n s²/(1 + n s²)", "n s²/(2 + n s²)", "n² s⁴/(1 + n² s⁴)", "(1 + 2n s²)/(1 + n s²)", "n^(3/2)|s|"],
)
def test_averages_absorb_the_powers_of_n_of_a_quotient(quotient, of_s):
    """n s²/(1 + n s²) is S²/(1 + S²), S = √n s, alone and beside vectors."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x * y)
        return quotient(s), tp.avg(x * x * quotient(s))

    found = tp.derive(program).evaluate()
    assert [found[f"return[{k}]"].value for k in (0, 1)] == pytest.approx([mean(of_s)] * 2, abs=1e-9)


def test_of_two_scalars():
    @tp.program
    def program(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        s, t = tp.avg(x * y), tp.avg(x * z)
        return tp.n * t * t / (1 + tp.n * s * s)

    assert tp.derive(program).evaluate()["return"].value == pytest.approx(mean(lambda g: 1 / (1 + g * g)), abs=1e-9)


def test_a_limit_that_is_no_zero_outgrows_what_is_added():
    @tp.program
    def program(x: tp.Vector):
        s = tp.avg(x * x)
        return tp.n * s / (1 + tp.n * s), tp.avg(x * x / (s + 1 / tp.n))

    found = tp.derive(program).evaluate()
    assert [found[f"return[{k}]"].value for k in (0, 1)] == pytest.approx([1, 1])


#: functions that are sharp at 0, and whether their gradients alone are
SHARP = {
    "n x²/(1 + n x²)": (lambda x: tp.n * x * x / (1 + tp.n * x * x), False),
    "n^(−1/2)/(x² + 1/n)": (lambda x: 1 / (x * x + 1 / tp.n) / tp.sqrt(tp.n), False),
    "(n (|x| + 1/n)²)^(−1)": (lambda x: 1 / (tp.abs(x) + 1 / tp.n) ** 2 / tp.n, False),
    "x/√(x² + 1/n)": (lambda x: x / tp.sqrt(x * x + 1 / tp.n), True),
    "x/(|x| + 1/n)": (lambda x: x / (tp.abs(x) + 1 / tp.n), True),
}


@pytest.mark.parametrize("name", SHARP)
def test_sharp_functions_of_vectors_are_refused_where_they_are_seen(name):
    """Networks have E n^(−1/2)/(x² + 1/n) = √(π/2), and gradients of the others that grow with n."""
    function, gradients = SHARP[name]

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"))

    def asked(derive):
        with pytest.raises(tp.TplimitsError, match=r"turns ever more sharply|moment not established"):
            derive()

    if gradients:  # sign(x), as it stands
        assert tp.derive(network, tp.Kernels(train=("v",))).evaluate([[1.0]]).nngp == pytest.approx(1)
    else:
        asked(lambda: tp.derive(program).evaluate())
        asked(lambda: tp.derive(network, tp.Kernels(train=("v",))).evaluate([[1.0]]))
    asked(lambda: tp.derive(network, tp.NeuralTangent(tp.SGD())))
    asked(lambda: tp.derive(network, tp.MaximalUpdate(tp.SGD())))
