"""The oracle of kernels against quadrature, extended precision, and finite networks with gradients by hand."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import reference_duals as duals
import reference_kernels as R
import scipy.special
from kernel_cases import mlp_kernels, relative_error, rows

Array = np.ndarray
KINKED = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0)),
    "leaky_relu": (lambda x: np.where(x > 0, x, x / 4), lambda x: np.where(x > 0, 1, 0.25)),
    "abs": (np.abs, np.sign),
    "u_plus_relu": (lambda x: x + np.maximum(x, 0), lambda x: 1.0 + (x > 0)),
    "step": (lambda x: 1.0 * (x > 0), None),
    "sign": (np.sign, None),
}
NORMAL = np.sqrt(2 * np.pi)
SMOOTH = {
    "identity": (lambda x: x, np.ones_like),
    "erf": (scipy.special.erf, lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x)),
    "gelu": (
        lambda x: x * scipy.special.ndtr(x),
        lambda x: scipy.special.ndtr(x) + x * np.exp(-x * x / 2) / NORMAL,
    ),
    "sin": (np.sin, np.cos),
    "cos": (np.cos, lambda x: -np.sin(x)),
    "exp_quarter": (lambda x: np.exp(x / 4), lambda x: np.exp(x / 4) / 4),
    "square": (lambda x: x * x, lambda x: 2 * x),
    "cube": (lambda x: x**3, lambda x: 3 * x * x),
}
COVARIANCES = ((1.0, 0.25, 2.0), (2.0, -1.125, 0.75), (1.0, 0.999, 1.0), (3.0, 3.0, 3.0), (1.0, -1.0, 1.0))


@pytest.mark.parametrize("name", [*KINKED, *SMOOTH])
def test_closed_forms(name):
    rule = duals.kinked_mean if name in KINKED else duals.smooth_mean
    f, df = {**KINKED, **SMOOTH}[name]
    assert set(duals.CLOSED) == {*KINKED, *SMOOTH}
    for numbers in COVARIANCES:
        low = duals.dual(name, *(np.array(x) for x in numbers))
        with mpmath.workdps(40):
            exact = duals.dual(name, *(np.array(mpmath.mpf(x), dtype=object) for x in numbers))
        for φ, a, b in zip((f, df), low, exact, strict=True):
            if φ is not None:
                value = rule(φ, φ, *numbers)
                assert abs(a - value) <= 1e-13 * (1 + abs(value))
                assert abs(float(b) - value) <= 1e-13 * (1 + abs(value))
        wanted = rule(f, np.ones_like, numbers[0], numbers[0], numbers[0])
        assert abs(duals.mean(name, np.array(numbers[0])) - wanted) <= 1e-13 * (1 + abs(wanted))


@pytest.mark.parametrize("name", duals.SMOOTH)
def test_trapezoidal_rule_is_sharp(name, monkeypatch):
    numbers = [np.array(x) for x in (4.0, 1.0, 3.0)]
    coarse = duals.dual(name, *numbers)
    monkeypatch.setattr(duals, "STEP", 1 / 24)
    monkeypatch.setattr(duals, "REACH", 11.0)
    np.testing.assert_allclose(coarse, duals.dual(name, *numbers), rtol=1e-12)


@pytest.mark.parametrize("name", duals.KINKED)
def test_polar_rule_agrees_with_mpmath(name):
    f, df = {
        "tanh_relu": (lambda x: mpmath.tanh(x) if x > 0 else 0, lambda x: mpmath.sech(x) ** 2 if x > 0 else 0),
        "softplus_abs": (
            lambda x: mpmath.log1p(mpmath.exp(abs(x))),
            lambda x: mpmath.sign(x) / (1 + mpmath.exp(-abs(x))),
        ),
    }[name]
    p = 1.5  # v = −u: both means are integrals in one variable
    found = duals.dual(name, np.array(p), np.array(-p), np.array(p))
    for value, φ in zip(found, (f, df), strict=True):
        s = mpmath.sqrt(p)
        wanted = mpmath.quad(lambda g, φ=φ, s=s: φ(s * g) * φ(-s * g) * mpmath.npdf(g), [-12, -4, 0, 4, 12])
        assert abs(value - float(wanted)) <= 1e-13


def test_extended_precision_decides_what_doubles_cannot():
    """Away from degenerate pairs both agree; 1e-8 apart, doubles lose half their digits."""
    X = rows()
    low = mlp_kernels(X, 3, "relu", 1.5, 0.25)
    with mpmath.workdps(40):
        exact = R.floats(mlp_kernels(R.high(X), 3, "relu", 1.5, 0.25))
    generic = np.ix_((0, 1), (0, 1))
    for a, b in zip(low, exact, strict=True):
        assert relative_error(a[generic], b[generic]) <= 1e-13
    assert relative_error(low[1], exact[1]) > 1e-10


# -- finite networks ------------------------------------------------------------------------------------

WIDTH, DRAWS = 256, 200


def agrees(draws: list[tuple[Array, Array]], wanted: tuple[Array, Array]) -> list[bool]:
    """NNGP and NTK within four standard errors and 2 % for the finite width."""
    found = []
    for samples, claim in zip(zip(*draws, strict=True), wanted, strict=True):
        mean, error = np.mean(samples, axis=0), np.std(samples, axis=0) / len(samples) ** 0.5
        size = np.sqrt(np.outer(np.diag(claim), np.diag(claim)))
        found.append(bool((np.abs(mean - claim) <= 4 * error + 0.02 * size).all()))
    return found


@pytest.mark.sampling
def test_perceptron_at_finite_width():
    ξ, σw, σb, n = rows()[:2], 1.5, 0.5, WIDTH
    rng, d = np.random.default_rng(11), 6

    def draw() -> tuple[Array, Array]:
        U, W, b0, b1, v = (rng.standard_normal(s) for s in ((n, d), (n, n), n, n, n))
        h0 = σw * ξ @ U.T / d**0.5 + σb * b0
        x0 = np.maximum(h0, 0)
        h1 = σw * x0 @ W.T / n**0.5 + σb * b1
        x1 = np.maximum(h1, 0)
        δ1 = σw * v * (h1 > 0)
        δ0 = σw * (δ1 @ W) / n**0.5 * (h0 > 0)
        ntk = σw**2 * x1 @ x1.T / n + σb**2
        ntk = ntk + δ1 @ δ1.T / n * (σw**2 * x0 @ x0.T / n + σb**2)
        ntk = ntk + δ0 @ δ0.T / n * (σw**2 * ξ @ ξ.T / d + σb**2)
        return σw**2 * x1 @ x1.T / n + σb**2, ntk

    draws = [draw() for _ in range(DRAWS)]
    right = mlp_kernels(ξ, 2, "relu", σw, σb)
    assert agrees(draws, right) == [True, True]
    assert agrees(draws, tuple(1.1 * k for k in right)) == [False, False]


@pytest.mark.sampling
def test_reused_transpose_at_finite_width():
    """v·erf(Wᵀ relu(W U ξ)): with Wᵀ independent of W the kernels would be others."""
    ξ, n = rows()[:2], WIDTH
    rng, d = np.random.default_rng(12), 6

    def draw() -> tuple[Array, Array]:
        U, v, W = rng.standard_normal((n, d)), rng.standard_normal(n), rng.standard_normal((n, n)) / n**0.5
        x = ξ @ U.T / d**0.5
        h = x @ W.T
        y = np.maximum(h, 0)
        z = y @ W
        f = scipy.special.erf(z)
        δz = v * 2 / np.sqrt(np.pi) * np.exp(-z * z)
        δh = (h > 0) * (δz @ W.T)
        δx = δh @ W
        ntk = f @ f.T / n + δx @ δx.T / n * (ξ @ ξ.T / d)
        # ∂f/∂W = y δzᵀ + δh xᵀ
        ntk = ntk + (y @ y.T * (δz @ δz.T) + δh @ δh.T * (x @ x.T)) / n**2
        ntk = ntk + ((y @ δh.T) * (δz @ x.T) + (δh @ y.T) * (x @ δz.T)) / n**2
        return f @ f.T / n, ntk

    draws = [draw() for _ in range(DRAWS)]
    first = R.dense(R.data(ξ[:, None, :]))
    assert agrees(draws, R.output(R.reused_transpose(first, "relu", "erf"))) == [True, True]
    independent = R.output(R.activation(R.dense(R.activation(R.dense(first), "relu")), "erf"))
    assert agrees(draws, independent) == [False, False]


@pytest.mark.sampling
def test_tied_recurrence_at_finite_width():
    ξ, n, σw = np.random.default_rng(3).standard_normal((2, 3, 4)), WIDTH, 1.25
    rng, (N, steps, d) = np.random.default_rng(13), ξ.shape

    def draw() -> tuple[Array, Array]:
        U, b, v = rng.standard_normal((n, d)), rng.standard_normal(n), rng.standard_normal(n)
        W = rng.standard_normal((n, n)) / n**0.5
        h, x = np.zeros((steps, N, n)), np.zeros((steps + 1, N, n))
        for t in range(steps):
            h[t] = ξ[:, t] @ U.T / d**0.5 + 0.25 * b + σw * x[t] @ W.T
            x[t + 1] = scipy.special.erf(h[t])
        δ = np.zeros((steps, N, n))
        back = np.tile(v, (N, 1))
        for t in reversed(range(steps)):
            δ[t] = back * 2 / np.sqrt(np.pi) * np.exp(-(h[t] ** 2))
            back = σw * δ[t] @ W
        nngp = x[-1] @ x[-1].T / n
        ntk = nngp.copy()
        for s in range(steps):
            for t in range(steps):
                inputs = ξ[:, s] @ ξ[:, t].T / d + 0.0625 + σw**2 * x[s] @ x[t].T / n
                ntk += δ[s] @ δ[t].T / n * inputs
        return nngp, ntk

    draws = [draw() for _ in range(DRAWS)]
    right = R.output(R.tied_rnn(ξ, "erf", σw, 1.0, 0.25))
    assert agrees(draws, right) == [True, True]
    assert agrees(draws, R.output(R.tied_rnn(ξ, "erf", 1.0, 1.0, 0.25))) == [False, False]


@pytest.mark.sampling
def test_gain_before_an_activation_at_finite_width():
    """relu(g ⊙ h/rms h + β): the gradient in g is not a product of two means."""
    ξ, n, d = rows()[:2], WIDTH, 6
    rng = np.random.default_rng(14)

    def draw() -> tuple[Array, Array]:
        U, v = rng.standard_normal((n, d)), rng.standard_normal(n)
        h = ξ @ U.T / d**0.5
        rms = np.sqrt((h * h).mean(axis=1, keepdims=True))
        y = h / rms
        f, δy = np.maximum(y, 0), v * (y > 0)
        δh = (δy - y * (δy * y).mean(axis=1, keepdims=True)) / rms
        gain = (δy * y) @ (δy * y).T / n
        ntk = f @ f.T / n + gain + δy @ δy.T / n + δh @ δh.T / n * (ξ @ ξ.T / d)
        return f @ f.T / n, ntk

    draws = [draw() for _ in range(DRAWS)]
    first = R.dense(R.data(ξ[:, None, :]))
    right = R.output(R.affine_activation(R.layer_norm(first), "relu"))
    assert agrees(draws, right) == [True, True]
    apart = R.output(R.activation(R.layer_norm(first, gain=True, bias=True), "relu"))
    assert agrees(draws, apart)[1] is False


# -- logits that stay random ----------------------------------------------------------------------------


@pytest.mark.sampling
@pytest.mark.parametrize("name", ("softmax", "relu", "abs", "identity"))
def test_moments_of_random_logits(name):
    """Σ A E[ζζ′] and Σ A M E[∂ζ ∂ζ′] over draws of G = σ L Z Lᵀ, one Z for both inputs."""
    rng, σ, draws = np.random.default_rng(15), 0.75, 200_000
    B = rng.standard_normal((4, 6)) / 6**0.5
    P = B @ B.T  # two tokens of x, two of x′
    A, M = rng.standard_normal((2, 2, 2))
    every = np.ones(2, dtype=bool)
    Z, J = R.logit_moments(name, σ, P[:2, :2], P[:2, 2:], P[2:, 2:], every, every)
    L = np.linalg.cholesky(P)
    noise = rng.standard_normal((draws, 4, 4))
    Gx, Gy = (σ * L[rows] @ noise @ L[rows].T for rows in (slice(0, 2), slice(2, 4)))
    ζx, ζy = (R.WEIGHTS[name](G, every) for G in (Gx, Gy))
    assert within(np.einsum("nai,ij,nbj->nab", ζx, A, ζy), Z(A))
    if name == "softmax":
        dx, dy = (np.einsum("nac,cd->nacd", ζ, np.eye(2)) - np.einsum("nac,nad->nacd", ζ, ζ) for ζ in (ζx, ζy))
    else:
        slope = {"relu": lambda G: 1.0 * (G > 0), "abs": np.sign, "identity": np.ones_like}[name]
        dx, dy = (np.einsum("nac,cd->nacd", slope(G), np.eye(2)) for G in (Gx, Gy))
    samples = np.einsum("nacd,ce,df,nbef->nab", dx, A, M, dy, optimize=True)
    assert within(samples, J(A, M))
    assert not within(samples, 1.2 * J(A, M))


def within(samples: Array, claim: Array) -> bool:
    """Whether the mean of samples is within 4.5 standard errors of a claim, entry by entry."""
    error = samples.std(axis=0) / len(samples) ** 0.5
    return bool((np.abs(samples.mean(axis=0) - claim) <= 4.5 * error + 1e-9 * np.abs(claim)).all())
