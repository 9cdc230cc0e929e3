"""A field of arrows as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape

from tplimits.pages.report import harmless

_SIDE, _L, _B, _T = 260.0, 56.0, 40.0, 22.0
#: the longest arrow, as a part of the distance between two
_LONGEST = 0.9
_STYLE = (
    "<style>.f text{font:12px system-ui,sans-serif;fill:currentColor}.f .m{text-anchor:middle}.f .e{text-anchor:end}"
    ".f .a{stroke:currentColor;stroke-opacity:.35;fill:none}</style>"
)


@dataclass(frozen=True)
class Field:
    """Arrows (u, v) at points (x, y)."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    u: Sequence[float]
    v: Sequence[float]
    across: str
    up: str


def arrows(fields: Sequence[Field]) -> str:
    """Fields beside each other; "" for none.

    The longest arrow of each is about as long as its points are apart, the others as the root of their size.

    >>> arrows([Field("b", (0.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 1.0), "x", "y")]).count("<path")
    3
    """
    shown = [f for f in fields if f.x and all(map(math.isfinite, (*f.x, *f.y, *f.u, *f.v)))]
    if not shown:
        return ""
    wide, high = _SIDE + _L + 24, _SIDE + _T + _B
    parts = (f'<g transform="translate({i * wide:.0f} 0)">{_one(f)}</g>' for i, f in enumerate(shown))
    size = f'viewBox="0 0 {wide * len(shown):.0f} {high:.0f}" width="{wide * len(shown):.0f}" height="{high:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="f" role="img" {size}>{_STYLE}{"".join(parts)}</svg>'


def _one(field: Field) -> str:
    left, right, low, high = min(field.x), max(field.x), min(field.y), max(field.y)
    step = _SIDE / max(math.sqrt(len(field.x)), 2.0)
    wide, tall = (right - left) or 1.0, (high - low) or 1.0
    longest = max(map(math.hypot, field.u, field.v)) or 1.0
    found = [f'<path class="a" d="M{_L:.0f} {_T:.0f}v{_SIDE:.0f}h{_SIDE:.0f}"/>']
    for x, y, u, v in zip(field.x, field.y, field.u, field.v, strict=True):
        at = _L + step / 2 + (x - left) / wide * (_SIDE - step)
        top = _T + _SIDE - step / 2 - (y - low) / tall * (_SIDE - step)
        scale = step * _LONGEST / math.sqrt(longest * (math.hypot(u, v) or 1.0))
        found.append(_arrow(at, top, u * scale, -v * scale))
    found.append(f'<text x="{_L:.0f}" y="14">{escape(harmless(field.name))}: longest {longest:.3g}</text>')
    for value, x in ((left, _L + step / 2), (right, _L + _SIDE - step / 2)):
        found.append(f'<text class="m" x="{x:.0f}" y="{_T + _SIDE + 15:.0f}">{value:.3g}</text>')
    for value, y in ((low, _T + _SIDE - step / 2), (high, _T + step / 2)):
        found.append(f'<text class="e" x="{_L - 5:.0f}" y="{y + 4:.0f}">{value:.3g}</text>')
    found.append(
        f'<text class="m" x="{_L + _SIDE / 2:.0f}" y="{_T + _SIDE + 32:.0f}">{escape(harmless(field.across))}</text>'
    )
    found.append(f'<text class="e" x="{_L - 5:.0f}" y="{_T + _SIDE / 2:.0f}">{escape(harmless(field.up))}</text>')
    return "".join(found)


def _arrow(x: float, y: float, u: float, v: float) -> str:
    """A line from a point with a head at its end; of one too short to have a direction a dot."""
    length = math.hypot(u, v)
    if length < 0.5:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.2" fill="#2f7ed8"/>'
    head = min(4.0, length / 2)
    back, side = head * u / length, head * v / length
    tip = f"m{-back - side / 2:.1f} {-side + back / 2:.1f}l{back + side / 2:.1f} {side - back / 2:.1f}"
    tip += f"l{-back + side / 2:.1f} {-side - back / 2:.1f}"
    return f'<path fill="none" stroke="#2f7ed8" stroke-width="1.3" d="M{x:.1f} {y:.1f}l{u:.1f} {v:.1f}{tip}"/>'
