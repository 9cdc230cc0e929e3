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
    """relu(W x) stands apart from the maximum, for the gate is no entry of a layer: they are not independent."""
    gate = 1 + tp.tanh(tp.avg((A @ x) * (B @ x)))
    return x + (U @ (gate * tp.relu(W @ x) * tp.maximum(W @ x, Z @ x))) / tp.sqrt(tp.n)


@tp.block
def beside_another_term(x: tp.State["token"], W: tp.Matrix, Z: tp.Matrix, U: tp.Matrix):
    return x + (U @ tp.maximum(W @ x, Z @ x) + U @ tp.relu(W @ x)) / tp.sqrt(tp.n)


@pytest.mark.parametrize(
    "block", [no_matrix, in_logits, beside_its_own_layer, beside_another_term], ids=lambda block: block.name
)
def test_where_such_functions_have_no_place(block):
    with pytest.raises(tp.NoLimitError, match="several dense layers"):
        tp.derive(block, PROPORTIONAL)
