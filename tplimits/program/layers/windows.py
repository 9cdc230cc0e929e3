"""Windows that slide over positions: which place each tap reads, as the index arrays of `take`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import shown
from tplimits.program.language.axes import axis_names, need_axis
from tplimits.program.language.refusals import Refusals
from tplimits.program.language.tracing import fail
from tplimits.program.language.values import Value
from tplimits.program.nodes.given import whole_number

Indices = NDArray[numpy.int64]
#: a grid of positions on one axis, row by row, by the name of the axis
Grids = dict[str, tuple[int, ...]]
#: no grid has so many positions in one direction
_SIZES = 1 << 20
PADDINGS = ("SAME", "VALID", "CIRCULAR")


@dataclass(frozen=True)
class Sliding:
    """How the windows of a layer called `what` move: one stride and one dilation for each direction."""

    what: str
    stride: tuple[int, ...]
    padding: str
    dilation: tuple[int, ...]

    def places(self, size: int, window: int, direction: int) -> Indices:
        """The place that each tap (rows) reads for each window (columns) along one direction; −1 is outside.

        >>> Sliding("conv1d", (1,), "SAME", (1,)).places(4, 3, 0).tolist()
        [[-1, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, -1]]
        """
        stride, dilation = self.stride[direction], self.dilation[direction]
        span = (window - 1) * dilation + 1
        if self.padding == "VALID" and span > size:
            fail(
                f"{self.what}(padding='VALID') with a window over {span} places of {size}",
                "make the window or its dilation smaller, or pad: padding='SAME'",
            )
        many = (size - span) // stride + 1 if self.padding == "VALID" else -(-size // stride)
        before = 0 if self.padding == "VALID" else max((many - 1) * stride + span - size, 0) // 2
        at = stride * numpy.arange(many) + dilation * numpy.arange(window)[:, None] - before
        return at % size if self.padding == "CIRCULAR" else numpy.where((at >= 0) & (at < size), at, -1)


class Spreading(Sliding):
    """The transpose: windows of a finer grid of which each has one place of the coarse grid that is read."""

    def places(self, size: int, window: int, direction: int) -> Indices:
        """The coarse place that has each fine place (columns) under each tap (rows); −1 where there is none.

        >>> Spreading("conv_transpose1d", (2,), "SAME", (1,)).places(2, 3, 0).tolist()
        [[0, -1, 1, -1], [-1, 0, -1, 1], [-1, -1, 0, -1]]
        """
        stride, span = self.stride[direction], (window - 1) * self.dilation[direction] + 1
        fine = (size - 1) * stride + span if self.padding == "VALID" else size * stride
        seen = super().places(fine, window, direction)
        found = numpy.full((window, fine), -1)
        tap, coarse = numpy.nonzero(seen >= 0)
        found[tap, seen[tap, coarse]] = coarse
        return found


def sliding(what: str, rank: int, stride: Any, padding: Any, dilation: Any = 1) -> Sliding:
    """Windows over a grid with `rank` directions, as a user asks for them; ProgramError for what is none."""
    if not isinstance(padding, str) or padding not in PADDINGS:
        fail(f"{what}(padding={shown(padding)})", "paddings are " + ", ".join(map(repr, PADDINGS)))
    return Sliding(what, whole(what, "stride", stride, rank), padding, whole(what, "dilation", dilation, rank))


def whole(what: str, name: str, value: Any, rank: int) -> tuple[int, ...]:
    """A whole number from 1 for each direction, given once or for each."""
    found = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    right = all((whole_number(v, below=_SIZES) or 0) > 0 for v in found)
    if not right or len(found) != rank:
        several = f", or {rank} of them, one for each direction" if rank > 1 else ""
        fail(f"{what}({name}={shown(value)})", f"give a whole number from 1{several}")
    return tuple(map(int, found))


def grids(what: str, name: str, given: Any, x: Value, rank: int | None) -> Grids:
    """Axes with the sizes of their grids: {"at": 32}, {"at": (32, 32)}, {"row": 32, "column": 32}, or names alone.

    A name alone stands for an axis whose size the trace of `x` knows, on which positions are one line.  `rank` is how
    many directions are asked for, None: any number.
    """
    sizes = dict(given) if isinstance(given, Mapping) else dict.fromkeys(axis_names(given, f"{what}({name}=…)"))
    found: Grids = {}
    for axis, size in sizes.items():
        if size is None:
            known = x.trace.size(axis)
            if known is None:
                fail(
                    f"{what}({name}={shown(given)}): the size of `{axis}` is open",
                    f"give it: {name}={{{shown(axis)}: …}}",
                )
            size = int(known)
        own = len(size) if isinstance(size, (tuple, list)) else 1
        found[axis] = whole(what, f"{name}[{shown(axis)}]", size, own)
    if not found or rank not in (None, directions(found)):
        grid = ", ".join(f"`{a}` of {' × '.join(map(str, g))}" for a, g in found.items())
        fail(f"{what} with {name} {grid or 'nothing'}", f"name {'two directions' if rank == 2 else 'one direction'}")
    return found


def positions(what: str, x: Any, over: Any, rank: int | None = None) -> Grids:
    """The grids of positions of a value, checked."""
    value(what, x)
    found = grids(what, "over", over, x, rank)
    for axis, grid in found.items():
        need_axis(axis, x.axes, what, x.describe())
        x.trace.set_size(axis, math.prod(grid))
    return found


def directions(over: Grids) -> int:
    """How many directions grids have in all."""
    return sum(map(len, over.values()))


def value(what: str, x: Any) -> Value:
    """A value of the program, or a ProgramError that names the layer."""
    if not isinstance(x, Value):
        shown = x.describe() if isinstance(x, Refusals) else f"a value of type {type(x).__name__}"
        fail(f"{what} of {shown}", "it takes vectors of the program, or numbers of its data")
    return x


def read(x: Value, over: Grids, windows: Grids, how: Sliding, to: Any) -> tuple[Value, tuple[str, ...]]:
    """The values that each tap of each window reads, and the axes of the windows' places."""
    if list(map(len, over.values())) != list(map(len, windows.values())):
        fail(f"{how.what} over ({', '.join(over)}) with taps ({', '.join(windows)})", "give each axis one of taps")
    names, direction = named(how.what, to, over), 0
    out = []
    for (axis, grid), (tap, window), name in zip(over.items(), windows.items(), names, strict=True):
        tables = [how.places(s, w, direction + i) for i, (s, w) in enumerate(zip(grid, window, strict=True))]
        many = math.prod(t.shape[1] for t in tables)
        out.append(name or resized(x, axis, math.prod(grid), many))
        x, direction = x.take(**{axis: flat(tables, grid)}, axes=(tap, out[-1])), direction + len(grid)
    return x, tuple(out)


def named(what: str, to: Any, over: Grids) -> tuple[str | None, ...]:
    """The names that a user gives to the axes of the result, or None for each."""
    names = (None,) * len(over) if to is None else axis_names(to, f"{what}(to=…)")
    if len(names) != len(over):
        fail(f"{what}(to={to!r})", f"name an axis for each of ({', '.join(over)})")
    return names


def resized(x: Value, axis: str, before: int, after: int) -> str:
    """The name of an axis behind a layer: its own where the size stays, `at_8` for 8 places along `at` elsewhere."""
    first = re.sub(r"_\d+$", "", axis)
    if before == after:
        return axis
    return first if x.trace.size(first) == after else f"{first}_{after}"


def flat(tables: Iterable[Indices], grid: tuple[int, ...]) -> Indices:
    """Indices along each direction as indices of the whole grid, row by row.

    >>> flat([numpy.array([[0, 1]]), numpy.array([[-1, 0]])], (2, 2)).tolist()
    [[-1, 0, -1, 2]]
    """
    taps, places = numpy.zeros((1, 1), dtype=numpy.int64), 1
    for table, size in zip(tables, grid, strict=True):
        both = taps[:, None, :, None] * size + table[None, :, None, :]
        outside = (taps < 0)[:, None, :, None] | (table < 0)[None, :, None, :]
        taps = numpy.where(outside, -1, both).reshape(len(taps) * len(table), places * table.shape[1])
        places = taps.shape[1]
    return taps
