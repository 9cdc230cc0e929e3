"""tp.expect is one number in every engine: closed forms and mpmath tell which."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import sympy

import tplimits as tp

TENTH = sympy.Rational(3, 10)


def by_mpmath(function, *places):
    return float(mpmath.quad(lambda g: function(g) * mpmath.npdf(g), [-14, -4, -1, *places, 4, 14]))


def power(a):
    """E |g|^a."""
    return 2 ** (a / 2) * math.gamma((a + 1) / 2) / math.sqrt(math.pi)


CONSTANTS = {
    "|g|^(-2/5)": (lambda g: tp.abs(g) ** sympy.Rational(-2, 5), power(-0.4)),
    "|g|^(-9/10), half of it nearer than 1/1000": (lambda g: tp.abs(g) ** sympy.Rational(-9, 10), power(-0.9)),
    "falling fast from a kink": (
        lambda g: 1000 * tp.exp(-50 * g) * tp.relu(g),
        by_mpmath(lambda g: 1000 * max(g, 0) * mpmath.exp(-50 * max(g, 0)), 0, 0.02, 0.1, 0.5),
    ),
    "|g|^(-1/2), no second moment": (lambda g: 1 / tp.sqrt(tp.abs(g)), power(-0.5)),
    "log|g|": (lambda g: tp.log(tp.abs(g)), -(np.euler_gamma + math.log(2)) / 2),
    "narrow pole": (
        lambda g: 1 / (g * g + sympy.Rational(1, 10**4)),
        math.exp(5e-5) * math.pi * math.erfc(1e-2 / math.sqrt(2)) / 1e-2 / math.sqrt(2 * math.pi),
    ),
    "far exponential": (lambda g: tp.exp(20 * g), math.exp(200)),
    "peak": (lambda g: tp.exp(-1000 * (g - 1) ** 2), math.exp(-1000 / 2001) / math.sqrt(2001)),
    "wave": (lambda g: tp.cos(30 * g) ** 2, 0.5),
    "jumps of a fast wave": (lambda g: tp.step(tp.sin(100 * g) - sympy.S.Half), 1 / 3),
    "kink": (lambda g: tp.relu(tp.exp(g) - 2), by_mpmath(lambda g: max(mpmath.exp(g) - 2, 0), mpmath.log(2))),
    "modulus": (
        lambda g: tp.abs(tp.tanh(g) - TENTH),
        by_mpmath(lambda g: abs(mpmath.tanh(g) - mpmath.mpf("0.3")), mpmath.atanh("0.3")),
    ),
}


def engines(function):
    """The constant c as width, finite width, NNGP and a drift read it."""

    @tp.program
    def alone(x: tp.Vector):
        return tp.expect(function) * tp.avg(0 * x + 1)

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.expect(function) * tp.sum(U * ξ, over="d")

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix):
        return W @ x + tp.expect(function) * (W @ x) / tp.n

    return {
        "width": tp.derive(alone).evaluate()["return"].value,
        "run": alone.run(n=4, seed=0)["return"],
        "kernels": tp.derive(network, tp.Kernels()).evaluate([[1.0, 0.0]]).nngp[0, 0] ** 0.5,
        "depth": tp.derive(block, tp.Proportional()).drift_at([[1.0]])[0, 0] / 2,
    }


@pytest.mark.parametrize("name", CONSTANTS)
def test_every_engine_reads_the_same_number(name):
    function, true = CONSTANTS[name]
    found = engines(function)
    found["kernels"] *= math.copysign(1, true)
    assert found == pytest.approx(dict.fromkeys(found, true), rel=1e-11)
    # what a fixed rule gave of them
    assert found != pytest.approx(dict.fromkeys(found, true * (1 + 1e-9)), rel=1e-11)


def test_a_constant_with_jumps_is_no_gate_of_training():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.expect(lambda g: tp.step(tp.sin(7 * g) - sympy.S.Half)) * tp.sum(U * ξ, over="d")

    limit = tp.derive(network, tp.MaximalUpdate(tp.SGD()))
    asked = {"error": lambda f: 0 * f + 1, "lr": 1e-3, "steps": 1, "particles": 64, "replicates": 2}
    jumps = [(math.asin(0.5) + 2 * math.pi * k, math.pi - math.asin(0.5) + 2 * math.pi * k) for k in range(-20, 20)]
    true = sum(float(mpmath.ncdf(b / 7) - mpmath.ncdf(a / 7)) for a, b in jumps)
    assert limit.evaluate([[1.0, 0.0]], **asked).f[1, 0] == pytest.approx(-2e-3 * true**2, rel=1e-9)


@pytest.mark.parametrize("function", [lambda g: 1 / tp.abs(g), lambda g: tp.exp(g * g / 2)])
def test_infinite_means_are_refused_by_networks_too(function):
    @tp.program
    def alone(x: tp.Vector):
        return tp.expect(function) * tp.avg(x * x)

    with pytest.raises(tp.NoLimitError, match="no finite mean"):
        tp.derive(alone)
    with pytest.raises(tp.EvaluationError, match="infinite"):
        alone.run(n=4, seed=0)
