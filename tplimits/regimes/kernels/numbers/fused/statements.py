"""The statements of one pair of inputs, for a recursion without finite axes: all layers one after the other.

Their text is generated from the tables.  What depends on one input alone is computed beforehand, row by row of `left`
and `right`; determinants of covariances are carried along the recursion (`determinants`).  `arrays` makes a function of
arrays of pairs of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from tplimits.numbers.moments.function import closed_text
from tplimits.numbers.moments.writing import Writer, number
from tplimits.program.nodes.entries import AxisSum, Kron
from tplimits.program.nodes.evaluate import evaluate, number_first
from tplimits.program.nodes.functions import BENT
from tplimits.regimes.kernels.derivation.leaves import Data, Datum, DrawMean, Given, Moment, TableEntry, sided
from tplimits.regimes.kernels.numbers.fused.determinants import Determinants
from tplimits.regimes.kernels.numbers.tables.moment import function_of

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables


class NotFused(Exception):
    """The recursion has parts that are evaluated by arrays."""


@dataclass
class Text:
    """The statements of one pair, under construction."""

    derivation: KernelTables
    constants: Mapping[Expr, float]
    lines: list[str] = field(default_factory=list)
    known: dict[Any, str] = field(default_factory=dict)
    grams: dict[Expr, str] = field(default_factory=dict)
    left: dict[Expr, str] = field(default_factory=dict)
    right: dict[Expr, str] = field(default_factory=dict)
    numbers: dict[Expr, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.determinants = Determinants(self)
        self.writer = Writer(scalar=False, prefix="m", series=True)
        self.flushed = 0

    def let(self, key: Any, text: str) -> str:
        if text.isidentifier():
            return text
        if (key, text) not in self.known:
            self.known[key, text] = f"v{len(self.known)}"
            self.lines.append(f"{self.known[key, text]} = {text}")
        return self.known[key, text]

    def kernels(self, other: int) -> list[str]:
        """NNGP and NTK between inputs 1 and `other`, all tables before them: deep networks need no deep recursion."""
        for table in self.derivation.needed:
            if table.left or table.right:
                raise NotFused
            if not table.single or other == 1:
                self.value(TableEntry(sympy.Integer(table.number), sympy.Integer(1), sympy.Integer(other)))
        return [self.value(sided(k, 1, other)) for k in (self.derivation.nngp, self.derivation.ntk)]

    def value(self, expr: Expr) -> str:
        """A name (or number) for an expression in (ξ, ξ′)."""
        if expr in self.known:
            return self.known[expr]
        self.known[expr] = name = self._value(expr)
        return name

    def _value(self, expr: Expr) -> str:
        if isinstance(expr, TableEntry) and expr.sides[0] != expr.sides[1] and not expr.indices:
            return self.value(self._definition(expr))
        if expr.has(Datum):  # the rows of a table would have to be picked by input
            raise NotFused
        sides = _sides(expr)
        if not sides and expr.has(AxisSum, Moment):  # the size of an axis that no data has; a mean that no data moves
            raise NotFused
        if not sides and not expr.has(Moment):
            return self._number(expr)
        if len(sides) == 1:
            return self._row(expr, *sides)
        return self._computed(expr)

    def _computed(self, expr: Expr) -> str:
        if expr.has(Kron, DrawMean, Given) or any(t.indices for t in expr.atoms(TableEntry)):
            raise NotFused
        if isinstance(expr, AxisSum):
            return self._gram(expr)
        if isinstance(expr, Moment):
            self._moments([expr])
            return self.known[expr]
        if isinstance(expr, (sympy.Add, sympy.Mul)):
            return self._joined(expr)
        if isinstance(expr, sympy.Pow) and expr.exp.is_number:
            return self.let("pow", self._power(self.value(expr.base), expr.exp))
        raise NotFused

    def _power(self, base: str, exponent: Expr) -> str:
        if abs(exponent) == sympy.S.Half:
            root = self.writer.call("sqrt", base)
            return root if exponent > 0 else f"1.0/{root}"
        if exponent.is_Integer and 0 < abs(exponent) <= 4:
            product = "*".join([base] * abs(int(exponent)))
            return product if exponent > 0 else f"1.0/({product})"
        return f"{base}**{number(float(exponent))}"

    def _definition(self, entry: TableEntry) -> Expr:
        table = self.derivation.tables[entry.table]
        if entry.sides == (1, 2) or table.single:
            return table.definition
        return swapped(table.definition)

    def _joined(self, expr: Expr) -> str:
        self._moments([a for a in expr.atoms(Moment) if a in expr.args or any(a in b.args for b in expr.args)])
        parts = [self.value(a) for a in (number_first(expr) if isinstance(expr, sympy.Mul) else expr.args)]
        sign = " + " if isinstance(expr, sympy.Add) else "*"
        # sums in the order of the terms: another order has another last digit
        return self.let("join", sign.join(sorted(parts)) if sign == "*" else sign.join(parts))

    def _number(self, expr: Expr) -> str:
        if expr.is_number and not expr.has(sympy.Function):
            return number(float(evaluate(expr, {})))
        return self.numbers.setdefault(expr, f"P[{len(self.numbers)}]")

    def _row(self, expr: Expr, side: int) -> str:
        rows = self.left if side == 1 else self.right
        return rows.setdefault(expr, f"{'a' if side == 1 else 'b'}{len(rows)}")

    def _gram(self, expr: Expr) -> str:
        return self.grams.setdefault(expr, f"g{len(self.grams)}")

    def _moments(self, found: list[Moment]) -> None:
        """Moments of one law together: they share roots and angles."""
        laws: dict[tuple, list[Moment]] = {}
        for moment in found:
            if moment not in self.known:
                # parameters, and laws of one or three variables, have no place in the text of a pair
                if moment.values or len(moment.variables) != 2:
                    raise NotFused
                laws.setdefault(moment.covariances, []).append(moment)
        for law, moments in laws.items():
            functions = [function_of(m, self.constants) for m in moments]
            if any(f.route != "closed" for f in functions):
                raise NotFused
            c11, c12, c22 = (self.value(c) for c in law)
            entries = c11, c12, c22
            kinked = any(m.integrand.has(*BENT) for m in moments)
            det = self.determinants.of_law(law, entries, kinked)
            for moment, function in zip(moments, functions, strict=True):
                self.known[moment] = closed_text(self.writer, function, (*entries, det))
            self.flush()

    def flush(self) -> None:
        """What the writer of formulas has added, in its place among the statements."""
        self.lines += [f"{name} = {text}" for name, text in self.writer.assignments[self.flushed :]]
        self.flushed = len(self.writer.assignments)

    @property
    def margins(self) -> list[str]:
        """What is negative where a law is nearly singular."""
        return [name for key, name in self.known.items() if isinstance(key, tuple) and key[0] == "near"]


def _sides(expr: Expr) -> set[int]:
    found: set[int] = set()
    for leaf in expr.atoms(Data, TableEntry):
        found |= {leaf.side} if isinstance(leaf, Data) else set(leaf.sides)
    return found


def swapped(expr: Expr) -> Expr:
    """A definition with the two inputs exchanged."""
    swap = {}
    for leaf in expr.atoms(Data, TableEntry):
        if isinstance(leaf, Data):
            swap[leaf] = Data(leaf.args[0], sympy.Integer(3 - leaf.side), *leaf.indices)
        else:
            swap[leaf] = TableEntry(leaf.args[0], *(sympy.Integer(3 - s) for s in leaf.sides), *leaf.indices)
    return expr.xreplace(swap)
