"""Matrices as pictures in which colour is size, as SVG; and reports of what is a few matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
from markupsafe import escape
from numpy.typing import NDArray

from tplimits.pages.report import Report, document, harmless

#: the side of a picture, and of its scale; cells along a side of it
_SIDE, _SCALE, _MOST = 220.0, 12.0, 48
#: numbers of one matrix that a JSON document holds
_WRITTEN = 100_000
#: from dark to light: told apart in grey and by the colour-blind
_COLOURS = (
    *("#440154", "#471365", "#482475", "#463480", "#414487", "#3b528b", "#355f8d", "#2f6c8e", "#2a788e", "#25848e"),
    *("#21918c", "#1e9c89", "#22a884", "#2fb47c", "#44bf70", "#5ec962", "#7ad151", "#9bd93c", "#bddf26", "#dfe318"),
)
_STYLE = "<style>.m text{font:12px system-ui,sans-serif;fill:currentColor}</style>"


def coloured(matrices: Mapping[str, Any]) -> str:
    """Matrices beside each other, each with its own scale; "" for none.

    Of more than 48 rows or columns some are shown, evenly apart; entries that are not finite are left out.

    >>> coloured({"K": [[1.0, 0.5], [0.5, 1.0]]}).count("<path")  # one for each of twenty colours
    20
    """
    drawn, left = [], 0.0
    for name, values in matrices.items():
        array = numpy.atleast_2d(numpy.asarray(values, dtype=float))
        if array.ndim == 2 and array.size:
            drawn.append(f'<g transform="translate({left:.0f} 0)">{_one(str(harmless(name)), array)}</g>')
            left += _SIDE + 90
    if not drawn:
        return ""
    size = f'viewBox="0 0 {left:.0f} {_SIDE + 30:.0f}" width="{left:.0f}" height="{_SIDE + 30:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="m" role="img" {size}>{_STYLE}{"".join(drawn)}</svg>'


def _one(name: str, array: NDArray[numpy.float64]) -> str:
    rows, columns = (numpy.unique(numpy.linspace(0, n - 1, min(n, _MOST)).round().astype(int)) for n in array.shape)
    shown = array[numpy.ix_(rows, columns)]
    finite = shown[numpy.isfinite(shown)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    step = _SIDE / max(shown.shape)
    cell = f"h{step + 0.4:.1f}v{step + 0.4:.1f}h-{step + 0.4:.1f}z"  # a little larger, or seams show
    with numpy.errstate(invalid="ignore"):
        level = (shown - low) / ((high - low) or 1.0) * (len(_COLOURS) - 1)
    level = numpy.where(numpy.isfinite(level), level, -1).round().astype(int)
    cells = [f'<text x="0" y="14">{escape(name)}{_some(shown.shape, array.shape)}</text>']
    for number, colour in enumerate(_COLOURS):  # one path a colour: a tenth of the size of one rectangle a cell
        places = numpy.argwhere(level == number)
        path = "".join(f"M{c * step:.1f} {22 + r * step:.1f}{cell}" for r, c in places)
        top = 22 + _SIDE * (1 - (number + 1) / len(_COLOURS))
        bar = f"M{_SIDE + 8:.0f} {top:.1f}h{_SCALE:.0f}v{_SIDE / len(_COLOURS):.1f}h-{_SCALE:.0f}z"
        cells.append(f'<path fill="{colour}" shape-rendering="crispEdges" d="{path}{bar}"/>')
    ends = ((high, 32.0), (low, 22 + _SIDE))
    cells += [f'<text x="{_SIDE + 24:.0f}" y="{y:.0f}">{value:.4g}</text>' for value, y in ends]
    return "".join(cells)


def _some(shown: tuple[int, ...], whole: tuple[int, ...]) -> str:
    return "" if shown == whole else f", {shown[0]} of {whole[0]} by {shown[1]} of {whole[1]}"


def report_of(kind: str, title: str, matrices: Mapping[str, tuple[Any, Any]], text: str, answer: str = "") -> Report:
    """A report of matrices (N1, N2, …) with their errors; of axes behind these two the first entry is drawn.

    `answer` is their shape unless it is given.
    """
    numbers: list[tuple[str, str]] = []
    pictures: dict[str, Any] = {}
    kept: dict[str, dict[str, Any]] = {}
    for name, (values, error) in matrices.items():
        array = numpy.asarray(values)
        first = array.reshape(*array.shape[:2], -1)[..., 0] if array.ndim > 2 and array.size else array
        pictures[name if array.ndim < 3 else f"{name} at the first indices"] = first
        worst = float(numpy.max(error)) if numpy.size(error) else 0.0
        span = f"from {array.min():.6g} to {array.max():.6g}" if array.size else "empty"
        numbers.append((name, f"{span}, error at most {worst:.1g}" if worst else span))
        small = array.size <= _WRITTEN
        kept[name] = {"shape": list(array.shape), "error": worst, "values": array.tolist() if small else None}
    shape = " × ".join(map(str, next(iter(kept.values()))["shape"])) if kept else "0"
    return Report(
        title=title,
        answer=answer or f"{' and '.join(kept)} of shape {shape}.",
        text=text,
        numbers=tuple(numbers),
        picture=coloured(pictures),
        document=document(kind, matrices=kept),
    )
