"""Facts about the instructions of a block that lowering asks for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.nodes.entries import (
    NO_NEURON,
    ArrayEntry,
    AxisSum,
    Entry,
    axis_symbol,
    reads_vectors,
    size_symbol,
    width_symbol,
)
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector, MatMul, Nonlin, OuterNonlin
from tplimits.regimes.depth.algebra.activations import U
from tplimits.regimes.depth.algebra.products import Dimension
from tplimits.regimes.depth.derivation.not_covered import NoFormulasError

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


class Reading:
    """One block, read: maps written out in their users, functions of one dense layer found, matrices in order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._inlined: dict[int, Expr | None] = {}

    def inlined(self, expr: Expr) -> Expr:
        """An expression with entries of maps written out, where they hold no sums."""
        swap = {}
        for entry in expr.atoms(Entry):
            body = self._body(entry.source)
            if body is not None:
                change = dict(zip(map(axis_symbol, self.program[entry.source].axes), entry.indices, strict=True))
                swap[entry] = body.xreplace({a: b for a, b in change.items() if a != b})
        return expr.xreplace(swap) if swap else expr

    def _body(self, position: int) -> Expr | None:
        if position not in self._inlined:
            s = self.program[position]
            body = None
            if isinstance(s, Nonlin) and not (isinstance(s, OuterNonlin) and s.slots):
                body = self.inlined(s.body)
                # a sum written out in each of its users would be lowered as often, with indices that never cancel
                body = None if body.has(AxisSum) else body
            self._inlined[position] = body
        return self._inlined[position]

    def is_scalar(self, expr: Expr) -> bool:
        """Whether an expression reads scalars, and no vectors."""
        return expr.has(Entry) and not reads_vectors(expr)

    def renamed_source(self, entry: Entry) -> Entry:
        """The instruction behind an entry that only renames the axes of another."""
        found = self.inlined(entry)
        return found if isinstance(found, Entry) else entry

    def operand(self, position: int) -> tuple[Expr, Entry]:
        """What a product multiplies: a number times an entry of the state or of another vector.

        The number is such that the product of the rest has the rest's own covariance.
        """
        s = self.program[position]
        assert isinstance(s, MatMul)
        matrix = self.program[s.matrix]
        assert isinstance(matrix, InitialMatrix)
        scale = sympy.S.One
        if s.transposed:  # the variance is 1/columns of W, the sum goes over its rows
            scale = sympy.sqrt(width_symbol(matrix.rows) / width_symbol(matrix.columns))
        # W(c x) = c W x: the state itself as operand has V as its Gram
        number, rest = self.inlined(s.operand).as_independent(Entry, as_Add=False)
        if isinstance(rest, Entry) and rest.source == self.program.state and not number.has(ArrayEntry):
            return scale * number, rest
        return scale, self.renamed_source(s.operand)

    def function_of_layer(self, expr: Expr) -> tuple[Entry, Expr] | None:
        """(h, f) where the expression is f(h) for one entry h of one dense layer, f a function of `U`."""
        if expr.has(AxisSum, ArrayEntry):
            return None
        written = self.inlined(expr)
        entries = written.atoms(Entry)
        if len(entries) != 1 or written.has(AxisSum, ArrayEntry):
            return None
        (entry,) = entries
        if not isinstance(self.program[entry.source], MatMul) or entry.neuron == NO_NEURON:
            return None
        return entry, written.xreplace({entry: self.operand(entry.source)[0] * U})

    def apart(self, expr: Expr) -> Sequence[Expr]:
        """The terms of an expression of vectors; what divides by one dense layer beside the same factors is one term.

        coth h − 1/h has moments and neither of both does, whatever they multiply or stand beside.
        """
        terms = expr.args if expr.is_Add else (expr,)
        at = self._divided(expr) if not expr.is_Mul or expr.has(sympy.Add) else ()
        if not at:
            return terms
        terms = sympy.Add.make_args(sympy.expand_mul(self.inlined(expr)))
        for entry in at:
            beside: dict[tuple[bool, Expr], list[Expr]] = {}
            for term in terms:
                own = [
                    f for f in sympy.Mul.make_args(term) if f.atoms(Entry) <= {entry} and not f.has(ArrayEntry, AxisSum)
                ]
                rest = sympy.Mul(*(f for f in sympy.Mul.make_args(term) if f not in own))
                divides = entry in self._divided(sympy.Mul(*own))
                beside.setdefault((divides, rest if divides else term), []).append(sympy.Mul(*own))
            terms = [f * sympy.Add(*own) if divides else f for (divides, f), own in beside.items()]
        return terms

    def _divided(self, expr: Expr) -> list[Entry]:
        """The entries of dense layers of which a function is divided by that may be zero."""
        powers = (p for p in self.inlined(expr).atoms(sympy.Pow) if p.exp.is_Integer and p.exp.is_negative)
        found = [f for p in powers if (f := self.function_of_layer(p.base)) is not None]
        at = {entry for entry, base in found if bounds(base)[0] <= 0 <= bounds(base)[1]}
        return sorted(at, key=sympy.default_sort_key)

    @cached_property
    def matrices_of(self) -> list[frozenset[int]]:
        """For each instruction, the matrices and vectors of the layer's own that its value depends on."""
        found: list[frozenset[int]] = []
        for position, s in enumerate(self.program):
            inside = frozenset().union(*(found[p] for p in s.operands)) if s.operands else frozenset()
            own = {s.matrix} if isinstance(s, MatMul) else {position} if self.is_fresh(position) else set()
            found.append(inside | own)
        return found

    def is_fresh(self, position: int) -> bool:
        """Whether an instruction is a Gaussian vector beside the state, drawn in every layer as matrices are."""
        s = self.program[position]
        return isinstance(s, InitialVector) and s.turns and position != self.program.state

    def depths(self) -> dict[int, int]:
        """How many matrices stand inside one another in the operands of each matrix.

        NoLimitError where a matrix multiplies a vector that it made itself.
        """
        matrices = [p for p, s in enumerate(self.program) if isinstance(s, InitialMatrix) or self.is_fresh(p)]
        inside: dict[int, set[int]] = {m: set() for m in matrices}
        transposed: dict[int, set[bool]] = {m: set() for m in matrices}
        for position, s in enumerate(self.program):
            if isinstance(s, MatMul):
                inside[s.matrix] |= self.matrices_of[s.operand.source]
                transposed[s.matrix].add(s.transposed)
                # matrices are averaged one after the other, each Gaussian given what is inside its operands
                if s.matrix in inside[s.matrix] or len(transposed[s.matrix]) > 1:
                    how = "and its transpose" if len(transposed[s.matrix]) > 1 else "twice in a row"
                    raise NoFormulasError(
                        f"{self.program.where(position)}: `{self.program[s.matrix].name}` is used {how} in one block; "
                        "tied weights of this kind are not covered: use a matrix of its own for each product."
                    )
        depth: dict[int, int] = {}
        held: list[int] = []

        def measure(matrix: int) -> int:
            if matrix in held:
                names = " and ".join(f"`{self.program[m].name}`" for m in held[held.index(matrix) :])
                raise NoFormulasError(
                    f"`{self.program.name}`: {names} stand inside of one another's operands, so that none is "
                    "outermost; tied weights of this kind are not covered: use a matrix of its own for each product."
                )
            if matrix not in depth:
                held.append(matrix)
                depth[matrix] = 1 + max((measure(m) for m in inside[matrix]), default=0)
                held.pop()
            return depth[matrix]

        for m in matrices:
            measure(m)
        return depth


def dimensions(program: Program, fixed: tuple[str, ...]) -> tuple[Dimension, ...]:
    """Widths, n first, then finite axes; sizes that are not known are symbols."""
    widths = ("n", *program.other_widths)
    found = [Dimension(w, width_symbol(w), True, w not in fixed) for w in widths]
    state = program[program.state or 0]
    tokens = {program.root_axis(a) for a in state.axes}
    for axis in dict.fromkeys(program.root_axis(a) for a in program.all_axes):
        size = program.size(axis)
        symbol = Symbol("m", integer=True, positive=True) if axis in tokens else size_symbol(axis)
        found.append(Dimension(axis, symbol if size is None else size, False, False))
    return tuple(found)
