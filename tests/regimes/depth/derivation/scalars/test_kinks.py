"""Functions of scalars with a kink, jump, root or pole where the scalar settles: at which order they enter, and how."""

from __future__ import annotations

import re

import bent
import mpmath
import numpy as np
import pytest
import sympy
from bent import V
from scipy.stats import chi2, norm
from sympy import Symbol

import tplimits as tp
from tplimits.regimes.depth.algebra.powers import normal_moment
from tplimits.regimes.depth.derivation.scalars.sides import at_number

GIVEN = {"γ": 0.7, "τ0": 0.8, "ratios": {"k": 1.0}}
γ2, τ2 = 0.49, 0.64
ROOT = np.sqrt(np.outer(np.diag(V), np.diag(V)) / τ2)
CAUSAL = np.tril(np.ones((3, 3)))


def derived(block):
    return tp.derive(block, tp.Proportional())


def refusal(block, **options):
    with pytest.raises(tp.NoLimitError) as raised:
        tp.derive(block, tp.Proportional(**options))
    return str(raised.value)


def drift(weights):
    return derived(bent.attention(weights)).drift_at(V, **GIVEN)


def from_means(E):
    """γ² Σ_ν E[F_αν] V_νβ and its mirror image."""
    return γ2 * (E @ V + (E @ V).T)


def root():
    return tp.sqrt(tp.n)


SQUARE = ROOT**2 / 2
HALF = ROOT / np.sqrt(2 * np.pi)
CUBE = ROOT**3 * np.sqrt(2 / np.pi)


MEANS = (
    SQUARE,
    SQUARE,
    SQUARE,
    SQUARE,
    SQUARE,
    SQUARE,
    1.25 * SQUARE,
    SQUARE,
    -2 * SQUARE,
    HALF,
    HALF,
    -HALF,
    HALF,
    2 * HALF,
    2 * HALF,
    2 * HALF,
    CAUSAL * SQUARE,
    3 * ROOT**4,
    0 * V,
    CUBE,
    2 * CUBE,
    -CUBE / 3,
    0 * V,
    CAUSAL * SQUARE,
    1 - CAUSAL,
    0 * V,
    0 * V,
    0 * V,
    0 * V,
    0 * V,
    2 * CUBE,
    0 * V,
    0 * V,
)


@pytest.mark.parametrize(("weights", "means"), list(zip(bent.KINKED, MEANS, strict=True)))
def test_means_of_one_function_of_a_logit(weights, means):
    np.testing.assert_allclose(drift(weights), from_means(means), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("weights", "means"),
    [
        (lambda Y, n: n ** sympy.Rational(1, 2) * tp.relu(Y) ** 3, CUBE),
        (lambda Y, n: n ** sympy.Rational(1, 2) * tp.relu(Y) ** 3 + tp.relu(Y) ** 2, CUBE + SQUARE),
        (lambda Y, n: tp.sin(n ** sympy.Rational(1, 2) * tp.relu(Y) ** 3), CUBE),
        (lambda Y, n: n * tp.relu(Y) ** 4, 1.5 * ROOT**4),
        (lambda Y, n: n ** sympy.Rational(3, 2) * tp.abs(Y) ** 5, 16 / np.sqrt(2 * np.pi) * ROOT**5),
        (lambda Y, n: tp.sin(n * Y**4), 3 * ROOT**4),
        (lambda Y, n: tp.sqrt(1 + n * Y**4) - 1, 1.5 * ROOT**4),
        (lambda Y, n: n**4 * Y**10, 945 * ROOT**10),
        (lambda Y, n: n**4 * (Y - Y.rename(token="key", key="token")) ** 10, 945 * (2 * ROOT**2 - 2 * V**2 / τ2) ** 5),
    ],
)
def test_powers_that_are_seen_for_a_power_of_the_width_alone(weights, means):
    given = {"γ": 0.7, "τ0": 0.8}
    sde = derived(bent.plain(lambda Y: weights(Y, tp.n)))
    np.testing.assert_allclose(sde.drift_at(V, **given), from_means(means), rtol=1e-9, atol=1e-12)
    twin = derived(bent.plain(lambda Y: weights(Y, 1))).drift_at(V, **given)  # without the width
    assert np.abs(twin - from_means(means)).max() > 0.5


def test_a_broken_power_that_is_seen_for_a_root_of_the_width():
    # E |g|^(5/2) of a standard normal
    mean = 2**1.25 * float(mpmath.gamma(1.75)) / np.sqrt(np.pi)
    broken = derived(bent.plain(lambda Y: tp.abs(Y) ** 2.5 * tp.n**0.25))
    found = broken.drift_at(V[:2, :2], γ=0.7, τ0=0.8)
    expected = γ2 * (ROOT[:2, :2] ** 2.5 @ V[:2, :2])
    np.testing.assert_allclose(found, mean * (expected + expected.T), rtol=1e-6)


def test_the_drift_of_a_squared_relu_in_print():
    sde = derived(bent.attention(lambda Y: tp.relu(Y) ** 2))
    assert "b[αβ]     = γ**2/(2*τ0**2)·Σ_ν V[αα] V[βν] V[νν] + γ**2/(2*τ0**2)·Σ_ν V[αν] V[ββ] V[νν]" in repr(sde)
    assert round(sde.drift_at(V, **GIVEN)[0, 0], 3) == 1.712
    assert round(drift(lambda Y: tp.relu(Y) / root())[0, 0], 3) == 0.862
    assert sde.root is not None and sde.root.isotropic == sympy.Symbol("γ", real=True) ** 2 * (
        2 - sympy.Symbol("γ", real=True) ** 2
    )


def signs():
    """E sgn(R_αν) sgn(R_δκ) = (2/π) arcsin of the correlation, indices α ν δ κ."""
    ρ = V / np.sqrt(np.outer(np.diag(V), np.diag(V)))
    return 2 / np.pi * np.arcsin(np.clip(np.einsum("ad,vk->avdk", ρ, ρ), -1, 1))


@pytest.mark.parametrize("sign", [tp.sign, lambda Y: tp.sign(Y**3)], ids=["of logits", "of cubes"])
def test_signs_enter_the_drift_by_pairs_and_the_noise(sign):
    sde = derived(bent.attention(lambda Y: sign(Y) / root()))
    np.testing.assert_allclose(sde.drift_at(V, **GIVEN), γ2 * np.einsum("avbk,vk->ab", signs(), V), rtol=1e-12)
    more = γ2**2 * np.einsum("avdk,vb,kw->abdw", signs(), V, V)
    more = more + np.einsum("abdw->badw", more)
    more = more + np.einsum("abdw->abwd", more)
    plain = γ2 * (2 - γ2) * (np.einsum("ad,bw->abdw", V, V) + np.einsum("aw,bd->abdw", V, V))
    a, b = np.triu_indices(3)
    full = (plain + more)[a[:, None], b[:, None], a[None], b[None]]
    np.testing.assert_allclose(sde.diffusion_at(V, **GIVEN), full, rtol=1e-12, atol=1e-14)
    assert sde.root is None and "no structured root" in repr(sde) and "E[sign(u) sign(u′)]" in repr(sde)


@pytest.mark.parametrize(
    ("block", "means"),
    [
        (bent.heads(lambda Y: tp.relu(Y) ** 2), 3 * SQUARE),
        (bent.two_logits(lambda Y, Z: tp.maximum(Y, Z) / root()), np.sqrt(2) * HALF),
        (bent.two_logits(lambda Y, Z: tp.relu(Y) * tp.relu(Z)), HALF**2),
        (bent.two_logits(lambda Y, Z: tp.relu(Y + Z) ** 2), 2 * SQUARE),
        # E relu(a) relu(a + b) for independent a, b of one variance: arc-cosine kernel of correlation 1/√2
        (
            bent.two_logits(lambda Y, Z: tp.relu(Y) * tp.relu(Y + Z)),
            ROOT**2 * np.sqrt(2) * (np.sqrt(0.5) + 0.75 * np.pi * np.sqrt(0.5)) / (2 * np.pi),
        ),
        # beside a sign of order 1, the number 1 has no response: E (1 + sgn S_αν) S_να = √(2/π) Cov(S_αν, S_να)/σ
        (
            bent.attention(lambda Y: (1 + tp.sign(root() * Y)) * Y.rename(token="key", key="token") / root()),
            np.sqrt(2 / np.pi) * V**2 / τ2 / ROOT,
        ),
    ],
)
def test_several_scalars(block, means):
    more = {"head": 3} if "head" in block.all_axes else {}
    np.testing.assert_allclose(derived(block).drift_at(V, **GIVEN, **more), from_means(means), rtol=1e-9)


def test_centred_logits():
    """The variance of Y_αν − mean_κ Y_ακ is V_αα (P V P)_νν/τ0²."""
    weights = bent.attention(lambda Y: tp.relu(Y - tp.mean(Y, over="key")) / root())
    P = np.eye(3) - 1 / 3
    spread = np.sqrt(np.outer(np.diag(V), np.diag(P @ V @ P)) / τ2)
    found = derived(weights).drift_at(V, **GIVEN)
    np.testing.assert_allclose(found, from_means(spread / np.sqrt(2 * np.pi)), rtol=1e-9)


def test_the_third_cumulant_of_what_jumps():
    """E sgn(χ²_n/n − 1) √n tends to a third of −√(8/2π): a sum of squares is more often below its mean."""
    sde = derived(bent.gate(lambda Y: tp.sign(Y) / root()))
    ρ2 = V**2 / np.outer(np.diag(V), np.diag(V))
    n = 4_000_000
    skew = np.sqrt(n) * (1 - 2 * chi2(n).cdf(n))
    wanted = 0.7 * 2 * skew * V + γ2 * V * 2 / np.pi * np.arcsin(ρ2)
    np.testing.assert_allclose(sde.drift_at(V, γ=0.7), wanted, rtol=2e-4, atol=1e-4)


def test_a_mean_of_order_one_over_n_is_seen_by_a_jump():
    """E sgn(Y + c/n) √n tends to 2φ(0) c/σ beside what Y alone does."""
    alone, moved = (
        derived(bent.gate(lambda Y, c=c: tp.sign(Y + c / tp.n) / root())).drift_at(V, γ=0.7) for c in (0, 0.3)
    )
    σ = np.sqrt(2) * np.diag(V)
    slope = 2 * norm.pdf(0) * 0.3 / σ
    np.testing.assert_allclose(moved - alone, 0.7 * V * (slope[:, None] + slope[None]), rtol=1e-9)


def test_what_is_random_twice_through_the_same_weights():
    """q + γ Σ sgn(avg(q k)/τ0)/√n k: the response of q and k to the sign, by quadrature of one pair of tokens."""
    sde = derived(bent.shared)
    slope = np.sqrt(2 / np.pi) * np.sqrt(np.diag(V))
    # E q_α·k_ν/n sgn(…) √n = E|R| τ0 for β = α, Cov(q_β·k_ν, R)/σ · √(2/π) in general
    linear = 0.7 * V * (slope.sum() / np.sqrt(np.diag(V)))[:, None]
    wanted = linear + linear.T + γ2 * np.einsum("avbk,vk->ab", signs(), V)
    np.testing.assert_allclose(sde.drift_at(V, γ=0.7, τ0=0.8), wanted, rtol=1e-9)


@pytest.mark.parametrize(("power", "sign", "order"), [(0, True, 1), (1.5, False, 2), (0.5, True, 3), (2, True, 1)])
def test_moments_of_derivatives(power, sign, order):
    """E ∂^d |z|^p sgn^s by Hermite polynomials, against a derivative of the shifted mean."""

    def shifted(μ):
        def f(z):
            return mpmath.fabs(z + μ) ** power * (mpmath.sign(z + μ) if sign else 1) * mpmath.npdf(z)

        return mpmath.quad(f, [-12, -μ, 12])

    with mpmath.workdps(40):
        wanted = float(mpmath.diff(shifted, 0, order))
    assert float(normal_moment(sympy.nsimplify(power), sign, order)) == pytest.approx(wanted, rel=1e-6)


def test_a_kink_of_a_product_that_is_as_small_as_its_fluctuations():
    """relu(y_αν Σ_κ y_ακ) with Var y_αν = V_αα V_νν/τ0²: E (u w)₊ = σ_u σ_w (ρ/2 + (√(1 − ρ²) + ρ asin ρ)/π)."""
    variances, row = np.diag(V), V.sum(axis=0)
    size = np.sqrt(variances * row.sum())
    ρ = row / size
    means = np.outer(variances, size * (ρ / 2 + (np.sqrt(1 - ρ**2) + ρ * np.arcsin(ρ)) / np.pi)) / 0.8**2
    sde = derived(bent.attention(lambda Y: tp.relu(Y * tp.sum(Y, over="key"))))
    found, error = sde.drift_estimate_at(V, γ=0.7, τ0=0.8)
    wanted = γ2 * (means @ V + V @ means.T)
    assert (abs(found - wanted) < 5 * error).all() and (error < 0.01 * wanted).all()


def test_a_kink_inside_of_a_kink_is_a_weight_where_it_is_small():
    """E relu(relu(R_ν) − mean relu(R_κ)) of the logits R of one query, of covariance V_αα V/τ0², from draws."""
    sde = derived(bent.attention(lambda Y: tp.relu(tp.relu(Y) - tp.mean(tp.relu(Y), over="key")) / root()))
    R = np.maximum(np.random.default_rng(0).standard_normal((400_000, 3)) @ np.linalg.cholesky(V).T, 0)
    drawn = np.maximum(R - R.mean(axis=1, keepdims=True), 0)
    scale = np.sqrt(np.diag(V))[:, None] / 0.8
    found, wanted = sde.drift_estimate_at(V, **GIVEN), from_means(scale * drawn.mean(axis=0))
    spread = from_means(scale * drawn.std(axis=0) / np.sqrt(len(drawn)))
    assert (np.abs(found.value - wanted) < 5 * np.hypot(found.error, np.abs(spread).max())).all()
    once = from_means(scale * np.maximum(R, 0).mean(axis=0))
    assert np.abs(found.value - once).max() > 0.1


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (tp.relu, r"V\[αν\] √V\[ββ\] √V\[νν\] .* of order n\^\(-1/2\): over a depth proportional to n it adds up"),
        (tp.abs, r"to a drift of order sqrt\(n\)"),
        (lambda Y: tp.softmax(tp.relu(Y), over="key") - 1 / tp.size("key"), r"of order n\^\(-1/2\)"),
        (lambda Y: tp.abs(Y) ** 1.5, r"of order n\^\(-3/4\).* adds up to a drift of order n\^\(1/4\)"),
        (tp.sign, "not perturbative: a function of scalars with a kink or jump enters the next covariance at order 1"),
        (lambda Y: 1 / (tp.n * Y), "has a pole at y = 0"),
        (lambda Y: tp.log(tp.abs(Y)) / tp.n, r"`log\(1/sqrt\(n\)\)` has no expansion in whole powers"),
        (lambda Y: tp.sign(Y + 1 / root()) / root(), r"has the mean 1 of order n\^\(-1/2\)"),
        (lambda Y: tp.relu(tp.relu(Y) - tp.mean(tp.relu(Y), over="key")), "a kink inside of a kink"),
    ],
)
def test_what_is_refused(weights, message):
    assert re.search(message, refusal(bent.attention(weights)))


def test_the_side_of_a_kink_that_a_constant_decides():
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, c):
        return (U @ x) * (1 + tp.relu(c + tp.avg((W @ x) ** 2) - tp.avg(x * x)) / tp.n)

    assert "depends on the sign of `c`, which is not known" in refusal(block)
    np.testing.assert_allclose(derived(block.bind(c=2)).drift_at(V), 4 * V)
    np.testing.assert_allclose(derived(block.bind(c=-2)).drift_at(V), 0 * V)


def test_a_jump_that_the_state_passes():
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix):
        return (W @ x) * (1 + tp.step(tp.avg(x * x) - 1) / tp.n)

    assert "where V passes `V[token, token] - 1` = 0" in refusal(block)


def test_what_is_not_gaussian():
    assert "not Gaussian in the limit" in refusal(bent.two_logits(lambda Y, Z: root() * tp.relu(Y * Z)))
    block = bent.attention(lambda Y: tp.abs(Y) / root())
    assert "Gaussian where the width that is averaged over grows" in refusal(block, fixed=("k",))


@pytest.mark.parametrize("f", [lambda s: tp.maximum(s, 0), lambda s: -tp.minimum(-s, 0), lambda s: tp.clip(s, 0, 9)])
def test_maxima_of_two_scalars_are_read_by_the_one_sign_they_ask_for(f):
    def drift(kinked):
        @tp.block
        def block(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ):
            s = tp.avg((W2 @ x) ** 2) - tp.avg(x * x)
            return tp.sqrt(1 - γ**2) * x + γ * (W1 @ x) * (1 + kinked(s) / tp.sqrt(tp.n))

        return tp.derive(block, tp.Proportional()).drift_at(np.array([[1, 0.3], [0.3, 1.2]]), γ=0.6)

    assert np.abs(drift(tp.relu)).max() > 0.1
    np.testing.assert_allclose(drift(f), drift(tp.relu), rtol=1e-12)


def test_a_kink_is_called_by_the_function_that_has_it():
    y = Symbol("y", real=True)
    curvature = (2 * tp.relu(y) * sympy.cos(y)).diff(y, 2)
    with pytest.raises(tp.NoLimitError, match=r"^relu, step has a kink"):
        at_number(curvature, y, sympy.S.Zero)
    with pytest.raises(tp.NoLimitError, match=r"^maximum has a kink"):
        at_number(curvature, y, sympy.S.Zero, "maximum")


def test_independent_logits_count_by_their_squares():
    """Y + Z of two independent logits is √2 Y in law, and not 2Y."""
    both, one, wrong = (
        derived(block).diffusion_at(V, **GIVEN)
        for block in (
            bent.two_logits(lambda Y, Z: Y + Z),
            bent.attention(lambda Y: tp.sqrt(2) * Y),
            bent.attention(lambda Y: 2 * Y),
        )
    )
    np.testing.assert_allclose(both, one, rtol=1e-12)
    assert abs(wrong - one).max() > 0.1 * abs(one).max()


def test_products_of_three_dependent_kinks_are_refused_by_name():
    """Signs of the logits of one query with three keys: no orthant of three has a name."""

    def weights(Y):
        second, third = (tp.sign(Y.rename(key=name)) for name in ("second", "third"))
        return tp.sum(tp.sum(tp.sign(Y) * second * third, over="third"), over="second") / root()

    assert "three or more dependent functions" in refusal(bent.plain(weights))
