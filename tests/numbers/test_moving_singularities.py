"""Means of functions of two vectors that are singular where these meet, against integrals on both sides of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import tplimits as tp

Function = Callable[[Any, Any], Any]

_T = numpy.arange(-4.2, 4.2001, 1 / 32)
#: tanh-sinh: parts of a length from its nearer end, and weights
_PART = 1 / (1 + numpy.exp(-numpy.pi * numpy.sinh(_T)))
_WEIGHT = numpy.pi / 4 * numpy.cosh(_T) / numpy.cosh(numpy.pi / 2 * numpy.sinh(_T)) ** 2 / 32


def density(y: Any) -> Any:
    return numpy.exp(-y * y / 2) / numpy.sqrt(2 * numpy.pi)


def reference(
    a: Function, b: Function, kernel: Callable[[Any], Any], place: Callable[[float], float], c: float
) -> float:
    """E a(g) b(y) k(c (place(g) − y)) for independent standard normal g and y: in g by the trapezoidal rule, in y by
    tanh-sinh on both sides of the place, with distances from it that do not cancel."""
    total = 0.0
    for g in numpy.arange(-11, 11.001, 1 / 64):
        there, inside = place(g), 0.0
        ends = [-13.0, *([there] if abs(there) < 13 else []), 13.0]
        for low, high in itertools.pairwise(ends):
            reach = (high - low) / 2 * _PART
            for end, side in ((low, 1), (high, -1)):
                y = end + side * reach
                away = side * reach if end == there else y - there
                inside += float(numpy.sum(b(numpy, y) * kernel(-c * away) * density(y) * _WEIGHT)) * (high - low) / 2
        total += float(a(numpy, g) * inside * density(g)) / 64
    return total


def log(m: Any, u: Any) -> Any:
    return m.log(m.abs(u))


def power(p: float) -> Function:
    return lambda m, u: m.abs(u) ** p


def signed(p: float) -> Function:
    return lambda m, u: m.sign(u) * m.abs(u) ** p


def x(m: Any, z: Any) -> Any:
    return z


PLACES: dict[str, Function] = {
    "g": x,
    "g + .3": lambda m, g: g + 0.3,
    "tanh g": lambda m, g: m.tanh(g),
    "sin g": lambda m, g: m.sin(g),
    "g²": lambda m, g: g * g,
    "g³/4": lambda m, g: g**3 / 4,
    "exp(g/2)": lambda m, g: m.exp(g / 2),
}
FACTORS: dict[str, tuple[Function, Function]] = {
    "1": (lambda m, g: 1 + 0 * g, lambda m, y: 1 + 0 * y),
    "g y": (x, x),
    "cos g cos y": (lambda m, g: m.cos(g), lambda m, y: m.cos(y)),
    "tanh g sin y": (lambda m, g: m.tanh(g), lambda m, y: m.sin(y)),
    "g² y²": (lambda m, g: g * g, lambda m, y: y * y),
}
KERNELS: dict[str, Function] = {
    "log": log,
    "root": power(0.5),
    "signed root": signed(0.5),
    "|·|^(−.3)": power(-0.3),
    "|·|^.3": power(0.3),
}

SHORT = [
    ("g", "g y", "log", 1.0),
    ("g", "g y", "log", 2.0),
    ("g", "g y", "log", 5.0),
    ("g + .3", "g y", "log", 1.0),
    ("tanh g", "1", "log", 1.0),
    ("exp(g/2)", "1", "log", 1.0),
]
LONG = [
    *(
        ("g", factor, kernel, c)
        for c in (0.3, 1.0, 2.0, 5.0)
        for factor in ("g y", "tanh g sin y")
        for kernel in KERNELS
    ),
    *((place, "g y", "log", 1.0) for place in PLACES if place != "g"),
    *((place, "cos g cos y", "root", 2.0) for place in ("tanh g", "g²", "exp(g/2)", "g + .3")),
    *((place, "1", "log", 1.0) for place in PLACES),
    *((place, "1", "signed root", 2.0) for place in ("g²", "exp(g/2)", "g + .3")),
    *((place, "g² y²", "|·|^.3", 2.0) for place in ("g", "g²")),
]


def compare(place: str, factor: str, kernel: str, c: float) -> None:
    where, (a, b), k = PLACES[place], FACTORS[factor], KERNELS[kernel]

    @tp.program
    def singular(s: tp.Vector, y: tp.Vector, W: tp.Matrix):
        g = W @ s
        h = where(tp, g)
        return tp.avg(a(tp, g) * b(tp, y) * k(tp, h - c * y))

    limit = tp.derive(singular)
    found = limit.evaluate(method="quadrature")["return"]
    right = reference(a, b, lambda u: k(numpy, u), lambda g: float(where(numpy, g)) / c, c)
    assert abs(found.value - right) <= found.error + 4e-16  # rounding of the reference
    assert found.error < 2e-11
    # and no error that hides what is seen
    assert abs(found.value - right * (1 + 1e-9)) > found.error or abs(right) < 1e-3


@pytest.mark.parametrize(("place", "factor", "kernel", "c"), SHORT)
def test_errors_hold_beside_moving_singularities(place: str, factor: str, kernel: str, c: float) -> None:
    compare(place, factor, kernel, c)


@pytest.mark.long
@pytest.mark.parametrize(("place", "factor", "kernel", "c"), [case for case in LONG if case not in SHORT])
def test_errors_hold_beside_every_moving_singularity(place: str, factor: str, kernel: str, c: float) -> None:
    compare(place, factor, kernel, c)
