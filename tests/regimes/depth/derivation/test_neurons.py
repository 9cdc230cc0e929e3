"""Functions of several dense layers at one neuron: their mean products against integrals over entries of the layers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 1.5]])
PROPORTIONAL = tp.Proportional()


def branch(f, inside=1):
    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix["k", "n"], Z: tp.Matrix["k", "n"], U: tp.Matrix["n", "k"], *, g):
        return x + g / tp.sqrt(tp.n) * (U @ f(W @ (inside * x), Z @ x))

    return block


def gaussian_pairs(covariance, points):
    """Nodes of two Gaussians, and weights."""
    x, w = hermegauss(points)
    a, b = np.meshgrid(x, x, indexing="ij")
    (aa, ab), (_, bb) = covariance
    u = np.sqrt(aa) * a
    return u, ab / aa * u + np.sqrt(bb - ab**2 / aa) * b, np.outer(w, w) / w.sum() ** 2


def mean_products(f, inside=1, points=40):
    """E f(u_α, w_α) f(u_β, w_β), u of covariance inside²·V and w of V."""
    found = np.zeros((2, 2))
    for α, β in np.ndindex(2, 2):
        # of one token there is no second one, and a singular law has no nodes
        law = V[np.ix_([α, β], [α, β])] if α != β else V[α, α] * np.array([[1, 0], [0, 1]])
        u, u2, p = gaussian_pairs(inside**2 * law, points)
        w, w2, q = gaussian_pairs(law, points)
        second = (u2, w2) if α != β else (u, w)
        left = f(u[..., None, None], w[None, None])
        found[α, β] = np.einsum("ab,cd,abcd->", p, q, left * f(second[0][..., None, None], second[1][None, None]))
    return found


def judged(sde, wanted):
    value, error = sde.drift_estimate_at(V, g=0.8)
    assert sde.verdict.kind == "ODE" and not sde.diffusion_form
    assert (np.abs(value - wanted) < 5 * error + 1e-4).all() and error.max() < 0.03 * np.abs(wanted).max()


@pytest.mark.parametrize("inside", [1, 2])
@pytest.mark.parametrize(
    ("function", "plain"),
    [
        (lambda u, w: tp.sin(u * w / 2), lambda u, w: np.sin(u * w / 2)),
        (lambda u, w: u * tp.sin(u + w) + tp.tanh(u), lambda u, w: u * np.sin(u + w) + np.tanh(u)),
        (lambda u, w: u * w * tp.cos(u - w), lambda u, w: u * w * np.cos(u - w)),
    ],
    ids=["sine of a product", "beside functions of one", "times a product"],
)
def test_smooth_functions_of_two_layers(function, plain, inside):
    judged(tp.derive(branch(function, inside), PROPORTIONAL), 0.64 * mean_products(plain, inside))


@pytest.mark.parametrize("ratio", [0.25, 4.0])
def test_the_transpose_of_a_matrix_has_the_variance_of_its_rows(ratio):
    """W of n rows and k columns has variance 1/k, so that Wᵀ x is √(n/k) times as large as V tells."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix["n", "k"], Z: tp.Matrix["k", "n"], U: tp.Matrix["n", "k"]):
        return x + (U @ tp.sin((W.T @ x) * (Z @ x) / 2)) / tp.sqrt(tp.n)

    value, error = tp.derive(block, PROPORTIONAL).drift_estimate_at(V, ratios={"k": ratio})
    wanted, twin = (mean_products(lambda u, w: np.sin(u * w / 2), ratio**power) for power in (-0.5, 0.5))
    assert (np.abs(value - wanted) < 5 * error + 1e-4).all() and error.max() < 0.03 * np.abs(wanted).max()
    assert np.diag(np.abs(value - twin) > 5 * error + 1e-4).all()


def largest():
    """E max(u, w) max(u′, w′) by the sum and the difference of u and w, which are independent."""
    size = np.sqrt(np.outer(np.diag(V), np.diag(V)))
    ρ = np.clip(V / size, -1, 1)
    return V / 2 + size / np.pi * (np.sqrt(1 - ρ**2) + ρ * np.arcsin(ρ))


def test_the_larger_of_two_layers():
    judged(tp.derive(branch(tp.maximum), PROPORTIONAL), 0.64 * largest())
    both = tp.derive(branch(lambda u, w: tp.maximum(u, w) + 2 * u), PROPORTIONAL)
    # E u max(u′, w′) = V/2
    judged(both, 0.64 * (largest() + 6 * V))


def test_a_function_beside_a_third_layer_and_a_gate():
    @tp.block
    def block(
        x: tp.State["token"], W: tp.Matrix, Z: tp.Matrix, Q: tp.Matrix, U: tp.Matrix, A: tp.Matrix, B: tp.Matrix, *, g
    ):
        gate = 1 + tp.tanh(tp.avg((A @ x) * (B @ x)))
        return x + g / tp.sqrt(tp.n) * (U @ (gate * (Q @ x) * tp.maximum(W @ x, Z @ x)))

    judged(tp.derive(block, PROPORTIONAL), 0.64 * V * largest())


SHIFT = np.array([[0.0, 1.0], [1.0, 0.0]])


def relu_kernel(C):
    """E relu(u) relu(u′)."""
    size = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    ρ = np.clip(C / size, -1, 1)
    return size * (np.sqrt(1 - ρ**2) + ρ * (np.pi - np.arccos(ρ))) / (2 * np.pi)


def shifted(vector):
    return tp.sum(tp.constant(SHIFT, axes=("token", "key")) * vector.rename(token="key"), over="key")


@tp.block
def shifts_state(x: tp.State["token"], W: tp.Matrix, Z: tp.Matrix, U: tp.Matrix, *, g):
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(W @ x + Z @ shifted(x)))


@tp.block
def shifts_layer(U: tp.Matrix, Z: tp.Matrix, x: tp.State["token"], W: tp.Matrix, *, g):
    h = shifted(Z @ x) + W @ x
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(h))


@tp.block
def shifts_family(x: tp.State["token"], W: tp.Matrix["n", "n", "tap"], U: tp.Matrix, *, g):
    taps = tp.constant(np.stack([np.eye(2), SHIFT]), axes=("tap", "token", "key"))
    h = tp.sum(tp.sum(taps * (W @ x).rename(token="key"), over="key"), over="tap")
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(h))


@pytest.mark.parametrize("block", [shifts_state, shifts_layer, shifts_family], ids=lambda block: block.name)
def test_a_convolution_of_tokens(block):
    sde = tp.derive(block, PROPORTIONAL)
    judged(sde, 0.64 * relu_kernel(V + SHIFT @ V @ SHIFT.T))
    value, error = sde.drift_estimate_at(V, g=0.8)
    assert (np.abs(value - 0.64 * relu_kernel(2 * V)) > 50 * error).any()  # both taps at one token


@pytest.mark.parametrize("seed", [0, 3])
def test_a_maximum_of_mixed_tokens_of_one_layer(seed):
    """The expansion on nodes derived it and had no numbers for its kink at these; a mean over the layer has."""
    law = np.array([[1.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 0.8]])
    mixture = np.random.default_rng(seed).standard_normal((3, 3)).round(2)

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        h = W @ x
        mixed = tp.sum(tp.constant(mixture, axes=("token", "key")) * h.rename(token="key"), over="key")
        return x + U @ tp.maximum(h, mixed) / tp.sqrt(tp.n)

    h = np.random.default_rng(8).multivariate_normal(np.zeros(3), law, 400_000)
    f = np.maximum(h, h @ mixture.T)
    products = f[:, :, None] * f[:, None]
    value, error = tp.derive(block, PROPORTIONAL).drift_estimate_at(law)
    tolerance = 5 * (error + products.std(0) / np.sqrt(len(f)))
    assert (np.abs(value - products.mean(0)) < tolerance).all()
    assert (np.abs(value - h.T @ h / len(h)) > tolerance).any()  # a wrong twin: the maximum left out


def logits(x, WQ, WK, size=1):
    return tp.softmax(size * tp.avg((WQ @ x) * (WK @ x).rename(token="key")), over="key")


@tp.block
def tokens_mixed(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, U: tp.Matrix, *, g):
    mixed = tp.sum(logits(x, WQ, WK, tp.sqrt(tp.n)) * x.rename(token="key"), over="key")
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(WV @ mixed))


@tp.block
def values_mixed(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, U: tp.Matrix, *, g):
    mixed = tp.sum(logits(x, WQ, WK, tp.sqrt(tp.n)) * (WV @ x).rename(token="key"), over="key")
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(mixed))


@pytest.mark.parametrize("block", [tokens_mixed, values_mixed], ids=lambda block: block.name)
def test_an_activation_behind_attention(block):
    """E relu(a) relu(a′), a Gaussian of covariance A V Aᵀ given the logits: not that of the mean of A V Aᵀ."""
    L = np.linalg.cholesky(V)
    S = L @ np.random.default_rng(2).standard_normal((20_000, 2, 2)) @ L.T
    A = np.exp(S) / np.exp(S).sum(-1, keepdims=True)
    kernels = np.array([relu_kernel(a @ V @ a.T) for a in A])
    value, error = tp.derive(block, PROPORTIONAL).drift_estimate_at(V, g=0.8)
    sampling = 0.64 * kernels.std(0) / np.sqrt(len(A))
    assert (np.abs(value - 0.64 * kernels.mean(0)) < 5 * (error + sampling)).all()
    wrong = 0.64 * relu_kernel(A.mean(0) @ V @ A.mean(0).T)
    assert (np.abs(value - wrong) > 5 * (error + sampling)).any()


def test_an_activation_behind_attention_of_small_logits_sees_the_mean_of_the_tokens():
    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix, U: tp.Matrix, *, g):
        mixed = tp.sum(logits(x, WQ, WK) * x.rename(token="key"), over="key")
        return x + g / tp.sqrt(tp.n) * (U @ tp.relu(WV @ mixed))

    judged(tp.derive(block, PROPORTIONAL), 0.64 * np.full((2, 2), V.mean() / 2))


def test_a_gate_that_settles_stands_in_the_function():
    """relu(u) max(u, w) (1 + tanh(average)), whose factors are not independent."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, Z: tp.Matrix, U: tp.Matrix, A: tp.Matrix, B: tp.Matrix, *, g):
        gate = 1 + tp.tanh(tp.avg((A @ x) * (B @ x)))
        return x + g / tp.sqrt(tp.n) * (U @ (gate * tp.relu(W @ x) * tp.maximum(W @ x, Z @ x)))

    u, w = np.random.default_rng(4).multivariate_normal(np.zeros(2), V, (2, 400_000))
    f = np.maximum(u, 0) * np.maximum(u, w)
    products = 0.64 * f[:, :, None] * f[:, None]
    value, error = tp.derive(block, PROPORTIONAL).drift_estimate_at(V, g=0.8)
    assert (np.abs(value - products.mean(0)) < 5 * (error + products.std(0) / np.sqrt(len(f)))).all()


def test_stacks_have_the_law_of_the_layers_at_the_covariance_that_they_meet():
    @tp.block
    def larger(x: tp.State["token"], W: tp.Matrix, *, c):
        return c * (W @ x)

    stack = tp.stack(larger.bind(c=2), branch(tp.maximum), larger.bind(c=0.5))
    value = tp.derive(stack, PROPORTIONAL).drift_at(V, g=0.8)
    np.testing.assert_allclose(value, tp.derive(branch(tp.maximum), PROPORTIONAL).drift_at(V, g=0.8), rtol=1e-9)


def test_what_is_said_of_the_scalars():
    text = repr(tp.derive(branch(tp.maximum), PROPORTIONAL))
    assert "= an entry of `W` times the state, Gaussian given V" in text and "√n times" not in text


@tp.block
def no_matrix(x: tp.State["token"], W: tp.Matrix, Z: tp.Matrix):
    return x + tp.maximum(W @ x, Z @ x) / tp.sqrt(tp.n)


@tp.block
def in_logits(x: tp.State["token"], W: tp.Matrix, Z: tp.Matrix, U: tp.Matrix, K: tp.Matrix, WV: tp.Matrix):
    f, v = tp.maximum(W @ x, Z @ x), WV @ x
    Y = tp.avg((U @ f) * (K @ f).rename(token="key"))
    return v + tp.sum((tp.exp(Y) - 1) * v.rename(token="key"), over="key")


@tp.block
def beside_its_own_layer(x: tp.State["token"], W: tp.Matrix, Z: tp.Matrix, U: tp.Matrix, A: tp.Matrix, B: tp.Matrix):
    """relu(W x) stands apart from the maximum, for the gate has no law here: they are not independent."""
    gate = 1 + tp.avg(tp.relu(A @ x) * tp.relu(B @ x))
    return x + (U @ (gate * tp.relu(W @ x) * tp.maximum(W @ x, Z @ x))) / tp.sqrt(tp.n)


@tp.block
def beside_another_term(x: tp.State["token"], W: tp.Matrix, Z: tp.Matrix, U: tp.Matrix):
    return x + (U @ tp.maximum(W @ x, Z @ x) + U @ tp.relu(W @ x)) / tp.sqrt(tp.n)


@pytest.mark.long
@pytest.mark.parametrize(
    "block", [no_matrix, in_logits, beside_its_own_layer, beside_another_term], ids=lambda block: block.name
)
def test_where_such_functions_have_no_place(block):
    with pytest.raises(tp.NoLimitError, match="several dense layers"):
        tp.derive(block, PROPORTIONAL)


def test_polynomials_of_high_degree():
    """E (u⁹ + 30 u⁴)(u′⁹ + 30 u′⁴), by nodes that are exact for it; its 17!! pairings had filled the memory."""

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        h = W @ x
        return x + U @ (h**9 + 30 * h**4) / tp.sqrt(tp.n)

    found = tp.derive(block, PROPORTIONAL).drift_at(V)
    for a, b in np.ndindex(2, 2):
        law = np.array([[V[a, a], V[a, b]], [V[a, b], V[b, b]]])
        u, v, w = gaussian_pairs(law if a != b else law + np.diag([0, 1e-13]), 24)
        wanted = (w * (u**9 + 30 * u**4) * (v**9 + 30 * v**4)).sum()
        np.testing.assert_allclose(found[a, b], wanted, rtol=1e-5)
        assert abs(found[a, b] - (w * u**9 * v**9).sum()) > 1e-4 * wanted
