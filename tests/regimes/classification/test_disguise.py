"""Outputs without a readout whose mean is zero by an identity that no algebra sees are stable; near twins are not."""

from __future__ import annotations

import math

import pytest

import tplimits as tp


def unread(function):
    """What is returned is a function of two images h, k of one vector x, and of the matrix of the first."""

    @tp.network
    def network(ξ: tp.Input["d"], W: tp.Matrix, V: tp.Matrix, U: tp.Vector["d"]):
        x = tp.sum(U * ξ, over="d")
        return function(W, x, W @ x, V @ x)

    return network


ZEROS = {
    "sigmoid": lambda W, x, h, k: tp.sigmoid(h) - 0.5,
    "two sigmoids": lambda W, x, h, k: tp.sigmoid(h) * tp.sigmoid(k) - 0.25,
    "Stein": lambda W, x, h, k: h * tp.tanh(h) - tp.avg(x * x) * (1 - tp.tanh(h) ** 2),
    "cosine": lambda W, x, h, k: tp.cos(h) - tp.exp(-tp.avg(h * h) / 2),
    "absolute value": lambda W, x, h, k: tp.abs(h) - tp.sqrt(2 / math.pi * tp.avg(h * h)),
    "exchanged": lambda W, x, h, k: tp.maximum(h, k) - tp.maximum(h, -k),
    "step": lambda W, x, h, k: tp.erf(h) + tp.step(h) - 0.5,
}
TWINS = {
    "sigmoid": lambda W, x, h, k: tp.sigmoid(h) - 0.5001,
    "Stein": lambda W, x, h, k: h * tp.tanh(h) - tp.avg(x * x) * (1 - tp.tanh(h) ** 3),
    "exchanged": lambda W, x, h, k: tp.maximum(h, x) - tp.maximum(h, -k / 2),
}


@pytest.mark.parametrize("name", ZEROS)
def test_zeros_in_disguise_are_stable(name):
    assert tp.classify(unread(ZEROS[name]), tp.NTP, tp.SGD()).regime == "operator"


@pytest.mark.parametrize("name", TWINS)
def test_their_twins_are_not(name):
    found = tp.classify(unread(TWINS[name]), tp.NTP, tp.SGD())
    assert found.regime == "unstable" and "the mean of `return` is not zero" in found.breaks[0]
