"""Inputs without axes, alone and inside functions, where nearly singular pairs are looked up in many digits."""

import mpmath
import numpy as np
import pytest

import tplimits as tp


@tp.network
def scaled(ξ: tp.Input, U: tp.Vector, c: tp.Vector, v: tp.Vector):
    return v * tp.leaky_relu(U * ξ + c * tp.tanh(ξ), 0.2)


def test_collinear_pairs_of_inputs_without_axes():
    X = np.array([0.3, 0.3 * (1 + 1e-9), -0.8])
    found = tp.derive(scaled, tp.Kernels(train=("v",))).evaluate(X1=X).nngp
    for i, x in enumerate(map(mpmath.mpf, X)):
        for j, y in enumerate(map(mpmath.mpf, X)):
            a, b = (z**2 + mpmath.tanh(z) ** 2 for z in (x, y))
            θ = mpmath.acos(min(mpmath.mpf(1), (x * y + mpmath.tanh(x) * mpmath.tanh(y)) / mpmath.sqrt(a * b)))
            # leaky(z) = (1.2 z + .8 |z|)/2, and E |z||z′| = (2/π)(sin θ + (π/2 − θ) cos θ)
            product = 2 / mpmath.pi * (mpmath.sin(θ) + (mpmath.pi / 2 - θ) * mpmath.cos(θ))
            expected = mpmath.sqrt(a * b) * (0.36 * mpmath.cos(θ) + 0.16 * product)
            assert found[i, j] == pytest.approx(float(expected), rel=1e-7)


def test_weights_that_decay_have_ages_that_are_inputs():
    @tp.network
    def biased(ξ: tp.Input["d"], U: tp.Vector["d"], c: tp.Vector, v: tp.Vector):
        return v * tp.leaky_relu(tp.sum(U * ξ, over="d") + 0.5 * c, 0.2)

    limit = tp.derive(biased, tp.NeuralTangent(tp.NAdam(eps=0.1), weight_decay=0.1))
    asked = {"X": [[0.3, 0.0], [-0.1, 0.4]], "error": tp.squared_error([1.0, -0.8]), "lr": 0.1, "steps": 2}
    f = limit.evaluate(**asked, f0=[[0.2, -0.1]] * 3, particles=256, replicates=2).f
    assert np.isfinite(f).all() and f[2, 0] > f[1, 0] > 0.2 and f[2, 1] < f[1, 1] < -0.1
