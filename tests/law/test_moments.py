"""What open means and dot coefficients are shown as: functions of constants, and pseudo-inverses of singular Grams."""

from __future__ import annotations

import mpmath
import pytest
import sympy

import tplimits as tp
from tplimits.law.means import Expectation


@pytest.mark.parametrize("where", ["alone", "over boxes"])
def test_open_means_are_functions_of_constants(where):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector, *, γ):
        b = tp.neuron("b")
        return tp.avg(tp.tanh(γ * x) ** 2 if where == "alone" else tp.tanh(tp.avg(tp.tanh(γ * y[b] + x) ** 2, over=b)))

    shown = tp.derive(program).scalar("return")
    (γ,) = shown.free_symbols
    assert str(γ) == "γ" and shown.has(Expectation)
    assert shown.diff(γ) != 0 and sympy.diff(γ * shown, γ) == shown + γ * shown.diff(γ)
    if where == "alone":
        mean = shown.diff(γ).integrand
        (x,) = mean.free_symbols - {γ}
        slope = sympy.lambdify(x, mean.subs(γ, 2), "mpmath")

        def value(γ):
            return mpmath.quad(lambda x: mpmath.tanh(γ * x) ** 2 * mpmath.npdf(x), [-20, 0, 20])

        found = mpmath.quad(lambda x: slope(x) * mpmath.npdf(x), [-20, 0, 20])
        assert abs(found - mpmath.diff(value, 2)) < 1e-8 and abs(found) > 0.1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_images_of_one_vector_share_their_coefficient(size):
    """W y in several spellings: the pseudo-inverse gives each its share of E x h, and all together are it."""
    engine = tp.derive(tp.program(one)).state.engine
    v, c = sympy.symbols("v c", positive=True)
    gram, products = ((v,) * size,) * size, (c,) * size
    found = [engine.written_out(engine.stein(place, gram, products)) for place in range(size)]
    assert [sympy.simplify(f - c / (size * v)) for f in found] == [0] * size


def test_images_of_different_vectors_have_the_inverse():
    engine = tp.derive(tp.program(one)).state.engine
    found = [engine.written_out(engine.stein(place, ((2, 1), (1, 1)), (3, 1))) for place in range(2)]
    assert found == [2, -1]


def one(x: tp.Vector):
    return tp.avg(x * x)
