"""The derivative of a jump beside another jump at the same place is no zero."""

from __future__ import annotations

import numpy as np
import pytest
from sympy import DiracDelta

import tplimits as tp
from tplimits.program.network.differentiate import partials
from tplimits.program.nodes.entries import axis_symbol

JUMPING = {
    "step·sign": lambda h: tp.step(h) * tp.sign(h),
    "sign³": lambda h: tp.sign(h) ** 3,
    "relu of a jump": lambda h: tp.relu(h + tp.sign(h)),
    "where between a jump and 0": lambda h: tp.where(h, tp.step(h), 0 * h),
    "|step|": lambda h: tp.abs(tp.step(h)),
}
CONTINUOUS = {
    "h step": lambda h: h * tp.step(h),
    "h sign step": lambda h: h * tp.sign(h) * tp.step(h),
    "relu·sign": lambda h: tp.relu(h) * tp.sign(h),
    "where": lambda h: tp.where(h, tp.tanh(h), h * tp.step(-h)),
    "tanh(h step)": lambda h: tp.tanh(h * tp.step(h)),
}


def network_of(f):
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * f(W @ tp.sum(U * ξ, over="d"))

    return tp.network(network)


def has_delta(f):
    body = network_of(f)[-1].body
    return any(p.value.has(DiracDelta) for p in partials(body, axis_symbol))


@pytest.mark.parametrize("case", JUMPING)
def test_a_jump_beside_a_jump_has_no_gradient(case):
    assert has_delta(JUMPING[case])
    with pytest.raises(tp.NoLimitError, match="crosses 0"):
        tp.derive(network_of(lambda h: JUMPING[case](h) + tp.tanh(h)), tp.MaximalUpdate(tp.SGD()))
    with pytest.raises(tp.NoLimitError, match="the derivatives of two jumps"):
        _ = tp.derive(network_of(JUMPING[case]), tp.Kernels()).evaluate(np.array([[0.6, 0.8]])).ntk


@pytest.mark.parametrize("case", [case for case in JUMPING if case != "relu of a jump"])
def test_what_is_constant_beside_its_jumps_is_learned_through_at_rest(case):
    """As networks learn, in which it has the derivative 0: the readout alone moves."""
    f = JUMPING[case]
    asked = {"error": tp.squared_error([1.0, -0.5]), "lr": 0.5, "steps": 2, "particles": 1024}
    found, stopped, moved = (
        tp.derive(network_of(g), tp.MaximalUpdate(tp.SGD())).evaluate(np.array([[0.6, 0.8], [1.0, 0.0]]), **asked)
        for g in (f, lambda h: tp.stop_gradient(f(h)), lambda h: f(h) - tp.stop_gradient(tp.tanh(h)))
    )
    errors = np.hypot(found.stderr, stopped.stderr)[-1]
    assert (abs(found.f - stopped.f)[-1] < 5 * errors).all()
    assert (abs(moved.f - stopped.f)[-1] > 5 * errors).any()


@pytest.mark.parametrize("case", CONTINUOUS)
def test_what_is_continuous_has_no_delta(case):
    assert not has_delta(CONTINUOUS[case])
