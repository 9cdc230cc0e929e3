"""A body at one index of its finite axes: sums written out, tables and constant arrays read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, Integer, Rational, S, Symbol

from tplimits.errors import ProgramError
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, DataIndex, Entry, Kron, Lookup, axis_symbol
from tplimits.program.nodes.rounding import DATA_TOLERANCE
from tplimits.program.parts import found, holds, rebuilt

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from tplimits.program.nodes.program import Program


#: entries of one value, or terms of one sum, that are written out: some minutes, and a gigabyte or two
MOST_ENTRIES = 10**6


def size_of(program: Program, axis: str) -> int:
    """The size of a finite axis as a number; ProgramError when it is open."""
    size = program.size(axis)
    if size is None or not size.is_Integer:
        raise ProgramError(
            f"the width limit needs the size of the axis `{axis}` of `{program.name}`: fix it with .bind({axis}=3)."
        )
    return int(size)


def indices(program: Program, axes: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    """All index tuples of some axes, last axis fastest."""
    sizes = {a: size_of(program, a) for a in axes}
    _refuse_more(program, sizes)
    return itertools.product(*map(range, sizes.values()))


def _refuse_more(program: Program, sizes: Mapping[str, int]) -> None:
    """ProgramError where there are more entries than can be written out one by one."""
    if (count := math.prod(sizes.values())) > MOST_ENTRIES:
        given = ", ".join(f"{axis}={size}" for axis, size in sizes.items())
        raise ProgramError(
            f"a limit of `{program.name}` writes out every entry, and with {given} there are {count} of one value, "
            f"more than {MOST_ENTRIES}: take a smaller size, as with .bind({next(iter(sizes))}=3)."
        )


def label(name: str, axes: tuple[str, ...], index: tuple[int, ...]) -> str:
    """How an entry of a family is called: `A[token=0,key=1]`."""
    if not axes:
        return name
    return f"{name}[{','.join(f'{a}={i}' for a, i in zip(axes, index, strict=True))}]"


class Unroller:
    """Bodies of one program at concrete indices; `data` holds its discrete inputs, by position."""

    def __init__(self, program: Program, data: Mapping[int, NDArray[numpy.int64]] | None = None) -> None:
        self.program, self.data = program, data or {}
        self._entries: dict[tuple[Any, ...], Entry] = {}
        self._running: dict[tuple[Expr, tuple[str, ...]], tuple[Symbol, ...]] = {}
        self._written: dict[tuple[Expr, ...], Expr] = {}
        self._read: dict[Expr, frozenset[Symbol]] = {}

    def at(self, body: Expr, axes: tuple[str, ...], index: tuple[int, ...]) -> Expr:
        """The body with its axes at `index`; entries keep (source, neuron, integers)."""
        return self._resolve(body, self._given(body, axes, index))

    def index_at(self, expr: Expr, axes: tuple[str, ...], index: tuple[int, ...]) -> int:
        """An index expression with its axes at `index`."""
        return self.index(expr, self._given(expr, axes, index))

    def _given(self, body: Expr, axes: tuple[str, ...], index: tuple[int, ...]) -> dict[Expr, Expr]:
        """Where each axis stands, under the symbol that the body itself holds: an equal one is not met at a glance."""
        if not axes:
            return {}
        key = (body, axes)
        if key not in self._running:
            own = {s: s for s in found(body, Symbol)}
            self._running[key] = tuple(own.get(s, s) for s in map(axis_symbol, axes))
        return dict(zip(self._running[key], map(Integer, index), strict=True))

    def index(self, expr: Expr, given: Mapping[Expr, Expr]) -> int:
        """An index expression as a number; −1 where a table says there is no entry."""
        if isinstance(expr, Lookup):
            place = tuple(self.index(i, given) for i in expr.indices)
            return int(self.program.tables[expr.table].values[place])
        if isinstance(expr, DataIndex):
            return int(self.data[expr.source][tuple(self.index(i, given) for i in expr.indices)])
        return int(given.get(expr, expr))

    def _resolve(self, expr: Expr, given: Mapping[Expr, Expr]) -> Expr:
        if isinstance(expr, Entry):
            if not expr.indices:
                return expr
            return self._entry(expr, tuple(self.index(i, given) for i in expr.indices))
        if isinstance(expr, ArrayEntry):
            place = [self.index(i, given) for i in expr.indices]
            # exact value of the double: sums of such numbers that vanish are 0, and are seen to be
            return S.Zero if -1 in place else Rational(float(self.program.arrays[expr.array].values[tuple(place)]))
        if isinstance(expr, Kron):
            return Kron(*(Integer(self.index(i, given)) for i in expr.indices))
        if not expr.args or not holds(expr, Entry, ArrayEntry, AxisSum, Kron):
            return expr
        return self._shared(expr, given) if holds(expr, AxisSum) else self._rebuilt(expr, given)

    def _entry(self, expr: Entry, place: tuple[int, ...]) -> Expr:
        """One object for one entry: the same one is found at a glance in all tables of parts, an equal one is not."""
        if -1 in place:
            return S.Zero
        key = (expr.source, expr.neuron, place)
        if key not in self._entries:
            self._entries[key] = Entry(expr.args[0], expr.neuron, *map(Integer, place))
        return self._entries[key]

    def _rebuilt(self, expr: Expr, given: Mapping[Expr, Expr]) -> Expr:
        """The parts resolved; the same expression where none of them changes."""
        args = [self._resolve(a, given) for a in expr.args]
        return expr if all(a is b for a, b in zip(args, expr.args, strict=True)) else rebuilt(expr, args)

    def _shared(self, expr: Expr, given: Mapping[Expr, Expr]) -> Expr:
        """What holds a sum, once for all bodies that share it: the denominator of a softmax stands in every weight."""
        if expr not in self._read:
            self._read[expr] = frozenset(expr.atoms(Symbol))
        # only of axes that it reads: the same denominator stands at every index of the others
        key = (expr, *(x for axis, i in given.items() if axis in self._read[expr] for x in (axis, i)))
        if key not in self._written:
            self._written[key] = self._write(expr, given)
        return self._written[key]

    def _write(self, expr: Expr, given: Mapping[Expr, Expr]) -> Expr:
        if not isinstance(expr, AxisSum):
            return self._rebuilt(expr, given)
        size = size_of(self.program, expr.axis)
        _refuse_more(self.program, {expr.axis: size})
        terms = [self._resolve(expr.summand, {**given, expr.bound: Integer(i)}) for i in range(size)]
        total = sympy.Add(*terms)
        # 0.1 a + 0.2 a − 0.3 a is no 3e-17 a: whoever asks for zeros has to see what of it is rounding
        lost = holds(expr.summand, ArrayEntry) and total != 0 and _is_rounding(total, terms)
        return sympy.Add(*terms, evaluate=False) if lost else total


def _is_rounding(total: Expr, terms: list[Expr]) -> bool:
    """Whether of the numbers before some product no more is left than their rounding."""
    largest: dict[Expr, Expr] = {}
    for c, product in (t.as_coeff_Mul() for term in terms for t in sympy.Add.make_args(term)):
        largest[product] = max(largest.get(product, S.Zero), abs(c))
    left = (t.as_coeff_Mul() for t in sympy.Add.make_args(total))
    return any(abs(c) <= DATA_TOLERANCE * largest.get(product, S.Zero) for c, product in left)
