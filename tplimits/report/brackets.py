"""The Gram table of a report: brackets of the named kets, as many as a person reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.report.text import shown
from tplimits.report.writing import MOST_NODES

if TYPE_CHECKING:
    from tplimits.law.kets import Ket
    from tplimits.law.state import Derivation

#: kets of one table, and operations of a ket that is in it: a report is not the place for long integrals
_KETS_UP_TO = 12
_OPERATIONS_UP_TO = 25


@dataclass(frozen=True)
class GramTable:
    """⟨a|b⟩ of the kets on one width, in order; `left_out` counts those that were too many or too long."""

    width: str
    labels: tuple[str, ...]
    values: tuple[tuple[Expr, ...], ...]
    left_out: int = 0


def gram_tables(state: Derivation) -> list[GramTable]:
    """One table a width."""
    kets = [k for key, k in state.kets.items() if not state.program[key[0]].name.startswith("_")]
    widths = dict.fromkeys(k.width for k in kets)
    return [_table(state, width, [k for k in kets if k.width == width]) for width in widths]


def _table(state: Derivation, width: str, kets: list[Ket]) -> GramTable:
    chosen = [k for k in kets if k.expr.count_ops() <= _OPERATIONS_UP_TO][:_KETS_UP_TO]
    engine = state.engine
    upper = {
        (i, j): shown(engine.written_out(engine.inner(chosen[i].expr, chosen[j].expr), MOST_NODES))
        for i in range(len(chosen))
        for j in range(i, len(chosen))
    }
    rows = tuple(tuple(upper[min(i, j), max(i, j)] for j in range(len(chosen))) for i in range(len(chosen)))
    return GramTable(width, tuple(k.label for k in chosen), rows, len(kets) - len(chosen))
