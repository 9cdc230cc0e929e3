"""Removable poles at scalars that tend to zero: one value on width, kernels and depth; poles that stay are refused."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

#: a function of s → 0, and what it tends to
CONTINUED = {
    "log(1 + s)/s": (lambda s: tp.log(1 + s) / s, 1),
    "(exp s − 1)/s": (lambda s: (tp.exp(s) - 1) / s, 1),
    "(1 − cos s)/s²": (lambda s: (1 - tp.cos(s)) / s**2, 0.5),
    "sin(2s)/s": (lambda s: tp.sin(2 * s) / s, 2),
    "s/(s + s²)": (lambda s: s / (s + s**2), 1),
    "(tanh s − s)/s³": (lambda s: (tp.tanh(s) - s) / s**3, -1 / 3),
    "((exp s − 1)/s)²": (lambda s: ((tp.exp(s) - 1) / s) ** 2, 1),
    "s/tanh s": (lambda s: s / tp.tanh(s), 1),
}
STAY = {
    "1/s": lambda s: 1 / s,
    "exp(s)/s": lambda s: tp.exp(s) / s,
    "relu(s)/s": lambda s: tp.relu(s) / s,
    "|s|/s": lambda s: tp.abs(s) / s,
    "√s²/s": lambda s: tp.sqrt(s * s) / s,
    "(1 − cos s)/s³": lambda s: (1 - tp.cos(s)) / s**3,
    "tanh(1/s)": lambda s: tp.tanh(1 / s),
    "log(s)·s": lambda s: tp.log(s) * s,
}
X = np.array([[0.6, 0.8]])


def of_width(f):
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.avg(x * x * f(tp.avg(x * (W @ x))))

    return program


def of_kernels(f):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * f(tp.avg(x * (W @ x)))

    return network


@pytest.mark.parametrize("case", CONTINUED)
def test_a_quotient_tends_to_its_continuation(case):
    f, value = CONTINUED[case]
    limit = tp.derive(of_width(f))
    assert limit.evaluate()["return"].value == pytest.approx(value, rel=1e-12)
    kernels = tp.derive(of_kernels(f), tp.Kernels())
    assert kernels.evaluate(X).nngp.item() == pytest.approx(value**2, rel=1e-12)
    network = of_width(f).run(n=1000, seed=3)["return"]
    assert abs(network - value) < 0.2 * abs(value)


@pytest.mark.parametrize("case", STAY)
def test_a_pole_that_stays_is_refused(case):
    for derived in (
        lambda: tp.derive(of_width(STAY[case])).evaluate(),
        lambda: tp.derive(of_kernels(STAY[case]), tp.Kernels()).evaluate(X),
    ):
        with pytest.raises(tp.TplimitsError, match=r"not finite at the limit|stands under"):
            derived()


def test_scalars_that_are_zero_at_some_networks_are_not_divided_by():
    """avg(step(h)) − ½ is 0 at every other width with positive probability: 0/0 in networks."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        s = tp.avg(tp.step(W @ x)) - 0.5
        return tp.sin(s) / s

    with pytest.raises(tp.TplimitsError, match="not finite at the limit"):
        tp.derive(program).evaluate()


def test_the_quotient_of_two_fluctuations_stays():
    @tp.program
    def program(W: tp.Matrix, V: tp.Matrix, x: tp.Vector):
        return tp.avg(x * (W @ x)) / tp.avg(x * (V @ x))

    with pytest.raises(tp.TplimitsError, match="not finite at the limit"):
        tp.derive(program).evaluate()
