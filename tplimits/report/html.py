"""A limit as one HTML file: formulas in MathML, nothing loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import latex2mathml.converter
import markupsafe
from sympy import Expr

from tplimits.report import latex
from tplimits.report.latex_names import name
from tplimits.report.text import MOST_NODES, shown

if TYPE_CHECKING:
    from tplimits.law.kets import Ket
    from tplimits.law.state import Derivation
    from tplimits.report.latex_formulas import Formula

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


#: what the converter writes, and what browsers lay out as LaTeX would
_LAYOUT = (
    (r'display="inline"', 'display="inline" displaystyle="true"'),
    (r'<menclose notation="box">(.*?)</menclose>', r'<mrow class="box">\1</mrow>'),  # few browsers know menclose
    (r'<mo stretchy="false">(&#x0007C;)</mo>', r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'),  # | of a ket
    (r"<mo>([A-Za-z_]+)</mo>", r'<mi mathvariant="normal">\1</mi>'),  # names of functions
    (r"<mo>(&#x0005E;|&#x002D9;)</mo>", r'<mo stretchy="false">\1</mo>'),  # hats and dots
)


def mathml(formula: str) -> markupsafe.Markup:
    r"""LaTeX math as MathML."""
    made = latex2mathml.converter.convert(formula)
    for written, meant in _LAYOUT:
        made = re.sub(written, meant, made)
    return markupsafe.Markup(made)


def width_limit(rows: Sequence[Formula], state: Derivation) -> dict[str, Any]:
    """What the page of a width limit shows: limits of scalars, kets, brackets."""
    limits = [row for row in rows if row.relation == r"\to"]
    return {
        "limits": [cells(row) for row in limits],
        "kets": [cells(row) for row in rows if row not in limits],
        "tables": [_gram(state, table) for table in gram_tables(state)],
    }


def cells(row: Formula) -> tuple[markupsafe.Markup, markupsafe.Markup, markupsafe.Markup]:
    """One row of a table of formulas in MathML."""
    return mathml(row.left), mathml(row.relation), mathml(" ".join(row.right))


def _gram(state: Derivation, table: GramTable) -> dict[str, Any]:
    return {
        "width": table.width,
        "bras": [mathml(rf"\langle {name(label)}|") for label in table.labels],
        "kets": [mathml(rf"|{name(label)}\rangle") for label in table.labels],
        "values": [[mathml(latex.expression(state, value)) for value in row] for row in table.values],
        "left_out": table.left_out,
    }
