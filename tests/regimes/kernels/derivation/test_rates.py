"""Rates of vectors that are trained beside a matrix that reads them."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[0.2, 0.6]])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(150)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

#: functions of y = b + .7 relu(V b) at b = 1, and their slopes
READ = {
    "relu": (tp.relu, lambda y: (y > 0) * 1.0),
    "tanh": (tp.tanh, lambda y: 1 - np.tanh(y) ** 2),
}


@pytest.mark.parametrize("read", READ)
def test_a_vector_at_a_rate_of_its_own_counts_where_it_stands_and_through_its_image(read):
    """Θ = r_b (E φ′² + .49 E φ′² 1{z > 0}) + r_V .49 E φ′² 1{z > 0}; of the first term nothing had been left."""
    function, slope = READ[read]

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], w: tp.Vector, V: tp.Matrix, b: tp.Vector = 1):
        x = tp.sum(U * ξ, over="d")
        y = b + 0.7 * tp.relu(V @ b)
        return w * function(y) + 0 * x

    squares = slope(1 + 0.7 * np.maximum(NODES, 0)) ** 2
    whole, half = WEIGHTS @ squares, 0.49 * WEIGHTS @ (squares * (NODES > 0))
    for rate_b, rate_v in ((1.0, 1.0), (2.0, 1.0), (0.5, 3.0)):
        found = tp.derive(net, tp.Kernels(train={"b": rate_b, "V": rate_v})).evaluate(X).ntk.item()
        # a rule with nodes on both sides of a kink at 0
        assert found == pytest.approx(rate_b * (whole + half) + rate_v * half, abs=2e-3)
        assert abs(found - (rate_b + rate_v) * half) > 0.05
