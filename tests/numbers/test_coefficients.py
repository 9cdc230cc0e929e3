"""Numbers in a mean that are 0 within their errors."""

from __future__ import annotations

import math

import pytest
import sympy

import tplimits as tp
from tplimits.numbers.coefficients import coefficients
from tplimits.numbers.forms import Form, Inner, Integrand

s, t = sympy.symbols("s t", real=True)
f, g, x, y = sympy.symbols("f g x y", real=True)


def _integrand(body, forms, local=()):
    return Integrand((x,), tuple(forms.items()), body, (), local, ())


def test_what_an_integrand_is_made_of():
    inner = _integrand(sympy.tanh(g * (s + t)), {g: Form(((y, t),), s * f)})
    whole = _integrand(
        s * f**2 - t * f**2 + sympy.exp(s * t * f) + 3,
        {f: Form(((x, s - t),), 2 * t)},
        (Inner(sympy.Symbol("m"), inner, (f,)), (sympy.Symbol("l"), s**2 * f)),
    )
    assert set(coefficients(whole)) == {s - t, 2 * t, t, s, s + t, s**2, s * t}


def _at_a_zero(function):
    """avg f(s, u) with s = avg(x tanh x) − avg(1 − tanh² x), which is 0 by Stein's lemma and 10⁻¹⁶ in doubles."""

    @tp.program
    def program(x: tp.Vector, u: tp.Vector, W: tp.Matrix):
        zero = tp.avg(x * tp.tanh(x)) - tp.avg(1 - tp.tanh(x) ** 2)
        return tp.avg(function(zero, u, W))

    return tp.derive(program).evaluate("quadrature")["return"]


@pytest.mark.parametrize(
    "function",
    [
        lambda s, u, W: tp.abs(s * u) ** 0.25,  # 9e-5 ± 2e-18 for 0
        lambda s, u, W: tp.abs(s * u) ** 0.1,  # .026 ± 1e-15 for 0
        lambda s, u, W: tp.tanh(1e17 * s * u) * u,
        lambda s, u, W: tp.tanh(W @ (1e17 * s * u)) ** 2,
    ],
    ids=["root", "tenth root", "slope", "image"],
)
def test_a_mean_that_a_zero_in_disguise_decides_is_refused(function):
    with pytest.raises(
        tp.EvaluationError, match=r"0 within its error: it is .* and moves by|is known to .* and no better"
    ):
        _at_a_zero(function)


@pytest.mark.parametrize(
    ("function", "right"),
    [
        (lambda s, u, W: tp.relu(u + s * u) * u, 0.5),
        (lambda s, u, W: tp.sqrt(tp.abs(s * u)), 0.0),
        (lambda s, u, W: tp.tanh(W @ (s * u)) ** 2 + u * u, 1.0),
        (lambda s, u, W: u * u * tp.exp(-((s * u) ** 2)), 1.0),
        # multiplied out, s² is negative by its rounding: "the quadrature of √… is not finite"
        (lambda s, u, W: tp.sqrt(s * s + u * u), (2 / math.pi) ** 0.5),
        (lambda s, u, W: tp.sqrt(s * s * u * u + s * s), 0.0),
        (lambda s, u, W: u * u / (s * s + u * u), 1.0),
    ],
    ids=["kink", "root", "image", "bump", "norm", "small norm", "share"],
)
def test_a_mean_that_hardly_moves_with_a_zero_in_disguise_says_how_far(function, right):
    found = _at_a_zero(function)
    assert abs(found.value - right) <= 2 * found.error < 1e-6
