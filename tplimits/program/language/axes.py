"""Finite named axes: renaming and selecting are substitutions of running indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy
from numpy.typing import NDArray
from sympy import Expr, Integer

from tplimits.errors import shown
from tplimits.program.language.tracing import Trace, fail
from tplimits.program.nodes.entries import axis_symbol
from tplimits.program.nodes.listed import array_of


def need_axis(axis: str, axes: tuple[str, ...], action: str, what: str) -> None:
    """Fail unless a value (or matrix) has a finite axis."""
    if axis not in axes:
        has = f"its axes are ({', '.join(axes)})" if axes else "it has no finite axes"
        fail(f"{action}() along `{axis}` on {what}", has)


def axis_names(names: Any, action: str) -> tuple[str, ...]:
    """One name or several as a tuple of different ones.

    >>> axis_names("token", "tp.sum"), axis_names(["tap", "pos"], "take")
    (('token',), ('tap', 'pos'))
    """
    try:
        found = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    except Exception:  # what says that it can be gone through, and cannot
        found = (names,)
    if not all(isinstance(name, str) for name in found):
        fail(
            f"{action} with {shown(names)} for the names of axes",
            'axes have names in quotes: "token" or ("tap", "pos")',
        )
    if len(set(found)) != len(found):
        fail(f"{action} with the axes {found}", "name each axis once")
    return found


def renamed_axes(trace: Trace, axes: tuple[str, ...], renaming: Mapping[str, str], what: str) -> tuple[str, ...]:
    """The axes after renaming, declared and linked to the size of the old ones."""
    for old, new in renaming.items():
        need_axis(old, axes, "rename", what)
        trace.declare(new)
        if new in axes and new not in renaming:
            fail(f"`{old}` renamed onto the existing axis `{new}`", "choose a name the value does not have yet")
    if len(set(renaming.values())) != len(renaming):
        fail("two axes renamed to the same name", "give each its own name")
    for old, new in renaming.items():
        trace.link(new, old)
    return tuple(renaming.get(a, a) for a in axes)


def index_swap(renaming: Mapping[str, str]) -> dict[Expr, Expr]:
    """The substitution of running indices that renames axes."""
    return {axis_symbol(old): axis_symbol(new) for old, new in renaming.items()}


def selected(trace: Trace, axes: tuple[str, ...], selection: Mapping[str, Any], what: str) -> dict[Expr, Expr]:
    """The substitution of running indices that picks one entry along each axis of a selection."""
    chosen: dict[Expr, Expr] = {}
    for axis, index in selection.items():
        need_axis(axis, axes, "sel", what)
        if isinstance(index, bool) or not isinstance(index, (int, numpy.integer)):
            fail(f"sel({axis}={index!r})", "select by a whole number")
        known = trace.size(axis)
        if index < 0 or (known is not None and index >= known):
            last = f"go from 0 to {known - 1}" if known is not None else "start at 0"
            fail(f"sel({axis}={index})", f"the indices of `{axis}` {last}")
        chosen[axis_symbol(axis)] = Integer(int(index))
    return chosen


def index_table(indices: Any, axes: tuple[str, ...]) -> NDArray[Any]:
    """The integer array of a take(), with one dimension for each axis."""
    try:
        array = array_of(indices)
    except Exception as error:  # rows of different lengths, and the code of users
        fail(f"take() with indices that are no array ({error})", "give an integer array with rows of equal length")
    if array.ndim != len(axes) or not numpy.issubdtype(array.dtype, numpy.integer):
        fail(
            f"take() with an array of {array.ndim} dimensions of {array.dtype}, and {len(axes)} axis names",
            "give an integer array and one name for each of its dimensions",
        )
    return array
