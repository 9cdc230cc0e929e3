"""Kets of a kernel derivation as functions of Gaussian variables: `hypotheses.reader.Randomness` for its nodes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.tails import Growth, Tail
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, GaussMean, Kron, axis_symbol, free_indices
from tplimits.program.parts import rebuilt
from tplimits.regimes.kernels.derivation.leaves import Data, DrawMean, Moment, Of, TableEntry
from tplimits.regimes.kernels.derivation.nodes import overlap

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion

#: what is a number in the limit
_NUMBERS = (TableEntry, Data, Moment, DrawMean, Kron, ArrayEntry, GaussMean)
#: a form of more nodes has a name of its own
_SHORT = 3


class Kets:
    """Leaves as symbols: a Gaussian one is a variable, any other the name of what it is made of.

    `number` gives the value of what is deterministic, where there is one.
    """

    def __init__(self, state: Recursion, number: Callable[[Expr], Expr | None] = lambda expr: None) -> None:
        self.state, self.number = state, number
        self.growths: dict[Expr, Any] = {}
        self.answers: dict[tuple[Any, ...], Any] = {}
        self._leaf: dict[Symbol, Of] = {}
        self._symbol: dict[Expr, Symbol] = {}

    def written(self, expr: Expr) -> Expr:
        """An expression in leaves as one in symbols; a sum over an axis as that of two of its terms."""
        if isinstance(expr, Of):
            return self._of_leaf(expr)
        if isinstance(expr, _NUMBERS) or expr.is_Symbol:
            return self._constant(expr)
        if isinstance(expr, AxisSum):
            return self._sum(expr)
        return rebuilt(expr, [*map(self.written, expr.args)]) if expr.args else expr

    def is_random(self, symbol: Symbol) -> bool:
        """Whether a symbol stands for a leaf."""
        return symbol in self._leaf

    def definition(self, symbol: Symbol) -> Expr | None:
        """What a node that is not Gaussian is made of."""
        leaf = self._leaf.get(symbol)
        if leaf is None or self.state.nodes[leaf.node].gaussian or self.state.nodes[leaf.node].body is None:
            return None
        return self.written(self.state.opened(leaf))

    def of(self, expr: Expr) -> set[Symbol]:
        """The Gaussian variables of an expression, through names."""
        found: set[Symbol] = set()
        for symbol in expr.free_symbols & self._leaf.keys():
            inner = self.definition(symbol)
            found |= {symbol} if inner is None else self.of(inner)
        return found

    def covariance(self, a: Symbol, b: Symbol) -> Expr:
        """The bracket of two leaves; a symbol where it is no number."""
        left, right = self._leaf[a], self._leaf[b]
        sources = [self.state.nodes[x.node].sources for x in (left, right)]
        # sources that do not meet: independent without asking for a bracket
        if a != b and not overlap(*sources):
            return S.Zero
        # a bracket is a number only at data: until then a symbol, positive for a variance
        value = self.state.inner(left, right)
        return value if value.is_number else self._constant(value, positive=a == b)

    def _of_leaf(self, leaf: Of) -> Expr:
        """A leaf as its symbol; numbers and short sums of Gaussian leaves as they are: 2h vanishes where h does."""
        node = self.state.nodes[leaf.node]
        if node.body is not None and node.body.is_number:
            return node.body
        if node.body is not None and node.gaussian:
            parts = [t.as_coeff_Mul() for t in sympy.Add.make_args(self.state.opened(leaf))]
            if len(parts) <= _SHORT and all(isinstance(part, Of) for _, part in parts):
                return sympy.Add(*(number * self._of_leaf(part) for number, part in parts))
        return self._named(leaf)

    def _named(self, leaf: Of) -> Symbol:
        if leaf not in self._symbol:
            name = self.state.nodes[leaf.node].name
            symbol = Symbol(f"{name}[{', '.join(map(str, leaf.indices))}]" if leaf.indices else name, real=True)
            while symbol in self._leaf:
                symbol = Symbol(symbol.name + "′", real=True)
            self._symbol[leaf], self._leaf[symbol] = symbol, leaf
            # taken on by the user: it grows like a variable, and what reads it is judged by that
            if self.state.judged.is_assumed(leaf.node):
                self.growths[symbol] = Tail(Growth.POLYNOMIAL, S.One)
        return self._symbol[leaf]

    def _constant(self, expr: Expr, positive: bool | None = None) -> Expr:
        value = self.number(expr)
        if value is not None:
            return value
        if expr not in self._symbol:
            signs = {"positive": True} if positive else {"nonnegative": True} if self._is_nonnegative(expr) else {}
            self._symbol[expr] = sympy.Dummy("c", real=True, **signs)
        return self._symbol[expr]

    def _is_nonnegative(self, expr: Expr) -> bool:
        if not isinstance(expr, TableEntry):
            return False
        table = self.state.tables[expr.table]
        if table.single:
            return table.nodes[0] < len(self.state.program) and self.state.judged.is_nonnegative(table.nodes[0])
        half = len(table.left)
        same = expr.sides[0] == expr.sides[1] and expr.indices[:half] == expr.indices[half:]
        return same and len(set(table.nodes)) == 1

    def _sum(self, total: AxisSum) -> Expr:
        """With the terms at the indices that stand free: a softmax weight is one of its terms over all of them."""
        inside = free_indices(total.summand) - {total.bound}
        places = [i for i in sorted(inside, key=str) if i.name.partition("′")[0] == total.bound.name.partition("′")[0]]
        another = _index_of_its_own(total)
        return sympy.Add(*(self.written(total.summand.xreplace({total.bound: i})) for i in (*places, another)))


def _index_of_its_own(total: AxisSum) -> Symbol:
    """A running index that equal sums share: what was read for one is found again for the other."""
    base = total.bound.name.partition("′")[0]
    return axis_symbol(f"{base}′{zlib.crc32(sympy.sstr(canonical_bound_axes(total)).encode())}")
