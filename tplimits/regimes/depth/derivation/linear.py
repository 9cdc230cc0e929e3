"""Expressions of a block as linear forms: what numbers and constant arrays multiply, through images and averages.

Σ_h B_gh (W Σ_k A_hk x_k) is the image W x_k with the coefficient Σ_h B_gh A_hk.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import sympy
from sympy import Expr, Integer, Rational, S, Symbol

from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    AxisSum,
    Entry,
    Leaf,
    argument,
    arguments,
    bound_axis_symbol,
    whole,
)
from tplimits.program.nodes.kinds import Avg, Instruction, MatMul, OuterNonlin, ScalarNonlin, place_of, standing
from tplimits.program.nodes.rounding import is_rounded
from tplimits.regimes.depth.algebra.data import Data
from tplimits.regimes.depth.algebra.products import axis_of

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: what decimal numbers, and what Python makes of some, are off by
_UNIT = Rational(1, 1 << 51)
#: numbers above this may leave, to the fourth power in a noise, less than rounding of their terms
LARGE = 512
#: terms of one linear form, and sums around one of them, beyond which it stays as it is written
_MOST, _SUMS = 64, 4
#: bound indices from about this number on are those of a linear form
_FRESH = 1 << 20


class Image(Leaf):
    """What an instruction, an image or an average, makes of another operand: (position, neuron, operand, *indices)."""

    source: int = whole(0)
    neuron: Symbol = argument(1)
    operand: Expr = argument(2)
    indices: tuple[Expr, ...] = arguments(3)


class Term(NamedTuple):
    """Σ over `bounds` of coefficient · rest; the coefficient holds arrays and numbers alone.

    `cancels`: it is a number that is small beside what it is the sum of.
    """

    coefficient: Expr
    bounds: tuple[Symbol, ...]
    rest: Expr
    cancels: bool = False


class _TooManyError(Exception):
    """A linear form that stays as it is written."""


class Linear:
    """Expressions as sums of coefficients times what is not linear in anything with coefficients that are arrays."""

    def __init__(self, program: Program) -> None:
        self.program, self.data = program, Data(program)
        self._used = 0
        # images under one matrix are those of one instruction, and averages over one width
        first: dict[tuple[object, ...], int] = {}
        self._like = {p: first.setdefault(key, p) for p, s in enumerate(program) if (key := _kind(s))}

    def gathered(self, expr: Expr) -> list[Term]:
        """The terms of an expression, one for each that is multiplied; none where there are too many."""
        try:
            terms = self._terms(expr)
        except _TooManyError:
            return []
        found: dict[tuple[Expr, tuple[Symbol, ...]], list[Expr]] = {}
        for t in terms:
            rest, change = self._canonical(t)
            found.setdefault((rest, tuple(change.values())), []).append(t.coefficient.xreplace(change))
        sums = ((*_added(parts), *place) for place, parts in found.items())
        return [Term(total, bounds, rest, cancels) for total, cancels, rest, bounds in sums]

    def _canonical(self, t: Term) -> tuple[Expr, dict[Symbol, Symbol]]:
        """The rest of a term, and its bound indices in a numbering by the rest alone."""
        ways = []
        for order in itertools.permutations(t.bounds):
            # larger than the numbers that other sums have: these are numbered again from inside
            change = {i: bound_axis_symbol(axis_of(i), _FRESH - k) for k, i in enumerate(order)}
            ways.append((t.rest.xreplace(change), change))
        return min(ways, key=lambda way: str(way[0]))

    def _terms(self, expr: Expr) -> list[Term]:
        if expr.is_Rational or self.data.is_data(expr):
            return [Term(expr, (), S.One)]
        if expr.is_Add:
            found = [t for a in expr.args for t in self._terms(a)]
        elif expr.is_Mul:
            found = self._product(expr)
        elif isinstance(expr, AxisSum):
            found = self._sum(expr)
        elif isinstance(expr, Entry):
            found = self._entry(expr)
        else:
            found = [Term(S.One, (), expr)]
        if len(found) > _MOST or any(len(t.bounds) > _SUMS for t in found):
            raise _TooManyError
        return found

    def _product(self, expr: Expr) -> list[Term]:
        """A product, of whose factors one at most is written out."""
        parts = {a: self._terms(a) for a in expr.args}
        known = [a for a, terms in parts.items() if len(terms) == 1 and not terms[0].bounds]
        opened = [a for a in expr.args if a not in known]
        one = next((a for a in opened if not a.is_Add), opened[0] if opened else None)
        coefficient = sympy.Mul(*(parts[a][0].coefficient for a in known))
        rest = sympy.Mul(*(parts[a][0].rest for a in known), *(a for a in opened if a != one))
        terms = [Term(S.One, (), S.One)] if one is None else parts[one]
        return [Term(coefficient * t.coefficient, t.bounds, rest * t.rest) for t in terms]

    def _sum(self, expr: AxisSum) -> list[Term]:
        self._used += 1
        bound = bound_axis_symbol(expr.axis, _FRESH + self._used)
        found = []
        for t in self._terms(expr.summand.xreplace({expr.bound: bound})):
            inside = bound in t.rest.free_symbols
            coefficient = t.coefficient if inside else AxisSum(t.coefficient, bound, expr.args[2])
            found.append(Term(coefficient, (*t.bounds, bound) if inside else t.bounds, t.rest))
        return found

    def _entry(self, entry: Entry) -> list[Term]:
        s = self.program[entry.source]
        itself = [Term(S.One, (), entry)]
        if isinstance(s, ScalarNonlin) or (isinstance(s, OuterNonlin) and not s.slots):
            found = self._terms(standing(s, entry))
        elif isinstance(s, MatMul) and entry.neuron == OWN:
            found = self._images(entry, tuple(i.xreplace(place_of(entry, s.axes)) for i in s.matrix_indices))
        elif isinstance(s, Avg) and entry.neuron == NO_NEURON:
            found = self._images(entry, ())
        else:
            return itself
        return found if len(found) > 1 or found[0].coefficient != 1 else itself

    def _images(self, entry: Entry, indices: tuple[Expr, ...]) -> list[Term]:
        terms = self._terms(standing(self.program[entry.source], entry))
        source, found = Integer(self._like[entry.source]), []
        for t in terms:
            number, operand = t.rest.as_independent(Entry, Image, as_Add=False)  # W(c x) = c W x
            found.append(Term(t.coefficient, t.bounds, number * Image(source, entry.neuron, operand, *indices)))
        return found


def _kind(s: Instruction) -> tuple[object, ...]:
    """What makes of an operand what another instruction does."""
    if isinstance(s, MatMul):
        return s.matrix, s.transposed
    return (s.over,) if isinstance(s, Avg) else ()


def _added(parts: Sequence[Expr]) -> tuple[Expr, bool]:
    """A sum, and whether it is a number that is small beside its parts; what rounding leaves of these is zero."""
    total = sympy.Add(*parts)
    if len(parts) < 2 or not total.is_Rational:
        return total, False
    largest = max(map(abs, parts))
    if any(map(is_rounded, parts)) and abs(total) <= _UNIT * sum(map(abs, parts)):
        total = S.Zero
    return total, bool(0 < abs(total) * LARGE < largest)
