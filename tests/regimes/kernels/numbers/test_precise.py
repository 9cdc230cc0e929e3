"""Singular laws of moments that hold parameters, as the ages of decayed weights are."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

START = tp.init(mean=0.5, std=0.5)
X = np.array([[-0.3, -0.9], [1.1, 0.4]])


@pytest.mark.parametrize("size", [tp.abs, lambda c: tp.sqrt(c * c), lambda c: c])
def test_decayed_weights_without_an_input(size):
    """f₁ = (1 − λ)² f₀ − (1 − λ) η Θ E χ with Θ = E c² + 1, as v and c of v |c| move by gradients and decay."""

    @tp.network
    def still(ξ: tp.Input["d"], v: tp.Vector, U: tp.Vector["d"], c: tp.Vector = START):
        return v * size(c)

    targets, λ, η, f0 = np.array([1.0, -0.8]), 0.1, 0.3, 0.2
    limit = tp.derive(still, tp.NeuralTangent(tp.SGD(), weight_decay=λ))
    run = limit.evaluate(X=X, error=tp.squared_error(targets.tolist()), lr=η, steps=1, f0=[f0, f0])
    moved = (1 - λ) * η * (0.5 + 1) * (f0 - targets).mean()
    assert run.f[1] == pytest.approx(
        np.full(2, (1 - λ) ** 2 * f0 - moved), abs=1e-9
    )  # f0 is equal but for a ridge of 10⁻¹⁰
    assert run.f[1] != pytest.approx(np.full(2, (1 - λ) * f0 - moved), abs=1e-3), "as if one of them decayed"
