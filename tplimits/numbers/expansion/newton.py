"""What runs through a few values of a function: Newton's polynomial by divided differences, its zeros and its turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

#: nodes of one polynomial, and steps of Newton's method on it
NEAR, _STEPS = 8, 6


def differences(g: Array, v: Array) -> list[Array]:
    """Divided differences of values at `NEAR` nodes along the last dimension."""
    table = [v[..., i] for i in range(NEAR)]
    for k in range(1, NEAR):
        for i in range(NEAR - 1, k - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (g[..., i] - g[..., i - k])
    return table


def polynomial(table: Sequence[Array], nodes: Array, x: Array) -> tuple[Array, Array]:
    """The polynomial of divided differences and its slope; `nodes` are along the first dimension."""
    value, slope = table[-1], numpy.zeros_like(x)
    for i in range(NEAR - 2, -1, -1):
        slope = slope * (x - nodes[i]) + value
        value = value * (x - nodes[i]) + table[i]
    return value, slope


def zero_of(g: Array, v: Array, start: Array | None = None) -> tuple[Array, Array]:
    """The zero of such a polynomial near the middle of its nodes, and the slope there."""
    with numpy.errstate(all="ignore"):  # nodes may coincide where a place is beyond all: no zero is there
        table = differences(g, v)
    middle = NEAR // 2
    low, high = v[..., middle - 1], v[..., middle]
    span = numpy.where(high == low, 1.0, high - low)
    x = g[..., middle - 1] - low * (g[..., middle] - g[..., middle - 1]) / span if start is None else start
    slope, nodes = span, numpy.moveaxis(g, -1, 0)
    for _ in range(_STEPS):
        value, slope = polynomial(table, nodes, x)
        x = x - value / numpy.where(slope == 0, 1.0, slope)
    return x, slope


def turn(g: Array, v: Array, ends: tuple[Array, Array], start: Array) -> Array:
    """Where such a polynomial turns between two ends, by chords of its slope."""
    table, nodes = differences(g, v), numpy.moveaxis(g, -1, 0)
    x, before = start, start + (ends[1] - ends[0]) / 100
    rate = polynomial(table, nodes, before)[1]
    for _ in range(_STEPS):
        slope = polynomial(table, nodes, x)[1]
        change = numpy.where(slope == rate, 1.0, slope - rate)
        x, before, rate = numpy.clip(x - slope * (x - before) / change, *ends), x, slope
    return x
