"""Averages apart from their means: powers of avg(h h) − avg(x x) in drift, noise and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from bent import V

import tplimits as tp
from tplimits.regimes.depth.algebra.products import ALPHA, BETA, OPEN, Poly, ProductTerm
from tplimits.regimes.depth.derivation.centring import centred
from tplimits.regimes.depth.derivation.derivation import dimensions
from tplimits.regimes.depth.derivation.lowering import Lowering

γ = 0.6
D = np.diag(V)
SUM = D[:, None] + D


def block_of(branch):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, T: tp.Matrix, *, γ):
        return tp.sqrt(1 - γ**2) * x + γ * branch(x, W @ x, U, T)

    return block


def drift(branch):
    return tp.derive(block_of(branch), tp.Proportional()).drift_at(V, γ=γ)


def less_mean(h, x):
    return tp.avg(h * h) - tp.avg(x * x)


@pytest.mark.parametrize(
    ("power", "even"),
    [(2, 2 * D**2), (3, 0 * D), (4, 12 * D**4), (6, 120 * D**6)],
)
@pytest.mark.parametrize("inside", [True, False])
def test_powers_of_what_fluctuates(power, even, inside):
    """2 h·h n^(k/2) R^k with √n R of variance 2V², inside of what a matrix multiplies and outside."""
    size = tp.n ** sympy.Rational(max(0, power - 2), 2)

    def branch(x, h, U, T):
        weight = 1 + size * less_mean(h, x) ** power
        return U @ (h * weight) if inside else (U @ h) * weight

    found = drift(branch)
    np.testing.assert_allclose(found, γ**2 * V * (even[:, None] + even), rtol=1e-12, atol=1e-12)
    if power == 4:  # the moment of a Gaussian, 3σ⁴, and not σ⁴
        assert np.abs(found - γ**2 * V * (4 * D[:, None] ** 4 + 4 * D**4)).max() > 5


def test_squares_of_a_matrix_times_what_is_random():
    """√n (avg (U h)² − V) has covariance 4 V_αβ²: of U given h, and of avg h h."""
    found = drift(lambda x, h, U, T: (T @ x) * (1 + less_mean(U @ h, x)))
    np.testing.assert_allclose(found, γ**2 * V * 4 * V**2, rtol=1e-12)
    assert np.abs(found - γ**2 * V * 2 * V**2).max() > 1  # of U alone


@pytest.mark.long
def test_averages_between_two_matrices():
    """s = o (1 + R(o)), o = U @ u, u = h (1 + R(h)): by draws of what is left given V, at three widths."""

    def branch(x, h, U, T):
        o = U @ (h * (1 + less_mean(h, x)))
        return T @ (o * (1 + less_mean(o, x)))

    x = np.linalg.cholesky(np.array([[1.0, 0.3], [0.3, 0.8]]))
    V2 = x @ x.T
    found = tp.derive(block_of(branch), tp.Proportional()).drift_at(V2, γ=γ)
    rng, errors, means = np.random.default_rng(0), [], []
    widths, batches, many = (200, 400, 800), 40, 500  # few networks at a time: they stay in the cache of a processor

    def changes(n):
        h = x @ rng.standard_normal((many, 2, n))
        u = h * (1 + (h * h).mean(axis=2, keepdims=True) - np.diag(V2)[:, None])
        root = np.linalg.cholesky(u @ u.transpose(0, 2, 1) / n)
        o = root @ rng.standard_normal((many, 2, n))
        s = o * (1 + (o * o).mean(axis=2, keepdims=True) - np.diag(V2)[:, None])
        change = γ**2 * n * (s @ s.transpose(0, 2, 1) / n - V2)
        # h h and o o given u have known means: what they move by is no part of the drift
        return change - γ**2 * n * (h @ h.transpose(0, 2, 1) / n - V2)

    for n in widths:
        change = np.concatenate([changes(n) for _ in range(batches)])
        means.append(change.mean(axis=0))
        errors.append(change.std(axis=0) / np.sqrt(len(change)))
    # L + b/n + c/n² through three widths
    weights = np.linalg.inv(np.vander(1 / np.array(widths), 3, increasing=True))[0]
    limit = np.einsum("w,wab->ab", weights, means)
    error = np.sqrt(np.einsum("w,wab->ab", weights**2, np.square(errors)))
    assert (np.abs(limit - found) < 4 * error).all()
    assert (error < 0.2 * found).all()


def test_the_gradient_of_what_an_average_is_made_of():
    """C of W in (U x)(1 + R): 2 avg(h δh) times γ² V, whatever the size of V."""
    sde = tp.derive(block_of(lambda x, h, U, T: (U @ x) * (1 + less_mean(h, x))), tp.Proportional(tangent=True))
    linear = sde.limit.start("W").linear
    assert {tuple(sorted(f[0] for f in factors)): c for factors, c in linear.terms.items()} == {
        ("R", "V"): 2 * sympy.Symbol("γ", real=True) ** 2
    }


@pytest.mark.long
def test_products_with_too_many_groupings_are_refused_at_once():
    """Averages of functions of two matrices at one neuron are not centred: their third power is too long."""

    def branch(x, h, U, T):
        spread = tp.avg((T @ x) ** 2 * h**2) - tp.avg(x * x) ** 2
        return (U @ x) * (1 + tp.sqrt(tp.n) * spread**3)

    with pytest.raises(tp.NoLimitError, match=r"products of up to 12 functions of `W`, with \d+ ways to group them"):
        drift(branch)


def test_the_parts_of_an_average():
    """avg h_α h_β is V_αβ of order 1 and a part of order n^(−1/2) that no pairing of h_α with h_β is left of."""
    block = block_of(lambda x, h, U, T: U @ h)
    lowering = Lowering(block, dimensions(block, ()), 2)
    lowering.template(block.returns[0])
    label = next(name for name, layer in lowering.model.layers.items() if layer.operand is None)
    product = ((label, (ALPHA, 0), 0), (label, (BETA, 0), 0))
    term = ProductTerm(sympy.S.One, (-2, *lowering.model.zero_powers[1:]), 0, product)
    mean, rest = sorted(centred(Poly((term,)), lowering.model, 2, frozenset()).terms, key=lambda t: len(t.factors))
    assert (mean.powers[0], mean.factors) == (0, (("V", (ALPHA, BETA), 0),))
    assert rest.factors[:2] == product and rest.factors[2][0].startswith("Z|")
    assert OPEN not in {i for _, at, _ in rest.factors for i in at}


def test_an_average_may_take_away_what_the_state_sums_to():
    """x + (relu(Wx) − avg relu(Wx))/√n: avg(x) E relu − E relu avg(x) is no sum over neurons that V does not tell."""

    @tp.block
    def centred(x: tp.State["token"], W: tp.Matrix, *, c):
        return x + (tp.relu(W @ x) - c * tp.avg(tp.relu(W @ x))) / tp.sqrt(tp.n)

    V = np.array([[1.0, 0.3], [0.3, 1.5]])
    sde = tp.derive(centred.bind(c=1), tp.Proportional())
    σ = np.sqrt(np.diag(V))
    angle = np.arccos(np.clip(V / np.outer(σ, σ), -1, 1))
    arc = np.outer(σ, σ) * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    np.testing.assert_allclose(sde.drift_at(V), arc - np.outer(σ, σ) / (2 * np.pi), rtol=1e-9)
    assert sde.verdict.kind == "ODE" and not sde.diffusion_form
    with pytest.raises(tp.NoLimitError, match="other sums over the neurons of the state"):
        tp.derive(centred.bind(c=0.9), tp.Proportional())
