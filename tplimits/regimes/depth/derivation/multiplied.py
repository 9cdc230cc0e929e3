"""Constant arrays behind one another as the one array that they come to, where what cancels in it would be lost.

B(A h) with B = A⁻¹ of a condition of 10⁹ is h.  In the second moments of B(A h), written out, terms of 10³⁶ leave 1,
which no double holds; in the product B A terms of 10⁹ do, whose sum is known as well as the entries are.  What is
linear in vectors or averages is therefore gathered, through images and averages, and a coefficient that is nothing but
constant arrays is computed in many digits where terms of its sums cancel.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy
import sympy
from sympy import Expr, Integer, Rational, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    Entry,
    Leaf,
    argument,
    arguments,
    axis_symbol,
    bound_axis_symbol,
    canonical_bound_axes,
    free_indices,
    whole,
)
from tplimits.program.nodes.kinds import (
    Avg,
    Instruction,
    MatMul,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
    moved,
    place_of,
    standing,
)
from tplimits.program.nodes.rounding import is_rounded
from tplimits.program.nodes.stated import IndexTable
from tplimits.regimes.depth.algebra.data import Data

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: a coefficient that rounding of the entries moves by less than this part of those beside it stays as it is written
_SAFE = 1e-12
#: and by more than this part is not known, where it is not small itself: of terms of order 1 less may be meant
_KNOWN, _SMALL = 1e-4, 1e-9
#: what decimal numbers, and what Python makes of some, are off by
_UNIT = Rational(1, 1 << 51)
#: numbers above this may leave, to the fourth power in a noise, less than rounding of their terms
_LARGE = 512
#: terms of one linear form, and sums around one of them, beyond which it stays as it is written
_MOST, _SUMS = 64, 4
#: bound indices from about this number on are those of a linear form
_FRESH = 1 << 20


class _Image(Leaf):
    """What an instruction, an image or an average, makes of another operand: (position, neuron, operand, *indices)."""

    source: int = whole(0)
    neuron: Symbol = argument(1)
    operand: Expr = argument(2)
    indices: tuple[Expr, ...] = arguments(3)


class _Term(NamedTuple):
    """Σ over `bounds` of coefficient · rest; the coefficient holds arrays and numbers alone.

    `cancels`: it is a number that is small beside what it is the sum of.
    """

    coefficient: Expr
    bounds: tuple[Symbol, ...]
    rest: Expr
    cancels: bool = False


class _TooManyError(Exception):
    """A linear form that stays as it is written."""


def with_arrays_multiplied(program: Program) -> Program:
    """A block with products of constant arrays in which much cancels as arrays of their own, and sums of numbers done.

    NoLimitError where the rounding of the entries decides what is left.
    """
    bodies = [s.body for s in program if isinstance(s, Nonlin)]
    large = any(abs(x) > _LARGE for body in bodies for x in body.atoms(Rational))
    return _Multiplied(program).done() if program.arrays or large else program


class _Multiplied:
    def __init__(self, program: Program) -> None:
        self.program, self.linear = program, _Linear(program)
        self.data = self.linear.data
        self.arrays, self.size_of = list(program.arrays), dict(program.size_of)
        # numbers beyond those of the program are those of instructions that are added
        self.made = dict(enumerate(program))
        self.images: dict[Expr, int] = {}
        self.here = 0

    def done(self) -> Program:
        """The program; what is written into all that reads it is not looked at itself."""
        read, changed = set(self.program.returns), False
        for position in reversed(range(len(self.program))):
            s, added = self.program[position], len(self.made)
            if position not in read:
                continue
            self.here = position
            if isinstance(s, Nonlin) and not self.data.is_data(s.body):
                body = self._written(s.body)
                if body != s.body:
                    self.made[position], changed = replace(s, body=canonical_bound_axes(body)), True
            read.update(*(self.made[k].operands for k in (position, *range(added, len(self.made)))))
        return self._ordered() if changed else self.program

    def _ordered(self) -> Program:
        order: dict[int, int] = {}

        def put(number: int) -> None:
            if number not in order:
                for operand in self.made[number].operands:
                    put(operand)
                order[number] = len(order)

        for number in range(len(self.program)):
            put(number)
        found = self.program.rearranged((moved(self.made[k], order.__getitem__) for k in order), order.__getitem__)
        state = None if self.program.state is None else order[self.program.state]
        return found.replace(arrays=tuple(self.arrays), size_of=self.size_of, state=state)

    def _written(self, expr: Expr) -> Expr:
        """An expression with such coefficients as arrays, inside of functions too."""
        if not expr.has(Entry) or isinstance(expr, Entry):
            return expr
        terms = self.linear.gathered(expr)
        made = [self._as_array(t) for t in terms]
        if any(made) or any(t.cancels for t in terms):
            every = (a or t for a, t in zip(made, terms, strict=True))
            return sympy.Add(*(self._summed(t.coefficient * self._placed(t.rest), t.bounds) for t in every))
        args = list(map(self._written, expr.args))
        return expr if all(map(operator.eq, args, expr.args)) else expr.func(*args)

    def _summed(self, expr: Expr, bounds: Sequence[Symbol]) -> Expr:
        return reduce(lambda inner, i: AxisSum(inner, i, Symbol(_axis(i))), bounds, expr)

    def _as_array(self, t: _Term) -> _Term | None:
        """A term with its coefficient as an array, where there is anything to gain by it."""
        sums = t.coefficient.atoms(AxisSum)
        if not (sums or t.coefficient.is_Add) or not self.data.is_data(t.coefficient):
            return None
        # sums over as many tokens as there may be, or sizes of them, hold no arrays
        if any(self.program.size(s.axis) is None for s in sums):
            return None
        axes, values, off, known = self.data.bounded(t.coefficient)
        sizes = abs(values).max(axis=tuple(k for k, a in enumerate(axes) if a in t.bounds), keepdims=True)
        if not ((off > _SAFE * sizes) & (sizes > 0)).any():
            return None
        if (unknown := (known > numpy.maximum(_KNOWN * sizes, _SMALL)) & (sizes > 0)).any():
            place = tuple(numpy.argwhere(unknown)[0])
            largest = float(numpy.broadcast_to(sizes, values.shape)[place])
            raise NoLimitError(
                f"{self.program.where(self.here)}: constant arrays are multiplied in which almost everything cancels: "
                f"{largest:.3g} is left, and rounding of their entries in the last digit changes that by "
                f"{known[place] / 4:.1g}. Write what they come to as one array, as the identity where one is the "
                "inverse of another."
            )
        values.setflags(write=False)
        self.arrays.append(IndexTable(values, tuple(map(_axis, axes))))
        return t._replace(coefficient=ArrayEntry(Integer(len(self.arrays) - 1), *axes))

    def _placed(self, rest: Expr) -> Expr:
        """What multiplies a coefficient, with images of other operands as instructions."""
        images = sorted(rest.atoms(_Image), key=sympy.default_sort_key)
        return rest.xreplace({image: self._instruction(image) for image in images if image not in self.images})

    def _instruction(self, image: _Image) -> Entry:
        free = sorted(free_indices(image), key=lambda i: i.name)
        # axes of one instruction have different names
        axes = [f"{_axis(i)}·{k}" for k, i in enumerate(free)]
        change = dict(zip(free, map(axis_symbol, axes), strict=True))
        own = image.xreplace(change)
        if own not in self.images:
            self.size_of.update(zip(axes, map(_axis, free), strict=True))
            self.images[own] = self._added(own, tuple(axes))
        return Entry(Integer(self.images[own]), image.neuron, *free)

    def _added(self, image: _Image, axes: tuple[str, ...]) -> int:
        s = self.program[image.source]
        assert isinstance(s, (MatMul, Avg))
        operand = self._placed(image.operand)
        if not isinstance(operand, Entry):
            width = self.program[s.operand.source].width
            assert width is not None
            inside = OuterNonlin(s.name, axes, s.line, operand, over=width)
            operand = Entry(Integer(self._number(inside)), OWN, *map(axis_symbol, axes))
        made: Instruction = replace(s, axes=axes, operand=operand)
        if isinstance(made, MatMul):
            made = replace(made, matrix_indices=image.indices)
        return self._number(made)

    def _number(self, s: Instruction) -> int:
        number = len(self.made)
        self.made[number] = s
        return number


class _Linear:
    """Expressions as sums of coefficients times what is not linear in anything with coefficients that are arrays."""

    def __init__(self, program: Program) -> None:
        self.program, self.data = program, Data(program)
        self._used = 0
        # images under one matrix are those of one instruction, and averages over one width
        first: dict[tuple[object, ...], int] = {}
        self._like = {p: first.setdefault(key, p) for p, s in enumerate(program) if (key := _kind(s))}

    def gathered(self, expr: Expr) -> list[_Term]:
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
        return [_Term(total, bounds, rest, cancels) for total, cancels, rest, bounds in sums]

    def _canonical(self, t: _Term) -> tuple[Expr, dict[Symbol, Symbol]]:
        """The rest of a term, and its bound indices in a numbering by the rest alone."""
        ways = []
        for order in itertools.permutations(t.bounds):
            # larger than the numbers that other sums have: these are numbered again from inside
            change = {i: bound_axis_symbol(_axis(i), _FRESH - k) for k, i in enumerate(order)}
            ways.append((t.rest.xreplace(change), change))
        return min(ways, key=lambda way: str(way[0]))

    def _terms(self, expr: Expr) -> list[_Term]:
        if expr.is_Rational or self.data.is_data(expr):
            return [_Term(expr, (), S.One)]
        if expr.is_Add:
            found = [t for a in expr.args for t in self._terms(a)]
        elif expr.is_Mul:
            found = self._product(expr)
        elif isinstance(expr, AxisSum):
            found = self._sum(expr)
        elif isinstance(expr, Entry):
            found = self._entry(expr)
        else:
            found = [_Term(S.One, (), expr)]
        if len(found) > _MOST or any(len(t.bounds) > _SUMS for t in found):
            raise _TooManyError
        return found

    def _product(self, expr: Expr) -> list[_Term]:
        """A product, of whose factors one at most is written out."""
        parts = {a: self._terms(a) for a in expr.args}
        known = [a for a, terms in parts.items() if len(terms) == 1 and not terms[0].bounds]
        opened = [a for a in expr.args if a not in known]
        one = next((a for a in opened if not a.is_Add), opened[0] if opened else None)
        coefficient = sympy.Mul(*(parts[a][0].coefficient for a in known))
        rest = sympy.Mul(*(parts[a][0].rest for a in known), *(a for a in opened if a != one))
        terms = [_Term(S.One, (), S.One)] if one is None else parts[one]
        return [_Term(coefficient * t.coefficient, t.bounds, rest * t.rest) for t in terms]

    def _sum(self, expr: AxisSum) -> list[_Term]:
        self._used += 1
        bound = bound_axis_symbol(expr.axis, _FRESH + self._used)
        found = []
        for t in self._terms(expr.summand.xreplace({expr.bound: bound})):
            inside = bound in t.rest.free_symbols
            coefficient = t.coefficient if inside else AxisSum(t.coefficient, bound, expr.args[2])
            found.append(_Term(coefficient, (*t.bounds, bound) if inside else t.bounds, t.rest))
        return found

    def _entry(self, entry: Entry) -> list[_Term]:
        s = self.program[entry.source]
        itself = [_Term(S.One, (), entry)]
        if isinstance(s, ScalarNonlin) or (isinstance(s, OuterNonlin) and not s.slots):
            found = self._terms(standing(s, entry))
        elif isinstance(s, MatMul) and entry.neuron == OWN:
            found = self._images(entry, tuple(i.xreplace(place_of(entry, s.axes)) for i in s.matrix_indices))
        elif isinstance(s, Avg) and entry.neuron == NO_NEURON:
            found = self._images(entry, ())
        else:
            return itself
        return found if len(found) > 1 or found[0].coefficient != 1 else itself

    def _images(self, entry: Entry, indices: tuple[Expr, ...]) -> list[_Term]:
        terms = self._terms(standing(self.program[entry.source], entry))
        source, found = Integer(self._like[entry.source]), []
        for t in terms:
            number, operand = t.rest.as_independent(Entry, _Image, as_Add=False)  # W(c x) = c W x
            found.append(_Term(t.coefficient, t.bounds, number * _Image(source, entry.neuron, operand, *indices)))
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
    return total, bool(0 < abs(total) * _LARGE < largest)


def _axis(index: Symbol) -> str:
    """The axis that an index runs over."""
    return index.name.split("′")[0]
