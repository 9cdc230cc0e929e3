"""Curves as SVG: points with bars, lines, a dashed line for a limit; in colours for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from markupsafe import escape

from tplimits.pages.report import harmless

_COLOURS = ("#2f7ed8", "#e0702b", "#2ca05a", "#b04fc4", "#c8a415", "#d6336c", "#159aa8", "#8a6d5b")
_W, _H, _L, _R, _T, _B = 560.0, 260.0, 64.0, 150.0, 14.0, 40.0
#: more points are drawn as a line alone
_MOST_POINTS = 40
_STYLE = (
    "<style>.c text{font:12px system-ui,sans-serif;fill:currentColor}.c .a{stroke:currentColor;stroke-opacity:.35}"
    ".c .e{text-anchor:end}.c .m{text-anchor:middle}</style>"
)


@dataclass(frozen=True)
class Curve:
    """Points (x, y) with errors, and where they should tend to."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()
    limit: float | None = None


def sizes_drawn(sizes: Iterable[tuple[str, Sequence[float]]], widths: Sequence[int], across: str) -> str:
    """A picture of sizes by name against widths, of those that are known at all of them."""
    x = tuple(map(float, widths))
    curves = [Curve(k, x, tuple(math.log2(s / many[0]) for s in many)) for k, many in sizes if len(many) == len(x)]
    return drawn(curves, f"{across}; log₂ of the size over that at the first width", logarithmic=True)


def drawn(curves: Sequence[Curve], across: str, logarithmic: bool = False) -> str:
    """A picture of at most eight curves; "" for none.

    >>> drawn([Curve("f", (1, 2), (0.5, 0.25))], "step").count("<polyline")
    1
    """
    shown = [c for c in curves if c.x and all(map(math.isfinite, (*c.x, *c.y)))][: len(_COLOURS)]
    if not shown:
        return ""
    frame = _Frame.around(shown, logarithmic)
    parts = [*_axes(shown, frame, across)]
    for number, curve in enumerate(shown):
        parts += [*_one(curve, frame, _COLOURS[number]), *_named(curve, number)]
    size = f'viewBox="0 0 {_W:.0f} {_H:.0f}" width="{_W:.0f}" height="{_H:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="c" role="img" {size}>{_STYLE}{"".join(parts)}</svg>'


def density(name: str, values: Any) -> Curve:
    """The histogram of some numbers as a curve."""
    found, edges = numpy.histogram(values, bins=min(40, max(4, len(values) // 20)), density=True)
    return Curve(name, tuple(((edges[:-1] + edges[1:]) / 2).tolist()), tuple(found.tolist()))


@dataclass(frozen=True)
class _Frame:
    """Where numbers lie on the picture."""

    left: float
    right: float
    low: float
    high: float
    logarithmic: bool

    @classmethod
    def around(cls, curves: Sequence[Curve], logarithmic: bool) -> _Frame:
        """The frame that holds all points with their bars, and all limits."""
        bars = [(y, e) for c in curves for y, e in zip(c.y, _errors(c), strict=True)]
        limits = [c.limit for c in curves if c.limit is not None and math.isfinite(c.limit)]
        low = min(*(y - e for y, e in bars), *limits, bars[0][0])
        high = max(*(y + e for y, e in bars), *limits, bars[0][0])
        margin = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
        across = [x for c in curves for x in c.x]
        return cls(min(across), max(across), low - margin, high + margin, logarithmic)

    def at(self, x: float) -> float:
        """From left to right."""
        left, right, here = (
            map(math.log, (self.left, self.right, x)) if self.logarithmic else (self.left, self.right, x)
        )
        return _L + 8 + (here - left) / ((right - left) or 1.0) * (_W - _L - _R - 16)

    def up(self, y: float) -> float:
        """From the top downwards."""
        return _T + (self.high - y) / (self.high - self.low) * (_H - _T - _B)


def _errors(curve: Curve) -> tuple[float, ...]:
    return curve.error or (0.0,) * len(curve.x)


def _axes(curves: Sequence[Curve], frame: _Frame, across: str) -> Iterator[str]:
    yield f'<path class="a" fill="none" d="M{_L} {_T}V{_H - _B}H{_W - _R}"/>'
    for i in range(5):
        y = frame.low + (frame.high - frame.low) * i / 4
        yield f'<text class="e" x="{_L - 6:.0f}" y="{frame.up(y) + 4:.0f}">{y:.3g}</text>'
    every = sorted({x for c in curves for x in c.x})
    for x in every[:: max(1, math.ceil(len(every) / 7))]:
        yield f'<text class="m" x="{frame.at(x):.0f}" y="{_H - _B + 17:.0f}">{x:.4g}</text>'
    yield f'<text class="m" x="{(_L + _W - _R) / 2:.0f}" y="{_H - 6:.0f}">{escape(harmless(across))}</text>'


def _one(curve: Curve, frame: _Frame, colour: str) -> Iterator[str]:
    """The line, points with bars where they are few, and the limit."""
    points = [(frame.at(x), y, e) for x, y, e in zip(curve.x, curve.y, _errors(curve), strict=True)]
    line = " ".join(f"{x:.1f},{frame.up(y):.1f}" for x, y, _ in points)
    yield f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{line}"/>'
    for x, y, e in points if len(points) <= _MOST_POINTS else []:
        yield f'<path stroke="{colour}" d="M{x:.1f} {frame.up(y - e):.1f}V{frame.up(y + e):.1f}"/>'
        yield f'<circle cx="{x:.1f}" cy="{frame.up(y):.1f}" r="2.4" fill="{colour}"/>'
    if curve.limit is not None and math.isfinite(curve.limit):
        height = frame.up(curve.limit)
        yield f'<path stroke="{colour}" stroke-dasharray="5 4" d="M{_L} {height:.1f}H{_W - _R:.0f}"/>'


def _named(curve: Curve, number: int) -> Iterator[str]:
    name = str(harmless(curve.name))
    name, left, top = name if len(name) <= 18 else name[:17] + "…", _W - _R + 10, _T + 18 * number
    yield f'<rect x="{left:.0f}" y="{top:.0f}" width="10" height="10" fill="{_COLOURS[number]}"/>'
    yield f'<text x="{left + 16:.0f}" y="{top + 10:.0f}">{escape(name)}</text>'
