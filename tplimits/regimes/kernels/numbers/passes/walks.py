"""Loops of compiled passes: over places of an axis, and along rows with sums over taps about each place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from tplimits.regimes.kernels.numbers.passes.memory import WHOLE, Memory

if TYPE_CHECKING:
    from tplimits.numbers.loops.formulas import Formulas
    from tplimits.regimes.kernels.numbers.passes.cells import Window


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum over taps along a row: where its array begins, cells of a row, the cell of the first place, the next's."""

    start: int
    pitch: int
    window: Window
    cell: Any
    step: int = 1


@dataclass(eq=False)
class Walks(Memory):
    """Loops in the code of passes."""

    function: ir.Function = field(init=False)
    formulas: Formulas = field(init=False)

    def _begin(self, start: Any, before: Any, limit: Any = None) -> tuple[Any, Any]:
        """A loop from `start`; with a limit it may have no round at all."""
        b = self.builder
        head = self.function.append_basic_block()
        after = self.function.append_basic_block() if limit is not None else None
        if after is not None:
            b.cbranch(b.icmp_signed("<", start, limit), head, after)
        else:
            b.branch(head)
        b.position_at_end(head)
        index = b.phi(WHOLE)
        index.add_incoming(start, before)
        return index, (head, after)

    def _end(self, index: Any, blocks: Any, step: int, limit: Any) -> None:
        b, (head, after) = self.builder, blocks
        following = b.add(index, WHOLE(step))
        index.add_incoming(following, b.block)
        after = after or self.function.append_basic_block()
        b.cbranch(b.icmp_signed("<", following, limit), head, after)
        b.position_at_end(after)

    @contextmanager
    def _loop(self, count: int) -> Iterator[Any]:
        if count == 1:
            yield WHOLE(0)
            return
        index, blocks = self._begin(WHOLE(0), self.builder.block)
        yield index
        self._end(index, blocks, 1, WHOLE(count))

    @contextmanager
    def _along(self, dim: int, size: int, most: int = 1) -> Iterator[list[dict[Any, Any]]]:
        """A loop over the places of an axis, up to so many at once: their numbers, and their cells."""
        axis, b = self.axis(size), self.builder
        rows, columns = axis.shape if axis.is_grid else (1, size)
        at_once = max(k for k in range(1, most + 1) if columns % k == 0)
        with self._loop(rows) as y:
            place, cell = b.mul(y, WHOLE(columns)), b.mul(b.add(y, WHOLE(axis.border[0])), WHOLE(axis.width))
            cell = b.add(cell, WHOLE(axis.border[1]))
            with self._loop(columns // at_once) as index:
                xs = [b.add(b.mul(index, WHOLE(at_once)), WHOLE(k)) for k in range(at_once)]
                yield [{dim: b.add(place, x), ("cell", dim): b.add(cell, x)} for x in xs]

    @contextmanager
    def _walk(self, columns: Any, sums: Mapping[str, Sum]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """A loop along a row: what it is at, and sums over taps, of which columns that come again are carried on."""
        b = self.builder
        known = {
            name: [self._column(one, one.cell, c) for c in range(one.window.columns[0], one.window.columns[-1])]
            for name, one in sums.items()
            if one.step == 1
        }
        before = b.block
        x, blocks = self._begin(WHOLE(0), before)
        carried: list[tuple[Any, Any]] = []
        names: dict[str, Any] = {}
        phis = {name: [self._phi(v, before) for v in values] for name, values in known.items()}
        for name, one in sums.items():
            cell, taken = b.add(one.cell, b.mul(x, WHOLE(one.step))), one.window.columns
            if one.step != 1:
                names[name] = self._sum([self._column(one, cell, c) for c in taken])
                continue
            kept = [*phis[name], self._column(one, cell, taken[-1])]
            names[name] = self._sum([kept[c - taken[0]] for c in taken])
            carried += zip(phis[name], kept[1:], strict=True)
        yield x, names
        for phi, value in carried:
            phi.add_incoming(value, b.block)
        self._end(x, blocks, 1, columns)

    def _phi(self, value: Any, before: Any) -> Any:
        found = self.builder.phi(self.vector)
        found.add_incoming(value, before)
        return found

    def _column(self, one: Sum, cell: Any, column: int) -> Any:
        """The sum of a column of taps."""
        return self._sum([self._load(one.start + a * one.pitch + column, cell) for a in one.window.rows])

    def _sum(self, values: Sequence[Any]) -> Any:
        total = values[0]
        for value in values[1:]:
            total = self.formulas.arithmetic.add(total, value)
        return total

    def _cell(self) -> Any:
        """A vector of its own, zero."""
        with self.builder.goto_entry_block():
            cell = self.builder.alloca(self.vector)
        self.builder.store(self.formulas.constant(0.0), cell)
        return cell
