"""Numbers of a program are as small as they are: what is no larger than 10⁻¹² had been taken for rounding."""

import numpy as np
import pytest

import tplimits as tp

V = np.array([[1.0, 0.3], [0.3, 0.8]])


def limit(f):
    def block(x: tp.State["token"], M: tp.Matrix, Z: tp.Matrix):
        return f(x, M, Z)

    return tp.derive(tp.block(block), tp.Proportional())


@pytest.mark.parametrize("c", [1e-5, 1e-7, 1e-20])
def test_a_small_branch_has_its_drift(c):
    """E V′ − V = c² V/n."""
    sde = limit(lambda x, M, Z: x + c * (M @ x) / tp.sqrt(tp.n))
    np.testing.assert_allclose(sde.drift_at(V), c**2 * V, rtol=1e-13)
    assert np.abs(sde.drift_at(V) - V * c**2 / 2).max() > 0.1 * c**2
    inside = limit(lambda x, M, Z: x + (M @ (c * x + c * (Z @ x))) / tp.sqrt(tp.n))
    np.testing.assert_allclose(inside.drift_at(V), 2 * c**2 * V, rtol=1e-13)


def test_a_small_branch_of_order_one_has_its_noise():
    """Cov(V′_αα) = n⁻¹·4 a² c² V² + … of a x + c Z x with a² + c² = 1."""
    c = 1e-7
    sde = limit(lambda x, M, Z: tp.sqrt(1 - c**2) * x + c * (Z @ x))
    assert sde.diffusion_at(V)[0, 0] == pytest.approx(4 * c**2, rel=1e-9)


def test_a_slow_decay_is_one():
    sde = limit(lambda x, M, Z: x * (1 - 1e-14 / tp.n))
    np.testing.assert_allclose(sde.drift_at(V), -2e-14 * V, rtol=1e-12)


def test_decimals_that_cancel_are_rounding():
    """0.6² + 0.8² is 1, and 3·0.1 is 0.3."""
    sde = limit(lambda x, M, Z: 0.6 * x + 0.8 * (Z @ x) + (0.3 - 3 * 0.1) * (M @ x))
    assert sde.drift_at(V) == pytest.approx(0, abs=1e-15)
    assert sde.diffusion_at(V)[0, 0] == pytest.approx(2 * 0.8**2 * (2 * 0.6**2 + 0.8**2), rel=1e-12)
