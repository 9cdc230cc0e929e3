"""Initial matrices inside a traced function: all they do is multiply vectors."""

from __future__ import annotations

from typing import Any, NoReturn

import sympy
from sympy import Expr

from tplimits.program.language.axes import IndexValue, renamed_axes, selected
from tplimits.program.language.refusals import NoNumber
from tplimits.program.language.tracing import Trace, fail, stated
from tplimits.program.language.values import Origin, Value


class MatrixValue(NoNumber):
    """An initial matrix (or one view of a family of them) inside a traced function."""

    __slots__ = ("axes", "columns", "indices", "rows", "trace", "transposed", "uid")
    _op_priority = 1000.0

    def __init__(
        self,
        trace: Trace,
        uid: int,
        rows: str,
        columns: str,
        axes: tuple[str, ...],
        indices: tuple[Expr, ...],
        transposed: bool = False,
    ) -> None:
        self.trace, self.uid, self.rows, self.columns = trace, uid, rows, columns
        self.axes, self.indices, self.transposed = axes, indices, transposed

    @property
    def T(self) -> MatrixValue:  # type: ignore[override]  # the one refusal that a matrix does not share
        """The transpose."""
        return self._view(self.axes, self.indices, not self.transposed)

    @property
    def sides(self) -> tuple[str, str]:
        """The widths of W x and of x, the transposition included."""
        return (self.columns, self.rows) if self.transposed else (self.rows, self.columns)

    def _view(self, axes: tuple[str, ...], indices: tuple[Expr, ...], transposed: bool) -> MatrixValue:
        return MatrixValue(self.trace, self.uid, self.rows, self.columns, axes, indices, transposed)

    def describe(self) -> str:
        """What this matrix is, for messages."""
        kind = "a matrix {}×{}".format(*self.sides)
        return kind + (f" with axes ({', '.join(self.axes)})" if self.axes else "")

    @stated(".sel")
    def sel(self, /, **selection: int) -> MatrixValue:
        """One member of a family of matrices: `W.sel(layer=3)`."""
        for axis, index in selection.items():
            if isinstance(index, IndexValue):
                fail(
                    f"sel({axis}=…) of {self.describe()} by {index.describe()}",
                    f"multiply by all members, then look the product up: (W @ x).sel({axis}=…)",
                )
        chosen = selected(self.trace, self.axes, selection, self.describe())
        indices = tuple(i.xreplace(chosen) for i in self.indices)
        return self._view(tuple(a for a in self.axes if a not in selection), indices, self.transposed)

    @stated(".rename")
    def rename(self, /, **renaming: str) -> MatrixValue:
        """The same matrices with finite axes renamed."""
        axes, swap = renamed_axes(self.trace, self.axes, renaming, self.describe())
        return self._view(axes, tuple(i.xreplace(swap) for i in self.indices), self.transposed)

    def __matmul__(self, x: Any) -> Value:  # type: ignore[override]
        if isinstance(x, MatrixValue):
            fail("a product of two matrices", "multiply the vector first: W @ (U @ x)")
        if not isinstance(x, Value):
            fail(f"a matrix times a value of type {type(x).__name__}", "a matrix multiplies a vector of the program")
        x.here()
        out_of, into = self.sides
        if x.width is None or x.neurons:
            fail(f"a matrix times {x.describe()}", f"a matrix multiplies a vector; {_instead(x)}")
        if x.width != into:
            fail(
                f"a matrix that takes vectors over `{into}` times {x.describe()}",
                "use the transpose .T, or a Matrix with other widths",
            )
        axes = (*self.axes, *x.axes)
        origin = Origin("matmul", (self.uid, self.transposed, self.indices, x.entry()))
        return Value(self.trace, sympy.S.Zero, out_of, axes, origin=origin)

    def _no_arithmetic(self, *_: Any) -> NoReturn:
        fail("entrywise arithmetic with a matrix", "a matrix only multiplies vectors: W @ x or W.T @ x")

    __rmatmul__ = _no_arithmetic

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> NoReturn:
        fail(f"np.{ufunc.__name__} with a matrix", "a matrix only multiplies vectors: W @ x or W.T @ x")

    def __getitem__(self, _: Any) -> NoReturn:
        fail("an entry of a matrix", "a matrix only multiplies vectors; pick one of a family by W.sel(layer=0)")


def _instead(x: Value) -> str:
    """What stands for W @ x where x has no neurons: data come in through a vector for each of their entries."""
    if x.neurons or not x.axes:
        return "use * for scalars"
    axis = x.axes[0]
    return (
        f'numbers along an axis, such as data, meet one vector each: annotate U: tp.Vector["{axis}"] and write '
        f'tp.sum(U * x, over="{axis}") for W @ x; use * for scalars'
    )
