"""Random sums of functions of random linear forms of three vectors, against means over their Gaussian law."""

from __future__ import annotations

import random

import numpy as np
import pytest
import scipy

import tplimits as tp
from tplimits.numbers.sobol import normal_points

X = np.array([[1.0, 0.3], [-0.4, 1.2], [0.7, -0.9]])

#: functions as networks write them, and of numbers
FUNCTIONS = (
    (tp.relu, lambda u: np.maximum(u, 0)),
    (tp.abs, np.abs),
    (tp.tanh, np.tanh),
    (tp.sin, np.sin),
    (tp.erf, scipy.special.erf),
    (tp.step, lambda u: 1.0 * (u > 0)),
    (tp.sign, np.sign),
    (lambda u: u, lambda u: u),
    (lambda u: tp.leaky_relu(u, 0.2), lambda u: np.where(u > 0, u, 0.2 * u)),
    (lambda u: tp.clip(u, -1, 1), lambda u: np.clip(u, -1, 1)),
    (lambda u: tp.exp(-(u**2)), lambda u: np.exp(-(u**2))),
    (tp.gelu, lambda u: u * scipy.special.ndtr(u)),
)
FACTORS = (-3.0, -1.0, 0.5, 1.0, 2.0)


def drawn(seed):
    """A function of (h, y, z) for networks, and the same of arrays."""
    rng = random.Random(seed)
    terms = []
    for _ in range(rng.choice([1, 2, 2, 3])):
        form = [rng.choice(FACTORS) if k in rng.sample(range(3), 2) else 0.0 for k in range(3)]
        terms.append((rng.choice(FACTORS), form, rng.choice([0, 0, 0, 1, -0.5]), rng.randrange(len(FUNCTIONS))))

    def written(side, *vectors):
        parts = []
        for factor, form, shift, k in terms:
            inner = [c * v for c, v in zip(form, vectors, strict=True) if c]
            parts.append(factor * FUNCTIONS[k][side](sum(inner[1:], inner[0]) + shift if inner else vectors[0]))
        return sum(parts[1:], parts[0])

    return written


@pytest.mark.parametrize("seed", range(40))
def test_kernels_are_means_of_products(seed):
    """Laws of unlike variables, of one variable and of opposite ones meet: four of 59 such functions were wrong."""
    written = drawn(seed)

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], T: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        x, y = tp.sum(U * ξ, over="d"), tp.sum(T * ξ, over="d")
        return v * written(0, W @ x, y, V @ y)

    pair = tp.derive(net, tp.Kernels(train=("v",))).evaluate(X)
    points = normal_points(6, 1 << 17, (9,))
    h, y, z = (X @ points[:, k : k + 2].T for k in (0, 2, 4))
    outputs = np.broadcast_to(written(1, h, y, z), (3, len(points)))
    means = outputs @ outputs.T / len(points)
    assert pair.nngp == pytest.approx(means, abs=6e-3 * np.max(means) + np.max(pair.nngp_error))
