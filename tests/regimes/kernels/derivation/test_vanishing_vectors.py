"""Functions of vectors that vanish with the width are constants."""

import math

import numpy as np
import pytest

import tplimits as tp


@tp.network
def vanishing(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Matrix, W: tp.Matrix, v: tp.Vector):
    """x times an average that tends to 0."""
    x = tp.sum(U * ξ, over="d")
    return v * tp.softplus(W @ (x * tp.avg(x * (V @ x))))


def test_a_function_of_a_vector_that_vanishes_is_its_value_at_zero():
    found = tp.derive(vanishing, tp.Kernels(train=("v",))).evaluate([[1.0, 2.0], [0.0, 1.0]])
    assert np.asarray(found.nngp) == pytest.approx(math.log(2) ** 2)


@pytest.mark.sampling
def test_networks_of_finite_width_tend_to_it():
    """E f² at width 256 is log² 2 = 0.480 to 0.02; with a vector of order 1, of variance ½, it would be 0.7."""
    runs = [vanishing.run(n=256, seed=seed, ξ=[0.5, 0.5])["return"] for seed in range(60)]
    assert np.mean([np.mean(x**2) for x in runs]) == pytest.approx(math.log(2) ** 2, abs=0.02)
