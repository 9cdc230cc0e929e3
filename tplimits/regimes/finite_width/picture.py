"""Scalars against 1/n, as pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tplimits.pages.curves import Curve, drawn
from tplimits.pictures.plots import plot_expansion
from tplimits.regimes.finite_width.report import in_print

if TYPE_CHECKING:
    from pathlib import Path

    from tplimits.regimes.finite_width.limit import FiniteWidthLimit
    from tplimits.regimes.finite_width.results import Expansion

#: widths of a picture
_WIDTHS = (32, 48, 64, 96, 128, 256, 512)
#: scalars of one picture
_SCALARS = 4
#: contributions to a bias that have a bar of their own
_BARS = 8


def curves(limit: FiniteWidthLimit) -> str:
    """L + b/n with √(C/n) as bars, and L dashed; "" where there are no numbers."""
    fixed = [(name, e) for name, e in in_print(limit)[0].items() if not e.limit.variance]
    shown = [Curve(name, *_points(e), limit=float(e.limit)) for name, e in fixed[:_SCALARS]]
    return drawn(shown, "1/n; bars are √(C/n), dashes the limits")


def _points(e: Expansion) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """1/n, means and deviations."""
    found = [e.at(n) for n in reversed(_WIDTHS)]
    deviations = tuple(math.sqrt(max(f.variance, 0.0)) for f in found)
    return tuple(1 / n for n in reversed(_WIDTHS)), tuple(float(f) for f in found), deviations


def plot(limit: FiniteWidthLimit, name: str, path: str | Path | None, given: Mapping[str, Any]) -> Any:
    """One scalar, and the largest contributions to its bias."""
    e = limit.evaluate(**given)[name]
    parts = sorted(limit.breakdown(name, **given).items(), key=lambda item: -abs(item[1].bias))
    bars = {label: s.bias for label, s in parts[:_BARS]}
    if len(parts) > _BARS:
        bars[f"{len(parts) - _BARS} more"] = sum(s.bias for _, s in parts[_BARS:])
    return plot_expansion(name, float(e.limit), _points(e), bars, path)
