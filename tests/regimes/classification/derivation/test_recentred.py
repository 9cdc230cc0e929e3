"""Scalars whose zero at their limits is a double or a triple one: networks move by as little as is counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy
import pytest

import tplimits as tp

Function = Callable[[Any, Any], Any]


def softplus(m: Any, u: Any) -> Any:
    return tp.softplus(u) if m is tp else numpy.logaddexp(0, u)


#: functions of q → 1 by the library that has log, sqrt, …, their derivatives, and the order of the zero
ZEROS: dict[str, tuple[Function, Function, int]] = {
    "q − 1": (lambda m, q: q - 1, lambda m, q: 1 + 0 * q, 1),
    "log q − q + 1": (lambda m, q: m.log(q) - q + 1, lambda m, q: 1 / q - 1, 2),
    "2√q − q − 1": (lambda m, q: 2 * m.sqrt(q) - q - 1, lambda m, q: q**-0.5 - 1, 2),
    "q log q − q + 1": (lambda m, q: q * m.log(q) - q + 1, lambda m, q: m.log(q), 2),
    "exp(q − 1) − q": (lambda m, q: m.exp(q - 1) - q, lambda m, q: m.exp(q - 1) - 1, 2),
    "(q − 1)²/(q + 1)": (lambda m, q: (q - 1) ** 2 / (q + 1), lambda m, q: (q - 1) * (q + 3) / (q + 1) ** 2, 2),
    "cos(q − 1) − 1": (lambda m, q: m.cos(q - 1) - 1, lambda m, q: -m.sin(q - 1), 2),
    "q + 1/q − 2": (lambda m, q: q + 1 / q - 2, lambda m, q: 1 - q**-2, 2),
    "q³ − 3q + 2": (lambda m, q: q**3 - 3 * q + 2, lambda m, q: 3 * q * q - 3, 2),
    "log cosh(q − 1)": (
        lambda m, q: m.log(m.exp(q - 1) + m.exp(1 - q)) - m.log(2),
        lambda m, q: numpy.tanh(q - 1),
        2,
    ),
    "softplus(q − 1) − .693… − (q − 1)/2": (
        lambda m, q: softplus(m, q - 1) - math.log(2) - (q - 1) / 2,
        lambda m, q: numpy.tanh((q - 1) / 2) / 2,
        2,
    ),
    "1 + cos(3.14… q)": (lambda m, q: 1 + m.cos(math.pi * q), lambda m, q: -math.pi * m.sin(math.pi * q), 2),
    "1.1 q − .1 − q^1.1": (lambda m, q: 1.1 * q - 0.1 - q**1.1, lambda m, q: 1.1 - 1.1 * q**0.1, 2),
    "log(q − log q)": (lambda m, q: m.log(q - m.log(q)), lambda m, q: (1 - 1 / q) / (q - numpy.log(q)), 2),
    "log(q² − 2q + 2)": (lambda m, q: m.log(q * q - 2 * q + 2), lambda m, q: (2 * q - 2) / (q * q - 2 * q + 2), 2),
    "max(q − log q, 1) − 1": (lambda m, q: m.maximum(q - m.log(q), 1) - 1, lambda m, q: 1 - 1 / q, 2),
    "q³ − 3q² + 3q − 1": (lambda m, q: q**3 - 3 * q**2 + 3 * q - 1, lambda m, q: 3 * (q - 1) ** 2, 3),
    "log q − q + 1 + (q − 1)²/2": (
        lambda m, q: m.log(q) - q + 1 + (q - 1) ** 2 / 2,
        lambda m, q: 1 / q - 2 + q,
        3,
    ),
}


def measured(z: Callable[[Any], Any], slope: Callable[[Any], Any]) -> float:
    """The power of n of how much f = Σ v x z(⟨y²⟩)/√n moves in a step of gradient descent at rates of order 1."""
    rng, widths = numpy.random.default_rng(5), (32, 128, 512, 2048)
    moves = []
    for n in widths:
        u, y, v = rng.standard_normal((3, 600, n))
        q = (y * y).mean(axis=1)
        f = (u * v).sum(axis=1) / n**0.5 * z(q)
        chi = f - 1
        du, dv = (w * (chi * z(q))[:, None] / n**0.5 for w in (v, u))
        dy = 2 * y / n * (chi * slope(q) * (u * v).sum(axis=1) / n**0.5)[:, None]
        after = ((u - du) * (v - dv)).sum(axis=1) / n**0.5 * z(((y - dy) ** 2).mean(axis=1))
        moves.append(numpy.log(numpy.median(abs(after - f))))
    return float(numpy.polyfit(numpy.log(widths), moves, 1)[0])


def inline(function: Function) -> Any:
    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * function(tp, tp.avg(y * y))

    return gated


def by_name(function: Function) -> Any:
    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        q = tp.avg(y * y)
        z = function(tp, q)
        w = tp.sum(U * ξ, over="d") * z
        p = w * q
        return v * w + 0 * p

    return gated


def of_vectors(function: Function) -> Any:
    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        q = tp.avg(y * y) + 0 * y
        return v * x * function(tp, q)

    return gated


@pytest.mark.parametrize("spelled", [inline, by_name, of_vectors], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ZEROS)
def test_zeros_of_scalars_are_counted_by_their_order(name: str, spelled: Callable[[Function], Any]) -> None:
    function, slope, order = ZEROS[name]
    counted = tp.classify(spelled(function), tp.NTP, tp.SGD()).powers(1)["f"]
    assert counted == -order
    seen = measured(lambda q: function(numpy, q), lambda q: slope(numpy, q))
    assert abs(seen - float(counted)) < 0.2
    # a zero of another order is told from it
    assert abs(seen - float(counted) - 1) > 0.8 and abs(seen - float(counted) + 1) > 0.8


@pytest.mark.long
def test_zeros_of_quotients_and_of_data_are_counted_by_their_order() -> None:
    @tp.network
    def by_stein(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        r = tp.avg(y * tp.tanh(y)) / tp.avg(1 - tp.tanh(y) ** 2)
        return v * tp.sum(U * ξ, over="d") * (tp.log(r) - r + 1)

    @tp.network
    def with_data(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        a, b = tp.avg(x * tp.tanh(x)), tp.avg(1 - tp.tanh(x) ** 2) * tp.avg(x * x)
        return v * x * (a / b + b / a - 2)

    @tp.network
    def of_two(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        q, p = tp.avg(y * y), tp.avg(y**4) / 3
        return v * x * (p * q - p - q + 1)

    @tp.network
    def single(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * (tp.log(tp.avg(y * y)) - tp.avg(y**4) + 3)

    powers = [tp.classify(net, tp.NTP, tp.SGD()).powers(1)["f"] for net in (by_stein, with_data, of_two, single)]
    assert powers == [Fraction(-2), Fraction(-2), Fraction(-2), Fraction(-1)]
