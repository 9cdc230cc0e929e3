"""Data that are indices: tokens inside a traced function, which pick entries along a finite axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from sympy import Expr, Integer, Symbol

from tplimits.program.language.axes import index_swap, need_axis, renamed_axes, selected
from tplimits.program.language.refusals import NoNumber
from tplimits.program.language.signatures import stated
from tplimits.program.language.tracing import Trace, active, fail
from tplimits.program.nodes.entries import DataIndex, axis_symbol


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
    def sel(self, **selection: int) -> IndexValue:
        """One entry of the data: `x.sel(token=0)`."""
        if any(isinstance(i, IndexValue) for i in selection.values()):
            fail("data that are indices of data", "look values up in two steps: Z.sel(…=x), then .sel(…=y)")
        chosen = selected(self.trace, self.axes, selection, self.describe())
        axes = tuple(a for a in self.axes if a not in selection)
        return IndexValue(self.trace, self.uid, axes, tuple(i.xreplace(chosen) for i in self.indices), self.of)

    @stated(".rename")
    def rename(self, **renaming: str) -> IndexValue:
        """The same data with finite axes renamed."""
        axes = renamed_axes(self.trace, self.axes, renaming, self.describe())
        swap = index_swap(renaming)
        return IndexValue(self.trace, self.uid, axes, tuple(i.xreplace(swap) for i in self.indices), self.of)

    def take(self, **_: object) -> NoReturn:
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

    def __repr__(self) -> str:
        return f"<{self.describe()} under construction>"


def is_running(index: Expr) -> bool:
    """Whether an index is a running one or a number, not one that is read somewhere."""
    return isinstance(index, (Symbol, Integer))


def looked_up(trace: Trace, axes: tuple[str, ...], selection: Mapping[str, IndexValue], what: str) -> dict[Expr, Expr]:
    """The substitution of running indices that reads an entry along each axis of a selection, where data say."""
    chosen: dict[Expr, Expr] = {}
    for axis, data in selection.items():
        need_axis(axis, axes, "sel", what)
        if data.trace is not active():
            fail("a value from another trace", "use only the arguments of the function being traced")
        size, other = trace.size(axis), trace.size(data.of)
        if size is not None and other is not None and size != other:
            fail(
                f"sel({axis}=…) by indices of `{data.of}`, which has {other} entries, but `{axis}` has {size}",
                f'annotate the data tp.Input[…].of("{axis}")',
            )
        trace.link(axis, data.of)
        chosen[axis_symbol(axis)] = data.index
    return chosen
