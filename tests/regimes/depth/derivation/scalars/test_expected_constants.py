"""Constants that are means over a standard normal, with powers of n inside and outside of them.

X′ = c·W x has V′ = c² V + noise, so that the drift is lim n (c² − 1) times V: known from the mean itself.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from scipy.stats import norm

import tplimits as tp
from tplimits.regimes.depth.algebra.forms import Form

V = ("V", (-4, -3), 0)


def scaled(constant):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix):
        return W @ x * constant()

    return block


def drift(constant):
    form = tp.derive(scaled(constant), tp.Proportional()).drift_form
    return form.terms.get((V,), sympy.S.Zero)


def root():
    return tp.sqrt(tp.n)


#: c as the program writes it, and its mean for mpmath at a given n
CASES = {
    "exp": (lambda: tp.expect(lambda g: tp.exp(g / root())), lambda n: mean(lambda g: mpmath.exp(g / mpmath.sqrt(n)))),
    "power": (lambda: tp.expect(lambda g: 2 ** (g / root())), lambda n: mean(lambda g: 2 ** (g / mpmath.sqrt(n)))),
    "1/exp²": (
        lambda: 1 / tp.sqrt(tp.expect(lambda g: tp.exp(2 * g / root()))),
        lambda n: 1 / mpmath.sqrt(mean(lambda g: mpmath.exp(2 * g / mpmath.sqrt(n)))),
    ),
    "square": (
        lambda: tp.expect(lambda g: tp.exp(g**2 / tp.n)),
        lambda n: mean(lambda g: mpmath.exp(g**2 / n)),
    ),
    "n outside": (
        lambda: 1 / tp.sqrt(tp.n * tp.expect(lambda g: tp.tanh(g / root()) ** 2)),
        lambda n: 1 / mpmath.sqrt(n * mean(lambda g: mpmath.tanh(g / mpmath.sqrt(n)) ** 2)),
    ),
    "nested": (
        lambda: tp.expect(lambda g: tp.cos(g * tp.expect(lambda h: tp.exp(h / root())) / root())),
        lambda n: mean(lambda g: mpmath.cos(g * mpmath.exp(1 / (2 * n)) / mpmath.sqrt(n))),
    ),
    "mixed": (
        lambda: 1 + tp.expect(lambda g: tp.tanh(g * (1 + 1 / tp.n)) ** 2) - tp.expect(lambda g: tp.tanh(g) ** 2),
        lambda n: 1 + mean(lambda g: mpmath.tanh(g * (1 + 1 / n)) ** 2 - mpmath.tanh(g) ** 2),
    ),
    "kink away from zero": (
        lambda: 1 + tp.expect(lambda g: tp.relu(g - 1) ** 2) / tp.n,
        lambda n: 1 + mean(lambda g: max(g - 1, 0) ** 2) / n,
    ),
    "ratio": (
        lambda: tp.expect(lambda g: tp.tanh(g) ** 2) / tp.sqrt(tp.expect(lambda g: tp.tanh(g) ** 2) ** 2) + 2 / tp.n,
        lambda n: 1 + mpmath.mpf(2) / n,
    ),
}


def mean(function):
    density = lambda g: function(g) * mpmath.npdf(g)  # noqa: E731
    return mpmath.quad(density, [-12, -6, -2, 0, 1, 2, 6, 12])


@pytest.mark.parametrize("name", CASES)
def test_the_drift_is_that_of_the_mean(name):
    """n (c² − 1) at n and 2n, extrapolated: the error is O(1/n²)."""
    constant, at = CASES[name]
    sde = tp.derive(scaled(constant), tp.Proportional())
    found = sde.drift_at(np.eye(2))[0, 0]
    n = mpmath.mpf(4000)
    one, two = (k * (at(k) ** 2 - 1) for k in (n, 2 * n))
    assert abs(found - float(2 * two - one)) < 2e-6 * max(1.0, abs(found))
    assert abs(found - float(2 * two - one) - 0.01) > 2e-6  # a claim that is off by a hundredth is seen


@pytest.mark.parametrize(
    "constant",
    [
        lambda: tp.expect(lambda g: 1 / (1 + g / root())),
        lambda: tp.expect(lambda g: tp.log(1 + g / root())) + 1,
        lambda: tp.expect(lambda g: tp.sqrt(1 + g / root())),
        lambda: tp.expect(lambda g: tp.exp(g**3 / root())),
        lambda: tp.expect(lambda g: tp.exp(g**2)) / tp.n + 1,
    ],
)
def test_means_that_do_not_exist(constant):
    with pytest.raises(tp.NoLimitError, match=r"tp\.expect of .* finite mean"):
        tp.derive(scaled(constant), tp.Proportional())


def test_a_kink_that_moves_with_n():
    with pytest.raises(tp.NoLimitError, match=r"tp\.expect: .*kink away from zero"):
        drift(lambda: tp.expect(lambda g: tp.relu(g - 1 / root()) ** 2) * 2)


def test_a_mean_without_closed_form_is_printed_and_judged_by_its_number():
    sde = tp.derive(scaled(lambda: 1 + tp.expect(lambda g: tp.tanh(g) ** 2) / tp.n), tp.Proportional())
    assert "2*E_g′1[tanh(g′1)**2]" in repr(sde)
    assert r"\operatorname{E}_{g}\left[\tanh^{2}{\left(g \right)}\right]" in sde.latex()
    assert not drift(lambda: 1 + tp.expect(lambda g: tp.tanh(g)))  # odd
    with pytest.raises(tp.NoLimitError, match="it vanishes for no value of the parameters"):
        drift(lambda: tp.expect(lambda g: tp.tanh(g) ** 2))


def test_widths_in_exponents_reach_every_engine():
    """exp of what stays bounded is a function of n like any other: limits put 1/√n to zero, files keep it."""

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(x * x * tp.expect(lambda g: tp.exp(g / root())))

    assert tp.derive(program).scalar("return") == 1
    assert tp.from_json(tp.to_json(program)) == program
    assert abs(program.run(n=1, x=np.ones(1))["return"] - np.exp(0.5)) < 1e-12
    with pytest.raises(tp.ProgramError, match="as an exponent"):
        scaled(lambda: tp.expect(lambda g: tp.exp(g * root())))


def test_forms_are_equal_for_equal_means():
    one = tp.derive(scaled(lambda: tp.expect(lambda g: tp.exp(g / root()))), tp.Proportional())
    two = tp.derive(scaled(lambda: tp.exp(1 / (2 * tp.n))), tp.Proportional())
    assert one.drift_form == two.drift_form == Form({(V,): sympy.S.One})


def test_a_gelu_divided_by_its_size():
    """E(u + gelu(u)/√n)² = 1 + 1/√n + E gelu²/n, for E u gelu(u) is ½: with h = W x, V stays of its size.

    b = γ² (κ_ab − V_ab E gelu(g)²) for variances of 1, κ_ab = E gelu(u) gelu(u′).
    """

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ):
        def φ(u):
            return u + tp.gelu(u) / tp.sqrt(tp.n)

        return tp.sqrt(1 - γ**2) * x + γ * (U @ φ(W @ x)) / tp.sqrt(tp.expect(lambda g: φ(g) ** 2))

    γ, ρ = 0.6, 0.3
    b = tp.derive(block, tp.Proportional()).drift_at([[1, ρ], [ρ, 1]], γ=γ)
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    second = x[:, None] * ρ + np.sqrt(1 - ρ**2) * x[None, :]
    gelu = np.vectorize(lambda u: u * norm.cdf(u))
    joint = np.einsum("i,j,i,ij->", w, w, gelu(x), gelu(second))
    one = w @ gelu(x) ** 2
    np.testing.assert_allclose(b, γ**2 * np.array([[0, joint - ρ * one], [joint - ρ * one, 0]]), atol=1e-9)
