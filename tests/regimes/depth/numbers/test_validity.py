"""Whether networks of a width are near the limit: the size of the logits they have."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import shaped

import tplimits as tp

NUMBERS = {"γ": 0.4, "τ0": 0.5}


@pytest.fixture(scope="module")
def attention():
    return tp.derive(shaped.shaped_attention, tp.Proportional())


def test_the_spread_of_logits(attention):
    """exp: √(V_αα V_ββ)/(τ0 √n); the sum of exponentials over its mean m: √(V_αα V_x̄x̄)/(τ0 √n)."""
    V = np.array([[4.0, 1.0], [1.0, 2.0]])
    found = attention.spread_at(V, n=100, **NUMBERS)
    wanted = {"exp": 4 / 5, "power -1": np.sqrt(4 * V.mean()) / 5}
    for name, value in wanted.items():
        (spread,) = [s for key, s in found.items() if name in key]
        assert abs(spread - value) < 1e-12
    assert all(s.shape == (3,) for s in attention.spread_at(np.stack([V] * 3), n=100, **NUMBERS).values())


def test_networks_have_this_spread(attention):
    n = 100
    x = np.sqrt(n) * np.linalg.cholesky(np.array([[4.0, 1.0], [1.0, 2.0]])) @ np.linalg.qr(
        np.random.default_rng(0).standard_normal((n, 2)))[0].T  # fmt: skip
    Y = np.array([shaped.shaped_attention.run(n=n, seed=s, x=x, **NUMBERS)["Y"] for s in range(150)])
    (spread,) = [s for key, s in attention.spread_at(x @ x.T / n, n=n, **NUMBERS).items() if "exp" in key]
    assert abs(Y[:, 0, 0].std() / spread - 1) < 0.2


def test_a_warning_where_they_are_not_small(attention):
    """Tokens of norm 10 √n at n = 200."""
    asked = {"T": 0.01, "dt": 0.01, "paths": 20, **NUMBERS}
    with pytest.warns(
        UserWarning, match=r"networks of width n=200 are not near this limit: .*of the argument of exp in `A` "
    ):
        attention.simulate(100 * np.eye(2), n=200, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attention.simulate(100 * np.eye(2), **asked)
        attention.simulate(np.eye(2), n=200, **asked)
    with pytest.raises(tp.EvaluationError, match="n=0"):
        attention.simulate(np.eye(2), n=0, **asked)


def told(sde, V0, n, **asked):
    """What the warning says of the argument of exp: the number before each place."""
    with pytest.warns(UserWarning) as caught:
        sde.simulate(V0, n=n, paths=40, dt=1e-3, seed=0, **asked)
    (message,) = [str(w.message) for w in caught]
    return message.partition("of the argument of exp in `A` ")[2].partition("; of what")[0]


def test_paths_that_explode_tell_no_width(attention):
    """Figures 5 and 8 of Noci et al.: tokens of length 10 √n at γ = 0.2, τ0 = 1, n = 200.

    Logits have the deviation V/(τ0 √n) = 100/√200 = 7.07 at V0, below 0.3 from n = (100/0.3)².  Where simulation gives
    an explosion up, at 10⁶ times V0, the deviation is the one of that place.
    """
    V0 = 100 * np.array([[1.0, 0.2], [0.2, 1.0]])
    figure = told(attention, V0, 200, T=0.2, γ=0.2, τ0=1)
    wide = int(np.ceil((100 / 0.3) ** 2))
    exploding = " where half of the paths explode, and no width is told from that"
    assert figure.startswith(f"7.07 at V0, below 0.3 from n = {wide}, ")
    assert figure.endswith(exploding)
    # small at V0: what is left is the explosion
    wider = told(attention, V0, 200_000, T=0.2, γ=0.2, τ0=1)
    assert "from n = " not in wider
    assert wider.endswith(exploding)
    # a bound that was asked for is where paths end: of two tokens the larger V is at least half of an eigenvalue
    bounded = told(attention, V0, 200, T=0.2, γ=0.2, τ0=1, stop=800)
    assert "where the paths end (median), below 0.3 from n = " in bounded
    assert 400 / np.sqrt(200) < float(bounded.split()[0]) < 4000 / np.sqrt(200)


@pytest.mark.parametrize("scales", [(1, 10), (10, 1)])
def test_functions_of_one_name_are_measured_each(scales):
    """tanh of logits that are small beside tanh of others that are not, in one line."""

    @tp.block
    def two(x: tp.State["token"], Q: tp.Matrix, K: tp.Matrix, P: tp.Matrix, L: tp.Matrix, W: tp.Matrix):
        Y, Z = (tp.avg((q @ x) * (k @ x).rename(token="key")) for q, k in ((Q, K), (P, L)))
        F = tp.tanh(scales[0] * Y) + tp.tanh(scales[1] * Z)
        return tp.sqrt(0.51) * x + 0.7 * (W @ x + tp.mean(F * (W @ x).rename(token="key"), over="key"))

    found = tp.derive(two, tp.Proportional()).spread_at(np.diag([4.0, 1.0]), n=400)
    assert sorted(found.values()) == pytest.approx([4 / 20, 40 / 20])


def test_nothing_is_expanded_in_a_perceptron():
    sde = tp.derive(shaped.relu_mlp, tp.Proportional())
    assert sde.spread_at(np.eye(2), n=10, c_plus=0, c_minus=-1) == {}


# -- functions at their jump ----------------------------------------------------------------------

#: a token that is zero
ZERO = np.array([[1.0, 0.0, 0.2], [0.0, 0.0, 0.0], [0.2, 0.0, 0.7]])
STEP = {"a step": tp.step, "from above": lambda y: 1 - tp.step(-y), "where": lambda y: tp.where(y, 1, 0)}


def weighted(weights, **asked):
    """√(1 − γ²) x + γ (v + Σ F v), γ = 0.7, with logits q·k/n."""

    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        v = WV @ x
        F = weights(tp.avg((WQ @ x) * (WK @ x).rename(token="key")))
        return tp.sqrt(0.51) * x + 0.7 * (v + tp.sum(F * v.rename(token="key"), over="key"))

    return tp.derive(attention, tp.Proportional(**asked))


def dense(function, first=None, **asked):
    @tp.block
    def perceptron(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + U @ function(W @ x) / tp.sqrt(tp.n)

    return tp.derive(tp.stack(first, perceptron) if first else perceptron, tp.Proportional(**asked))


@pytest.mark.parametrize("name", STEP)
def test_a_step_is_no_half_where_a_token_is_zero(name):
    """b = γ² (Σ_ν F_αν V_νβ + …): networks have F(0) and not the mean ½, and V does not tell F(0) from F(± small)."""
    sde = weighted(lambda y: STEP[name](y) / tp.n)
    for asked in (sde.drift_at, sde.drift_estimate_at, lambda V: sde.simulate(V, T=0.1, paths=4)):
        with pytest.raises(tp.EvaluationError, match=r"jumps where its argument is 0.* V\[1,1\] = 0\. "):
            asked(ZERO)
    with pytest.raises(tp.EvaluationError, match=r"at tokens 1: V\[1,1\] = 0\. "):
        dense(STEP[name]).drift_at(np.stack([np.eye(3), ZERO]))
    # a small variance is one
    V = ZERO + np.diag([0.0, 1e-100, 0.0])
    means = 0.49 / 2 * V.sum(axis=0)
    np.testing.assert_allclose(sde.drift_at(V), means[:, None] + means, rtol=1e-12)
    np.testing.assert_allclose(sde.drift_at(np.ones((2, 2))), np.full((2, 2), 0.98), rtol=1e-12)


def test_what_comes_with_1_over_n_is_not_in_the_diffusion():
    """Σ is that of √(1 − γ²) x + γ v whatever F(0) is."""
    expected = weighted(lambda y: 0 * y).diffusion_at(ZERO)
    for name in STEP:
        found = weighted(lambda y, name=name: STEP[name](y) / tp.n).diffusion_at(ZERO)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    sde = weighted(lambda y: (tp.sign(y) ** 2 + y) / tp.n)
    np.testing.assert_allclose(sde.diffusion_at(ZERO), expected, rtol=1e-12)
    with pytest.raises(tp.EvaluationError, match=r"jumps where its argument is 0"):
        sde.drift_at(ZERO)
    for sde in (dense(tp.step), gated(tp.step)):
        assert (sde.diffusion_at(np.diag([0.0, 1.0, 1.0])) == 0).all()  # the noise of a layer is o(1/n)


def test_a_jump_of_order_1_is_in_the_diffusion():
    @tp.block
    def gate(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, U: tp.Matrix):
        of_first = tp.constant(np.eye(3)[0], "token") * tp.avg((WQ @ x) * (WK @ x))
        return tp.sqrt(0.51) * x + 0.7 * tp.sign(tp.sum(of_first, over="token")) ** 2 * (U @ x)

    sde = tp.derive(gate, tp.Proportional())
    assert sde.diffusion_at(np.eye(3)).max() > 0.1
    with pytest.raises(tp.EvaluationError, match=r"jumps where its argument is 0"):
        sde.diffusion_at(np.diag([0.0, 1.0, 1.0]))


TURNED = {
    "a step of logits": (lambda **k: weighted(lambda y: tp.step(y) / tp.n, **k), "jumps"),
    "relu of a layer": (lambda **k: dense(tp.relu, **k), "has a kink"),
    "abs of a layer": (lambda **k: dense(abs, **k), "has a kink"),
}


@pytest.mark.parametrize("name", TURNED)
def test_tangents_need_a_derivative(name):
    """At x = 0 relu(W x) has none: E relu′(u)² = ½ is no number of backpropagation there, which has 0 or 1."""
    make, told = TURNED[name]
    sde = make(tangent=True)
    for asked in (
        lambda: sde.drift_at(ZERO, 0 * ZERO, np.eye(3)),
        lambda: sde.diffusion_at(ZERO, 0 * ZERO, np.eye(3)),
        lambda: sde.simulate(ZERO, 0, T=0.1, paths=4),
    ):
        with pytest.raises(tp.EvaluationError, match=rf"{told} where its argument is 0.* V\[1,1\] = 0\. "):
            asked()
    kept = ZERO[np.ix_([0, 2], [0, 2])]
    assert np.isfinite(sde.drift_at(kept, 0 * kept, np.eye(2)).D).all()


def test_tangents_of_smooth_functions_have_numbers_at_a_zero_token():
    """u = 0: δX′ = δX + φ′(0) U W δX/√n."""
    found = dense(tp.tanh, tangent=True).drift_at(ZERO, 0 * ZERO, np.eye(3)).D
    assert abs(found[1, 1] - 1) < 1e-12
    assert abs(weighted(lambda y: tp.relu(y) ** 2, tangent=True).drift_at(ZERO, 0 * ZERO, np.eye(3)).D[1, 1]) < 1e-12


def normed(first):
    """A gate sign(Y)² with Y a product of the state and of what a token sees of the others."""
    seen = np.array([[first, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])

    @tp.block
    def gate(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        before = tp.sum(tp.constant(seen, ("token", "key")) * x.rename(token="key"), over="key")
        return tp.layers.rms_norm(x + tp.sign(tp.avg((WQ @ x) * (WK @ before))) ** 2 * (WV @ x) / tp.sqrt(tp.n))

    return tp.derive(gate, tp.Proportional())


@pytest.mark.long
def test_numbers_without_formulas_read_the_same_jump():
    """A token that sees nothing has Y = 0 and keeps its vector: b_01 = −V_01/2 there, and 0 where all gates are 1."""
    V = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.1], [0.2, 0.1, 1.0]])
    assert abs(normed(1.0).layer_at(V)[0]).max() < 1e-9
    with pytest.raises(tp.NoLimitError, match=r"Nor are there numbers: .*kink or jump .*does not fluctuate by 1/√n"):
        normed(0.0)


def test_what_is_the_mean_of_both_sides_has_its_drift_at_a_zero_token():
    """relu and sign are 0 at 0, as is the mean of what they are at ±0."""
    for weights in (lambda y: tp.sign(y) / tp.n, lambda y: tp.relu(y) / tp.sqrt(tp.n), lambda y: tp.step(y - 1) / tp.n):
        assert (weighted(weights).drift_at(ZERO)[1] == 0).all()
    kept = np.ix_([0, 2], [0, 2])
    for sde in (weighted(lambda y: tp.sign(y) / tp.sqrt(tp.n)), dense(tp.sign)):
        found = sde.drift_at(ZERO)
        assert (found[1] == 0).all() and np.abs(found[kept]).min() > 0.1
        np.testing.assert_allclose(found[kept], sde.drift_at(ZERO[kept]), rtol=1e-12)
    with pytest.raises(tp.EvaluationError, match=r"`sign\(u\)\*\*2` .*V\[1,1\] = 0"):
        dense(lambda u: tp.sign(u) ** 2).drift_at(ZERO)
    with pytest.raises(tp.EvaluationError, match=r"step\(y\)\)/n` .*V\[1,1\] = 0"):
        weighted(lambda y: (tp.cos(y) + tp.step(y)) / tp.n).drift_at(ZERO)


def gated(*gates):
    """x + (g(Z) + h(Y)) U x/√n, with Z of the first token alone and Y of the second."""

    @tp.block
    def gate(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, U: tp.Matrix):
        products = tp.avg((WQ @ x) * (WK @ x))
        of = [tp.sum(tp.constant(np.eye(3)[k], "token") * products, over="token") for k in range(len(gates))]
        return x + sum(g(z) for g, z in zip(gates, of, strict=True)) * (U @ x) / tp.sqrt(tp.n)

    return tp.derive(gate, tp.Proportional())


SQUARES = {"sign": tp.sign, "square": lambda z: tp.sign(z) ** 2, "cos": lambda z: tp.cos(z) * tp.sign(z)}


@pytest.mark.parametrize("name", SQUARES)
def test_a_squared_sign_is_no_one_where_its_scalar_has_no_variance(name):
    """b = E g(Z)² V: at V[0,0] = 0 networks have Z = 0 and sign(Z) = 0, not 1."""
    kept = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.3], [0.0, 0.3, 1.0]])
    for sde in (gated(SQUARES[name]), gated(SQUARES[name], tp.sign)):
        with pytest.raises(tp.EvaluationError, match=r"`sign\(y\)\*\*2`.* jumps where its argument is 0"):
            sde.drift_at(kept)
        V = kept + np.diag([1.0, 0.0, 0.0])
        assert np.isfinite(sde.drift_at(V)).all()
    np.testing.assert_allclose(gated(SQUARES[name]).drift_at(V), V, rtol=1e-12)


def test_two_scalars_without_tokens():
    """E (sign Z + sign Y)² = 2 + 4/π arcsin ρ, with Cov(Z, Y) = V_01²/n."""
    V = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, 0.1], [0.2, 0.1, 0.7]])
    expected = (2 + 4 / np.pi * np.arcsin(0.25 / 2)) * V
    sde = gated(tp.sign, tp.sign)
    np.testing.assert_allclose(sde.drift_at(V), expected, rtol=1e-12)
    # a mean without tokens is a number, no κ of summed tokens
    assert "2·κ0 V[αβ]" in str(sde) and "\n  κ0        = E[sign(u) sign(u′)]" in str(sde)
    assert r"\kappa_{0} &=" in sde.latex() and "{}" not in sde.latex()


def test_a_block_of_a_stack_is_known_by_its_own_jump():
    sde = dense(tp.step, first=shaped.relu_resnet)
    numbers = {"γ": 0.4, "c_plus": 0.3, "c_minus": 0.1}
    with pytest.raises(tp.EvaluationError, match=r"`step\(u\)` .*V\[1,1\] = 0"):
        sde.drift_at(ZERO, **numbers)
    assert np.isfinite(sde.drift_at(np.eye(2), **numbers)).all()
