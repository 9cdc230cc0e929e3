"""Activations without closed moments: Gaussian means with a name, printed, computed, and compiled."""

from __future__ import annotations

import bent
import numpy as np
import pytest
import sympy
from bent import V
from scipy.special import erf
from scipy.stats import norm
from single_step import assembled

import tplimits as tp
from tplimits.regimes.depth.algebra.means import U
from tplimits.regimes.depth.algebra.named import separated
from tplimits.regimes.depth.numbers.simulation import engine


def derived(block):
    return tp.derive(block, tp.Proportional())


def gelu(x):
    return x * (1 + erf(x / np.sqrt(2))) / 2


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def kernel(f, h, i, j):
    """E f(u_i) h(u_j) by Gauss's rule on two independent normals."""
    a, b = np.sqrt(V[i, i]), np.sqrt(V[j, j])
    ρ = V[i, j] / (a * b)
    x, y = NODES[:, None], NODES[None, :]
    return WEIGHTS @ (f(a * x) * h(b * (ρ * x + np.sqrt(1 - ρ * ρ) * y))) @ WEIGHTS


@pytest.mark.parametrize(("φ", "f"), [(tp.gelu, gelu), (tp.tanh, np.tanh)])
def test_a_branch_of_size_one_over_root_n(φ, f):
    """x + g U φ(W x)/√n has the ODE dV/dt = g² κ_φ(V)."""
    sde = derived(bent.branch(φ))
    assert sde.verdict.kind == "ODE" and "b[αβ]     = g**2·κ[αβ]\n" in repr(sde)
    assert f"κ[αβ]     = E[{φ.__name__}(u) {φ.__name__}(u′)], C(u) = V[αα], C(u, u′) = V[αβ]" in repr(sde)
    assert rf"\operatorname{{E}}\left[\{'operatorname{gelu}' if φ is tp.gelu else 'tanh'}" in sde.latex()
    α, β = sympy.symbols("α β", integer=True)
    Vs = sympy.IndexedBase("V", real=True)
    κ = sympy.Function("κ", real=True)
    g = sympy.Symbol("g", real=True)
    assert sde.drift == g**2 * κ(Vs[α, α], Vs[α, β], Vs[β, β])
    assert sde.drift_at(V, g=0.7)[0, 1] == pytest.approx(0.49 * kernel(f, f, 0, 1), rel=1e-7)


@pytest.mark.parametrize(("φ", "f"), [(tp.gelu, gelu), (lambda h: h * tp.sigmoid(h), lambda x: x / (1 + np.exp(-x)))])
def test_a_function_beside_an_odd_one_counts_by_its_odd_half(φ, f):
    """h + (φ(h) − h/2)/√n with φ(u) − u/2 even: no term of order n^(−1/2), and κ − V/4 at order 1/n."""

    @tp.block
    def centred(x: tp.State["token"], W: tp.Matrix):
        h = W @ x
        return h + (φ(h) - h / 2) / tp.sqrt(tp.n)

    @tp.block
    def left(x: tp.State["token"], W: tp.Matrix):
        h = W @ x
        return h + φ(h) / tp.sqrt(tp.n)

    b = derived(centred).drift_at(V)
    for i, j in ((0, 0), (0, 1)):
        wanted = kernel(lambda x: f(x) - x / 2, lambda x: f(x) - x / 2, i, j) if i != j else None
        own = WEIGHTS @ (f(np.sqrt(V[0, 0]) * NODES) - np.sqrt(V[0, 0]) * NODES / 2) ** 2
        assert b[i, j] == pytest.approx(own if wanted is None else wanted, rel=1e-6)
    with pytest.raises(tp.NoLimitError, match=r"the term V\[αβ\] of order n\^\(-1/2\)"):
        derived(left)


@pytest.mark.parametrize(
    ("φ", "level", "slope"), [(tp.sign, 0, 2), (tp.step, 1 / 4, 1 / 2), (lambda h: 1 + tp.sign(h), 1, 2)]
)
def test_signs_in_a_branch_of_size_one_over_root_n(φ, level, slope):
    """E sgn(u) sgn(u′) = 2/π·arcsin ρ: moments of signs and powers without a closed form are Gaussian means, too."""
    found = derived(bent.branch(φ)).drift_at(V, g=0.7)[0, 1] / 0.49
    ρ = V[0, 1] / np.sqrt(V[0, 0] * V[1, 1])
    assert found == pytest.approx(level + slope * np.arcsin(ρ) / np.pi, rel=1e-9)
    assert found != pytest.approx(level + slope * ρ / np.pi, rel=1e-3)


def test_what_stands_beside_a_layer_at_one_over_n():
    """h + g φ(h)/n adds g E[u φ(u′)] and its mirror image; at 1/√n it adds up over depth."""

    def block(power, φ=tp.gelu):
        @tp.block
        def beside(x: tp.State["token"], W: tp.Matrix, *, g):
            h = W @ x
            return h + g * φ(h) / tp.n**power

        return beside

    sde = derived(block(1))
    assert sde.root.isotropic == 1
    one, other = (kernel(f, h, 0, 1) for f, h in ((lambda u: u, gelu), (gelu, lambda u: u)))
    assert sde.drift_at(V, g=0.7)[0, 1] == pytest.approx(0.7 * (one + other), rel=1e-7)
    with pytest.raises(tp.NoLimitError, match=r"has the term g·V\[αβ\] of order n\^\(-1/2\)"):
        derived(block(sympy.Rational(1, 2)))
    with pytest.raises(
        tp.NoLimitError, match=r"g·κ\[αβ\] \+ g·κ\[βα\] of order n\^\(-1/2\), where κ\[αβ\] = E\[u tanh"
    ):
        derived(block(sympy.Rational(1, 2), tp.tanh))


def test_a_normaliser_without_a_closed_form_is_a_number():
    sde = derived(bent.branch(lambda h: tp.gelu(h) / tp.sqrt(tp.expect(lambda g: tp.gelu(g) ** 2))))
    size = np.trapezoid(gelu(z := np.linspace(-12, 12, 20001)) ** 2 * norm.pdf(z), z)
    plain = derived(bent.branch(tp.gelu)).drift_at(V, g=1)
    np.testing.assert_allclose(sde.drift_at(V, g=1), plain / size, rtol=1e-9)
    assert "E_g" in repr(sde) and "GaussMean" not in repr(sde) + sde.latex()


def test_stacks_rescale_what_a_mean_is_taken_of():
    @tp.block
    def doubled(x: tp.State["token"], W: tp.Matrix):
        return 2 * (W @ x)

    @tp.block
    def halved(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x / 2 + (U @ tp.tanh(W @ x)) / tp.sqrt(tp.n)

    sde = derived(tp.stack(doubled, halved))
    whole = derived(bent.branch(tp.tanh)).drift_at(4 * V, g=1)
    np.testing.assert_allclose(sde.drift_at(V), whole, rtol=1e-9)


@pytest.mark.parametrize(
    ("φ", "message"),
    [
        (lambda h: tp.exp(h**2), "no finite second moment at every V"),
        (lambda h: tp.exp(h**2 / 9), "no finite second moment at every V"),
        (lambda h: 1 / h, "has a pole where u changes sign"),
        (lambda h: tp.log(h), "not real with positive probability"),
        (lambda h: h * tp.abs(h) ** sympy.Rational(-13, 10), "no finite fourth moment"),
        (lambda h: tp.tanh(tp.sqrt(tp.n) * h), "no expansion"),
        (tp.gelu, None),
        (lambda h: tp.exp(h / 4) + tp.sin(h) + tp.exp(-(h**2)) + 1 / (1 + h**2), None),
    ],
)
def test_which_have_moments(φ, message):
    if message is None:
        # two branches of opposite sign, so that constants in φ leave no average of the state
        assert np.isfinite(derived(bent.branch(lambda h: φ(h) - φ(-h))).drift_at(V, g=1)).all()
        return
    with pytest.raises(tp.NoLimitError, match=message):
        derived(bent.branch(φ))


def test_powers_are_not_named():
    named, rest = separated(3 * sympy.Abs(U) + sympy.tanh(U) * 2)
    assert named == {sympy.tanh(U): 2} and rest == 3 * sympy.Abs(U)


@pytest.mark.parametrize(
    ("φ", "bound"), [(tp.gelu, 1e-12), (tp.tanh, 1e-7), (lambda h: tp.relu(h - 1), 2e-5), (tp.softplus, 1e-7)]
)
def test_compiled_steps_have_the_same_drift(φ, bound):
    """Closed forms are code, others tables: the loops of a step, run by the interpreter, against `drift_at`."""
    sde = derived(bent.branch(φ))
    compiled = engine(sde.limit, "euler", sde.values(3, {"g": 0.7}), 3, {})
    for at in (V, 9 * V, V / 50):
        added, _ = assembled(compiled, at, 1.0, interpreted=True)
        np.testing.assert_allclose(added, sde.drift_at(at, g=0.7), atol=bound * (1 + at[0, 0]))


def test_means_of_centred_logits_in_compiled_steps():
    sde = derived(bent.attention(lambda Y: tp.relu(Y - tp.mean(Y, over="key")) / tp.sqrt(tp.n)))
    given = {"γ": 0.7, "τ0": 0.8}
    compiled = engine(sde.limit, "euler", sde.values(3, given, {"k": 1.0}), 3, {})
    added, _ = assembled(compiled, V, 1.0, interpreted=True)
    np.testing.assert_allclose(added, sde.drift_at(V, **given, ratios={"k": 1.0}), rtol=1e-10)


def test_paths_of_a_gelu_branch():
    """An ODE: psd, Euler and SciPy's integrator end at one V, up to the step."""
    sde = derived(bent.branch(tp.gelu))
    given = {"T": 0.4, "dt": 0.01, "paths": 2, "g": 0.9}
    ends = [sde.simulate(V, method=method, **given).V[0] for method in ("euler", "dense")]
    fine = V.copy()
    for _ in range(400):
        fine = fine + 0.001 * sde.drift_at(fine, g=0.9)
    for end in ends:
        np.testing.assert_allclose(end, fine, atol=3e-3)


def test_means_at_four_tokens_have_no_compiled_steps():
    sde = derived(bent.attention(lambda Y: tp.sign(Y) / tp.sqrt(tp.n)))
    with pytest.raises(tp.EvaluationError, match="method='dense'"):
        sde.simulate(V, γ=0.7, τ0=0.8, paths=2, dt=0.5)
    paths = sde.simulate(V, T=0.02, dt=0.01, paths=2, method="dense", γ=0.7, τ0=0.8)
    assert np.isfinite(paths.V).all()


def test_softplus_is_half_its_argument_beside_an_even_function():
    """E u (softplus(u′) − u′/2) = 0, so that nothing of order n^(−1/2) is left; with softplus alone V/2 is."""

    def block(g):
        @tp.block
        def branch(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
            u = W @ x
            return tp.sqrt(0.5) * x + tp.sqrt(0.5) * (U @ (u + g(u) / tp.sqrt(tp.n)))

        return branch

    def even(x):
        return np.logaddexp(0, x) - x / 2

    found = derived(block(lambda u: tp.softplus(u) - u / 2)).drift_at(V)
    for i, j in np.ndindex(V.shape):
        if i < j:
            assert abs(found[i, j] - kernel(even, even, i, j) / 2) < 1e-9
    turned = derived(block(lambda u: tp.softplus(-u) + u / 2)).drift_at(V)
    np.testing.assert_allclose(turned, found, rtol=1e-9)
    with pytest.raises(tp.NoLimitError, match=r"the term 1/2·V\[αβ\] of order n\^\(-1/2\)"):
        derived(block(tp.softplus))
