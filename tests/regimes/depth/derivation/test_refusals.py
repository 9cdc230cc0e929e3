"""What refusals say of averages, normalisations, kinks and arrays, and what they no longer refuse."""

from __future__ import annotations

import re

import numpy as np
import published
import pytest
import shaped
import sympy

import tplimits as tp
from tplimits.regimes.depth.algebra.forms import Form

PROPORTIONAL = tp.Proportional()
γ, a = (sympy.Symbol(s, real=True) for s in "γa")
LAYOUT = np.random.default_rng(0).uniform(0.1, 1, (3, 3))


def derived(function):
    return tp.derive(tp.block(function), PROPORTIONAL)


def refusal(function):
    with pytest.raises(tp.NoLimitError) as raised:
        derived(function)
    return str(raised.value)


# -- constants among neurons ----------------------------------------------------------------------


def test_a_constant_added_to_every_neuron():
    """V′ = V + c² + noise, for X′ = W X + c."""

    def large(x: tp.State["token"], W: tp.Matrix):
        return W @ x + 1

    def small(x: tp.State["token"], W: tp.Matrix, *, c):
        return W @ x + c / tp.sqrt(tp.n)

    assert "has the term 1 of order 1" in refusal(large)
    sde, c = derived(small), sympy.Symbol("c", real=True)
    assert not sde.drift_form - Form({(): c**2})
    assert not sde.diffusion_form - published.SIGMA_LIN
    assert "b[αβ]     = c**2\n" in repr(sde) and r"b^{\alpha\beta} &= c^{2} \\" in sde.latex()
    assert np.array_equal(sde.drift_at(np.eye(2), c=2), np.full((2, 2), 4.0))
    V0 = np.eye(2) + 0.2
    for method in ("psd", "euler"):
        mean, error = sde.simulate(V0, T=0.3, paths=20_000, method=method, c=1.5).mean()
        assert (np.abs(mean - V0 - 0.3 * 1.5**2) < 4 * error).all()


def test_a_constant_inside_an_average():
    """avg(2 + h²) = 2 + V, so that h (1 + avg(…)/n) adds 2 (2 + V_αα)/n and its mirror image."""

    def inside(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return (U @ x) * (1 + tp.avg(2 + (W @ x) ** 2) / tp.n)

    def outside(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return (U @ x) * (1 + 2 / tp.n + tp.avg((W @ x) ** 2) / tp.n)

    wanted = published.total(*(published.term(c, p) for c, p in ((4, "αβ"), (1, "αβ αα"), (1, "αβ ββ"))))
    for function in (inside, outside):
        assert not derived(function).drift_form - wanted


# -- sizes ----------------------------------------------------------------------------------------


def test_what_cancels_in_a_sum_of_averages():
    """Y = avg(h²) − V has Cov(Y_α, Y_β) = 2 V_αβ²/n, and X′ = U x exp(Y) the moments that follow."""

    def written_out(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return (U @ x) * tp.exp(tp.avg((W @ x) ** 2) - tp.avg(x**2))

    def together(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        Y = tp.avg((W @ x) ** 2 - x**2)
        return tp.exp(Y) * (U @ x)

    drift = published.total(
        *(published.term(c, p) for c, p in ((1, "αβ αα αα"), (1, "αβ ββ ββ"), (2, "αβ αβ αβ"))),
    )
    more = published.total(*(published.term(2, f"αβ δω {p} {p}") for p in ("αδ", "αω", "βδ", "βω")))
    for function in (written_out, together):
        sde = derived(function)
        assert not sde.drift_form - drift
        assert not sde.diffusion_form - published.SIGMA_LIN - more


def test_what_does_not_cancel_in_a_sum_of_averages():
    def doubled(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return (U @ x) * tp.exp(2 * tp.avg((W @ x) ** 2) - tp.avg(x**2))

    assert "the argument of exp is V[αα] of order 1, a function of the state" in refusal(doubled)


def test_logits_of_order_one_say_their_variance():
    def scaled(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], W: tp.Matrix):
        p = tp.constant(LAYOUT, axes=("token", "key"))
        k, v = ((M @ x).rename(token="key") for M in (WK, W))
        A = tp.exp(p * tp.avg((WQ @ x) * k) * tp.sqrt(tp.width("k")))
        return x + tp.sum(A * v, over="key")

    message = refusal(scaled)
    assert "not perturbative: the argument of exp has fluctuations of order 1, with variance" in message
    assert "V[αα] V[ββ], where p = [[" in message and " and p2 = [" in message
    assert not re.search(r"[PSCF]\|", message)


def test_arguments_that_are_too_small_are_told():
    def attended(power):
        def block(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
            v = WV @ x
            k, values = (WK @ x).rename(token="key"), v.rename(token="key")
            A = tp.softmax(shaped.logits(WQ @ x, k, τ0) / tp.n**power, over="key")
            return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(A * values, over="key") - tp.mean(values, over="key"))

        return block

    for power in (0.5, 1.5, 2):
        sde = derived(attended(power))
        assert not sde.drift_form
        assert any("leave no trace in drift and noise" in a for a in sde.assumptions)


def test_a_softmax_of_covariances_over_n_is_seen_in_the_drift():
    """A = 1/m + (V_ab − V_ax̄)/(m n): a function of the state that V does see, and no remark that it does not."""

    def block(x: tp.State["token"], W: tp.Matrix, *, γ):
        v = (W @ x).rename(token="key")
        A = tp.softmax(tp.avg(x * x.rename(token="key")) / tp.n, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * (W @ x + tp.sum(A * v, over="key") - tp.mean(v, over="key"))

    sde = derived(block)
    wanted = published.term(2 * γ**2 / published.m, "αν βν") + published.term(-2 * γ**2 / published.m**2, "αν βκ")
    assert not sde.drift_form - wanted and not any("trace" in a for a in sde.assumptions)


# -- normalisation by the state -------------------------------------------------------------------


def normed_first(x: tp.State["token"], W: tp.Matrix):
    return W @ (x / tp.sqrt(tp.avg(x * x)))


def normed_after(x: tp.State["token"], W: tp.Matrix, *, γ):
    y = tp.sqrt(1 - γ**2) * x + γ * (W @ x)
    return y * tp.avg(y**2) ** -0.5


def normed_layer(x: tp.State["token"], W: tp.Matrix):
    h = W @ x
    return h / (tp.avg(h * h) + 1 / tp.n) ** (1 / 2)


@pytest.mark.parametrize(
    ("function", "c", "constants"),
    [(normed_first, 1, {}), (normed_after, 0.36 * 1.64, {"γ": 0.6}), (normed_layer, 1, {})],
)
def test_norms_are_numbers(function, c, constants):
    """C = c Σ_lin of one layer at V_aa = 1, where the correlation has drift −c ρ(1 − ρ²)/2 and noise c (1 − ρ²)²."""
    sde, ρ = derived(function), 0.4
    V = np.array([[1.0, ρ], [ρ, 1.0]])
    assert isinstance(sde, tp.NumericSDE) and "no formulas" in repr(sde)
    assert sde.drift_at(V, **constants)[0, 1] == pytest.approx(-c * ρ * (1 - ρ**2) / 2, rel=1e-10)
    assert sde.diffusion_at(V, **constants)[1, 1] == pytest.approx(c * (1 - ρ**2) ** 2, rel=1e-10)


def test_norms_have_no_gradients():
    with pytest.raises(tp.NoLimitError, match=r"a function of the state.*the leading map V → V′ nonlinear in V"):
        tp.derive(tp.block(normed_first), tp.Proportional(tangent=True))


def test_layer_norm_with_a_mean():
    def centred(x: tp.State["token"], W: tp.Matrix):
        c = x - tp.avg(x)
        return W @ (c / tp.sqrt(tp.avg(c * c)))

    assert "not closed: `-_3[token] + x[token]` is a function of single neurons of the state" in refusal(centred)


# -- activations ----------------------------------------------------------------------------------


def test_a_smooth_activation_around_a_point_that_is_not_zero():
    """φ(x) = s (tanh(1 + x/s) − tanh 1), s = a √n: the formula for smooth shaping with φ″/φ′ = −2t, φ‴/φ′ = 6t² − 2."""

    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ, a):
        s = a * tp.sqrt(tp.n)

        def φ(g):
            return s * (tp.tanh(g / s + 1) - tp.tanh(1))

        branch = (U @ φ(W @ x)) / tp.sqrt(tp.expect(lambda g: φ(g) ** 2))
        return tp.sqrt(1 - γ**2) * x + γ * branch

    t = sympy.tanh(1)
    second, third = -2 * t, 6 * t**2 - 2
    terms = [
        (second**2 / 4, "αα ββ"),
        (second**2 / 2, "αβ αβ"),
        (-3 * second**2 / 4 - third, "αβ"),
        *((third / 2, f"αβ {own}") for own in ("αα", "ββ")),
    ]
    wanted = published.total(*(published.term(γ**2 / a**2 * c, pairs) for c, pairs in terms))
    sde = derived(block)
    assert all(sympy.simplify(c) == 0 for c in (sde.drift_form - wanted).terms.values())


def test_the_side_of_a_kink_is_that_of_its_leading_slope():
    def shifted(x: tp.State["token"], W: tp.Matrix, *, c):
        return tp.relu(W @ x + c / tp.sqrt(tp.n))

    def signed(x: tp.State["token"], W: tp.Matrix, *, c):
        return tp.step(c * (W @ x))

    def inside(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, c):
        def f(g):
            return tp.relu(g * (1 + c / tp.sqrt(tp.n))) - tp.relu(-g)

        return (U @ f(W @ x)) / tp.sqrt(tp.expect(lambda g: f(g) ** 2))

    assert "has a kink or jump that moves with n by so much" in refusal(shifted)
    message = refusal(signed)
    assert "the sign of `c` is not known" in message and ".bind" in message
    c = sympy.Symbol("c", real=True)
    assert not derived(inside).drift_form - published.term(c**2 / (2 * sympy.pi), "αβ", kernel="N")
    with pytest.raises(tp.NoLimitError, match=r"sign\(u\)"):  # a plain step, once c has a number
        tp.derive(tp.block(signed).bind(c=sympy.sqrt(2)), PROPORTIONAL)


def test_kinks_elsewhere_have_means_with_a_name():
    def between(x: tp.State["token"], W: tp.Matrix):
        return tp.relu((W @ x) ** 2 - 1)

    def clipped(x: tp.State["token"], W: tp.Matrix):
        return tp.minimum(1, tp.maximum(-1, W @ x))

    for function in (between, clipped):
        message = refusal(function)
        assert "-V[αβ] + κ[αβ] of order 1" in message and "stays nonlinear as n → ∞" in message


def test_absolute_values_of_constants_are_no_kinks():
    def branch(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, g):
        return x + tp.sqrt(g**2 / tp.n) * (U @ tp.relu(W @ x))

    g = sympy.Symbol("g", real=True)
    wanted = published.term(g**2 / 2, "αβ") + published.term(g**2 / (2 * sympy.pi), "αβ", kernel="N")
    assert not derived(branch).drift_form - wanted


def test_moments_that_are_not_known_are_not_taken_for_zero():
    def branch(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ):
        h = W @ x
        return tp.sqrt(1 - γ**2) * x + γ * (U @ (tp.abs(h) * h)) / tp.sqrt(3)

    message = refusal(branch)
    assert "an activation stays nonlinear" in message and "κ[αβ]" in message and "grows" not in message


# -- powers, widths and arrays --------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.75, sympy.Rational(3, 4), 1 / 3])
def test_powers_of_n_that_no_layer_has(power):
    def block(x: tp.State["token"], W: tp.Matrix, *, γ):
        return x + γ * (W @ x) / tp.n**power

    assert "exact multiples of 1/2" in refusal(block)


def test_a_way_up_and_a_way_down_are_one_block():
    def up(x: tp.State["token"], W: tp.Matrix["k", "n"]):
        return W @ x

    with pytest.raises(tp.ProgramError, match=r"are one block, as in `down @ \(up @ x\)` with up over \(k, n\)"):
        tp.block(up)

    def both(x: tp.State["token"], up: tp.Matrix["k", "n"], down: tp.Matrix["n", "k"]):
        return down @ (up @ x)

    assert derived(both).verdict.kind == "SDE"


def mixing(x: tp.State["token"], WV: tp.Matrix, *, γ):
    p = tp.constant(LAYOUT - 0.5, axes=("token", "key"))
    return x + γ * tp.sum(p * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)


def test_constant_arrays_are_defined_where_they_are_printed():
    sde = derived(mixing)
    for name in sde.array_names.values():
        assert f"  {name:<9} = the constant array" in repr(sde)
    assert sde.latex().count(r"&= \begin{pmatrix}") == len(sde.array_names) == 3
    assert sde.latex().isascii() and "mathrm{0." not in sde.latex() and "/1801" not in repr(sde)
    V = published.random_covariance(3, seed=0)
    M = LAYOUT - 0.5
    np.testing.assert_allclose(sde.drift_at(V, γ=0.7), 0.49 * M @ V @ M.T, rtol=1e-12, atol=1e-14)


def test_constant_arrays_are_defined_in_refusals():
    def uncentred(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        weights = tp.constant(LAYOUT, axes=("token", "key")) * tp.exp(
            shaped.logits(WQ @ x, (WK @ x).rename(token="key"), τ0)
        )
        A = weights / tp.sum(weights, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(A * v.rename(token="key"), over="key"))

    message = refusal(uncentred)
    assert ", where p = [" in message and " and p2 = [" in message and "p[α] p2[αν]" in message


@pytest.mark.parametrize("branch", [1, 2])
def test_an_average_that_grows_is_refused_in_the_words_of_all_engines(branch):
    """tanh(√n avg(y²)): a fluctuation needs a mean of zero, as it does in widths and kernels."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        y = W @ x
        return x + U @ x * tp.tanh(tp.sqrt(tp.n) * tp.avg(y * y)) / tp.n ** (branch / 2)

    @tp.program
    def program(x: tp.Vector, W: tp.Matrix):
        y = W @ x
        return tp.avg(y * y) * tp.tanh(tp.sqrt(tp.n) * tp.avg(y * y))

    reason = r"√n·Avg of a ket with non-zero mean diverges.*a fluctuation scalar needs ⟨1\|x⟩ = 0"
    for subject, regime in ((block, tp.Proportional()), (program, None)):
        with pytest.raises(tp.NoLimitError, match=reason):
            tp.derive(subject, *(() if regime is None else (regime,)))
