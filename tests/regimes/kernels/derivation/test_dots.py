"""Dot parts of kernels at jumps: v·Wᵀφ(Wx) beside integrals in Stein's form and networks of finite width."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes.functions import elementary
from tplimits.regimes.kernels.derivation import expectations

X = np.array([[0.6, 0.8], [0.0, 0.7]])
INF = mpmath.inf


def net(φ):
    @tp.network
    def there_and_back(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * (W.T @ φ(W @ tp.sum(U * ξ, over="d")))

    return there_and_back


def tokens(φ):
    @tp.network
    def there_and_back(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * (W.T @ φ(W @ tp.sum(U * ξ, over="d")))

    return there_and_back


def nngp(network, data):
    return tp.derive(network, tp.Kernels(train=("v",))).evaluate(data).nngp


def expected(φ, c, breaks=(0,)):
    """E φ² + b² c and b = E[h φ]/c, h ~ N(0, c)."""
    s = mpmath.sqrt(c)

    def mean(f):
        return mpmath.quad(lambda h: f(h) * mpmath.npdf(h, 0, s), [-INF, *breaks, INF])

    slope = mean(lambda h: h * φ(h)) / c
    return float(mean(lambda h: φ(h) ** 2) + slope**2 * c), float(slope)


def sign(h):
    return (h > 0) - (h < 0)


#: φ for the program, φ for mpmath, where it is not smooth
JUMPING = {
    "sign": (tp.sign, sign, (0,)),
    "step": (tp.step, lambda h: int(h > 0), (0,)),
    "bias": (lambda h: tp.sign(h + 1), lambda h: sign(h + 1), (-1,)),
    "kink and jump": (lambda h: tp.abs(h) + 2 * tp.step(h), lambda h: abs(h) + 2 * (h > 0), (0,)),
    "jump of a square": (lambda h: h * tp.sign(h**2 - 1), lambda h: h * sign(h**2 - 1), (-1, 1)),
    "two jumps": (lambda h: tp.sign(h) + h * tp.step(h - 1), lambda h: sign(h) + h * (h > 1), (0, 1)),
    "pieces": (lambda h: tp.where(h, h + 2, -1), lambda h: h + 2 if h > 0 else -1, (0,)),
    "smooth beside": (lambda h: tp.sign(h) * tp.exp(h / 2), lambda h: sign(h) * mpmath.exp(h / 2), (0,)),
    "jump in a kink": (lambda h: tp.relu(h + tp.sign(h)), lambda h: max(h + sign(h), 0), (0,)),
    "jump in a maximum": (lambda h: tp.maximum(tp.sign(h), h), lambda h: max(sign(h), h), (-1, 0, 1)),
    "product of jumps": (lambda h: tp.sign(h) * tp.step(h), lambda h: int(h > 0), (0,)),
    "infinite slope": (lambda h: tp.sign(h) * tp.abs(h) ** 0.5, lambda h: sign(h) * mpmath.sqrt(abs(h)), (0,)),
    "jump in a jump": (lambda h: tp.step(h + tp.sign(h)), lambda h: int(h > 0), (0,)),
}


@pytest.mark.parametrize("name", JUMPING)
def test_jumps_against_steins_form(name):
    φ, exact, breaks = JUMPING[name]
    found = nngp(net(φ), X)
    for i, c in enumerate((1.0, 0.49)):
        value, slope = expected(exact, c, breaks)
        assert found[i, i] == pytest.approx(value, rel=1e-8)
        assert abs(slope**2 * c) > 5e-3  # what would be lost without the dot part


def test_two_inputs_at_a_sign():
    """(2/π)(asin ρ + ρ), and 1 + 2/π on the diagonal, as the width limit has it."""
    ρ = 0.56 / 0.7
    assert nngp(net(tp.sign), X)[0, 1] == pytest.approx(2 / np.pi * (np.arcsin(ρ) + ρ), rel=1e-12)

    @tp.program
    def same(W: tp.Matrix, x: tp.Vector):
        y = W.T @ tp.sign(W @ x)
        return tp.avg(y * y)

    assert tp.derive(same).evaluate()["return"].value == pytest.approx(nngp(net(tp.sign), X)[0, 0], rel=1e-12)


def test_a_jump_of_a_sum_over_tokens():
    data = np.array([[[0.6, 0.8], [1.0, 0.0]]])
    assert nngp(tokens(lambda h: tp.sign(tp.sum(h, over="token"))), data) == pytest.approx(1 + 2 / np.pi)


@pytest.mark.parametrize("data", ([[[0.6, 0.8], [1.0, 0.0]]], [[[0.6, 0.8], [0.6, 0.8]]]), ids=("apart", "equal"))
@pytest.mark.sampling
def test_jumps_of_two_tokens_at_finite_width(data):
    """sign(h_0) step(h_1): of equal tokens step(h), where each delta stands beside the other jump."""
    network = tokens(lambda h: tp.sign(h.sel(token=0)) * tp.step(h.sel(token=1)))
    limit = tp.derive(network, tp.Kernels(train=("v",)))
    value = limit.evaluate(np.array(data)).nngp
    if data[0][0] == data[0][1]:
        assert value == pytest.approx(1 / 2 + 1 / (2 * np.pi))
    rng, n, found = np.random.default_rng(5), 800, []
    for _ in range(40):
        W, U = rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal((n, 2))
        h = W @ U @ np.array(data)[0].T
        found.append(np.mean((W.T @ (np.sign(h[:, 0]) * (h[:, 1] > 0))) ** 2))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - value.item()) < 4 * error
    assert abs(np.mean(found) - 1 / 2) > 8 * error  # without the dot part


def test_the_tangent_kernel_of_a_jump_is_refused_and_the_nngp_stays():
    pair = tp.derive(net(tp.sign), tp.Kernels()).evaluate(X)
    assert pair.nngp[0, 0] == pytest.approx(1 + 2 / np.pi)
    with pytest.raises(tp.NoLimitError, match="product of the derivatives of two jumps"):
        pair.ntk  # noqa: B018


def test_products_of_two_jumps_are_refused_before_they_are_multiplied_out(monkeypatch):
    """Two factors of many terms each, every one with functions of jumps, may take half a minute."""
    written = []

    def counted(expr):
        written.append(sum(f.has(sympy.DiracDelta) for f in sympy.Mul.make_args(expr)))
        return elementary(expr)

    def jumping(u):
        y = tp.where(u - 0.3, tp.exp(u), 0.7)
        return y * tp.tanh(y)

    @tp.network
    def forward(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * (W @ jumping(tp.sum(U * ξ, over="d")))

    monkeypatch.setattr(expectations, "elementary", counted)
    limit = tp.derive(forward, tp.Kernels())
    assert any("two jumps" in a for a in limit.assumptions)
    assert max(written) == 1


def test_constants_may_have_the_names_of_variables_of_derivatives():
    """A constant that is left open, and the number put in before anything is derived."""

    @tp.network
    def named(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, ε, e0):
        x = tp.sum(ε * U * ξ, over="d")
        h = W @ (ε * (W.T @ tp.erf(W @ x)) + x)
        return tp.readout(e0 * v * h)

    values = {"ε": 0.7, "e0": 0.3}
    found = tp.derive(named, tp.Kernels()).evaluate(X, **values)
    for kernel, wanted in zip(found, tp.derive(named.bind(**values), tp.Kernels()).evaluate(X), strict=True):
        np.testing.assert_allclose(kernel, wanted, rtol=1e-10)


def test_places_stand_in_front_of_quotients_of_named_values():
    """E[∂x/∂ŷ] of x = (h + m)/s with m = √(1 + h²) and s = 1 + h² by their names, whose sum of slopes is divided."""

    @tp.network
    def there_and_back(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.sum(U * ξ, over="d")
        size = 1 + h**2
        root = tp.sqrt(size)
        return v * (W.T @ ((h + root) / size))

    variance = mpmath.mpf(float(X[0] @ X[0]))
    φ = lambda h: (h + mpmath.sqrt(1 + h**2)) / (1 + h**2)  # noqa: E731
    mean = lambda f: mpmath.quad(lambda h: f(h) * mpmath.npdf(h, 0, mpmath.sqrt(variance)), [-12, -2, 0, 2, 12])  # noqa: E731
    slope, square = mean(lambda h: φ(h) * h) / variance, mean(lambda h: φ(h) ** 2)
    value = tp.derive(there_and_back, tp.Kernels(train=())).evaluate(X).nngp[0, 0]
    assert value == pytest.approx(float(square + slope**2 * variance), rel=1e-9)
    assert slope**2 * variance > 0.01


def test_gradients_through_a_norm_and_a_named_quotient():
    """The gradient of h/m, with m = √(1 + h²) by its name, had a mean in which the place of a vector stood."""

    def trained(quotient):
        @tp.network
        def normed(ξ: tp.Input["d"], U: tp.Vector["d"], H: tp.Matrix["n", "n", "head"], v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            norm = tp.sqrt(tp.avg(x**2) + 0.1)
            y = x / norm
            z = quotient(H.T @ y)
            return v * tp.sum(z, over="head")

        limit = tp.derive(normed.bind(head=2), tp.NeuralTangent(tp.Adam(eps=0.1)))
        return limit.evaluate(X=X, error=tp.squared_error([1.0, -0.8]), f0=[0.2, -0.1], lr=0.1, steps=1, particles=64).f

    def named(h):
        square = (h**2).named("square")
        size = (1 + square).named("size")
        root = tp.sqrt(size).named("root")
        return h / root

    np.testing.assert_allclose(trained(named), trained(lambda h: h / tp.sqrt(1 + h**2)), rtol=1e-9)
