"""Waves that nodes of a rule do not follow: two resolutions that share their nodes agree on what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

#: E tanh(sin x)² over a period, which E over x ~ N(0, k²) is for large k; E sin² · E tanh(x)²
TURNED = float(np.mean(np.tanh(np.sin(2 * np.pi * np.arange(4096) / 4096)) ** 2))
Z = np.linspace(-12, 12, 4001)
TANH = float(np.sum(np.exp(-Z * Z / 2) * np.tanh(Z) ** 2) / np.sum(np.exp(-Z * Z / 2)))


@pytest.mark.parametrize("k", [20, 25.13274, 50, 50.2655, 75, 100, 100.531, 150, 200, 300])
def test_functions_of_waves(k):
    @tp.program
    def waves(x: tp.Vector):
        turned = tp.tanh(tp.sin(k * x)) ** 2
        return tp.avg(turned), tp.avg(tp.cos(k * x) * tp.sigmoid(x) ** 2), tp.avg((tp.sin(k * x) * tp.tanh(x)) ** 2)

    found = list(tp.derive(waves).evaluate().values())
    for number, wanted in zip(found, (TURNED, 0, TANH / 2), strict=True):
        assert abs(number.value - wanted) <= 4 * number.error + 1e-12
        assert number.error < 1e-2  # what is not followed may be refused or told, not left unsaid


@pytest.mark.parametrize("k", [27.4, 36.5, 54.8])
def test_waves_in_two_variables(k):
    @tp.program
    def waves(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.tanh(tp.sin(k * x)) ** 2 * tp.sigmoid(x * y))

    number = tp.derive(waves).evaluate()["return"]
    assert abs(number.value - TURNED / 2) <= 4 * number.error + 1e-10 and number.error < 1e-2
