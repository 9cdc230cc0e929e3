"""Bodies as statements: sums one loop each, costly functions once, what data put at an index added there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.errors import ProgramError
from tplimits.program.loops.form import CONSTANT, VALUE, Array, Loop, Read, Statement, is_costly
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    AxisSum,
    DataIndex,
    Entry,
    GaussMean,
    Kron,
    Lookup,
    axis_symbol,
    free_axes,
    size_symbol,
    width_symbol,
)
from tplimits.program.nodes.kinds import InitialMatrix, Instruction
from tplimits.program.nodes.log_sums import in_doubles

if TYPE_CHECKING:
    from tplimits.program.loops.splitting import Split
    from tplimits.program.nodes.program import Program
    from tplimits.program.nodes.stated import IndexTable

#: heads of the package that machines of loops have code for; all others are computed by their definitions
_WITH_CODE = (
    *(functions.step, functions.relu, functions.leaky_relu, functions.maximum, functions.minimum, functions.where),
    *(functions.sigmoid, functions.softplus, functions.stop_gradient),
)


class Statements:
    """The arrays of a program under construction, what entries are in them, and the statements that fill them."""

    def __init__(self, program: Program, sample: str, parts: Split) -> None:
        self.program, self.sample, self.parts = program, sample, parts
        self.arrays: dict[str, Array] = {}
        self.statements: list[Statement] = []
        self.place: dict[int, str] = {}
        self.extent_of: dict[Symbol, str] = {}
        self.signal = -1
        self._computed: dict[tuple[Expr, tuple[str, ...]], str] = {}
        open_constants = [name for name, value in program.constants.items() if value is None]
        if open_constants:
            name = open_constants[0]
            raise ProgramError(f"the constant `{name}` of `{program.name}` has no value: fix it with .bind({name}=…).")

    def declare(self, prefix: str, extents: Iterable[str], role: str, title: str = "", **more: object) -> str:
        """A new array."""
        name = f"{prefix}{len(self.arrays)}"
        self.arrays[name] = Array(name, tuple(extents), role, title, **more)  # type: ignore[arg-type]
        return name

    def _ordered(self, s: Instruction) -> tuple[str, ...]:
        """Axes in the order of storage: that of inputs comes last."""
        return (*(a for a in s.axes if a != self.sample), *(a for a in s.axes if a == self.sample))

    def _neurons(self, s: Instruction) -> tuple[str, ...]:
        if isinstance(s, InitialMatrix):
            return s.rows, s.columns
        return () if s.width is None else (s.width,)

    def _extents(self, s: Instruction) -> tuple[str, ...]:
        return (*(self.program.root_axis(a) for a in self._ordered(s)), *self._neurons(s))

    def _symbols(self, s: Instruction) -> tuple[Symbol, ...]:
        own = (axis_symbol(a) for a in self._ordered(s))
        return (*own, OWN) if s.width is not None else tuple(own)

    def index(self, index: Expr) -> Expr:
        """An index expression on arrays."""
        if isinstance(index, Lookup):
            table = self.program.tables[index.table]
            gaps = bool((table.values < 0).any())
            name = self._constant("t", index.table, table, whole=True, gaps=gaps)
            return Read(Symbol(name), *map(self.index, index.indices))
        if isinstance(index, DataIndex):
            s = self.program[index.source]
            found = dict(zip(s.axes, index.indices, strict=True))
            return Read(Symbol(self.place[index.source]), *(found[a] for a in self._ordered(s)))
        return index

    def _constant(self, prefix: str, number: int, table: IndexTable, **more: object) -> str:
        name = f"{prefix}_{number}"
        if name not in self.arrays:
            extents = tuple(self.program.root_axis(a) for a in table.axes)
            self.arrays[name] = Array(name, extents, CONSTANT, "", table, **more)  # type: ignore[arg-type]
        return name

    def entry(self, entry: Entry) -> Read:
        """An entry of an instruction as one of its array."""
        s = self.program[entry.source]
        found = {a: self.index(i) for a, i in zip(s.axes, entry.indices, strict=True)}
        indices = [found[a] for a in self._ordered(s)]
        if entry.neuron != NO_NEURON:
            indices.append(entry.neuron)
        return Read(Symbol(self.place[entry.source]), *indices)

    def state(
        self,
        target: str,
        indices: tuple[Expr, ...],
        body: Expr,
        summed: tuple[Symbol, ...] = (),
        scale: Expr = sympy.S.One,
        **kind: bool,
    ) -> None:
        """Add a statement; its running indices get the names i0, i1, … in order."""
        if summed and not kind.get("largest"):
            # constant factors once behind the sum, not once a term
            factor, body = body.as_independent(Read, Kron, as_Add=False)
            scale = scale * factor
        loops = tuple(i for i in indices if isinstance(i, Symbol))
        for index in indices:
            loops += tuple(s for s in sorted(index.free_symbols, key=str) if s not in loops)
        swap = {old: Symbol(f"i{k}", integer=True) for k, old in enumerate((*loops, *summed))}
        self.statements.append(
            Statement(
                target,
                tuple(i.xreplace(swap) for i in indices),
                tuple(Loop(swap[i], self.extent_of[i]) for i in loops),
                body.xreplace(swap),
                tuple(Loop(swap[i], self.extent_of[i]) for i in summed),
                scale.xreplace(swap),
                **kind,
            )
        )

    def fill(
        self,
        target: str,
        indices: tuple[Expr, ...],
        body: Expr,
        summed: tuple[Symbol, ...] = (),
        scale: Expr = sympy.S.One,
        add: bool = False,
    ) -> None:
        """Fill an array by a body: a sum in one loop, a sum of sums one after the other."""
        terms = [body] if summed else list(sympy.Add.make_args(body))
        sums = [t for t in terms if t.has(AxisSum) and self._as_sum(t)]
        plain = sympy.Add(*(t for t in terms if t not in sums))
        if plain != 0 or not sums:
            whole = self.whole(plain)
            self.state(target, indices, whole, summed, scale, add=add)
            if not (summed or add or sums) and scale == 1:
                self._remember(whole, indices, target)
            add = True
        for term in sums:
            parts = self._as_sum(term)
            assert parts is not None
            factor, summand, bound = parts
            self.total(target, indices, summand, bound, scale * self.expression(factor), add)
            add = True

    def total(
        self,
        target: str,
        indices: tuple[Expr, ...],
        summand: Expr,
        bound: tuple[Symbol, ...],
        scale: Expr = sympy.S.One,
        add: bool = False,
    ) -> None:
        """Fill an array by a sum; what data put at an index is added there."""
        # δ[x, v] in one term puts it at an index of its own: terms with others are sums of their own
        terms = sympy.Add.make_args(sympy.expand_mul(summand) if summand.has(Kron) else summand)
        if not any(t.has(Kron) for t in terms):
            self.state(target, indices, self.whole(summand), bound, scale, add=add)
            return
        if not add:
            self.state(target, indices, sympy.S.Zero)
        for term in terms:
            places, rest = self._put(indices, term)
            running = set().union(*(p.free_symbols for p in places))
            self.state(target, places, self.whole(rest), tuple(i for i in bound if i not in running), scale, add=True)

    def _put(self, indices: tuple[Expr, ...], term: Expr) -> tuple[tuple[Expr, ...], Expr]:
        """Where a term with comparisons δ[x, v] goes if v is an index of the target, and what of it is left."""
        places, factors = list(indices), list(sympy.Mul.make_args(term))
        for kron in [f for f in factors if isinstance(f, Kron)]:
            for index, onto in (kron.args, kron.args[::-1]):
                rest = [f for f in factors if f is not kron]
                free = isinstance(onto, Symbol) and onto in places
                if free and isinstance(index, DataIndex) and onto not in free_axes(sympy.Mul(*rest)):
                    places[places.index(onto)] = self.index(index)
                    factors = rest
                    break
        return tuple(places), sympy.Mul(*factors)

    def _as_sum(self, term: Expr) -> tuple[Expr, Expr, tuple[Symbol, ...]] | None:
        """(factor, summand, indices) of a factor without running indices times a sum, or sum of sums."""
        rest: list[Expr] = []
        factors: list[AxisSum] = []
        for f in sympy.Mul.make_args(term):
            (factors if isinstance(f, AxisSum) else rest).append(f)
        outside = sympy.Mul(*rest)
        if len(factors) != 1 or outside.has(Entry, ArrayEntry):
            return None
        bound: list[Symbol] = []
        total = factors[0]
        while isinstance(total, AxisSum):
            self.extent_of[total.bound] = self.program.root_axis(total.axis)
            bound.append(total.bound)
            total = total.summand
        return outside, total, tuple(bound)

    def whole(self, body: Expr) -> Expr:
        """A body on arrays, its own head left to the statement that it fills."""
        body = _plain(body)
        if is_costly(body):
            return self._known(body) or self._rebuilt(body)
        return self.expression(body)

    def expression(self, expr: Expr) -> Expr:
        """An expression on arrays, sums and costly functions read from arrays of their own."""
        if isinstance(expr, Entry):
            return self.entry(expr)
        if isinstance(expr, ArrayEntry):
            name = self._constant("c", expr.array, self.program.arrays[expr.array])
            return Read(Symbol(name), *map(self.index, expr.indices))
        if isinstance(expr, GaussMean):
            raise ProgramError(
                f"`{self.program.name}` holds the mean {expr} over a normal variable, which no loop computes; name its "
                "value as a constant."
            )
        if isinstance(expr, AxisSum):
            return self._summed(expr)
        if isinstance(expr, Kron):
            return Kron(*map(self.index, expr.indices))
        if not expr.args:
            return self._number(expr)
        expr = _plain(expr)
        if not is_costly(expr):
            return expr.func(*map(self.expression, expr.args))
        return self._known(expr) or self._computing(expr, self._rebuilt(expr))

    def _rebuilt(self, expr: Expr) -> Expr:
        return expr.func(*map(self.expression, expr.args))

    def _number(self, expr: Expr) -> Expr:
        for axis in self.program.all_axes:
            if expr == size_symbol(axis):
                size = self.program.size(axis)
                return size if size is not None else width_symbol(self.program.root_axis(axis))
        return expr

    def _known(self, expr: Expr) -> Expr | None:
        if not expr.has(Entry, ArrayEntry, Kron):
            return self._rebuilt(expr)
        found = self._rebuilt(expr)
        free, key = self._key(found)
        name = self._computed.get(key)
        return None if name is None else Read(Symbol(name), *free)

    def _computing(self, expr: Expr, found: Expr) -> Expr:
        """A statement of its own for a costly function."""
        free, key = self._key(found)
        name = self._computed[key] = self.declare("a", key[1], VALUE)
        self.state(name, free, found)
        return Read(Symbol(name), *free)

    def _key(self, found: Expr) -> tuple[tuple[Symbol, ...], tuple[Expr, tuple[str, ...]]]:
        """The running indices of an expression on arrays in the order of storage, and what tells it from others."""
        symbols = set().union(*(r.free_symbols for r in found.atoms(Read)))
        free = tuple(sorted(symbols & self.extent_of.keys(), key=self._rank))
        swap = {s: Symbol(f"i{k}", integer=True) for k, s in enumerate(free)}
        return free, (found.xreplace(swap), tuple(self.extent_of[s] for s in free))

    def _rank(self, symbol: Symbol) -> tuple[int, str]:
        extent = self.extent_of[symbol]
        return (2 if extent in self.program.widths else int(extent == self.sample)), str(symbol)

    def _remember(self, whole: Expr, indices: tuple[Expr, ...], target: str) -> None:
        """A named value that is a costly function is that function wherever it stands."""
        free, key = self._key(whole)
        if is_costly(whole) and free == indices:
            self._computed.setdefault(key, target)

    def _summed(self, total: AxisSum) -> Expr:
        """A sum inside an expression, in an array of its own."""
        parts = self._as_sum(total)
        assert parts is not None
        _, summand, bound = parts
        free = tuple(sorted(free_axes(total), key=self._rank))
        neurons = sorted({e.neuron for e in total.atoms(Entry)} - {NO_NEURON}, key=str)
        free += tuple(s for s in neurons if s in self.extent_of)
        name = self.declare("a", (self.extent_of[s] for s in free), VALUE)
        self.total(name, free, summand, bound)
        return Read(Symbol(name), *free)


def _plain(expr: Expr) -> Expr:
    """An expression with powers and functions in the form in which they are computed.

    >>> x = Symbol("x", real=True)
    >>> _plain(functions.gelu(x)), _plain(functions.relu(x)), _plain(x**-2)
    (x*(erf(sqrt(2)*x/2) + 1)/2, relu(x), (1/x)**2)
    """
    expr = in_doubles(expr)
    if isinstance(expr, functions.Real) and not isinstance(expr, _WITH_CODE):
        return expr.definition()
    if expr.is_Pow and expr.exp.is_Integer and expr.exp < -1:
        return sympy.Pow(1 / expr.base, -expr.exp, evaluate=False)
    if expr.is_Pow and expr.exp.is_Rational and expr.exp.q == 2 and abs(expr.exp.p) != 1:
        return sympy.Pow(expr.base ** (sympy.sign(expr.exp) / 2), abs(expr.exp.p), evaluate=False)
    return expr
