"""Activations whose kink, jump or argument moves with n, as relu(h + 1 + 1/√n)/√n: by their series in n^(−1/2)."""

from __future__ import annotations

import numpy as np
import pytest
from bent import V
from numpy.polynomial.hermite_e import hermegauss

import tplimits as tp

γ = 0.6
Z, WEIGHTS = hermegauss(150)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def root():
    return tp.sqrt(tp.n)


def block_of(branch):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, T: tp.Matrix, *, γ):
        return tp.sqrt(1 - γ**2) * x + γ * branch(W @ x, x, U, T)

    return block


def drift(branch):
    return tp.derive(block_of(branch), tp.Proportional()).drift_at(V, γ=γ)


def mean(f, g, a, b):
    """E f(u_a) g(u_b), by quadrature over two standard normals."""
    σ, ρ = np.sqrt(V[a, a]), V[a, b] / np.sqrt(V[a, a] * V[b, b])
    u = σ * Z[:, None]
    w = np.sqrt(V[b, b]) * (ρ * Z[:, None] + np.sqrt(1 - ρ**2) * Z[None])
    return float(WEIGHTS @ (f(u) * g(w)) @ WEIGHTS)


def table(f, g):
    return np.array([[mean(f, g, a, b) for b in range(3)] for a in range(3)])


CASES = [
    (lambda h: tp.relu(h + 1 + 1 / root()), lambda u: np.maximum(u + 1, 0)),
    (lambda h: tp.relu(h + 1 / (1 + 1 / tp.n)), lambda u: np.maximum(u + 1, 0)),
    (lambda h: tp.relu(h + 1 / root()), lambda u: np.maximum(u, 0)),
    (lambda h: tp.maximum(h, 1 + 1 / root()), lambda u: np.maximum(u, 1)),
    (lambda h: tp.clip(h, -1 / root(), 1 - 1 / tp.n), lambda u: np.clip(u, 0, 1)),
    (lambda h: tp.abs(h - 1 / tp.n), np.abs),
    (lambda h: tp.sign(h + 1 / tp.n), np.sign),
    (lambda h: tp.tanh(h + 1 / root()), np.tanh),
]


@pytest.mark.parametrize(("moved", "limit"), CASES)
def test_beside_a_product_of_the_state(moved, limit):
    """U x + T (f/√n): γ² E f(u_α) f(u_β)."""
    found = drift(lambda h, x, U, T: U @ x + T @ (moved(h) / root()))
    np.testing.assert_allclose(found, γ**2 * table(limit, limit), rtol=0.02, atol=0.005)
    assert np.abs(found - γ**2 * table(lambda u: 1.3 * limit(u), limit)).max() > 0.02


@pytest.mark.parametrize(("moved", "limit"), CASES)
def test_divided_behind_the_matrix(moved, limit):
    """U x + (T f)/√n: what f is known to is counted where it stands, and was counted where f is."""
    found = drift(lambda h, x, U, T: U @ x + (T @ moved(h)) / root())
    np.testing.assert_allclose(found, γ**2 * table(limit, limit), rtol=0.02, atol=0.005)
    with pytest.raises(tp.NoLimitError, match="moves with n"):
        drift(lambda h, x, U, T: U @ x + T @ tp.relu(h + 1 / root()))


@pytest.mark.parametrize(("moved", "limit"), CASES)
def test_of_order_one_over_n_beside_a_layer(moved, limit):
    """U (h + f/n): γ² (E u_α f(u_β) and its mirror image)."""
    found = drift(lambda h, x, U, T: U @ (h + moved(h) / tp.n))
    wanted = table(lambda u: u, limit)
    np.testing.assert_allclose(found, γ**2 * (wanted + wanted.T), rtol=0.02, atol=0.005)


def test_what_moves_is_seen_where_the_function_is_larger():
    """U (h + (f(h + c/√n) − f(h))) sgn(h)/√n for f = tanh: c E u_α f′(u_β) comes with 1/n."""
    found = drift(lambda h, x, U, T: U @ (h + (tp.tanh(h + 0.5 / root()) - tp.tanh(h)) * tp.sign(h) / root()))
    wanted = 0.5 * table(lambda u: u, lambda u: np.sign(u) / np.cosh(u) ** 2)
    np.testing.assert_allclose(found, γ**2 * (wanted + wanted.T), rtol=0.02, atol=0.005)
    assert np.abs(found).max() > 0.1


def test_a_step_comes_with_a_moved_relu():
    """U (h + (relu(h + c/√n) − relu(h))/√n): 2 c E u_α step(u_β)."""
    found = drift(lambda h, x, U, T: U @ (h + (tp.relu(h + 0.5 / root()) - tp.relu(h)) / root()))
    d = np.sqrt(np.diag(V))
    wanted = 0.5 * V * (1 / d[:, None] + 1 / d) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(found, γ**2 * wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("branch", "message"),
    [
        (lambda h, x, U, T: U @ x + T @ tp.sign(h + 1 / root()) / root(), r"the density of u at it enters at order"),
        (lambda h, x, U, T: U @ x + T @ tp.relu(h + 1 / root()), r"moves with n by so much"),
        (lambda h, x, U, T: U @ x + T @ (tp.tanh(root() * h) / root()), r"no expansion in whole powers"),
    ],
)
def test_what_is_refused(branch, message):
    with pytest.raises(tp.NoLimitError, match=message):
        drift(branch)


def far(function):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ):
        return tp.sqrt(1 - γ**2) * x + γ * (U @ function(W @ x, tp.sqrt(tp.n)))

    return tp.derive(block, tp.Proportional()).drift_at([[1.3, 0.4], [0.4, 0.9]], γ=0.6)


@pytest.mark.parametrize(
    "function",
    [
        lambda u, s: tp.clip(u, -s, 2 * s),
        lambda u, s: tp.relu(u + s) - s,
        lambda u, s: u + tp.relu(u - s),
        lambda u, s: tp.abs(u + s) - s,
    ],
)
def test_kinks_at_the_root_of_the_width_are_not_met(function):
    """P(|u| > c√n) is below every power of n: the function is u, with V a martingale."""
    np.testing.assert_allclose(far(function), 0, atol=1e-12)
    twin = far(lambda u, s: function(u, s) + u**3 / s**2)  # γ² E(u u′³ + u³ u′) = 3 γ² V_ab (V_aa + V_bb)
    V = np.array([[1.3, 0.4], [0.4, 0.9]])
    np.testing.assert_allclose(twin, 0.36 * 3 * V * np.add.outer(np.diag(V), np.diag(V)), rtol=1e-12)


@pytest.mark.parametrize("given", [-1.5, 0.3, 1.0, 2.5])
def test_a_kink_between_multiples_asks_for_no_sign(given):
    """max(h, C h) = (1 + C)/2 h + |1 − C|/2 |h| with C open; a jump at C h asks for the sign of C."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, c):
        return x + U @ tp.maximum(W @ x, c * (W @ x)) / tp.sqrt(tp.n)

    f = lambda u: np.maximum(u, given * u)  # noqa: E731
    open_, bound = tp.derive(block, tp.Proportional()), tp.derive(block.bind(c=given), tp.Proportional())
    np.testing.assert_allclose(open_.drift_at(V, c=given), table(f, f), atol=5e-3)
    np.testing.assert_allclose(open_.drift_at(V, c=given), bound.drift_at(V), rtol=1e-12)
    assert np.abs(open_.drift_at(V, c=given + 0.5) - bound.drift_at(V)).max() > 0.05
    tangent = tp.derive(block, tp.Proportional(tangent=True)).drift_at(V, 0.1 * V, V, c=given)
    known = tp.derive(block.bind(c=given), tp.Proportional(tangent=True)).drift_at(V, 0.1 * V, V)
    np.testing.assert_allclose(np.asarray(tangent), np.asarray(known), rtol=1e-12)

    @tp.block
    def jump(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, c):
        return x + U @ tp.step((1 - c) * (W @ x)) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match="the sign of `1 - c` is not known"):
        tp.derive(jump, tp.Proportional())
