"""Constant arrays behind one another as the one array that they come to, where what cancels in it would be lost.

B(A h) with B = A⁻¹ of a condition of 10⁹ is h.  In the second moments of B(A h), written out, terms of 10³⁶ leave 1,
which no double holds; in the product B A terms of 10⁹ do, whose sum is known as well as the entries are.  What is
linear in vectors or averages is therefore gathered, through images and averages, and a coefficient that is nothing but
constant arrays is computed in many digits where terms of its sums cancel.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, Integer, Rational, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import OWN, ArrayEntry, AxisSum, Entry, axis_symbol, free_indices
from tplimits.program.nodes.kinds import (
    Avg,
    Instruction,
    MatMul,
    Nonlin,
    OuterNonlin,
    moved,
)
from tplimits.program.nodes.stated import IndexTable
from tplimits.regimes.depth.algebra.products import axis_of
from tplimits.regimes.depth.derivation.linear import LARGE, Image, Linear, Term

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: a coefficient that rounding of the entries moves by less than this part of those beside it stays as it is written
_SAFE = 1e-12
#: by more than this part, it is computed in many digits; doubles hold the others well enough, and not their squares
_ROUGH = 1e-10
#: and by more than this part is not known, where it is not small itself: of terms of order 1 less may be meant
_KNOWN, _SMALL = 1e-4, 1e-9


def with_arrays_multiplied(program: Program) -> Program:
    """A block with products of constant arrays in which much cancels as arrays of their own, and sums of numbers done.

    NoLimitError where the rounding of the entries decides what is left.
    """
    bodies = [s.body for s in program if isinstance(s, Nonlin)]
    large = any(abs(x) > LARGE for body in bodies for x in body.atoms(Rational))
    return _Multiplied(program).done() if program.arrays or large else program


class _Multiplied:
    def __init__(self, program: Program) -> None:
        self.program, self.linear = program, Linear(program)
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
        return reduce(lambda inner, i: AxisSum(inner, i, Symbol(axis_of(i))), bounds, expr)

    def _as_array(self, t: Term) -> Term | None:
        """A term with its coefficient as an array, where there is anything to gain by it."""
        sums = t.coefficient.atoms(AxisSum)
        if not (sums or t.coefficient.is_Add) or not self.data.is_data(t.coefficient):
            return None
        # sums over as many tokens as there may be, or sizes of them, hold no arrays
        if any(self.program.size(s.axis) is None for s in sums):
            return None
        axes, values, off = self.data.in_doubles(t.coefficient)
        summed = tuple(k for k, a in enumerate(axes) if a in t.bounds)
        sizes = numpy.where(abs(values) > off, abs(values), 0.0).max(axis=summed, keepdims=True)
        if not ((off > _SAFE * sizes) & ((sizes > 0) | (off > _SMALL))).any():
            return None
        moved_by = off
        if (off > _ROUGH * sizes).any():
            values, moved_by = self.data.in_digits(t.coefficient, axes, values, off)
            sizes = abs(values).max(axis=summed, keepdims=True)
            if not ((off > _SAFE * sizes) & (sizes > 0)).any():
                return None
        # what an inverse in doubles leaves beside its diagonal is no more than rounding may leave
        values[(abs(values) <= off) & (abs(values) <= _ROUGH * sizes)] = 0.0
        if (unknown := (moved_by > numpy.maximum(_KNOWN * sizes, _SMALL)) & (sizes > 0)).any():
            place = tuple(numpy.argwhere(unknown)[0])
            largest = float(numpy.broadcast_to(sizes, values.shape)[place])
            raise NoLimitError(
                f"{self.program.where(self.here)}: constant arrays are multiplied in which almost everything cancels: "
                f"{largest:.3g} is left, and rounding of their entries in the last digit changes that by "
                f"{moved_by[place] / 8:.1g}. Write what they come to as one array, as the identity where one is the "
                "inverse of another."
            )
        values.setflags(write=False)
        self.arrays.append(IndexTable(values, tuple(map(axis_of, axes))))
        return t._replace(coefficient=ArrayEntry(Integer(len(self.arrays) - 1), *axes))

    def _placed(self, rest: Expr) -> Expr:
        """What multiplies a coefficient, with images of other operands as instructions."""
        images = sorted(rest.atoms(Image), key=sympy.default_sort_key)
        inside = {i for image in images for i in image.operand.atoms(Image)}
        return rest.xreplace({image: self._instruction(image) for image in images if image not in inside})

    def _instruction(self, image: Image) -> Entry:
        free = sorted(free_indices(image), key=lambda i: i.name)
        # axes of one instruction have different names
        axes = [f"{axis_of(i)}·{k}" for k, i in enumerate(free)]
        change = dict(zip(free, map(axis_symbol, axes), strict=True))
        own = image.xreplace(change)
        if own not in self.images:
            self.size_of.update(zip(axes, map(axis_of, free), strict=True))
            self.images[own] = self._added(own, tuple(axes))
        return Entry(Integer(self.images[own]), image.neuron, *free)

    def _added(self, image: Image, axes: tuple[str, ...]) -> int:
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
