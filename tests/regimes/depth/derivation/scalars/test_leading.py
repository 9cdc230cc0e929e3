"""What leads in powers of n: high powers of logits, and small functions of logits beside those of order 1."""

from __future__ import annotations

import bent
import numpy as np
import pytest
import sympy
from numpy.polynomial.hermite_e import hermegauss

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 1.5]])


def gaussian_pair(covariance, f, points=16):
    """E f(a) f(b) of two Gaussians."""
    x, w = hermegauss(points)
    (aa, ab), (_, bb) = covariance
    a = np.sqrt(aa) * x[:, None]
    b = ab / aa * a + np.sqrt(max(bb - ab**2 / aa, 0.0)) * x
    return (w[:, None] * w * f(a) * f(b)).sum() / w.sum() ** 2


@pytest.mark.parametrize("power", [5, 7])
def test_odd_powers_of_a_logit_enter_by_their_squares(power):
    sde = tp.derive(bent.plain(lambda Y: tp.n ** ((power - 1) // 2) * Y**power), tp.Proportional())
    expected = np.zeros((2, 2))
    for α, β, ν, κ in np.ndindex(2, 2, 2, 2):
        law = [[V[α, α] * V[ν, ν], V[α, β] * V[ν, κ]], [V[α, β] * V[ν, κ], V[β, β] * V[κ, κ]]]
        expected[α, β] += 0.49 * gaussian_pair(np.array(law) / 0.64, lambda y: y**power) * V[ν, κ]
    np.testing.assert_allclose(sde.drift_at(V, γ=0.7, τ0=0.8), expected, rtol=1e-9)


def on_its_own(weights):
    """x + Σ F v with F a function of two independent logits, of order 1 and of size n^(−1/2)."""

    @tp.block
    def attention(x: tp.State["token"], A: tp.Matrix, B: tp.Matrix, C: tp.Matrix, D: tp.Matrix, WV: tp.Matrix):
        S = tp.sqrt(tp.n) * tp.avg((A @ x) * (B @ x).rename(token="key"))
        Z = tp.avg((C @ x) * (D @ x).rename(token="key"))
        return x + tp.sum(weights(S, Z) * (WV @ x).rename(token="key"), over="key")

    return attention


@pytest.mark.parametrize(
    ("weights", "large"),
    [
        (lambda S, Z: (1 + tp.tanh(S)) * tp.tanh(Z), lambda s: 1 + np.tanh(s)),
        (lambda S, Z: (1 + tp.tanh(S)) * (tp.exp(Z) - 1), lambda s: 1 + np.tanh(s)),
        (lambda S, Z: tp.tanh(S) * Z / (1 + Z**2), np.tanh),
        (lambda S, Z: tp.sin(S + Z) - tp.sin(S), np.cos),
    ],
)
def test_small_functions_beside_those_of_order_one(weights, large):
    sde = tp.derive(on_its_own(weights), tp.Proportional())
    expected = np.zeros((2, 2))
    for α, β, ν, κ in np.ndindex(2, 2, 2, 2):
        small = V[α, β] * V[ν, κ]
        law = [[V[α, α] * V[ν, ν], small], [small, V[β, β] * V[κ, κ]]]
        expected[α, β] += gaussian_pair(law, large, 60) * small * V[ν, κ]
    value, error = sde.drift_estimate_at(V)
    assert sde.verdict.kind == "ODE" and not sde.diffusion_form
    assert (np.abs(value - expected) < 4.5 * error + 1e-5).all() and error.max() < 2e-2 * np.abs(value).max()


def gaussian_moment(a, b, c, power):
    """E u^p w^p of two Gaussians of variances a, b and covariance c, by derivatives of exp(½ tᵀ C t)."""
    s, t = sympy.symbols("s t")
    order, halves = power * 2, (sympy.S(a) * s**2 + 2 * sympy.S(c) * s * t + sympy.S(b) * t**2) / 2
    term = sympy.expand(halves ** (order // 2)) / sympy.factorial(order // 2)
    return float(term.coeff(s, power).coeff(t, power) * sympy.factorial(power) ** 2)


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("inside", [False, True])
def test_powers_of_n_bring_out_as_many_powers_of_a_small_scalar(order, inside):
    """tanh(S) n^((p−1)/2) (cos Z − 1 + …) is ± tanh(S) (√n Z)^p/p! over √n, wherever the power of n stands."""

    def weights(S, Z):
        power = tp.sqrt(tp.n) ** (order - 1)
        inner, outer = (power, 1) if inside else (1, power)
        polynomial = (inner * (-1) ** (k // 2) * Z**k / sympy.factorial(k) for k in range(0, order, 2))
        return outer * tp.tanh(S) * (inner * tp.cos(Z) - sum(polynomial))

    sde = tp.derive(on_its_own(weights), tp.Proportional())
    expected = np.zeros((2, 2))
    for α, β, ν, κ in np.ndindex(2, 2, 2, 2):
        law = [[V[α, α] * V[ν, ν], V[α, β] * V[ν, κ]], [V[α, β] * V[ν, κ], V[β, β] * V[κ, κ]]]
        small = gaussian_moment(law[0][0], law[1][1], law[0][1], order) / float(sympy.factorial(order)) ** 2
        expected[α, β] += gaussian_pair(law, np.tanh, 60) * small * V[ν, κ]
    value, error = sde.drift_estimate_at(V)
    assert (np.abs(value - expected) < 4.5 * error + 1e-5 * expected.max()).all()
    assert error.max() < 0.5 * np.abs(value).max()


@pytest.mark.parametrize(
    "weights",
    [
        lambda S, Z: tp.cos(S) * (1 / (tp.n**2 * (1 / tp.n**2 + S**2)) + Z),
        lambda S, Z: (2 + tp.tanh(S)) / (1 + tp.n**2 * S**2),
        lambda S, Z: (2 + tp.tanh(S)) / (1 + tp.n**3 * Z**2),
    ],
    ids=["in a sum", "of S", "of Z"],
)
def test_quotients_that_are_large_near_a_zero_alone_are_refused(weights):
    """1/(1 + n²S²) tends to 0 for every S ≠ 0, and n times its mean square to the density of S at 0 times π/2."""
    with pytest.raises(tp.NoLimitError, match=r"is kept off 0 by less and less of it.*its mean square is not that"):
        tp.derive(on_its_own(weights), tp.Proportional())


@pytest.mark.parametrize(
    ("weights", "limit"),
    [
        (lambda S, Z: 1 / tp.sqrt(tp.n + tp.n * S**2), lambda s: 1 / np.sqrt(1 + s**2)),
        (lambda S, Z: tp.sin(S) * S**2 / (1 + tp.n * S**2) * tp.sqrt(tp.n), np.sin),
    ],
    ids=["root", "times sine"],
)
def test_quotients_that_grow_with_n_beside_a_scalar_of_order_one(weights, limit):
    sde = tp.derive(on_its_own(weights), tp.Proportional())
    expected = np.zeros((2, 2))
    for α, β, ν, κ in np.ndindex(2, 2, 2, 2):
        law = [[V[α, α] * V[ν, ν], V[α, β] * V[ν, κ]], [V[α, β] * V[ν, κ], V[β, β] * V[κ, κ]]]
        expected[α, β] += gaussian_pair(law, limit, 200) * V[ν, κ]
    value, error = sde.drift_estimate_at(V)
    assert (np.abs(value - expected) < 4.5 * error + 1e-4).all() and error.max() < 2e-2 * np.abs(value).max()


def test_what_fluctuates_by_as_much_as_its_mean_is_no_normalisation_by_the_state():
    block = bent.plain(lambda Y: tp.sqrt(tp.n) * Y / (1 + tp.n * Y**2))
    with pytest.raises(tp.NoLimitError, match="power -1 has fluctuations of order 1, with variance") as refused:
        tp.derive(block, tp.Proportional())
    assert "normalisation by the state" not in str(refused.value)


@pytest.mark.parametrize(
    ("weights", "pieces"),
    [
        (lambda S, Z: (S + tp.tanh(S)) / tp.sqrt(tp.n), [(lambda s: s + np.tanh(s), lambda z: 1 + 0 * z)]),
        (
            lambda S, Z: Z + tp.tanh(tp.sqrt(tp.n) * Z) / tp.sqrt(tp.n),
            [(lambda z: z + np.tanh(z), lambda z: 1 + 0 * z)],
        ),
        (lambda S, Z: (1 + tp.cos(S)) * Z, [(lambda s: 1 + np.cos(s), lambda z: z)]),
        (lambda S, Z: (1 + tp.cos(S)) * (tp.exp(Z) - 1), [(lambda s: 1 + np.cos(s), lambda z: z)]),
        (
            lambda S, Z: tp.sqrt(tp.n) * (1 + tp.cos(S)) * (tp.exp(Z) - 1 - Z),
            [(lambda s: 1 + np.cos(s), lambda z: z**2 / 2)],
        ),
        (
            lambda S, Z: (tp.relu(S) + tp.exp(-tp.relu(-S)) - 1) * Z,
            [(lambda s: np.where(s > 0, s, np.exp(np.minimum(s, 0)) - 1), lambda z: z)],
        ),
    ],
    ids=["S and tanh S", "Z and tanh", "cos", "exponential", "square", "elu"],
)
def test_small_quantities_are_random_together_with_functions_of_the_same_scalars(weights, pieces):
    """E (a + F)(a′ + F′) holds E a F′, which is of the same size: a is no quantity of its own."""
    sde = tp.derive(on_its_own(weights), tp.Proportional())
    ((of_s, of_z),) = pieces
    expected = np.zeros((2, 2))
    for α, β, ν, κ in np.ndindex(2, 2, 2, 2):
        law = [[V[α, α] * V[ν, ν], V[α, β] * V[ν, κ]], [V[α, β] * V[ν, κ], V[β, β] * V[κ, κ]]]
        expected[α, β] += gaussian_pair(law, of_s, 80) * gaussian_pair(law, of_z, 80) * V[ν, κ]
    value, error = sde.drift_estimate_at(V)
    assert (np.abs(value - expected) < 4.5 * error + 2e-3 * expected.max()).all()
    assert error.max() < 0.03 * np.abs(value).max()


@pytest.mark.parametrize("kinked", [lambda s: s, tp.relu, tp.sign], ids=["itself", "relu", "sign"])
def test_functions_of_one_scalar_in_two_sums_are_random_together(kinked):
    """Σ F v + Σ G v is Σ (F + G) v, whether or not F alone has a place without draws."""

    def together(S, v):
        return tp.sum((kinked(S) + tp.tanh(S)) * v, over="key")

    def apart(S, v):
        return tp.sum(kinked(S) * v, over="key") + tp.sum(tp.tanh(S) * v, over="key")

    def alone(S, v):
        return tp.sum(tp.tanh(S) * v, over="key")

    def drift(branch):
        @tp.block
        def attention(x: tp.State["token"], A: tp.Matrix, B: tp.Matrix, WV: tp.Matrix):
            S = tp.sqrt(tp.n) * tp.avg((A @ x) * (B @ x).rename(token="key"))
            return x + branch(S, (WV @ x).rename(token="key")) / tp.sqrt(tp.n)

        return tp.derive(attention, tp.Proportional()).drift_estimate_at(V)

    (one, error), (other, spread) = drift(apart), drift(together)
    assert (np.abs(one - other) < 5 * np.hypot(error, spread) + 1e-9).all() and error.max() < 1e-2
    assert np.abs(drift(alone).value - other).max() > 0.5


def test_a_mean_of_too_low_an_order_is_the_reason_where_the_next_one_is_not_covered():
    """E step(Y_αα) Y_αα > 0 adds up; that two steps and two logits at order 1/n are not covered tells nothing."""
    block = bent.plain(lambda Y: tp.step(Y) * Y.rename(token="key", key="token"))
    with pytest.raises(tp.NoLimitError, match=r"of order n\^\(-1/2\).*: over a depth proportional to n it adds up"):
        tp.derive(block, tp.Proportional())


BIAS = np.array([[0.3, -0.2], [0.1, 0.4]])


@pytest.mark.parametrize(
    "F",
    [
        lambda Y: tp.relu(Y) ** 2,
        lambda Y: tp.sin(Y) * tp.relu(Y),
        lambda Y: tp.relu(Y) * tp.tanh(Y),
        lambda Y: (tp.exp(Y) - 1) * tp.relu(Y),
        lambda Y: tp.step(Y) * tp.sin(Y) ** 2,
        lambda Y: tp.relu(Y * tp.sin(Y)) * tp.step(Y),
    ],
    ids=["square", "sin", "tanh", "exp", "step", "sign"],
)
def test_smooth_factors_beside_a_kink_that_is_off_the_mean(F):
    """All are relu(Y)² to order 1/n, and n times its mean is that of a Gaussian with a mean."""

    @tp.block
    def attention(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, WV: tp.Matrix):
        Y = tp.avg((Q @ x) * (K @ x).rename(token="key")) + tp.constant(BIAS, axes=("token", "key")) / tp.sqrt(tp.n)
        v = WV @ x
        return 0.8 * x + 0.6 * (v + tp.sum(F(Y) * v.rename(token="key"), over="key"))

    spread = np.sqrt(np.outer(np.diag(V), np.diag(V)))
    density = np.exp(-((BIAS / spread) ** 2) / 2) / np.sqrt(2 * np.pi)
    below = np.vectorize(lambda z: float(sympy.N((1 + sympy.erf(z / sympy.sqrt(2))) / 2)))(BIAS / spread)
    one = 0.36 * ((BIAS**2 + spread**2) * below + BIAS * spread * density) @ V
    sde = tp.derive(attention, tp.Proportional())
    # numbers of kinks of one Gaussian are good to some 1e-4
    np.testing.assert_allclose(sde.drift_at(V), one + one.T, rtol=5e-4)
