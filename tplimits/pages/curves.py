"""Curves as SVG: points with bars, lines, a dashed line for a limit; in colours for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape

from tplimits.pages.report import harmless

_COLOURS = ("#2f7ed8", "#e0702b", "#2ca05a", "#b04fc4", "#c8a415", "#d6336c", "#159aa8", "#8a6d5b")
_W, _H, _L, _R, _T, _B = 560.0, 260.0, 64.0, 150.0, 14.0, 40.0
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


def drawn(curves: Sequence[Curve], across: str, logarithmic: bool = False) -> str:
    """A picture of at most eight curves; "" for none.

    >>> drawn([Curve("f", (1, 2), (0.5, 0.25))], "step").count("<polyline")
    1
    """
    shown = [c for c in curves if c.x and all(map(math.isfinite, (*c.x, *c.y)))][: len(_COLOURS)]
    if not shown:
        return ""
    change = (lambda x: math.log(x)) if logarithmic else (lambda x: x)
    errors = [c.error or (0.0,) * len(c.x) for c in shown]
    lows = [y - e for c, es in zip(shown, errors, strict=True) for y, e in zip(c.y, es, strict=True)]
    highs = [y + e for c, es in zip(shown, errors, strict=True) for y, e in zip(c.y, es, strict=True)]
    limits = [c.limit for c in shown if c.limit is not None and math.isfinite(c.limit)]
    low, high = min(*lows, *limits, lows[0]), max(*highs, *limits, highs[0])
    margin = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
    low, high = low - margin, high + margin
    left, right = min(change(x) for c in shown for x in c.x), max(change(x) for c in shown for x in c.x)

    def at(x: float) -> float:
        return _L + 8 + (change(x) - left) / ((right - left) or 1.0) * (_W - _L - _R - 16)

    def up(y: float) -> float:
        return _T + (high - y) / (high - low) * (_H - _T - _B)

    parts = [f'<path class="a" fill="none" d="M{_L} {_T}V{_H - _B}H{_W - _R}"/>']
    for i in range(5):
        y = low + (high - low) * i / 4
        parts.append(f'<text class="e" x="{_L - 6:.0f}" y="{up(y) + 4:.0f}">{y:.3g}</text>')
    every = sorted({x for c in shown for x in c.x})
    for x in every[:: max(1, math.ceil(len(every) / 7))]:
        parts.append(f'<text class="m" x="{at(x):.0f}" y="{_H - _B + 17:.0f}">{x:g}</text>')
    parts.append(f'<text class="m" x="{(_L + _W - _R) / 2:.0f}" y="{_H - 6:.0f}">{escape(harmless(across))}</text>')
    for k, (c, es) in enumerate(zip(shown, errors, strict=True)):
        colour = _COLOURS[k]
        points = " ".join(f"{at(x):.1f},{up(y):.1f}" for x, y in zip(c.x, c.y, strict=True))
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{points}"/>')
        if len(c.x) <= 40:
            parts += [
                f'<path stroke="{colour}" d="M{at(x):.1f} {up(y - e):.1f}V{up(y + e):.1f}"/>'
                f'<circle cx="{at(x):.1f}" cy="{up(y):.1f}" r="2.4" fill="{colour}"/>'
                for x, y, e in zip(c.x, c.y, es, strict=True)
            ]
        if c.limit is not None and math.isfinite(c.limit):
            parts.append(f'<path stroke="{colour}" stroke-dasharray="5 4" d="M{_L} {up(c.limit):.1f}H{_W - _R:.0f}"/>')
        name = str(harmless(c.name))
        parts.append(f'<rect x="{_W - _R + 10:.0f}" y="{_T + 18 * k:.0f}" width="10" height="10" fill="{colour}"/>')
        shortened = name if len(name) <= 18 else name[:17] + "…"
        parts.append(f'<text x="{_W - _R + 26:.0f}" y="{_T + 10 + 18 * k:.0f}">{escape(shortened)}</text>')
    size = f'viewBox="0 0 {_W:.0f} {_H:.0f}" width="{_W:.0f}" height="{_H:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="c" role="img" {size}>{_STYLE}{"".join(parts)}</svg>'
