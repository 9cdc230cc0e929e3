"""Which panels a page shows where nobody says: they follow from the shapes of the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.program.nodes.kinds import InitialScalar, InitialVector
from tplimits.watch.page.views import Curves, Density, Errors, Levels, Matrix, Plane, Trace, Triangle, View

if TYPE_CHECKING:
    from tplimits.watch.page.shown import Shown

#: the numbers of a value at the last frame, or None where nothing is known of it
Numbers = Callable[[str], "Array | None"]
#: more entries than this along an axis are no matrix that can be read
_LONGEST = 200


def chosen(page: Shown, curves: list[str], numbers: Numbers, compared: bool, most: int = 16) -> list[View]:
    """Panels for the values of a network, at most `most` of them; curves and errors come last and are always there."""
    last = _always(curves, compared)
    found = [view for name in page.values if (view := of_value(page, name, numbers)) is not None]
    found += levels(page)
    room = max(0, most - len(last))
    if len(found) > room:  # parameters and results before what lies between
        ranked = sorted(range(len(found)), key=lambda i: (_rank(page, found[i]), i))[:room]
        found = [found[i] for i in sorted(ranked)]
    return [*found, *last]


def of_value(page: Shown, name: str, numbers: Numbers) -> View | None:
    """The panel of one value, by its shape."""
    axes, sizes = page.axes(name), page.sizes(name)
    if page.width(name) is not None:
        two = [a for a, size in zip(axes, sizes, strict=True) if size == 2]
        return Density(name, axis=two[-1] if two else None)
    on_data = page.on_data(name)
    if sizes and (name == page.probability or _are_shares(numbers(name))):
        if on_data and len(axes) == 1:
            return Triangle(name, axis=axes[-1]) if sizes[-1] <= 3 else _matrix(name, "probe", axes[-1], sizes)
        return _matrix(name, axes[-2] if len(axes) > 1 else None, axes[-1], sizes)
    if not sizes:
        return Trace(name)
    if 2 in sizes:
        axis = axes[len(sizes) - 1 - sizes[::-1].index(2)]
        return Plane(name, axis=axis, colour=_colour(axes, axis, on_data))
    if len(axes) == 1 and not on_data:
        return Trace(name)
    if len(axes) > 1 and not on_data and max(sizes) <= _LONGEST:
        return Matrix(name, rows=axes[-2], columns=axes[-1])
    return Plane(name, axis=axes[-1], colour=_colour(axes, axes[-1], on_data)) if sizes[-1] > 1 else Trace(name)


def levels(page: Shown) -> list[View]:
    """A map of the plane for the last value with two entries that tells the probabilities of a probe."""
    if page.probability is None or not page.axes(page.probability):
        return []
    for name in reversed(page.values):
        in_plane = page.sizes(name) == (2,) and page.on_data(name) and page.width(name) is None
        if in_plane and name != page.output and page.separates(name, page.probability):
            return [Levels(name, page.probability)]
    return []


def _always(curves: list[str], compared: bool) -> list[View]:
    """Loss, accuracy, gradient norms, and the error against the width where there is a limit beside networks."""
    found: list[View] = []
    losses = [c for c in curves if c.endswith("loss")]
    accuracies = [c for c in curves if c.endswith("accuracy")]
    gradients = [c for c in curves if c.startswith("gradient")]
    found += [Curves(losses, log=True, title="loss")] if losses else []
    found += [Curves(accuracies, title="accuracy")] if accuracies else []
    found += [Curves(gradients, log=True, title="gradient norms")] if gradients else []
    others = [c for c in curves if c not in (*losses, *accuracies, *gradients)]
    found += [Curves(others, title="other curves")] if others else []
    return [*found, *([Errors()] if compared else [])]


def _matrix(name: str, rows: str | None, columns: str, sizes: tuple[int, ...]) -> View:
    return Matrix(name, rows=rows, columns=columns, range=(0.0, 1.0)) if max(sizes) <= _LONGEST else Trace(name)


def _colour(axes: tuple[str, ...], coordinate: str, on_data: bool) -> str | None:
    others = [a for a in axes if a != coordinate]
    return others[-1] if others else ("probe" if on_data else None)


def _are_shares(values: Array | None) -> bool:
    """Whether numbers are shares of one along their last axis: not negative, with sum one, two of them or more."""
    if values is None or values.ndim == 0 or values.shape[-1] < 2:
        return False
    return bool((values >= 0).all() and numpy.abs(values.sum(axis=-1) - 1).max() < 1e-4)


def _rank(page: Shown, view: View) -> int:
    """What is shown first where there is no room for all."""
    if isinstance(view, Levels) or set(view.reads) & {page.output, page.probability}:
        return 0
    given = all(isinstance(page.program[page.position(n)], (InitialVector, InitialScalar)) for n in view.reads)
    return 1 if isinstance(view, Matrix) or given else 2 if not isinstance(view, Trace) else 3
