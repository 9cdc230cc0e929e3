"""Poles that a numerator takes away where scalars settle, and scalars that are larger than the logits beside them."""

from __future__ import annotations

import bent
import numpy as np
import pytest
from bent import V

import tplimits as tp

#: the deviations of logits of `bent.plain` at τ0 = 0.8
ROOT = np.sqrt(np.outer(np.diag(V), np.diag(V))) / 0.8
#: nodes and weights of means over two standard normals
Z, P = np.polynomial.hermite_e.hermegauss(60)
P = P / P.sum()


def mean_of_two(f, C):
    """E f(u) f(u′) of Gaussians of covariance C."""
    L = np.linalg.cholesky(C)
    u, v = L[0, 0] * Z[:, None], L[1, 0] * Z[:, None] + L[1, 1] * Z[None]
    return float(P @ (f(u) * f(v)) @ P)


def means(f):
    """E f(u_α) f(u_β) for all pairs of tokens, u of covariance V."""
    off = [[mean_of_two(f, V[np.ix_([a, b], [a, b])]) if a != b else 0 for b in range(3)] for a in range(3)]
    return np.array(off) + np.diag([P @ f(np.sqrt(v) * Z) ** 2 for v in np.diag(V)])


def gate(size):
    """x + U φ/√n, φ = size(h, x) with h = W x."""

    @tp.block
    def gated(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + (U @ size(W @ x, x)) / tp.sqrt(tp.n)

    return tp.derive(gated, tp.Proportional())


def slope(s):
    return lambda h, x: (tp.tanh(h + s(h, x)) - tp.tanh(h)) / s(h, x)


@pytest.mark.parametrize("s", [lambda h, x: tp.avg(h), lambda h, x: tp.avg(h * h) - tp.avg(x * x)])
def test_a_difference_quotient_of_a_vector(s):
    """b = E φ′(u) φ′(u′); so do networks of finite width, U averaged by hand."""
    b = gate(slope(s)).drift_at(V)
    np.testing.assert_allclose(b, means(lambda u: 1 - np.tanh(u) ** 2), rtol=1e-4)
    rng, n = np.random.default_rng(0), 400
    h = np.linalg.cholesky(V) @ rng.standard_normal((200, 3, n))
    moved = h.mean(2, keepdims=True)
    φ = (np.tanh(h + moved) - np.tanh(h)) / moved
    found = φ @ φ.transpose(0, 2, 1) / n
    assert (np.abs(found.mean(0) - b) < 4 * found.std(0) / np.sqrt(200) + 2 / n).all()


def test_difference_quotients_of_logits():
    """(tanh(Y + Z) − tanh Y)/Z − 1 is −(Y² + YZ + Z²/3); a slope at 1 multiplies what stands beside it."""
    given = {"γ": 0.7, "τ0": 0.8, "ratios": {"k": 1.0}}
    sde = tp.derive(bent.two_logits(lambda Y, Z: (tp.tanh(Y + Z) - tp.tanh(Y)) / Z - 1), tp.Proportional())
    E = -4 / 3 * ROOT**2
    np.testing.assert_allclose(sde.drift_at(V, **given), 0.49 * (E @ V + (E @ V).T), rtol=1e-9)
    sde = tp.derive(bent.two_logits(lambda Y, Z: (tp.tanh(1 + Z) - tp.tanh(1)) / Z * Y), tp.Proportional())
    number = 0.49 / 0.64 * np.cosh(1) ** -4 * (V * V).sum()
    np.testing.assert_allclose(sde.drift_at(V, **given), number * V, rtol=1e-9)


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda y: tp.sin(tp.sqrt(tp.n) * y) / y / tp.sqrt(tp.n), lambda s: np.sinc(s / np.pi)),
        (lambda y: tp.relu(y) / y, lambda s: (s > 0) + 0.0),
    ],
)
def test_quotients_on_the_scale_of_what_fluctuates(function, value):
    """x + φ U x/√n, φ a function of avg(h): b = E φ(S_α) φ(S_β) V, S = √n avg(h) of covariance V."""

    @tp.block
    def gated(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + function(tp.avg(W @ x)) * (U @ x) / tp.sqrt(tp.n)

    S = np.random.default_rng(1).multivariate_normal(np.zeros(3), V, 400_000)
    products = value(S)[:, :, None] * value(S)[:, None]
    found, error = tp.derive(gated, tp.Proportional()).drift_estimate_at(V)
    assert (np.abs(found - products.mean(0) * V) < 5 * np.abs(error) + 5e-3).all()


def test_what_is_refused():
    with pytest.raises(tp.NoLimitError, match="has a pole at y = 0"):
        tp.derive(bent.two_logits(lambda Y, Z: Y / Z / tp.n), tp.Proportional())
    with pytest.raises(tp.NoLimitError, match=r"`1/Abs\(S/τ0\)`, S being √n times an average, .* no second moment"):
        tp.derive(bent.plain(lambda Y: 1 / (abs(tp.sqrt(tp.n) * Y) + 1 / tp.n) / tp.n), tp.Proportional())
    with pytest.raises(tp.NoLimitError, match="is not finite at the limit of its arguments"):
        gate(lambda h, x: tp.tanh(h) / tp.avg(h))


def test_a_weight_of_order_one_beside_a_series():
    """exp(Y) (1 + tanh²(√n Y)/n) − 1 − Y: E Y²/2 and E tanh²(S), the latter also where W_Q multiplies again."""
    given = {"γ": 0.7, "τ0": 0.8}
    E = np.vectorize(lambda σ: P @ np.tanh(σ * Z) ** 2)(ROOT)
    series = bent.plain(lambda Y: tp.exp(Y) * (1 + tp.tanh(tp.sqrt(tp.n) * Y) ** 2 / tp.n) - 1 - Y)
    both = E + ROOT**2 / 2
    found, error = tp.derive(series, tp.Proportional()).drift_estimate_at(V, **given)
    assert (np.abs(found - 0.49 * (both @ V + (both @ V).T)) < 5 * error + 1e-4).all() and error.max() < 1e-2

    @tp.block
    def shared(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix):
        q = WQ @ x
        Y = tp.sqrt(tp.n) * tp.avg(q * (WK @ x).rename(token="key")) / 0.8
        return q + tp.sum(tp.tanh(Y) ** 2 * q.rename(token="key"), over="key") / tp.n

    found, error = tp.derive(shared, tp.Proportional()).drift_estimate_at(V)
    assert (np.abs(found - (E @ V + (E @ V).T)) < 5 * error + 1e-4).all() and error.max() < 1e-2


def residual(branch):
    """x + U φ/√n, φ of h = W x, g = G x and S = √n avg(h g′)."""

    @tp.block
    def added(x: tp.State["token"], W: tp.Matrix, G: tp.Matrix, U: tp.Matrix, b: tp.Vector, *, γ):
        h, g = W @ x, G @ x
        S = tp.sqrt(tp.n) * tp.avg(h * g.rename(token="key"))
        return x + branch(h, g, b, S, γ, U, x)

    return tp.derive(added, tp.Proportional()).drift_at(V, γ=0.7)


def inner(function):
    return lambda h, g, b, S, γ, U, x: U @ function(h, g, b, γ) / tp.sqrt(tp.n)


def ratio(u, power=2):
    return 1 / u - tp.tanh(u) / u**power


def langevin(u):
    """1/u − tanh(u)/u² by its series where it cancels."""
    w = np.where(np.abs(u) < 1e-2, 1.0, u)
    return np.where(np.abs(u) < 1e-2, u / 3 - 2 * u**3 / 15, 1 / w - np.tanh(w) / w**2)


OWN = means(langevin)
#: a function h, g, b, γ ↦ φ with a pole of that power, and b
CANCELLING = {
    "alone": (lambda k: lambda h, g, b, γ: ratio(h, k), OWN),
    "coth": (lambda k: lambda h, g, b, γ: 1 / tp.tanh(h) - h ** (1 - k), means(lambda u: 1 / np.tanh(u) - 1 / u)),
    "constants": (lambda k: lambda h, g, b, γ: 1 / (γ * h) - tp.tanh(γ * h) / (γ * h) ** k, None),
    "in numbers": (lambda k: lambda h, g, b, γ: (2 + γ) * ratio(h, k) + γ * ratio(h, k) / tp.sqrt(tp.n), 2.7**2 * OWN),
    "moved": (lambda k: lambda h, g, b, γ: ratio(h + 1 / tp.sqrt(tp.n), k), OWN),
    "beside a layer": (lambda k: lambda h, g, b, γ: 1 / h + g - tp.tanh(h) / h**k, OWN + V),
    "beside a bias": (lambda k: lambda h, g, b, γ: 1 / h + b - tp.tanh(h) / h**k, OWN + 1),
    "times a layer": (lambda k: lambda h, g, b, γ: g / h - g * tp.tanh(h) / h**k, OWN * V),
    "in a product": (lambda k: lambda h, g, b, γ: (g - g * tp.tanh(h) / h ** (k - 1)) / h, OWN * V),
}


@pytest.mark.parametrize("name", CANCELLING)
def test_poles_that_cancel_between_the_terms_of_an_activation(name):
    """1/h − tanh(h)/h² was refused for 1/h; with tanh(h)/h³ a pole is left, and named."""
    branch, claim = CANCELLING[name]
    claim = means(lambda u: langevin(0.7 * u)) if claim is None else claim
    b = residual(inner(branch(2)))
    np.testing.assert_allclose(b, claim, rtol=1e-6)
    assert np.abs(b - 1.01 * claim).max() > 1e-4  # a wrong twin
    with pytest.raises(tp.NoLimitError, match=r"second moment.*\(u\)\)?\*\*\(-[123]\)"):
        residual(inner(branch(3)))


def test_poles_that_cancel_between_weights_of_order_one():
    """Terms of a small weight were judged one by one; of S/n beside it nothing is left at this order."""

    def branch(power):
        def weighted(h, g, b, S, γ, U, x):
            weight = ratio(S, power) / tp.sqrt(tp.n) + S / tp.n
            return tp.sum(weight * (U @ x).rename(token="key"), over="key")

        return weighted

    deviation = np.sqrt(np.outer(np.diag(V), np.diag(V)))
    L = np.linalg.cholesky(V)
    rng = np.random.default_rng(1)
    S = L @ rng.standard_normal((50_000, 3, 3)) @ L.T
    np.testing.assert_allclose(S.std(0), deviation, rtol=0.03)
    f = langevin(S)
    draws = np.einsum("pak,kl,pbl->pab", f, V, f)
    b = residual(branch(2))
    assert (np.abs(b - draws.mean(0)) < 5 * draws.std(0) / np.sqrt(len(S)) + 1e-3 * np.abs(b).max()).all()
    assert np.abs(0.95 * b - draws.mean(0)).max() > 5 * draws.std(0).max() / np.sqrt(len(S))
    with pytest.raises(tp.NoLimitError, match="pole where S changes sign"):
        residual(branch(3))


def test_a_pole_of_several_layers_is_the_reason():
    """1/(h + g) − tanh(h + g)/(h + g)³ was refused as a function of several layers."""
    with pytest.raises(tp.NoLimitError, match="an entry of a dense layer, is not seen to have a second moment"):
        residual(inner(lambda h, g, b, γ: ratio(h + g, 3)))
