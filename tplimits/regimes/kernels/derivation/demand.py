"""Which entries of each table the two kernels ask for, found by walking back from the readout.

A table K[a; b‴] may be wanted at equal places alone: a readout of every position asks for K[i; i‴] at i‴ = i, and a
convolution, which reads both inputs through one tap, K[T(t, i); T(t, i‴)], hands this on.  Pairs of axes along which
every reader asks for equal places are *tied*: their second index is gone from the table.  Only the expressions of
indices are compared, so that what is found holds for all sizes.

Kernels of an input with itself are demanded apart (`own`): variances at equal places always, other places where an
average over a pool or a softmax mixes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.program.nodes.entries import AxisSum, Lookup, axis_symbol
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.leaves import DrawMean, Moment, TableEntry, second, sided
from tplimits.regimes.kernels.derivation.terms import at

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.nodes import KernelTable
    from tplimits.regimes.kernels.derivation.recursion import Recursion

#: places of a left and a right axis whose indices are equal wherever the table is read
Ties = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Demand:
    """Definitions without tables that only gather entries of others, and what is asked of each of the rest."""

    definitions: Mapping[int, Expr]
    cross: Mapping[int, Ties]
    own: Mapping[int, Ties]
    nngp: Expr
    ntk: Expr

    def of(self, table: KernelTable, leaf: TableEntry, own: bool) -> Ties:
        """The entries of a table that serve a leaf: of an input with itself equal places are kept apart."""
        mine = ties(table, leaf)
        # variances are read by every law, often when nothing else of the table is: kept apart they stay one number a
        # place
        if own and mine and len(mine) == len(table.left) == len(table.right):
            return mine
        return (self.own if own else self.cross)[leaf.table]


def ties(table: KernelTable, leaf: TableEntry) -> Ties:
    """The pairs of axes along which a leaf reads equal places."""
    left, right = leaf.indices[: len(table.left)], leaf.indices[len(table.left) :]
    found: dict[int, int] = {}
    for p, mine in enumerate(left):
        free = [q for q, other in enumerate(right) if other == mine and q not in found.values()]
        if free:
            found[p] = free[0]
    return frozenset(found.items())


def tied(definition: Expr, table: KernelTable, equal: Ties) -> Expr:
    """A definition at equal places of the tied axes: a function of the left index alone."""
    swap = {second(axis_symbol(table.right[q])): axis_symbol(table.left[p]) for p, q in equal}
    return definition.xreplace(swap)


def demand(recursion: Recursion, nngp: Expr, ntk: Expr) -> Demand:
    """What K and Θ ask for, and the covariances of logits where these are drawn."""
    tables = recursion.tables
    laws = [recursion.table(p, q) for p in recursion.logits for q in recursion.logits]
    definitions: dict[int, Expr] = {}
    for table in tables:  # a definition reads tables before it
        definitions[table.number] = _written_out(table.definition, tables, definitions)
    kernels = [_written_out(k, tables, definitions) for k in (nngp, ntk)]
    roots = [*kernels, *(_written_out(law, tables, definitions) for law in laws)]
    asked = _Asked(tables, {}, {})
    for root in roots:
        asked.by(root, False)
        asked.by(root, True)
    # later tables first: what a table asks of earlier ones depends on what is asked of it
    for table in reversed(tables):
        expr, number = definitions[table.number], table.number
        if number in asked.cross:
            asked.by(tied(expr, table, asked.cross[number]), False)
        if number in asked.own:
            asked.by(tied(expr, table, asked.own[number]), True)
        if number in asked.variances:
            asked.by(tied(expr, table, asked.variances[number]), True)
    return Demand(definitions, asked.cross, asked.own, *kernels)


class _Asked:
    """The meet of all readers, table by table."""

    def __init__(self, tables: list[KernelTable], cross: dict[int, Ties], own: dict[int, Ties]) -> None:
        self.tables, self.cross, self.own = tables, cross, own
        self.variances: dict[int, Ties] = {}

    def by(self, expr: Expr, own: bool) -> None:
        for leaf in _leaves(expr):
            alone = own or leaf.sides[0] == leaf.sides[1]
            table = self.tables[leaf.table]
            mine = ties(table, leaf)
            if alone and mine and len(mine) == len(table.left) == len(table.right):
                self.variances[leaf.table] = mine
                continue
            known = self.own if alone else self.cross
            # tied only where every reader asks for equal places: one that does not needs the whole table
            known[leaf.table] = known.get(leaf.table, mine) & mine


def _leaves(expr: Expr) -> Iterable[TableEntry]:
    """Its entries of tables, those at places always in one order: the last to ask for equal places is heard."""
    return sorted(found(expr, TableEntry), key=lambda leaf: str(leaf) if leaf.indices else "")


def _written_out(expr: Expr, tables: list[KernelTable], definitions: Mapping[int, Expr]) -> Expr:
    """An expression with the definitions of tables that gather entries of others, nine times as many, and add them."""
    swap = {}
    for leaf in found(expr, TableEntry):
        inner = definitions[leaf.table]
        if inner.has(Lookup) and not inner.has(AxisSum, Moment, DrawMean):
            swap[leaf] = placed(sided(inner, *leaf.sides), tables[leaf.table], leaf)
    return expr.xreplace(swap) if swap else expr


def placed(definition: Expr, table: KernelTable, leaf: TableEntry) -> Expr:
    """A definition at the places where a leaf reads its table."""
    names = [*map(axis_symbol, table.left), *(second(axis_symbol(a)) for a in table.right)]
    return at(definition, dict(zip(names, leaf.indices, strict=True)))
