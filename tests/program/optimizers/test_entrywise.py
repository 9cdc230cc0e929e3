"""Values of update functions: real numbers, none, and what SymPy does not tell; where they grow and jump."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sympy
from sympy import I, Max, S, Symbol, oo, sqrt

import tplimits as tp
from tplimits.program.optimizers.entrywise import has_pole, lost_by, not_real_at, value_at

g = Symbol("g", real=True)
TINY = S(10) ** -50


@pytest.mark.parametrize(
    ("first", "at", "value"),
    [
        (g**3 - g / 2, S(3), S(51) / 2),
        (g * (1 + I * TINY**2), S(2), S(2)),  # rounding of a root of unity
        (g * (1 + I * S(10) ** -61), S(2), S(2)),
        (g * (1 + I * TINY), S(2), "none"),
        (g * (1 + I), S(2), "none"),
        (sqrt(g), S(-4), "none"),
        (1 / g, S.Zero, "none"),
        (-oo * g, S.One, "none"),
        (oo * g, S.One, "none"),
        (Symbol("c", real=True) * g, S.One, "open"),
        (Symbol("c", real=True) * I + g, S.One, "open"),
    ],
)
def test_values(first, at, value):
    found = value_at(first, g, at)
    if isinstance(value, str):
        assert found is (None if value == "open" else sympy.nan)
    else:
        assert abs(found - value) < TINY


@pytest.mark.parametrize(
    ("first", "low", "high"),
    [
        (sqrt(1000 - g), 1000, 10**4),
        (sqrt(g + 1000), -(10**4), -1000),
        (sqrt(g), -1, 0),
        (sqrt(g**2 - S(10) ** -10), -(S(10) ** -5), S(10) ** -5),
        (sympy.tanh(g), None, None),
        (sympy.log(1 + g**2), None, None),
    ],
)
def test_a_gradient_without_a_real_value(first, low, high):
    """The first that is met, of sizes between those of rounding and 10⁴."""
    found = not_real_at(first, g)
    assert (found is None) == (low is None)
    assert low is None or low < found < high


@pytest.mark.parametrize(
    ("first", "lost"),
    [
        (g, None),
        (g**3 + 2, None),
        (sympy.Abs(g) ** S("3/2"), None),
        (Max(g, 0), None),
        (1000 * sympy.tanh(g), None),
        (10 * sympy.sign(g) + g, "jumps"),
        (sqrt(Max(g, 0)), "jumps"),
        (sqrt(Max(-g, 0)), "jumps"),
        (sqrt(sympy.Abs(g)), "jumps"),
        (sympy.log(sympy.Abs(g)), "jumps"),
        (1 / sympy.Abs(g) ** S("1/4"), "not bounded"),
        (Max(0, 1 / g), "not bounded"),
        (Max(0, -1 / g), "not bounded"),
        (sympy.exp(g), "faster"),
        (sympy.exp(-g / 10), "faster"),
        (sympy.exp(Max(-g, 0)), "faster"),
        (g**19, None),
    ],
)
def test_why_a_function_is_not_pseudo_lipschitz(first, lost):
    found = lost_by(first, g)
    assert found is None if lost is None else lost in found
    assert has_pole(first, g) == (lost == "not bounded")


@pytest.mark.parametrize(
    ("Q", "degree", "keeps_signs"),
    [
        (lambda g: tp.clip(g, -100, 100), None, True),
        (lambda g: g + tp.relu(g - 1000) - tp.relu(-g - 1000), None, True),
        (lambda g: g * tp.step(tp.abs(g) - 1e-5), None, False),
        (lambda g: g - 3 * tp.clip(g - 300, 0, 2000), None, False),
        (lambda g: 1e9 * tp.tanh(g / 1e9), None, True),
        (lambda g: tp.leaky_relu(g, 0.3), 1, True),
        (lambda g: g / tp.abs(g) ** 0.5, None, True),
        (lambda g: tp.sign(g), 0, True),
    ],
)
def test_what_bends_at_large_or_small_gradients_is_no_multiple_of_them(Q, degree, keeps_signs):
    """At gradients of order 1 alone, where these are judged by eye, most of them are g."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are not pseudo-Lipschitz
        optimizer = tp.Entrywise(Q)
    assert optimizer.degree == degree
    assert optimizer.sign_preserving is keeps_signs


def test_a_root_that_is_not_real_on_one_side_is_judged_on_the_other():
    g = sympy.Symbol("g", real=True)
    assert not has_pole(sympy.sqrt(g), g) and has_pole(1 / sympy.sqrt(g), g)


@pytest.mark.parametrize(
    ("made", "degree"),
    [
        # sign descent from the fifth step on
        ((lambda g, t: tp.where(t - 3.5, tp.sign(g), g),), None),
        ((lambda k, m, g: tp.where(k - 4.5, g, m), {"k": lambda k: k + 1, "m": lambda m, g: m / 2 + g}), 1),
        ((lambda v, g: g / tp.sqrt(v), {"v": lambda v, g: tp.maximum(v, g**2)}), 0),
        ((lambda v, g: g / tp.sqrt(v), {"v": lambda v, g: v + g**2}, {"v": 1}), None),
        ((lambda u, g: u, {"v": lambda v, g: v + g, "u": lambda u, v: u + v**2}), None),
    ],
)
def test_degrees_are_those_of_all_steps(made, degree):
    """Q_t at three times the gradients, over nine steps of NumPy: 3^degree times as large at each, or not at one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one has a pole
        optimizer = tp.Entrywise(*made)
    stepper, rows = optimizer.stepper(), np.random.default_rng(0).standard_normal((9, 5))
    told = []
    for scale in (1.0, 3.0):
        states, updates = stepper.start((5,)), []
        for t, g in enumerate(rows):
            states, moved = stepper.step(t, states, scale * g)
            updates.append(moved)
        told.append(np.array(updates))
    powers = [k for k in (0, 1) if np.allclose(told[1], 3.0**k * told[0])]
    assert powers == ([] if degree is None else [degree])
    assert optimizer.degree == degree
