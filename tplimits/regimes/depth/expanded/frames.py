"""Whether the next covariance is a function of the covariance of the state: a symmetry that a block has or lacks.

A vector of width n lives in a frame.  Normal matrices do not change their law when frames are turned; linear
combinations of vectors, and averages of their products, do not notice it when all of one frame are turned together.
Every other function of neurons fixes the frame of what it reads.  Where the frame of the state is fixed by nothing,

    X ↦ X′ and X R ↦ X′ R have one law for every rotation R,

so that the law of V′ = X′X′ᵀ/n given X is one given V alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from networkx.utils import UnionFind
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.program.language import render
from tplimits.program.nodes.entries import NO_NEURON, AxisSum, Entry, entries
from tplimits.program.nodes.kinds import Avg, InitialVector, MatMul, OuterNonlin

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from tplimits.program.nodes.program import Program


def refuse_fixed(program: Program) -> None:
    """NoLimitError where something fixes the frame of the state, so that V is not Markov."""
    frames = _Frames(program)
    reason = frames.reason(program.state)
    if reason is not None:
        position, body = reason
        kind = "averages" if isinstance(program[position], Avg) else "is a function of"
        raise NoLimitError(
            f"{program.where(position)}: not closed: `{render.body_text(program, body)}` {kind} single neurons of the "
            "state, or of vectors that are added to it, so that the next covariance is no function of V. Averages of "
            "products of two vectors are such functions, as in RMSNorm, and so is what stands between two matrices, "
            "as in U @ f(W @ x)."
        )


class _Frames:
    """The frames of all vectors of a block, and of the rows and columns of its matrices."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._same: UnionFind = UnionFind()
        self._fixed: list[tuple[Hashable, tuple[int, Expr]]] = []
        self._known: set[int] = set()
        # from the end: instructions that nothing reads fix no frame of the state
        self.of(program.returns[0])
        for position, s in enumerate(program):
            if isinstance(s, Avg):
                self._average(position, s.operand)

    def reason(self, position: Hashable) -> tuple[int, Expr] | None:
        """What fixes the frame of a vector: an instruction, and the function in it."""
        # asked when all is joined: what fixes one vector fixes all of its frame
        own = self._same[position]
        return next((why for node, why in self._fixed if self._same[node] == own), None)

    def _join(self, a: Hashable, b: Hashable) -> None:
        self._same.union(a, b)

    def of(self, position: int) -> int:
        """The frame of a vector, after all that decides it has been read."""
        # known before its operands are read: a vector met twice is not followed twice
        if position in self._known:
            return position
        self._known.add(position)
        s = self.program[position]
        if isinstance(s, MatMul):
            rows, columns = (("rows", s.matrix), ("columns", s.matrix))
            image, origin = (columns, rows) if s.transposed else (rows, columns)
            self._join(position, image)
            self._join(origin, self.of(s.operand.source))
        elif isinstance(s, OuterNonlin):
            for e in _vectors(s.body):
                self._join(position, self.of(e.source))
            # a function of neurons reads entries, and a tuple of neurons even those of several vectors
            terms = sympy.Add.make_args(sympy.expand_mul(s.body))
            if s.slots or not all(self._is_linear(t) or self._is_gated(position, t, terms) for t in terms):
                self._fixed.append((position, (position, s.body)))
        elif isinstance(s, InitialVector) and position != self.program.state and not s.turns:
            self._fixed.append((position, (position, sympy.Symbol(s.name))))
        return position

    def _is_gated(self, position: int, term: Expr, terms: Sequence[Expr]) -> bool:
        """Whether a term is f(c) W u, c a vector of the layer's own that is read here alone.

        Its entries are independent of the state, and alike.  Odd in W, they have no odd moments beside others, and
        averages of x x f² (W u)(W u′) tend to V E f² avg(u u′), whatever single entries of x are.
        """
        factors = [f for f in sympy.Mul.make_args(term) if _vectors(f)]
        images = [f for f in factors if isinstance(f, Entry) and isinstance(self.program[f.source], MatMul)]
        gates = {e.source for f in factors if f not in images for e in _vectors(f)}
        if len(images) != 1 or not gates:
            return False
        for p in gates:
            s, elsewhere = self.program[p], (e.source for t in terms if t != term for e in _vectors(t))
            drawn = isinstance(s, InitialVector) and s.turns and p != self.program.state
            if not drawn or p in elsewhere or set(self.program.graph.successors(p)) != {position}:
                return False
        return True

    def _average(self, position: int, operand: Expr) -> None:
        """An average: of products of two vectors, or of what fixes their frames."""
        # one part that is no product of two vectors reads single entries: the average fixes all its frames
        if all(two is not None for two in self._products(operand)):
            for two in self._products(operand):
                assert two is not None
                sources = [e.source for factor in two for e in _vectors(factor)]
                for source in sources:
                    # an inner product stays as it is only if both vectors are turned together
                    self._join(self.of(source), sources[0])
            return
        for e in _vectors(operand):
            self._fixed.append((self.of(e.source), (position, operand)))

    def _products(self, expr: Expr) -> Iterator[tuple[Expr, ...] | None]:
        """An expression as a sum of products of two vectors; None for a part that is no such product."""
        inside = self._body(expr)
        if inside is not None:
            yield from self._products(inside)
        # a scalar reads no neuron
        elif not _vectors(expr):
            yield ()
        elif isinstance(expr, sympy.Add):
            for a in expr.args:
                yield from self._products(a)
        elif isinstance(expr, AxisSum):
            yield from self._products(expr.summand)
        elif isinstance(expr, sympy.Pow) and expr.exp == 2:
            yield (expr.base, expr.base) if self._is_linear(expr.base) else None
        elif isinstance(expr, sympy.Mul):
            factors = [f for f in expr.args if _vectors(f)]
            if len(factors) == 1:
                yield from self._products(factors[0])
            else:
                yield tuple(factors) if len(factors) == 2 and all(map(self._is_linear, factors)) else None
        else:
            yield None

    def _body(self, expr: Expr) -> Expr | None:
        """The body of an entry of a function of vectors."""
        s = self.program[expr.source] if isinstance(expr, Entry) else None
        return s.body if isinstance(s, OuterNonlin) and not s.slots else None

    def _is_linear(self, expr: Expr) -> bool:
        """Whether every term is a scalar times a vector."""
        inside = self._body(expr)
        if inside is not None:
            return self._is_linear(inside)
        if isinstance(expr, Entry):
            return expr.neuron != NO_NEURON
        if isinstance(expr, sympy.Add):
            return all(map(self._is_linear, expr.args))
        if isinstance(expr, AxisSum):
            return self._is_linear(expr.summand)
        if isinstance(expr, sympy.Mul):
            factors = [f for f in expr.args if _vectors(f)]
            return len(factors) == 1 and self._is_linear(factors[0])
        return bool(expr == 0)


def _vectors(expr: Expr) -> list[Entry]:
    return [e for e in entries(expr) if e.neuron != NO_NEURON]
