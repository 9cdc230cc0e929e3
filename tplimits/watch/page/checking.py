"""Whether the panels that a user asks for can be shown."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import several
from tplimits.watch.page.views import Curves, Density, Levels, Matrix, Plane, Probes, Trace, Triangle, View

if TYPE_CHECKING:
    from tplimits.watch.page.shown import Shown


def checked(page: Shown, views: Any, labelled: bool, curves: Collection[str]) -> list[View]:
    """The panels, with what they leave open filled in; EvaluationError for a name or an axis that is not there."""
    listed = several(views)
    found = []
    for view in (views,) if listed is None else listed:
        if not isinstance(view, View):
            raise EvaluationError(f"views=…: {view!r:.60} is no view; give tp.views.Plane, Matrix, Density, …")
        for name in view.reads:
            _known(page, name)
        if isinstance(view, Matrix) and view.label is not None and not labelled:
            raise EvaluationError(f"Matrix({view.value!r}, label={view.label!r}): the probes have no labels.")
        for name in view.names if isinstance(view, Curves) else ():
            if name not in curves:
                raise EvaluationError(
                    f"Curves({name!r}): the curves of the recording are {', '.join(curves) or 'none'}."
                )
        found.append(_filled(page, view))
    if all(isinstance(view, Probes) for view in found):
        raise EvaluationError("views=…: there is no panel in it; leave it out for those that follow from shapes.")
    return found


def _known(page: Shown, name: str) -> None:
    if name not in page.values:
        near = difflib.get_close_matches(name, page.values, n=3, cutoff=0.4) or page.values
        raise EvaluationError(f"views=…: no panel can show `{name}`; the values are {', '.join(near)}.")


def _filled(page: Shown, view: View) -> View:
    """A view with its axes."""
    if isinstance(view, (Plane, Triangle)):
        axis = _axis(page, view.value, view.axis or _coordinates(page, view.value))
        _refuse_points(page, view, axis)
        return replace(view, axis=axis)
    if isinstance(view, Trace) and page.width(view.value) is not None:
        raise EvaluationError(f"Trace({view.value!r}): it has an entry for every neuron; show it as a Density.")
    if isinstance(view, Matrix):
        return _matrix(page, view)
    if isinstance(view, Density):
        if page.width(view.value) is None:
            raise EvaluationError(
                f"Density({view.value!r}): it has no neurons, and no law; show it as a Plane or Trace."
            )
        if view.axis is not None:
            _axis(page, view.value, view.axis)
    if isinstance(view, Levels):
        _refuse_levels(page, view)
    return view


def _refuse_points(page: Shown, view: Plane | Triangle, axis: str) -> None:
    """EvaluationError for a colour, marks or coordinates that the points do not have."""
    known = ["probe"] * page.on_data(view.value) + ["neuron"] * (page.width(view.value) is not None)
    known += [a for a in page.axes(view.value) if a != axis]
    if view.colour is not None and view.colour not in known:
        raise EvaluationError(
            f"`{view.value}` has a point for each of {', '.join(known) or 'nothing'}; a view asks for the colour of "
            f"`{view.colour}`."
        )
    if isinstance(view, Plane) and view.entries is not None:
        size = dict(zip(page.axes(view.value), page.sizes(view.value), strict=True))[axis]
        if not all(0 <= k < size for k in view.entries):
            raise EvaluationError(f"entries={view.entries!r}: `{axis}` has the entries 0, …, {size - 1}; give two.")
    for other in (view.squares or {}) if isinstance(view, Plane) else ():
        _axis(page, view.value, other)
    others = [name for name in view.reads[1:] if axis not in page.axes(name)]
    if others:
        raise EvaluationError(f"`{others[0]}` has no axis `{axis}`, and no place in the plane of `{view.value}`.")


def _refuse_levels(page: Shown, view: Levels) -> None:
    """EvaluationError unless a map of the plane is one: two coordinates, and numbers that depend on them."""
    if page.sizes(view.start) != (2,) or page.width(view.start) is not None or not page.on_data(view.start):
        axes = ", ".join(page.axes(view.start)) or "none"
        raise EvaluationError(
            f"Levels({view.start!r}): a map of the plane starts from two numbers for each probe; the axes are {axes}."
        )
    if view.table is not None:
        sizes = page.sizes(view.table)
        if len(sizes) != 2 or sizes[-1] != 2 or page.width(view.table) is not None or page.on_data(view.table):
            raise EvaluationError(f"Levels(table={view.table!r}): it is no table of two numbers for each class.")
    elif len(page.axes(view.end)) > 1 or page.width(view.end) is not None or not page.on_data(view.end):
        raise EvaluationError(f"Levels(end={view.end!r}): it is no list of numbers for each probe.")
    elif not page.reaches(view.start, view.end):
        raise EvaluationError(
            f"Levels({view.start!r}, {view.end!r}): `{view.end}` is not computed from `{view.start}`."
        )


def _axis(page: Shown, name: str, axis: str) -> str:
    if axis not in page.axes(name):
        known = ", ".join(page.axes(name)) or "none"
        raise EvaluationError(f"the axes of `{name}` are {known}; a view asks for `{axis}`.")
    return axis


def _coordinates(page: Shown, name: str) -> str:
    """The axis of coordinates: the last one of two entries, or else the last one."""
    axes, sizes = page.axes(name), page.sizes(name)
    if not axes or max(sizes) < 2:
        raise EvaluationError(f"`{name}` has no axis of two entries or more; show it as a Trace, or a Density.")
    two = [a for a, size in zip(axes, sizes, strict=True) if size == 2]
    return (two or [a for a, size in zip(axes, sizes, strict=True) if size > 2])[-1]


def _matrix(page: Shown, view: Matrix) -> Matrix:
    """A matrix over the last two axes; that of inputs is the first one."""
    if page.width(view.value) is not None:
        raise EvaluationError(f"Matrix({view.value!r}): it has an entry for every neuron; show it as a Density.")
    axes = [*(["probe"] if page.on_data(view.value) else []), *page.axes(view.value)]
    for axis in (view.rows, view.columns):
        if axis is not None and axis not in axes:
            raise EvaluationError(
                f"the axes of `{view.value}` are {', '.join(axes) or 'none'}; a view asks for `{axis}`."
            )
    if not axes:
        raise EvaluationError(f"Matrix({view.value!r}): it is one number; show it as a Trace.")
    columns = view.columns or [a for a in axes if a != view.rows][-1]
    rest = [a for a in axes if a != columns]
    return replace(view, columns=columns, rows=view.rows or (rest[-1] if rest else None))
