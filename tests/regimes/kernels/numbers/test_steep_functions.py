"""Kernels of functions that are all but a jump, and of large and small exponentials, against sums over fine grids."""

from __future__ import annotations

import math

import numpy
import pytest
from scipy.special import expit, ive, ndtr

import tplimits as tp
from tplimits.errors import EvaluationError


def sigmoid(t):
    return expit(t), expit(t) * expit(-t)


def tanh(t):
    return numpy.tanh(t), 1 / numpy.cosh(numpy.clip(t, -300, 300)) ** 2


def gelu(t):
    return t * ndtr(t), ndtr(t) + t * numpy.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)


#: as programs write it; slope and offset of the argument; the function and its derivative; steps of a grid
STEEP = {
    "sigmoid": (tp.sigmoid, 200, -200, sigmoid, 2e-3),
    "gelu": (tp.gelu, 50, -50, gelu, 1e-2),
    "tanh": (tp.tanh, 30, -11, tanh, 8e-3),
    "step": (tp.sigmoid, -90, 30, sigmoid, 5e-3),
}


def network(function, slope, offset):
    @tp.network
    def one(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(slope * tp.sum(U * ξ, over="d") + offset)

    return one


def expected(head, slope, offset, at, to, step):
    """(K, Θ) by trapezoids along both coordinates, which are exact for analytic functions on fine grids."""
    size = math.hypot(*at)
    along = numpy.array(at) / size
    near, across = float(along @ to), float(numpy.hypot(*(numpy.array(to) - along * (along @ to))))
    grids = [numpy.arange(-8.5, 8.5, min(0.3, step / max(scale, 1e-9))) for scale in (max(size, abs(near)), across)]
    if across == 0:
        grids[1] = numpy.zeros(1)
    weights = [numpy.exp(-(g**2) / 2) / numpy.exp(-(g**2) / 2).sum() for g in grids]
    value = slopes = 0.0
    for part in numpy.array_split(numpy.arange(grids[0].size), max(1, grids[0].size * grids[1].size // 10**7)):
        z = grids[0][part]
        f, df = head(slope * size * z + offset)
        h, dh = head(slope * (near * z[:, None] + across * grids[1]) + offset)
        value += float((weights[0][part] * f) @ (h @ weights[1]))
        slopes += slope**2 * float((weights[0][part] * df) @ (dh @ weights[1]))
    return value, value + float(numpy.dot(at, to)) * slopes


PAIRS = {
    "equal": ((1.0, 0.0), (1.0, 0.0)),
    "apart": ((0.8, 0.3), (-0.2, 0.4)),
    "near": ((1.0, 0.0), (1.0, 1e-4)),
    "opposite": ((0.6, 0.5), (-0.6, -0.5)),
    "tiny": ((1e-2, 0.0), (1.0, 0.1)),
    "large": ((30.0, 0.0), (30.0, 0.0)),
}


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", STEEP)
def test_steep_functions_end_to_end(name, pair):
    function, slope, offset, head, step = STEEP[name]
    at, to = PAIRS[pair]
    found = tp.derive(network(function, slope, offset), tp.Kernels()).evaluate([at], [to])
    K, Θ = expected(head, slope, offset, at, to, step)
    assert abs(found.nngp.item() - K) <= 1e-9 * abs(K) + 1e-13
    assert abs(found.ntk.item() - Θ) <= 1e-8 * abs(Θ) + 1e-12


EXPONENTIALS = {
    "e^(x − 1000)": (lambda x: tp.exp(x - 1000), 1000.0, lambda s: math.exp(2 * s - 2000)),
    "e^(2x − 1500)": (lambda x: tp.exp(2 * x - 1500), 400.0, lambda s: math.exp(8 * s - 3000)),
    "e^−b cosh": (lambda x: tp.exp(x - 1000) + tp.exp(-x - 1000), 1000.0, lambda s: 2 * math.exp(2 * s - 2000)),
    "10^140 e^−400 x": (lambda x: x * tp.exp(-400) * 10**140, 1.0, lambda s: math.exp(280 * math.log(10) - 800)),
}


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_factors_that_are_no_doubles(name):
    function, variance, value = EXPONENTIALS[name]

    @tp.network
    def one(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"))

    found = tp.derive(one, tp.Kernels()).evaluate([[math.sqrt(variance)]])
    assert found.nngp.item() == pytest.approx(value(variance), rel=1e-11)


def test_what_lies_beyond_all_doubles_is_refused():
    @tp.network
    def one(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.tanh(x) * tp.exp(x - 1000)

    with pytest.raises(EvaluationError, match="further out than quadrature looks"):
        tp.derive(one, tp.Kernels()).evaluate([[math.sqrt(1000)]])


def test_a_number_that_is_no_double_is_refused():
    @tp.network
    def one(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return 10**200 * v * tp.exp(tp.sum(U * ξ, over="d") - 600)

    with pytest.raises(EvaluationError, match="not a real number in double precision"):
        tp.derive(one, tp.Kernels()).evaluate([[10.0]])


@pytest.mark.long
@pytest.mark.parametrize("size", [3.0, 30.0])
def test_peaks_of_waves_as_far_as_the_law_goes(size):
    @tp.network
    def peaks(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.exp(-(10**4) * tp.sin(tp.sum(U * ξ, over="d") - 1) ** 2)

    found = tp.derive(peaks, tp.Kernels(train=("v",))).evaluate([[size]])
    # the mean of e^(−2a sin²) over a period: what waves leave beside it is below e^(−2 size²) = 10^(−8)
    assert found.nngp.item() == pytest.approx(ive(0, 10**4), rel=4 * math.exp(-2 * size**2) + 1e-12)


def test_constants_bring_their_error_along():
    @tp.network
    def one(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.relu(tp.sum(U * ξ, over="d")) * tp.expect(lambda g: tp.log(tp.abs(g)))

    found = tp.derive(one, tp.Kernels()).evaluate([[1.0]])
    mean = (numpy.euler_gamma + math.log(2)) / 2
    assert 0 < found.nngp_error < 1e-12 and 0 < found.ntk_error < 1e-12
    assert abs(found.nngp.item() - mean**2 / 2) <= 2 * found.nngp_error
