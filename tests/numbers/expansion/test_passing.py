"""Kinks that rows of nodes pass by: where the place of a kink is in reach in a narrow band of an earlier variable."""

from __future__ import annotations

import math

import pytest

import tplimits as tp


@pytest.mark.parametrize("ratio", [1e-2, 1e-3, 1e-5, 1e-7])
def test_thin_wedges(ratio):
    """P(x > 0, x + εz < 0) = atan(ε)/2π, and C = p(1 − p): at ε = 1/1000 both were 0 ± 1e-13."""

    @tp.program
    def wedge(x: tp.Vector, z: tp.Vector):
        return tp.avg(tp.step(x) * tp.step(-x - ratio * z))

    found, p = tp.derive(wedge, tp.FiniteWidth()).evaluate()["return"], math.atan(ratio) / (2 * math.pi)
    assert abs(found.limit.value - p) < 5 * found.limit.error and found.limit.error < 1e-3 * p + 2e-13
    assert abs(found.variance.value - p * (1 - p)) < 5 * found.variance.error


@pytest.mark.parametrize("ratio", [1e-2, 1e-3])
def test_small_images_beside_a_vector(ratio):
    """E relu(y + ε W x) = √((1 + ε² q)/2π), q = avg x² of variance 2/n: at ε = 1/100 b was −1e-4 ± 3e-5 for −1e-9."""

    @tp.program
    def sum_of_both(y: tp.Vector, x: tp.Vector, W: tp.Matrix):
        return tp.avg(tp.relu(y + ratio * (W @ x)))

    found, v = tp.derive(sum_of_both, tp.FiniteWidth()).evaluate()["return"], 1 + ratio**2
    assert abs(found.limit.value - math.sqrt(v / (2 * math.pi))) < 5 * found.limit.error < 1e-7
    assert abs(found.bias.value + ratio**4 / 4 / v**1.5 / math.sqrt(2 * math.pi)) < 5 * found.bias.error
