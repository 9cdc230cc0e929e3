"""Where functions of one variable change sign, also where they do so twice between two points of a grid.

    step(1/10⁴ − (x − ½)²) is 1 on an interval of length 0.02: a grid of a coarser step sees no change of sign at all

So beside the changes between neighbours each dip of |f| that comes near zero if it goes on as it falls towards it from
either side is followed to its bottom, and where f has the other sign there the two zeros beside it are found as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError

#: halvings of a bracket, and golden sections to the bottom of a dip: to the root of the rounding of its place
_BISECTIONS, _SECTIONS = 46, 40
_GOLDEN = (5**0.5 - 1) / 2
#: a dip is followed where straight lines on both sides meet below this share of the least of its values
_SHALLOW = 0.3
#: how far a wave moves between two points that are looked at; so many points are too many
_PHASE, _POINTS = numpy.pi / 8, 1 << 21

#: values (…, points) at points (points,) or, others for each function, (…, points)
Functions = Callable[[Array], Array]
Marks = NDArray[numpy.bool_]


def crossings(function: Functions, line: Array, missing: float, most: int) -> Array:
    """Sign changes of functions along a line, at most so many of each: (…, count), where there are fewer `missing`."""
    values = function(line)
    up = values > 0
    present, at = _places(up[..., :-1] != up[..., 1:], most)
    dips, bottom, sides = _dips(function, values, line, most)
    low = numpy.concatenate([line[at], *(line[side] for side in sides)], axis=-1)
    high = numpy.concatenate([line[at + 1], bottom, bottom], axis=-1)
    return numpy.where(numpy.concatenate([present, dips, dips], axis=-1), _bisected(function, low, high), missing)


def zeros(function: Callable[[Array], Any], line: Array) -> list[float]:
    """The sign changes of one function, and its zeros on the grid itself but for those inside a stretch of zeros."""

    def values(x: Array) -> Array:
        return numpy.broadcast_to(function(x), x.shape)

    nothing = numpy.pad(values(line) == 0, 1)
    touched = line[nothing[1:-1] & ~(nothing[:-2] & nothing[2:])]
    changed = crossings(values, line, numpy.nan, line.size)
    return sorted({float(x) for x in (*touched, *changed) if not numpy.isnan(x)})


def between_waves(waves: Iterable[Callable[[Array], Any]], line: Array) -> Array:
    """The line with so many more points that no argument of a wave moves far between two neighbours.

    step(sin(200 x) − ½) has jumps everywhere, of which points 1/64 apart see every other one or none.  Raises
    EvaluationError where they would be too many.
    """
    parts = numpy.ones(line.size - 1)
    for wave in waves:
        with numpy.errstate(all="ignore"):
            along = numpy.asarray(wave(line))
            moved = abs(numpy.diff(numpy.broadcast_to(along, (*along.shape[:-1], line.size)))) / _PHASE
            moved = moved.reshape(-1, line.size - 1).max(axis=0)
        parts = numpy.maximum(parts, numpy.ceil(numpy.where(numpy.isfinite(moved), moved, 1.0)))
    if parts.sum() > _POINTS:
        raise EvaluationError(
            f"a function turns {parts.sum() * _PHASE / numpy.pi:.0f} times between {line[0]:.3g} and {line[-1]:.3g}, "
            "too often for its kinks, poles and peaks to be found: scale the argument of its waves down."
        )
    many = parts.astype(numpy.intp)
    place = numpy.repeat(numpy.arange(many.size), many)
    inside = numpy.arange(place.size) - numpy.repeat(numpy.cumsum(many) - many, many)
    return numpy.append(line[place] + numpy.diff(line)[place] * inside / many[place], line[-1])


def _places(marks: Marks, most: int) -> tuple[Marks, NDArray[numpy.intp]]:
    """Where each row has its marks, (…, count), and which of these places have one."""
    count = min(int(marks.sum(axis=-1).max(initial=0)), most)
    at = numpy.argsort(~marks, axis=-1, kind="stable")[..., :count]
    return numpy.take_along_axis(marks, at, axis=-1), at


def _dips(
    function: Functions, values: Array, line: Array, most: int
) -> tuple[Marks, Array, tuple[NDArray[numpy.intp], NDArray[numpy.intp]]]:
    """Dips that reach beyond zero between equal signs: which there are, their bottoms, the points on both sides."""
    size, up = abs(values), values > 0
    before, here, after = size[..., :-2], size[..., 1:-1], size[..., 2:]
    alike = (up[..., :-2] == up[..., 1:-1]) & (up[..., 1:-1] == up[..., 2:])
    with numpy.errstate(all="ignore"):
        # between two points the lines of the slopes beyond them meet: deeper than the bottom of a parabola
        low, high = numpy.minimum(before, after), numpy.maximum(before, after)
        dips = alike & (here <= low) & (here < high) & (here + (low - high) / 2 < _SHALLOW * here)
    present, at = _places(dips, most)
    sign = numpy.where(numpy.take_along_axis(up, at, axis=-1), 1.0, -1.0)
    if not at.shape[-1]:
        return present, line[at], (at, at)
    bottom, least = _bottom(lambda x: sign * function(x), line[at], line[at + 2])
    return present & (least < 0), bottom, (at, at + 2)


def _bottom(function: Functions, low: Array, high: Array) -> tuple[Array, Array]:
    """Where functions are least between two places, and their values there."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_SECTIONS):
        falls = at_right < at_left
        low, high = numpy.where(falls, left, low), numpy.where(falls, high, right)
        new = numpy.where(falls, low + _GOLDEN * (high - low), high - _GOLDEN * (high - low))
        at_new = function(new)
        left, right = numpy.where(falls, right, new), numpy.where(falls, new, left)
        at_left, at_right = numpy.where(falls, at_right, at_new), numpy.where(falls, at_new, at_left)
    lower = at_left < at_right
    return numpy.where(lower, left, right), numpy.where(lower, at_left, at_right)


def _bisected(function: Functions, low: Array, high: Array) -> Array:
    """The zeros between ends with different signs; an end itself where the function is zero there."""
    if not low.shape[-1]:
        return low
    at_low, at_high = function(low), function(high)
    exact, place = (at_low == 0) | (at_high == 0), numpy.where(at_low == 0, low, high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        same = (function(middle) > 0) == (at_low > 0)
        low, high = numpy.where(same, middle, low), numpy.where(same, high, middle)
    return numpy.where(exact, place, (low + high) / 2)
