"""Indices while training is unrolled: data that are indices as look-up tables, comparisons as identity matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr

from tplimits.program.language.placing import resolved
from tplimits.program.nodes.entries import ArrayEntry, DataIndex, Kron, Lookup, axis_symbol
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.program.nodes.stated import IndexTable
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.program.network.growing import Growing
    from tplimits.program.nodes.program import Program


class Indices:
    """What the indices of a program become in another one, which is growing."""

    def __init__(self, source: Program, growing: Growing) -> None:
        self.source, self.growing = source, growing
        self._tables: dict[int, Expr] = {}
        #: identity matrices by axis, whose entries are Kronecker's δ
        self._identities: dict[str, Expr] = {}

    def add(self, position: int, array: Any) -> None:
        """The values of a discrete input."""
        table = IndexTable(numpy.array(array, dtype=numpy.int64), self.source[position].axes)
        self._tables[position] = self.growing.table(table)

    def written(self, expr: Any) -> Any:
        """An expression with its data read from tables."""
        data = {d: Lookup(self._tables[d.source], *d.indices) for d in found(expr, DataIndex)}
        same: dict[Expr, Expr] = {}
        for kron in found(expr, Kron):
            index, running = sorted(kron.indices, key=lambda i: not isinstance(i, DataIndex))
            s = self.source[index.source]
            assert isinstance(s, InitialScalar) and s.of is not None
            same[kron] = ArrayEntry(self._identity(s.of), running, data[index])
        return expr.xreplace(same).xreplace(data)

    def kronecker(self, axis: str, index: Expr) -> Expr:
        """1 at the entries of an axis that an index points at, 0 at the others."""
        index = resolved(self.growing, index)
        return sympy.S.Zero if index == -1 else ArrayEntry(self._identity(axis), axis_symbol(axis), index)

    def _identity(self, axis: str) -> Expr:
        if axis not in self._identities:
            size, other = int(self.growing.size(axis)), self.growing.axis_like(axis, f"{axis}_of")
            self._identities[axis] = self.growing.array(IndexTable(numpy.eye(size), (axis, other)))
        return self._identities[axis]
