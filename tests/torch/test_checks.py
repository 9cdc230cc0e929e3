"""`tp.check` of limits of imported models: kernels of four, one limit of training; wrong twins are rejected."""

from __future__ import annotations

import numpy
import pytest
import test_limits
from models import noise

import tplimits as tp

#: model, inputs, and how many networks of the widths 32, 64 and 128 are drawn
CHECKED = {
    "perceptron": (test_limits.perceptron, noise(2, 5), (300, 250, 200)),
    "convolutions": (test_limits.convolutions, noise(2, 2, 5), (150, 120, 100)),
    "transformer": (test_limits.Transformer, noise(2, 3, 4), (150, 120, 100)),
    "gated": (test_limits.Gated, noise(2, 3), (200, 150, 120)),
}


@pytest.mark.sampling
@pytest.mark.parametrize("name", CHECKED)
def test_kernels_are_accepted_and_wrong_ones_are_not(name, monkeypatch):
    monkeypatch.setattr(test_limits, "OUTPUTS", 1)
    make, x, draws = CHECKED[name]
    net = tp.from_torch(make, x, widths=(16, 32, 64))
    limit = tp.derive(net.gaussian().leading(), tp.Kernels())
    options = {"X1": net.data(x), "widths": (32, 64, 128), "draws": draws, "ratios": net.ratios}
    assert tp.check(limit, **options).accepted
    pair = limit.evaluate(net.data(x), ratios=net.ratios)
    wrong = {"nngp": pair.nngp, "ntk": 1.15 * numpy.asarray(pair.ntk)}
    assert not tp.check(limit, claims=wrong, **options).accepted


def test_training_is_accepted_and_a_wrong_rate_is_not():
    """Feature learning of a model with uniform entries, as PyTorch draws them."""
    x = noise(2, 5)
    net = tp.from_torch(test_limits.trained, x, widths=(16, 32, 64))
    limit = tp.derive(net.leading(), tp.MaximalUpdate(tp.SGD()))
    assert any("uniform" in line for line in limit.assumptions)

    def error(f):
        return (f - numpy.array([1.0, -1.0]).reshape(f.shape)) / 2

    options = {"X": net.data(x), "error": error, "steps": 2, "particles": 2048}
    drawn = {"widths": (32, 64, 128), "draws": (60, 50, 40), "ratios": net.ratios, "replicates": 4}
    assert tp.check(limit, lr=0.4, **options, **drawn).accepted
    wrong = limit.evaluate(lr=0.5, **options).f
    assert not tp.check(limit, claims={"f": wrong}, lr=0.4, **options, **drawn).accepted
