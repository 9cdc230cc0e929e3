"""What vanishes by symmetry: a mean that changes its sign when that of a weight is changed.

Entries that are drawn around zero have the law of their negatives, so that a network with −W in place of W is as
likely; so are those with other signs of single members of a family of weights.  Every value is a sum of terms, which
stay or change their signs under each of these changes: a term is the set of weights that it is odd in.  The terms of a
value lie in cosets a + V, sets being added as binary vectors.  Where the empty set is not among them, its mean is zero.
Terms that are smaller by a power of n than others of a sum are left out: its mean is then of their order at most.

    products       (a + b) + (V + W)             even functions       V
    odd functions  a + V                         all others           ⟨a⟩ + V
    sums           all terms of both             constants            {∅}

Nothing is integrated, so that networks of any size are read at once; means that vanish for another reason are not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.program import parts
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry, Lookup, axis_symbol
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.nodes.laws import GIVEN
from tplimits.regimes.classification.derivation.cosets import (
    INFINITY,
    Coset,
    Parity,
    Values,
    Where,
    both,
    reduced,
    somewhere,
    span,
    spanned,
)

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: an index that a sum has run over, and another one
SOME = ("°", "°°")


def parities(program: Program, at_start: bool, orders: Mapping[str, Fraction]) -> Parities:
    """The terms of all values, with members of families told apart where products need it."""
    coarse = Parities(program, at_start, orders)
    # telling members apart costs a bit for each, and is needed by few programs
    apart = coarse.split()
    return Parities(program, at_start, orders, apart) if apart else coarse


@dataclass(eq=False)
class Parities:
    """The terms of every value of a program."""

    program: Program
    #: whether scalars that are computed have the orders of n that they have at the start, rather than any
    at_start: bool = False
    #: weights whose entries start like n^(−order), beside what is natural for matrices, where this is not 0
    orders: Mapping[str, Fraction] = field(default_factory=dict)
    #: the families of weights whose members are told apart; for the others one sign stands for all members
    apart: frozenset[int] = frozenset()
    values: dict[int, Parity] = field(default_factory=dict)
    #: the members of families of weights that bits stand for: the weight, and its index as an expression
    members: list[tuple[int, tuple[Expr, ...]]] = field(default_factory=list)
    bits: dict[tuple[int, tuple[Expr, ...]], int] = field(default_factory=dict)
    terms: dict[Expr, Parity] = field(default_factory=dict)
    #: the values of indices that sums have run over, where these are not all of an axis
    ranges: dict[Symbol, frozenset[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for position, s in enumerate(self.program):
            if position in self.program.inputs or isinstance(s, InitialScalar):
                found = Parity()
            elif isinstance(s, (Avg, ScalarNonlin)):
                # training moves scalars: with any value they have any sign, and are as large as anything
                found = self._scalar(s) if self.at_start else Parity()
            elif isinstance(s, InitialMatrix):
                found = self._one(self._bit(position, tuple(map(axis_symbol, s.axes))), (), self._order(s))
            elif isinstance(s, InitialVector):
                found = self._vector(position, s)
            elif isinstance(s, MatMul):
                found = self._read(s.matrix, s.matrix_indices).times(self.of_entry(s.operand))
            else:
                assert isinstance(s, OuterNonlin)
                found = self.of(s.body)
            self.values[position] = found

    def vanishes(self, value: Expr) -> bool:
        """Whether every term of an expression changes its sign with some weight: then its mean is zero.

        Members of a family whose indices may be the same are taken for one and for two.
        """
        return all(self._is_odd(coset) for coset in self.of(value).cosets)

    def _is_odd(self, coset: Coset) -> bool:
        seen = [i for i in range(coset.used.bit_length()) if coset.used >> i & 1]
        ranges = {**self.ranges, **dict(coset.where)}
        # two members that may be one change their signs together: a term odd in both may be even in the one
        same = [1 << i | 1 << j for i, j in combinations(seen, 2)
                if self._may_agree(self.members[i], self.members[j], ranges)]  # fmt: skip
        return reduced(coset.shift, span((*coset.basis, *same))) != 0

    @staticmethod
    def _one(shift: int, basis: tuple[int, ...] = (), order: Fraction = Fraction(0)) -> Parity:
        return Parity(frozenset([Coset(shift, basis)]), order)

    def _order(self, s: Instruction) -> Fraction:
        return self.orders.get(s.name, Fraction(0))

    def _scalar(self, s: Avg | ScalarNonlin) -> Parity:
        """A scalar at the start, of its order: one number for all neurons, whose sign makes no average smaller."""
        if isinstance(s, ScalarNonlin):
            found = self.of(s.body)
            return Parity(order=found.order) if found.cosets else found
        found = self.of_entry(s.operand)
        return Parity(order=found.order + self.falls(s.operand)) if found.cosets else found

    def falls(self, operand: Entry) -> Fraction:
        """The power of 1/n of an average beside what is averaged: ½ where the mean of its largest terms vanishes.

        Less where other terms, whose mean may be anything, are not smaller by as much.
        """
        found = self.of(operand)
        odd = all(self._is_odd(c) for c in found.cosets)
        return Fraction(min(Fraction(1, 2), found.gap)) if odd else Fraction(0)

    def _bit(self, position: int, indices: tuple[Expr, ...]) -> int:
        key = (position, indices if position in self.apart else ())
        if key not in self.bits:
            self.bits[key] = 1 << len(self.members)
            self.members.append(key)
        return self.bits[key]

    def _vector(self, position: int, s: InitialVector) -> Parity:
        bit = self._bit(position, tuple(map(axis_symbol, s.axes)))
        if s.law.mean == s.law.std == 0:
            return Parity(frozenset())
        # a vector that is given, or a constant, has no negative that is as likely
        if s.law.shape == GIVEN or s.law.std == 0:
            return self._one(0, (), self._order(s))
        # around another mean than 0 it has terms that are odd in it and terms that are not
        return self._one(bit if s.law.mean == 0 else 0, () if s.law.mean == 0 else (bit,), self._order(s))

    def of_entry(self, entry: Entry) -> Parity:
        """The terms of a value at some index."""
        return self._read(entry.source, entry.indices)

    def _read(self, position: int, indices: tuple[Expr, ...]) -> Parity:
        axes = self.program[position].axes
        # a matrix product has the indices of the matrix alone; the axes beyond are those of the vector
        swap = {axis_symbol(a): i for a, i in zip(axes, indices, strict=False) if i != axis_symbol(a)}
        found = self.values[position]
        if not swap:
            return found
        return Parity.of(somewhere((self._placed(c, swap) for c in found.cosets), found.gap), found.order, found.rest)

    def _placed(self, coset: Coset, swap: Mapping[Symbol, Expr]) -> Coset:
        """Terms at other indices."""
        touched = sum(1 << i for i, (_, indices) in enumerate(self.members)
                      if coset.used >> i & 1 and any(k.has(*swap) for k in indices))  # fmt: skip

        def moved(bits: int) -> int:
            out, left = bits & ~touched, bits & touched
            while left:
                at = left.bit_length() - 1
                left ^= 1 << at
                position, indices = self.members[at]
                # by exclusive or: two members that become one at these indices cancel, as W² is even
                out ^= self._bit(position, tuple(i.xreplace(swap) for i in indices))
            return out

        before = dict(coset.where)
        where = frozenset((i, values) for i, values in coset.where if i not in swap)
        for index, new in swap.items():
            where = both(where, self._inside(new, before.get(index)))
        basis = span(map(moved, coset.basis))
        return Coset(reduced(moved(coset.shift), basis), basis, where)

    def _inside(self, index: Expr, values: frozenset[int] | None) -> Where:
        """Where an index is among these values, and no lookup in it tells that there is no entry."""
        # an entry whose lookup says −1 is zero: the condition is one on the index that the table is asked with
        if isinstance(index, Lookup) and len(index.indices) == 1:
            table = self.program.tables[index.table].values
            inner = frozenset(i for i, v in enumerate(table.tolist()) if v >= 0 and (values is None or v in values))
            return self._inside(index.indices[0], inner if len(inner) < len(table) else None)
        if values is None or isinstance(index, Lookup) or index in self.ranges:
            return frozenset()
        if index.is_Integer:
            values = frozenset([int(index)]) & values
            return frozenset() if values else frozenset([(index, values)])
        return frozenset([(index, values)]) if index.is_Symbol else frozenset()

    def of(self, node: Expr) -> Parity:
        """The terms of an expression."""
        if node not in self.terms:
            self.terms[node] = self._of(node)
        return self.terms[node]

    def _of(self, node: Expr) -> Parity:
        if isinstance(node, Entry):
            return self.of_entry(node)
        if node == 0:
            return Parity(frozenset())
        if node in self.program.known.width_symbols:
            return Parity(order=Fraction(-1))
        if node.is_number or node.is_Symbol or isinstance(node, ArrayEntry) or not node.args:
            return Parity()
        if isinstance(node, AxisSum):
            return self._summed(node)
        if isinstance(node, sympy.Pow) and node.exp.is_Rational:
            return self.of(node.base).power(node.exp)
        parts = [self.of(a) for a in node.args]
        found = parts[0]
        for part in parts[1:]:
            found = found.times(part) if isinstance(node, sympy.Mul) else found.plus(part)
        if isinstance(node, (sympy.Add, sympy.Mul)):
            return found
        if len(parts) > 1:  # what is smaller decides where two are compared
            every = span(b for part in parts for c in part.cosets for b in spanned(c).basis)
            orders = sorted({x for p in parts if p.cosets for x in (p.order, p.rest)}) or [Fraction(0)]
            found = Parity(frozenset([Coset(0, every)]), Fraction(orders[0]), min(orders[1:], default=INFINITY))
        return found.function(node)

    def _summed(self, node: AxisSum) -> Parity:
        """The terms of a sum over an axis: the same at any two members, which may be different ones."""
        found = self.of(node.summand)
        one, other = (
            Parity.of((self._placed(c, {node.bound: self._some(mark, c, node.bound)}) for c in found.cosets),
                      found.order, found.rest)
            for mark in SOME
        )  # fmt: skip
        # products of two such sums meet in the same member or in two different ones: both kinds of terms are kept
        return found if one == found else one.plus(other)

    def _some(self, mark: str, coset: Coset, bound: Symbol) -> Symbol:
        """What stands for an index that a sum has run over: one for each set of values that it has."""
        values = dict(coset.where).get(bound)
        if values is None:
            return Symbol(mark, integer=True)
        some = Symbol(f"{mark} of {sorted(values)}", integer=True)
        self.ranges[some] = values
        return some

    def split(self) -> frozenset[int]:
        """The weights of which a product holds two different members, as pieces of one matrix for queries and keys.

        Their biases are weights, too.
        """
        found = 0
        for s in self.program:
            for node in parts.found(getattr(s, "body", sympy.S.Zero), sympy.Mul):
                for one, other in combinations((f for f in node.args if isinstance(f, Entry)), 2):
                    if one.source == other.source and any(
                        self._differ(i, j, {}) for i, j in zip(one.indices, other.indices, strict=True)
                    ):
                        found |= self.values[one.source].used
        return frozenset(position for i, (position, _) in enumerate(self.members) if found >> i & 1)

    def _may_agree(
        self, one: tuple[int, tuple[Expr, ...]], other: tuple[int, tuple[Expr, ...]], ranges: Mapping[Expr, Values]
    ) -> bool:
        """Whether two members of families may be the same one."""
        if one[0] != other[0]:
            return False
        return not any(self._differ(i, j, ranges) for i, j in zip(one[1], other[1], strict=True))

    def _differ(self, i: Expr, j: Expr, ranges: Mapping[Expr, Values]) -> bool:
        """Whether two indices are never the same."""
        if i == j:
            return False
        if isinstance(i, Lookup) and isinstance(j, Lookup) and i.indices == j.indices:
            first, second = (self.program.tables[k.table].values for k in (i, j))
            return first.shape == second.shape and bool((first != second).all())
        one, other = (self._range(k, ranges) for k in (i, j))
        return one is not None and other is not None and not one & other

    def _range(self, i: Expr, ranges: Mapping[Expr, Values]) -> Values | None:
        """The values that an index may have; None if these are not known."""
        if i.is_Integer:
            return frozenset([int(i)])
        if not isinstance(i, Lookup):
            return ranges.get(i)
        table = self.program.tables[i.table].values
        inner = self._range(i.indices[0], ranges) if len(i.indices) == 1 else None
        found = table.ravel() if inner is None else table[[v for v in sorted(inner) if v < len(table)]]
        return frozenset(v for v in found.tolist() if v >= 0)
