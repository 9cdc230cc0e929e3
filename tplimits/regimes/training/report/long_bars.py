r"""Updates \overline{X} whose X is longer than a line: X gets a name, because TeX breaks no line under a bar."""

from __future__ import annotations

from tplimits.report.latex_boxes import boxes_of, width_of
from tplimits.report.latex_formulas import Formula
from tplimits.report.latex_lines import LINE

_BAR = r"\overline{"
#: longer ones get names
_MOST = 0.6 * LINE


def named_bars(right: str, count: int) -> tuple[str, list[Formula]]:
    r"""The formula with names for what stands under long bars, and these; `count` of them are there already.

    >>> shown, (row,) = named_bars(r"b - \overline{" + " + ".join(["x_t"] * 30) + "}", 0)
    >>> print(shown, row.left)
    b - \overline{G^{(1)}_{t}} G^{(1)}_{t}
    """
    found: list[Formula] = []
    at = right.find(_BAR)
    while at >= 0:
        start = at + len(_BAR)
        inside = right[start : _end(right, start)]
        if width_of(boxes_of(inside)) > _MOST:
            name = rf"G^{{({count + len(found) + 1})}}_{{{'s' if '_{s}' in inside else 't'}}}"
            found.append(Formula(name, "=", (inside,)))
            right = right[:start] + name + right[start + len(inside) :]
        at = right.find(_BAR, start)
    return right, found


def _end(text: str, start: int) -> int:
    """Where the brace that was opened before `start` is closed."""
    depth, at = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 2 if text[at] == "\\" else 1
    return at - 1
