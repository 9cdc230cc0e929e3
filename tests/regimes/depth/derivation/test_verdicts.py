"""Which blocks have a limit, under which conditions, and what the refusals say."""

from __future__ import annotations

import numpy as np
import published
import pytest
import shaped
import sympy
from shaped import logits

import tplimits as tp
from tplimits.regimes.depth.derivation.block import derive_block

PROPORTIONAL = tp.Proportional()
κ, γ, τ0 = (sympy.Symbol(s, real=True) for s in ("κ", "γ", "τ0"))


def attention(identity=1, centring=1, skip=None, slower=1):
    """Attention with multipliers: γ1 for the identity, γ2 for the mean, and logits times a power of n."""

    @tp.block
    def mixed(
        x: tp.State["token"],
        WQ: tp.Matrix["k", "n"],
        WK: tp.Matrix["k", "n"],
        WV: tp.Matrix,
        *,
        γ,
        τ0,
        κ,
        γ1,
        γ2,
        λ,
    ):
        known = {"κ": κ, "γ1": γ1, "γ2": γ2, "λ": λ, "γ": γ}
        one, two = (f(known) if callable(f) else f for f in (identity, centring))
        v = WV @ x
        values = v.rename(token="key")
        y = logits(WQ @ x, (WK @ x).rename(token="key"), τ0) * (slower() if callable(slower) else slower)
        A = tp.softmax(y, over="key")
        kept = tp.sqrt(1 - γ**2) if skip is None else skip(known)
        return kept * x + γ * (one * v + tp.sum(A * values, over="key") - two * tp.mean(values, over="key"))

    return mixed


def refusal(block):
    with pytest.raises(tp.NoLimitError) as raised:
        tp.derive(block, PROPORTIONAL)
    return raised.value


def test_multipliers_of_identity_and_mean():
    error = refusal(attention(lambda k: k["γ1"], lambda k: k["γ2"]))
    assert "needs γ1**2 = 1 and γ2 = 1" in str(error)
    γ1, γ2 = (sympy.Symbol(s, real=True) for s in ("γ1", "γ2"))
    assert set(error.verdict.conditions) == {γ1**2 - 1, γ2 - 1}


def test_multipliers_with_a_free_skip_weight():
    error = refusal(attention(lambda k: k["γ1"], lambda k: k["γ2"], lambda k: k["λ"]))
    assert "needs γ**2*γ1**2 + λ**2 = 1 and γ2 = 1" in str(error)


def test_skip_weight_and_branch_weight():
    error = refusal(attention(skip=lambda k: k["λ"]))
    assert "V grows like (γ**2 + λ**2)^depth; needs γ**2 + λ**2 = 1" in str(error)
    assert "numbers" not in str(error)


def test_skip_weight_with_numbers():
    @tp.block
    def linear(x: tp.State["token"], W: tp.Matrix):
        return 0.5 * x + 0.5 * (W @ x)

    assert "V grows like (1/2)^depth; it vanishes for no value of the parameters" in str(refusal(linear))


def test_skip_weights_that_miss_one_by_a_term_of_order_one_over_n():
    plain = tp.derive(shaped.shaped_attention, PROPORTIONAL)
    more = tp.derive(attention(skip=lambda k: tp.sqrt(1 - k["γ"] ** 2 + k["κ"] / tp.n)), PROPORTIONAL)
    assert not more.drift_form - plain.drift_form - published.term(κ, "αβ")
    assert not more.diffusion_form - plain.diffusion_form


def test_mean_subtracted_with_a_term_of_order_one_over_n():
    plain = tp.derive(shaped.shaped_attention, PROPORTIONAL)
    more = tp.derive(attention(centring=lambda k: 1 + k["κ"] / tp.n), PROPORTIONAL)
    extra = published.total(*(published.term(-(γ**2) * κ / published.m, pairs) for pairs in ("αx", "βx")))
    assert not more.drift_form - plain.drift_form - extra


def test_mean_subtracted_with_a_term_of_order_one_over_root_n():
    message = str(refusal(attention(centring=lambda k: 1 + k["κ"] / tp.sqrt(tp.n))))
    assert "-γ**2*κ·V[αx̄] - γ**2*κ·V[βx̄] of order n^(-1/2)" in message
    assert "adds up to a drift of order sqrt(n)" in message


def test_attention_without_any_shaping():
    message = str(refusal(attention(identity=0, centring=0)))
    assert "-γ**2·V[αβ] + γ**2·V[x̄x̄] of order 1" in message
    assert "add the identity and subtract the mean" in message


def test_identity_without_centring():
    message = str(refusal(attention(centring=0)))
    assert "γ**2·V[αx̄] + γ**2·V[βx̄] + γ**2·V[x̄x̄] of order 1" in message


def test_centring_without_identity():
    assert "-γ**2·V[αβ] of order 1, not 1/n, so that V grows like (1 - γ**2)^depth" in str(
        refusal(attention(identity=0))
    )


def test_temperature_of_order_root_k():
    message = str(refusal(attention(slower=lambda: tp.sqrt(tp.n))))
    assert "`A`" in message or "exp" in message
    assert "not perturbative" in message and "with variance τ0**(-2)·V[αα] V[ββ]" in message


def test_temperature_so_large_that_attention_is_invisible():
    sde = tp.derive(attention(slower=lambda: 1 / tp.sqrt(tp.n)), PROPORTIONAL)
    assert not sde.drift_form
    assert not sde.diffusion_form - published.SIGMA_LIN.scaled(γ**2 * (2 - γ**2))
    assert any("leave no trace in drift and noise" in a for a in sde.assumptions)


def test_branches_of_order_one_over_root_depth_give_an_ode():
    @tp.block
    def plain(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, g):
        return x + g / tp.sqrt(tp.n) * (W2 @ tp.relu(W1 @ x))

    @tp.block
    def linear(x: tp.State["token"], W1: tp.Matrix, *, g):
        return x + g / tp.sqrt(tp.n) * (W1 @ x)

    g = sympy.Symbol("g", real=True)
    sde = tp.derive(plain, PROPORTIONAL)
    assert sde.verdict.kind == "ODE" and not sde.diffusion_form
    wanted = published.term(g**2 / 2, "αβ") + published.term(g**2 / (2 * sympy.pi), "αβ", kernel="N")
    assert not sde.drift_form - wanted
    assert not tp.derive(linear, PROPORTIONAL).drift_form - published.term(g**2, "αβ")


def test_activation_on_the_raw_state_is_not_closed():
    @tp.block
    def raw(x: tp.State["token"], W: tp.Matrix):
        return W @ tp.relu(x)

    @tp.block
    def squares(x: tp.State["token"], W: tp.Matrix, *, γ):
        return tp.sqrt(1 - γ**2) * x + γ * (W @ (x * x))

    assert "not closed: a nonlinear function of the state `x` itself" in str(refusal(raw))
    assert "V is not Markov" in str(refusal(squares))


def test_unshaped_activations():
    @tp.block
    def relu(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ):
        return tp.sqrt(1 - γ**2) * x + γ * tp.sqrt(2) * (W2 @ tp.relu(W1 @ x))

    @tp.block
    def tanh(x: tp.State["token"], W: tp.Matrix):
        return tp.tanh(W @ x)

    assert "γ**2/pi·N[αβ] of order 1" in str(refusal(relu))
    assert "stays nonlinear as n → ∞" in str(refusal(tanh))


def test_kinks_away_from_zero():
    @tp.block
    def shifted(x: tp.State["token"], W: tp.Matrix):
        return tp.relu(W @ x - 1)

    assert "κ[αβ] = E[relu(u - 1) relu(u′ - 1)], C(u) = V[αα]" in str(refusal(shifted))


def test_fixed_head_width_with_an_output_projection():
    with pytest.raises(tp.NoLimitError, match=r"Cov\(V′\) has the term γ\*\*4/\(k\*\|head\|\)·V\[αδ\] V\[βω\]"):
        tp.derive(shaped.heads_attention, tp.Proportional(fixed=("k",)))


def test_fixed_width_of_queries_and_keys_changes_nothing():
    fixed = tp.derive(shaped.shaped_attention, tp.Proportional(fixed=("k",)))
    growing = tp.derive(shaped.shaped_attention, PROPORTIONAL)
    assert not fixed.drift_form - growing.drift_form
    assert not fixed.diffusion_form - growing.diffusion_form


@pytest.mark.long
def test_tied_weights_have_no_formulas():
    @tp.block
    def tied(x: tp.State["token"], W: tp.Matrix):
        return W.T @ (W @ x)

    @tp.block
    def twice(x: tp.State["token"], W: tp.Matrix):
        return W @ (W @ x)

    @tp.block
    def beside(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, c):
        y = tp.relu(W @ x) * c / tp.sqrt(tp.n) + W @ (U @ x)
        return y

    for block, reason in (
        (tied, "`W` is used and its transpose"),
        (twice, "twice in a row"),
        (beside, "multiplies the state under an activation, and another vector"),
    ):
        with pytest.raises(tp.NoLimitError, match=reason):
            derive_block(block)
    # V doubles in every layer: no numbers either
    assert "after 300 layers V still moves by 1 of it in each" in str(refusal(tied))


@pytest.mark.long
def test_matrices_inside_of_one_another():
    @tp.block
    def crossed(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return W @ (U @ x) + U @ (W @ x)

    assert "`W` and `U` stand inside of one another's operands" in str(refusal(crossed))


@pytest.mark.long
def test_a_transformer_in_one_block_is_told_to_stack():
    @tp.block
    def transformer(
        x: tp.State["token"],
        WQ: tp.Matrix["k", "n"],
        WK: tp.Matrix["k", "n"],
        WV: tp.Matrix,
        W1: tp.Matrix,
        W2: tp.Matrix,
        *,
        γ,
        τ0,
        c_plus,
        c_minus,
    ):
        z = shaped.shaped_attention(x, WQ, WK, WV, γ=γ, τ0=τ0)
        return shaped.relu_resnet(z, W1, W2, γ=γ, c_plus=c_plus, c_minus=c_minus)

    assert "Make two blocks of it and tp.stack them" in str(refusal(transformer))


def test_parallel_branches_are_one_block():
    @tp.block
    def parallel(
        x: tp.State["token"],
        WQ: tp.Matrix["k", "n"],
        WK: tp.Matrix["k", "n"],
        WV: tp.Matrix,
        W1: tp.Matrix,
        W2: tp.Matrix,
        *,
        γ,
        τ0,
        c_plus,
        c_minus,
    ):
        attended = shaped.shaped_attention(x, WQ, WK, WV, γ=γ, τ0=τ0) - tp.sqrt(1 - γ**2) * x
        fed = shaped.relu_resnet(x, W1, W2, γ=γ, c_plus=c_plus, c_minus=c_minus) - tp.sqrt(1 - γ**2) * x
        return tp.sqrt(1 - 2 * γ**2) * x + attended + fed

    sde = tp.derive(parallel, PROPORTIONAL)
    assert not sde.drift_form - published.attention_drift() - published.relu_drift().scaled(γ**2)
    assert sympy.expand(sde.root.isotropic - 4 * γ**2 + 3 * γ**4) == 0


def test_stacks_whose_blocks_undo_each_other():
    @tp.block
    def grown(x: tp.State["token"], W: tp.Matrix, *, a):
        return a * (W @ x)

    @tp.block
    def shrunk(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, a):
        return W2 @ (W1 @ x) / a

    stacked = tp.derive(tp.stack(grown, shrunk), PROPORTIONAL)
    turned = tp.derive(tp.stack(shrunk, grown), PROPORTIONAL)
    assert not stacked.diffusion_form - published.SIGMA_LIN.scaled(3)
    assert not turned.diffusion_form - stacked.diffusion_form
    assert stacked.root.isotropic == 3


def test_stacks_that_grow():
    @tp.block
    def linear(x: tp.State["token"], W: tp.Matrix, *, a):
        return a * (W @ x)

    message = str(refusal(tp.stack(linear, linear)))
    assert "its blocks multiply V by a**4 in every layer" in message and "needs a**2 = 1" in message


def test_stacks_of_blocks_that_are_not_linear_in_V():
    @tp.block
    def relu(x: tp.State["token"], W: tp.Matrix):
        return tp.sqrt(2) * tp.relu(W @ x)

    @tp.block
    def raised(x: tp.State["token"], W: tp.Matrix):
        return W @ x + 1

    assert "its covariance changes at order 1 by 1/pi·N[αβ]; stacks" in str(refusal(tp.stack(relu, shaped.relu_mlp)))
    assert "its covariance changes at order 1 by 1; stacks" in str(refusal(tp.stack(shaped.relu_mlp, raised)))


def test_what_is_no_block_or_lacks_its_regime():
    @tp.program
    def plain(W: tp.Matrix, x: tp.Vector):
        return W @ x

    with pytest.raises(tp.ProgramError, match="is no block"):
        tp.derive(plain, PROPORTIONAL)
    with pytest.raises(tp.ProgramError, match=r"tp\.Proportional\(\)\) for depth proportional"):
        tp.derive(shaped.relu_mlp)
    with pytest.raises(tp.ProgramError, match="the widths of `shaped_attention` besides n: k"):
        tp.derive(shaped.shaped_attention, tp.Proportional(fixed=("heads",)))
    with pytest.raises(tp.ProgramError, match=r"fixed=3: give names"):
        tp.derive(shaped.shaped_attention, tp.Proportional(fixed=3))


def test_causal_attention_without_centring_is_refused_with_its_array():
    mask = np.tril(np.ones((3, 3)))

    @tp.block
    def uncentred(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        v = WV @ x
        weights = tp.constant(mask, axes=("token", "key")) * tp.exp(logits(WQ @ x, (WK @ x).rename(token="key"), τ0))
        A = weights / tp.sum(weights, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(A * v.rename(token="key"), over="key"))

    assert "Σ_ν" in str(refusal(uncentred))


@pytest.mark.parametrize("bound", [{}, {"θ": 0.3}], ids=["symbol", "number"])
def test_branches_on_a_circle(bound):
    """cos² + sin² = 1 is seen, in symbols and in numbers: Σ = (1 − cos⁴θ) Σ_lin."""

    @tp.block
    def circle(x: tp.State["token"], W: tp.Matrix, *, θ):
        return tp.cos(θ) * x + tp.sin(θ) * (W @ x)

    sde = tp.derive(circle.bind(**bound) if bound else circle, tp.Proportional())
    given = {} if bound else {"θ": 0.3}
    assert sde.diffusion_at(np.eye(2), **given)[0, 0] == pytest.approx(2 * (1 - np.cos(0.3) ** 4), rel=1e-12)
