"""Scalars that are small by a number beside them are no zeros; what is 0 but for rounding is one."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes.entries import NO_NEURON, Entry
from tplimits.regimes.training.numbers.rounding import terms_of

TINY = sympy.Rational(10) ** -31
X = np.array([[1.0, 0.5], [-0.3, 0.8]])
ASKED = {"error": tp.squared_error([1.0, -0.8]), "lr": 0.2, "steps": 3, "particles": 512, "replicates": 4}


def network(gate, size):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        return v * x * gate(size * tp.avg(x * x), size * tp.avg(a * a))

    return net


GATES = {
    "quotient": lambda s, r: r / s,
    "root": lambda s, r: tp.sqrt(r) / tp.sqrt(s),
    "logarithm": lambda s, r: tp.log(r / s),
    "jump": lambda s, r: tp.step(s),
    "bend": lambda s, r: tp.relu(s) / r,
    "of both": lambda s, r: tp.sign(s + r) * s / (s + r),
}


@pytest.mark.parametrize("case", GATES)
def test_small_factors_are_no_zeros(case):
    """What is of degree 0 in its scalars is the same with all of them small: it had been refused below 10⁻¹²."""
    gate = GATES[case]
    small, plain = (
        tp.derive(network(gate, size), tp.MaximalUpdate(tp.SGD())).evaluate(X, **ASKED) for size in (TINY, 1)
    )
    assert abs(plain.f[-1]).max() > 0.01
    np.testing.assert_allclose(small.f, plain.f, rtol=1e-6, atol=1e-9)


def hidden(x, a):
    """0 by an identity: both averages are E x² of the same vector."""
    return tp.avg((x + a) ** 2) - tp.avg(x * x) - tp.avg(a * a) - 2 * tp.avg(x * a)


@pytest.mark.parametrize("size", [1, TINY], ids=["one", "tiny"])
@pytest.mark.parametrize(
    "gate", [lambda s: 1 / s, lambda s: tp.log(1 + s) / s**2, lambda s: tp.step(s)], ids=["pole", "log", "step"]
)
def test_what_rounding_alone_leaves_is_a_zero(gate, size):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        return v * x * gate((size * hidden(x, a)).named("zero"))

    with pytest.raises((tp.EvaluationError, tp.NoLimitError)):
        tp.derive(net, tp.MaximalUpdate(tp.SGD())).evaluate(X, **ASKED)


def test_terms_are_those_that_cancel():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        s = (tp.avg(x * x) - TINY * tp.avg(a * a)).named("s")
        return v * x * s * tp.avg(a * x)

    s, body = Entry(sympy.Integer(net.position("s")), NO_NEURON), net[net.position("s")].body
    squares = sorted(body.atoms(Entry), key=lambda e: e.source)
    mixed = next(e for e in net[net.returns[0]].body.atoms(Entry) if e.neuron == NO_NEURON and e != s)
    assert terms_of(net, s) == abs(squares[0]) + TINY * abs(squares[1])
    assert terms_of(net, TINY * s**2) == TINY * abs(body) * terms_of(net, s)
    # an average of both signs is off like one of order 1
    assert terms_of(net, TINY * mixed) == TINY * (abs(mixed) + 1)
