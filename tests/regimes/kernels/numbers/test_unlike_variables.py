"""Means of functions of two variables with different variances, h and h − y, against means over their Gaussian law."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.numbers.sobol import normal_points

X = np.array([[1.0, 0.3], [-0.4, 1.2], [0.7, -0.9]])

#: residual functions of an image h and a vector y with the kernel of the data, as networks write them and as numbers
CASES = {
    "h + y − relu(h − y)": (lambda h, y: h + y - tp.relu(h - y), lambda h, y: h + y - np.maximum(h - y, 0)),
    "h − relu(h − y)": (lambda h, y: h - tp.relu(h - y), np.minimum),
    "h + relu(h − y)": (lambda h, y: h + tp.relu(h - y), lambda h, y: h + np.maximum(h - y, 0)),
    "2h − y + |h + y|": (lambda h, y: 2 * h - y + tp.abs(h + y), lambda h, y: 2 * h - y + np.abs(h + y)),
    "relu(h) + relu(h + 2y)": (
        lambda h, y: tp.relu(h) + tp.relu(h + 2 * y),
        lambda h, y: np.maximum(h, 0) + np.maximum(h + 2 * y, 0),
    ),
    "h − tanh(h − y)": (lambda h, y: h - tp.tanh(h - y), lambda h, y: h - np.tanh(h - y)),
}


@pytest.mark.parametrize("trained", [("v",), ("v", "T", "U", "W")], ids=["readout", "all"])
@pytest.mark.parametrize("name", CASES)
def test_distances_are_of_inputs_that_one_variable_has(name, trained):
    """c12 of h and h′ − y′ is no distance beside c11 of h and c22 of h′ − y′."""
    function, numbers = CASES[name]

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], T: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * function(W @ tp.sum(U * ξ, over="d"), tp.sum(T * ξ, over="d"))

    found = tp.derive(net, tp.Kernels(train=trained)).evaluate(X)
    points = normal_points(4, 1 << 17, (5,))
    h, y = X @ points[:, :2].T, X @ points[:, 2:].T
    outputs = numbers(h, y)
    assert found.nngp == pytest.approx(outputs @ outputs.T / len(points), abs=2e-3)  # it was off by 0.67
