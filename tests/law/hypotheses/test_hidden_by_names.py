"""Long limits of scalars stand under names: what they hide, a zero for all draws or for a share of them, is seen."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp


def characteristic(read, shift=0.0):
    """avg cos h − exp(−avg h²/2) of h = V(t x + u b), t and u random: 0 in the limit, written as different products."""

    @tp.program
    def program(x: tp.Vector, a: tp.Vector, b: tp.Vector, V: tp.Matrix):
        t, u = tp.tanh(tp.sqrt(tp.n) * tp.avg(a * b)), tp.tanh(tp.sqrt(tp.n) * tp.avg(a * x))
        h = V @ (t * x + u * b)
        s = tp.avg(tp.cos(h)) - tp.exp(-tp.avg(h**2) / 2) + shift
        return read(s, x)

    return program


def switched(read, shift=0.0):
    """relu(S) times what is long, and z → 0 beside it: for S < 0 the side of z decides."""

    @tp.program
    def program(x: tp.Vector, a: tp.Vector, b: tp.Vector, c: tp.Vector):
        S, T = tp.sqrt(tp.n) * tp.avg(a * b), tp.sqrt(tp.n) * tp.avg(a * x)
        long = 1 + tp.tanh(T) ** 2 + tp.sin(T) ** 2 + tp.exp(T) + tp.exp(-T) + tp.cos(S) ** 2 + tp.exp(S) + tp.exp(-S)
        return read(tp.relu(S) * long + tp.avg(b * c) + shift, x)

    return program


READINGS = {
    "jump": lambda s, x: tp.avg(tp.step(s) * x**2),
    "jump of vectors": lambda s, x: tp.avg(tp.sign(x * s) * x),
    "pole": lambda s, x: tp.avg(tp.tanh(1 / s) * x**2),
}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("made", [characteristic, switched])
def test_zeros_that_a_name_hides_are_refused(made, reading):
    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match=r"lands on a jump|not finite at the limit"):
        tp.derive(made(READINGS[reading])).evaluate()


@pytest.mark.parametrize("made", [characteristic, switched])
def test_what_stays_off_zero_has_its_number(made):
    for shift, value in ((0.25, 1.0), (3, 1.0)):
        found = tp.derive(made(READINGS["jump"], shift)).evaluate(only=("return",))["return"]
        assert float(found) == pytest.approx(value, abs=1e-6)
    assert float(tp.derive(characteristic(READINGS["jump"], -0.25)).evaluate(only=("return",))["return"]) == 0


def test_networks_have_either_side_there():
    """In a half of the networks S < 0, and in half of these z > 0: a mean of ¾, and no limit."""
    n, rng = 400, np.random.default_rng(0)
    x, a, b, c = rng.standard_normal((4, 4000, n))
    S = (a * b).sum(axis=1) / np.sqrt(n)
    seen = (np.maximum(S, 0) + (b * c).mean(axis=1) > 0) * (x**2).mean(axis=1)
    assert abs(seen.mean() - 0.75) < 0.03 and np.abs(seen[S < 0].mean() - 0.5) < 0.05
    assert seen[S < 0].std() > 0.4
