"""Definitions up to the tables they refer to, and where such shapes repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sympy import Expr, Integer

from tplimits.program.nodes.entries import AxisSum
from tplimits.regimes.kernels.derivation.leaves import TableEntry
from tplimits.regimes.kernels.derivation.terms import axis_sum

#: a repetition has at least so many layers
FEWEST_LAYERS = 3


def referred(definitions: Sequence[Expr]) -> list[int]:
    """The tables that definitions refer to, in order."""
    return sorted({entry.table for d in definitions for entry in d.atoms(TableEntry)})


def renumbered(expr: Expr, swap: Mapping[int, int]) -> Expr:
    """The definition with other tables in the places of those in `swap`."""
    return expr.xreplace(
        {e: TableEntry(Integer(swap[e.table]), *e.args[1:]) for e in expr.atoms(TableEntry) if e.table in swap}
    )


def numbers_in_front(expr: Expr) -> Expr:
    """Sums with the numbers that multiply them in front."""
    if not expr.has(AxisSum):
        return expr
    rebuilt = expr.func(*map(numbers_in_front, expr.args))
    return axis_sum(rebuilt.summand, rebuilt.bound, rebuilt.args[2]) if isinstance(rebuilt, AxisSum) else rebuilt


def shape_of(expr: Expr) -> Expr:
    """A definition without what it refers to: the kinds of its entries alone."""
    return renumbered(expr, {e.table: 0 for e in expr.atoms(TableEntry)})
