"""What pairs of inputs read of each: on a tape of its own, once for each input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tplimits.program.nodes.entries import free_indices
from tplimits.regimes.kernels.derivation.leaves import on_first
from tplimits.regimes.kernels.numbers.tables.gaps import spread
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, Traced
from tplimits.regimes.kernels.numbers.tables.places import batch

if TYPE_CHECKING:
    from sympy import Expr

    from tplimits.regimes.kernels.numbers.tables.interpreter import Tables
    from tplimits.regimes.kernels.numbers.tables.tape import Tape


@dataclass(eq=False)
class Rows:
    """Quantities of one input that pairs read, each with its place among the results of the tape of its side."""

    tables: dict[int, Tables]
    tape: Tape
    outputs: dict[int, list[Any]] = field(default_factory=lambda: {1: [], 2: []})
    places: dict[tuple[int, Any], int] = field(default_factory=dict)

    def row(self, expr: Expr, side: int) -> Any:
        """A quantity of one input, as a leaf of the tape of pairs."""
        first = on_first(expr)
        names = {on_first(i).name: i.name for i in free_indices(expr)} | {batch(1): batch(side)}
        value = self.tables[side].frame(1, 1).value(first)
        order = sorted(value.labels, key=lambda x: x != batch(1))  # inputs first, as rows are kept
        labels = tuple(names.get(x, x) for x in (order if isinstance(value, Traced) else value.labels))
        if isinstance(value, Labelled):
            return Labelled(value.array, labels)
        return self._leaf(first, side, value, labels)

    def spread(self, expr: Expr, side: int, axes: tuple[str, ...]) -> Any:
        """What the places differ that a sum over one input reads (see `gaps`)."""
        value = spread(self.tables[side].frame(1, 1), expr)
        return None if value is None else self._leaf(("spread", expr), side, value, (batch(side), *axes))

    def _leaf(self, key: Any, side: int, value: Any, labels: tuple[str, ...]) -> Any:
        mine = side if self.tables[1] is not self.tables[2] else 1
        if (mine, key) not in self.places:
            self.places[mine, key] = len(self.outputs[mine])
            self.outputs[mine].append(value)
        return self.tape.leaf(("row", side, self.places[mine, key], labels), labels)
