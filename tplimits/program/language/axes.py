"""Finite named axes: renaming and selecting are substitutions of running indices, by numbers or by data.

Data that are indices, such as tokens, pick entries along a finite axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy
from numpy.typing import NDArray
from sympy import Expr, Integer

from tplimits.errors import shown
from tplimits.program.language.refusals import NoNumber
from tplimits.program.language.tracing import Trace, fail, stated
from tplimits.program.nodes.entries import DataIndex, axis_symbol
from tplimits.program.nodes.given import array_of


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


def renamed_axes(
    trace: Trace, axes: tuple[str, ...], renaming: Mapping[str, str], what: str
) -> tuple[tuple[str, ...], dict[Expr, Expr]]:
    """The axes after renaming, declared and linked to the size of the old ones, and the same of running indices."""
    for old, new in renaming.items():
        need_axis(old, axes, "rename", what)
        trace.declare(new)
        if new in axes and new not in renaming:
            fail(f"`{old}` renamed onto the existing axis `{new}`", "choose a name the value does not have yet")
    if len(set(renaming.values())) != len(renaming):
        fail("two axes renamed to the same name", "give each its own name")
    for old, new in renaming.items():
        trace.link(new, old)
    swap = {axis_symbol(old): axis_symbol(new) for old, new in renaming.items()}
    return tuple(renaming.get(a, a) for a in axes), swap


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


class IndexValue(NoNumber):
    """A discrete input (or one view of it): indices of the axis `of`, one for each index of `axes`."""

    __slots__ = ("axes", "indices", "of", "trace", "uid")
    _op_priority = 1000.0

    def __init__(self, trace: Trace, uid: int, axes: tuple[str, ...], indices: tuple[Expr, ...], of: str) -> None:
        self.trace, self.uid, self.axes, self.indices, self.of = trace, uid, axes, indices, of

    @property
    def index(self) -> DataIndex:
        """The index expression that it stands for."""
        return DataIndex(Integer(self.uid), *self.indices)

    def describe(self) -> str:
        """What this is, for messages."""
        return f"indices of `{self.of}`" + (f" with axes ({', '.join(self.axes)})" if self.axes else "")

    @stated(".sel")
    def sel(self, /, **selection: int) -> IndexValue:
        """One entry of the data: `x.sel(token=0)`."""
        if any(isinstance(i, IndexValue) for i in selection.values()):
            fail("data that are indices of data", "look values up in two steps: Z.sel(…=x), then .sel(…=y)")
        chosen = selected(self.trace, self.axes, selection, self.describe())
        axes = tuple(a for a in self.axes if a not in selection)
        return IndexValue(self.trace, self.uid, axes, tuple(i.xreplace(chosen) for i in self.indices), self.of)

    @stated(".rename")
    def rename(self, /, **renaming: str) -> IndexValue:
        """The same data with finite axes renamed."""
        axes, swap = renamed_axes(self.trace, self.axes, renaming, self.describe())
        return IndexValue(self.trace, self.uid, axes, tuple(i.xreplace(swap) for i in self.indices), self.of)

    def take(self, /, **_: object) -> NoReturn:
        fail(f"take() on {self.describe()}", f"look up first, then take: Z.sel({self.of}=x).take(…)")

    def named(self, _: str) -> NoReturn:
        fail(f".named on {self.describe()}", "data are called like their argument")

    def _no_arithmetic(self, *_: object) -> NoReturn:
        self.refuse_as_number("arithmetic")

    def refuse_as_number(self, action: str) -> NoReturn:
        """ProgramError for an action that takes numbers."""
        fail(
            f"{action} of {self.describe()}",
            f"they look values up, Z.sel({self.of}=x); annotate the argument tp.Input without .of for numbers",
        )

    def __getitem__(self, _: object) -> NoReturn:
        fail(f"an entry of {self.describe()}", "pick one by x.sel(token=0)")


def looked_up(trace: Trace, axes: tuple[str, ...], selection: Mapping[str, IndexValue], what: str) -> dict[Expr, Expr]:
    """The substitution of running indices that reads an entry along each axis of a selection, where data say."""
    chosen: dict[Expr, Expr] = {}
    for axis, data in selection.items():
        need_axis(axis, axes, "sel", what)
        data.trace.here()
        size, other = trace.size(axis), trace.size(data.of)
        if size is not None and other is not None and size != other:
            fail(
                f"sel({axis}=…) by indices of `{data.of}`, which has {other} entries, but `{axis}` has {size}",
                f'annotate the data tp.Input[…].of("{axis}")',
            )
        trace.link(axis, data.of)
        chosen[axis_symbol(axis)] = data.index
    return chosen
