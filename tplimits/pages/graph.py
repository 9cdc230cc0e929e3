"""A directed graph drawn in layers, as SVG: what is computed from what, from top to bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import escape

from tplimits.pages.report import harmless

#: larger graphs are not drawn
MOST_NODES = 150
_WIDE, _HIGH, _GAP, _LETTER = 34.0, 24.0, 14.0, 7.0
_STYLE = (
    "<style>.g text{font:12px ui-monospace,monospace;fill:currentColor;text-anchor:middle}"
    ".g rect{fill:none;stroke:currentColor;stroke-opacity:.55}.g path{fill:none;stroke:currentColor;stroke-opacity:.4}"
    ".g .given rect{stroke-dasharray:3 2}</style>"
)


def layered(names: Sequence[str], read: Mapping[int, Sequence[int]]) -> str:
    """The graph whose node i reads the nodes `read[i]`, which come before it; "" for none and for too many.

    >>> layered(["W", "x", "W x"], {2: (0, 1)}).count("<rect")
    3
    """
    if not names or len(names) > MOST_NODES:
        return ""
    layer = [0] * len(names)
    for i in range(len(names)):
        layer[i] = 1 + max((layer[j] for j in read.get(i, ())), default=-1)
    readers = {j: [i for i in read if j in read[i]] for j in range(len(names))}
    for j in reversed(range(len(names))):  # what is given stands right above what reads it first
        if not read.get(j) and readers[j]:
            layer[j] = min(layer[i] for i in readers[j]) - 1
    rows = [[i for i in range(len(names)) if layer[i] == at] for at in range(max(layer) + 1)]
    shown = [_shortened(harmless(name)) for name in names]
    wide = [max(_WIDE, len(text) * _LETTER + 12) for text in shown]
    middle = _places(rows, wide, read)
    most = max(middle[i] + wide[i] / 2 for i in range(len(names))) + 8
    high = len(rows) * (_HIGH + 26) + 4
    edges = "".join(_edge(middle, layer, j, i) for i in read for j in dict.fromkeys(read[i]))
    boxes = "".join(_box(shown[i], middle[i], _top(layer[i]), wide[i], not read.get(i)) for i in range(len(names)))
    size = f'viewBox="0 0 {most:.0f} {high:.0f}" width="{most:.0f}" height="{high:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="g" role="img" {size}>{_STYLE}{edges}{boxes}</svg>'


def _top(layer: int) -> float:
    return layer * (_HIGH + 26) + 4


def _shortened(name: str) -> str:
    return name if len(name) <= 18 else name[:17] + "…"


def _places(rows: Sequence[Sequence[int]], wide: Sequence[float], read: Mapping[int, Sequence[int]]) -> list[float]:
    """The middle of each box: below what it reads where there is room, from left to right without overlap."""
    middle = [0.0] * len(wide)
    total = max(sum(wide[i] + _GAP for i in row) for row in rows)
    for row in rows:
        wanted = {}
        for place, i in enumerate(row):
            above = [middle[j] for j in read.get(i, ())]
            wanted[i] = sum(above) / len(above) if above else (place + 0.5) * total / len(row)
        left = 8.0
        for i in sorted(row, key=lambda i: wanted[i]):
            middle[i] = max(left + wide[i] / 2, wanted[i])
            left = middle[i] + wide[i] / 2 + _GAP
    return middle


def _box(text: str, middle: float, top: float, wide: float, given: bool) -> str:
    kind = ' class="given"' if given else ""
    sides = f'x="{middle - wide / 2:.0f}" y="{top:.0f}" width="{wide:.0f}" height="{_HIGH:.0f}" rx="5"'
    return f'<g{kind}><rect {sides}/><text x="{middle:.0f}" y="{top + 16:.0f}">{escape(text)}</text></g>'


def _edge(middle: Sequence[float], layer: Sequence[int], j: int, i: int) -> str:
    start, end = _top(layer[j]) + _HIGH, _top(layer[i])
    bend = (start + end) / 2
    a, b = middle[j], middle[i]
    return f'<path d="M{a:.0f} {start:.0f}C{a:.0f} {bend:.0f} {b:.0f} {bend:.0f} {b:.0f} {end:.0f}"/>'
