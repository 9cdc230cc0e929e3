"""Starts and rates late in training, by parameter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import tplimits as tp
from tplimits.regimes.classification.derivation.rates import maximal_rates


@tp.network
def two_sums(ξ: tp.Input["d"], U: tp.Vector["d"], c: tp.Vector, d: tp.Vector, g: tp.Scalar = 1):
    h = tp.tanh(tp.sum(U * ξ, over="d"))
    return tp.readout(d * h) + tp.n * g * tp.avg(c * h)


def _change_of_the_gate(n, power, steps=4, draws=40):
    """|g − 1| after some steps of gradient descent by hand, c and d of order 1/n, at a rate of g of n^power."""
    rng, X, y = np.random.default_rng(n), np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, -1.0])
    moved = []
    for _ in range(draws):
        U, (c, d), g = rng.standard_normal((2, n)), rng.standard_normal((2, n)) / n, 1.0
        for _ in range(steps):
            h = np.tanh(X @ U)
            χ = (h @ d + g * h @ c - y) / 2
            dU = X.T @ (χ[:, None] * (d + g * c) * (1 - h * h))
            c, d, g, U = (
                c - 0.3 / n * g * χ @ h,
                d - 0.3 / n * χ @ h,
                g - 0.3 * n**power * χ @ (h @ c),
                U - 0.3 * n * dU,
            )
        moved.append(abs(g - 1))
    return np.mean(moved)


def test_the_gate_of_a_sum_beside_the_readout_has_the_rate_at_which_it_moves_by_order_one():
    """A sum that is added beside the readout is aligned late in training as one behind it; √n had been the rate."""
    table = maximal_rates(two_sums, tp.SGD()).parameters
    assert (table["c"].rate, table["d"].rate, table["g"].rate) == (-1, -1, 0)
    assert table["g"].gradient == 0 and table["g"].first_gradient == Fraction(-1, 2)
    narrow, wide = (_change_of_the_gate(n, float(table["g"].rate)) for n in (100, 1600))
    assert abs(np.log(wide / narrow) / np.log(16)) < 0.1, (narrow, wide)
    narrow, wide = (_change_of_the_gate(n, 0.5, steps=3) for n in (100, 1600))
    assert np.log(wide / narrow) / np.log(16) > 0.35, (narrow, wide)
