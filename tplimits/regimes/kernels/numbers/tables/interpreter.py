"""The interpreter of a kernel recursion: tables between inputs, on labelled arrays or written on a tape.

Tables hold the entries that are demanded.  A table before a kinked function is kept as the gap (c11 + c22)/2 − c12,
where a rule gives it (see `gaps`), or has its determinant beside it where there are no places (see `determinants`):
these keep the digits of nearly equal inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Expr, S

from tplimits.program.nodes.entries import axis_symbol
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.demand import Demand, Ties, tied
from tplimits.regimes.kernels.derivation.leaves import Moment, TableEntry, plain_axis, second
from tplimits.regimes.kernels.numbers.tables import determinants, gaps
from tplimits.regimes.kernels.numbers.tables.frames import Frame
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, mapped, repeated
from tplimits.regimes.kernels.numbers.tables.places import batch

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.derivation.nodes import KernelTable
    from tplimits.regimes.kernels.numbers.draws import LogitDraws
    from tplimits.regimes.kernels.numbers.inputs import Inputs
    from tplimits.regimes.kernels.numbers.inseparable import MeanPoints
    from tplimits.regimes.kernels.numbers.tables.laws import Law
    from tplimits.regimes.kernels.numbers.tables.rows import Rows
    from tplimits.regimes.kernels.numbers.tables.tape import Tape

#: number of a table, its inputs, and the axes along which it is held at equal places alone
Key = tuple[int, int, int, Ties]
_EVERYWHERE: Ties = frozenset()


@dataclass
class Tables:
    """Values of the tables for two batches of inputs, computed when asked for."""

    derivation: KernelTables
    sides: Sequence[Inputs]
    constants: Mapping[Expr, float]
    draws: LogitDraws | None = None
    places: tuple[int, int] = (1, 2)
    conditional: bool = False
    #: (value, gap, determinant or None)
    known: dict[Key, tuple[Any, Any]] = field(default_factory=dict)
    #: gaps to the negatives of the other side
    opposites: dict[Key, Any] = field(default_factory=dict)
    error: float = 0.0
    extended: bool = False
    #: where nearly singular laws are noted; None where nobody asks
    suspects: list[Labelled] | None = None
    #: None where every entry of a table is wanted
    demand: Demand | None = None
    #: where steps are written down instead of taken, and quantities of one input come from
    tape: Tape | None = None
    rows: Rows | None = None
    #: whether gaps are kept; whether determinants are, where there are no places
    gapped: bool = False
    determined: bool = False
    #: whether sums over taps and pools are written down as single steps, which compiled bands take as they are
    banded: bool = False
    #: where means that do not separate are drawn
    points: MeanPoints | None = None
    #: tables that are never negative
    acute: dict[int, bool] = field(default_factory=dict)
    #: whether a gap is a difference of gaps
    subtracts: bool = False
    frames: dict[tuple[int, int], Frame] = field(default_factory=dict)
    laws: dict[tuple[Any, ...], tuple[Law, Any]] = field(default_factory=dict)

    def entry(self, number: int, left: int, right: int, equal: Ties = _EVERYWHERE) -> tuple[Any, Any]:
        """A table between inputs `left` and `right` (1 or 2), and its gap where it has one."""
        table = self.derivation.recursion.tables[number]
        wanted = number, left, left if table.single else right, equal
        waiting = [wanted]
        while waiting:  # what stands in a definition first, without a recursion through all layers
            key = waiting[-1]
            missing = [k for k in self._read_by(key) if k not in self.known] if key not in self.known else []
            if not missing:
                waiting.pop()
                if key not in self.known:
                    self.known[key] = self._found(key)
            waiting += missing
        return self.known[wanted]

    def opposed(self, number: int, left: int, right: int, equal: Ties) -> Any:
        """The gap between a table's variables of `left` and the negatives of those of `right`, None without a rule."""
        wanted = number, left, right, equal
        waiting = [wanted]
        while waiting:
            key = waiting[-1]
            missing = [k for k in self._read_by(key, False) if k not in self.opposites and k[1] != k[2]]
            if key in self.opposites or not missing:
                waiting.pop()
                self.opposites.setdefault(key, self._opposed(key))
            else:
                waiting += missing
        return self.opposites[wanted]

    def _opposed(self, key: Key) -> Any:
        table = self.derivation.recursion.tables[key[0]]
        gap = gaps.gap(self.frame(*key[1:3]), self.definition(key), -1) if _has_gap(table) else None
        return None if gap is None else _complete(gap, self, table, key)

    def equal_places(self, leaf: TableEntry, left: int, right: int) -> Ties:
        """Along which axes the table of a leaf holds equal places alone."""
        table = self.derivation.recursion.tables[leaf.table]
        if self.demand is None or table.single or not leaf.indices:
            return _EVERYWHERE
        return self.demand.of(table, leaf, left == right)

    def definition(self, key: Key) -> Expr:
        table = self.derivation.recursion.tables[key[0]]
        expr = table.definition if self.demand is None else self.demand.definitions[key[0]]
        return tied(expr, table, key[3]) if key[3] else expr

    def _read_by(self, key: Key, means: bool = True) -> list[Key]:
        """The tables in the definition of a table, or those of them that do not stand in its `means`."""
        _, *inputs, _ = key
        read, definition = [], self.definition(key)
        hidden = {} if means else dict.fromkeys(found(definition, Moment), S.Zero)
        for leaf in found(definition.xreplace(hidden), TableEntry):
            left, right = (inputs[s - 1] for s in leaf.sides)
            if self.rows is None or left != right:
                single = self.derivation.recursion.tables[leaf.table].single
                read.append((leaf.table, left, left if single else right, self.equal_places(leaf, left, right)))
        return read

    def _found(self, key: Key) -> tuple[Any, Any]:
        number, left, right, equal = key
        table = self.derivation.recursion.tables[number]
        frame, definition = self.frame(left, right), self.definition(key)
        many = left != right or len(equal) < len(table.left)
        kept = self.kept_beside(frame, definition) if many and _has_gap(table) else None
        if kept is None or self.determined:
            return _complete(frame.mean(definition), self, table, key), kept
        one, other = (gaps.variance(frame, table, equal, side) for side in (1, 2))
        value = mapped(gaps.from_gap, [one, other, kept])
        return tuple(_complete(v, self, table, key) for v in (value, kept))

    def kept_beside(self, frame: Frame, expr: Expr) -> Any:
        """What keeps the digits of nearly equal inputs, where a rule gives it: a gap, or a determinant."""
        if self.determined:
            return determinants.determinant(frame, expr)
        return gaps.gap(frame, expr) if self.gapped else None

    def frame(self, left: int, right: int) -> Frame:
        """Where expressions are evaluated for two of the inputs."""
        if self.tape is None:
            return Frame(self, left, right)
        return self.frames.setdefault((left, right), Frame(self, left, right))

    def data(self, source: int, side: int) -> Any:
        """The array of a data instruction."""
        axes = self.derivation.recursion.program[source].axes
        labels = (batch(side), *axes)
        if self.tape is not None:
            return self.tape.leaf(("data", source, side), labels)
        array = self.sides[side - 1].arrays[source]
        return Labelled(array.astype(numpy.longdouble) if self.extended else array, labels)


def _has_gap(table: KernelTable) -> bool:
    """Whether its two vectors have the same axes: a gap is a distance of two places of one."""
    return not table.single and table.left == table.right


def _complete(found: Any, tables: Tables, table: KernelTable, key: Key) -> Any:
    """The array over all inputs and axes that are held, in order."""
    _, left, right, equal = key
    labels = [x for x in dict.fromkeys((batch(left), batch(right), "draw")) if x in found.labels]
    sizes: dict[str, int] = {}
    gone = {q for _, q in equal}
    kept = [(a, False) for a in table.left] + [(a, True) for q, a in enumerate(table.right) if q not in gone]
    for a, mark in kept:
        name = second(axis_symbol(a)).name if mark else a
        labels.append(name)
        sizes[name] = tables.sides[(right if mark else left) - 1].sizes[plain_axis(a)]
    return found if found.labels == tuple(labels) else repeated([found], tuple(labels), sizes)
