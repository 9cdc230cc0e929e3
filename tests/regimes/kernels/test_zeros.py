"""Kernels at constants that are 0."""

import numpy as np
import pytest

import tplimits as tp

X = [[1.0]]


@tp.network
def moved(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, c, k):
    h = tp.sum(U * ξ, over="d")
    return v * k * tp.step(W @ (c * h) + tp.avg(h))


@tp.network
def still(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, c):
    h = tp.sum(U * ξ, over="d")
    return v * tp.step(W @ (c * h) + tp.avg(h * h) / 2)


def test_a_jump_that_nothing_is_left_beside():
    limit = tp.derive(moved, tp.Kernels(train=("v",)))
    assert limit.evaluate(X, c=1.0, k=2.0).nngp.item() == pytest.approx(2.0)
    with pytest.raises(tp.EvaluationError, match=r"no number at c = 0.0: .* jump"):
        limit.evaluate(X, c=0.0, k=2.0)
    assert limit.evaluate(X, c=1.0, k=0).nngp.item() == 0


def test_a_jump_away_from_its_place():
    limit = tp.derive(still, tp.Kernels(train=("v",)))
    assert limit.evaluate(X, c=0).nngp.item() == pytest.approx(1.0)
    assert limit.evaluate(X, c=0).nngp.item() == tp.derive(still.bind(c=0), tp.Kernels()).evaluate(X).nngp.item()


def test_the_tangent_kernel_of_a_removable_pole():
    """tanh(x)/x: poles of the derivative cancel between its two terms; by quadrature on a grid."""

    @tp.network
    def quotient(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * (tp.tanh(x) / x)

    X = np.array([[1.0, 0.5], [-0.3, 1.2]])
    z, weights = np.polynomial.hermite_e.hermegauss(120)
    z1, z2 = np.meshgrid(z, z, indexing="ij")
    x, density = np.einsum("id,djk->ijk", X, np.stack([z1, z2])), np.outer(weights, weights) / (2 * np.pi)
    f, slope = np.tanh(x) / x, 1 / (x * np.cosh(x) ** 2) - np.tanh(x) / x**2
    nngp, moved = (np.einsum("ijk,ljk,jk->il", a, a, density) for a in (f, slope))
    found = tp.derive(quotient, tp.Kernels()).evaluate(X)
    np.testing.assert_allclose(found.nngp, nngp, atol=1e-6)
    np.testing.assert_allclose(found.ntk, nngp + moved * (X @ X.T), atol=1e-6)


DISGUISES = {
    "half a square": lambda x: tp.avg(tp.relu(x) ** 2) - tp.avg(x**2) / 2,
    "a wave": lambda x: tp.avg(tp.cos(x)) - tp.exp(-tp.avg(x**2) / 2),
    "Stein's lemma": lambda x: tp.avg(x * tp.sin(x)) - tp.avg(x**2) * tp.avg(tp.cos(x)),
    "a fourth moment": lambda x: tp.avg(x**4) - 3 * tp.avg(x**2) ** 2,
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_zeros_of_closed_forms_are_removable_poles(disguise):
    """tanh(s)/s → 1 as s → 0 at every data: kernels refused what width limits knew."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], T: tp.Vector["d"], v: tp.Vector):
        s = DISGUISES[disguise](tp.sum(U * ξ, over="d"))
        return v * tp.sum(T * ξ, over="d") * tp.tanh(s) / s

    X = [[1.0, 0.3], [-0.4, 1.2]]
    pair = tp.derive(net, tp.Kernels()).evaluate(X)
    assert pair.nngp == pytest.approx(np.array([[1.09, -0.04], [-0.04, 1.6]]))
    assert pair.ntk == pytest.approx(2 * np.array(pair.nngp))
