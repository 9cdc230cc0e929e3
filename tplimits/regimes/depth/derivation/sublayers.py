"""Sublayers of one layer that share matrices: to order 1/n each of them sees the state.

Let y = x + b/√n be what branches before have added up to, and B(y)/√n the next.  If no matrix is read along rows and
columns both, the vectors of a layer are images M u, Gaussian whatever u is made of, also of M itself: W b stands beside
W x as a copy of its own, of covariance avg(b x) → 0 with it.  Where functions are continuous and of polynomial growth,

    V′ − V = (2/√n) avg(x ΣB(x)) + (1/n) [avg(ΣB(x) ΣB(x)) + 2 avg(x Σ DB(x) b)] + o(1/n)

in the mean, DB(x) b is made of images again, and avg(x M u) → 0.  Logits √n avg((Q y) (K y)) of two matrices move by
avg((Q b) (K x)) + avg((Q x) (K b)) → 0.  So all B may read x, whatever they share.

Where this needs more than it says it is not used: a kernel of W beside Wᵀ is avg(x Wᵀ W x) → V; √n (W y − W x) is W b,
of order 1; a step or a pole may see a change of n^(−1/2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, Integer, Rational, S, sqrt

from tplimits.program.nodes.entries import (
    OWN,
    ArrayEntry,
    AxisSum,
    Entry,
    N,
    axis_symbol,
    entries,
    reads_vectors,
    width_symbol,
)
from tplimits.program.nodes.functions import maximum, minimum
from tplimits.program.nodes.kinds import Avg, Initial, InitialMatrix, InitialVector, MatMul, Nonlin, OuterNonlin, moved
from tplimits.program.nodes.laws import NORMAL
from tplimits.program.nodes.properties import BOUNDED, LINEAR, PROPERTIES
from tplimits.regimes.depth.algebra.products import axis_of
from tplimits.regimes.depth.derivation.reading import Reading

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import Instruction
    from tplimits.program.nodes.program import Program

#: continuous, with slopes that a power bounds
_TAME: tuple[Any, ...] = (
    *(h for h in (*BOUNDED, *LINEAR) if PROPERTIES[h].degree != 0 and issubclass(h, sympy.Function)),
    maximum,
    minimum,
)


def with_sublayers_at_the_state(program: Program, fixed: tuple[str, ...] = ()) -> Program:
    """A block in which products with x + b/√n are products with x, if some matrix would stand in its own operand.

    The program itself, where it is not known to have the same limit.
    """
    of = Reading(program).matrices_of
    nested = any(isinstance(s, MatMul) and s.matrix in of[s.operand.source] for s in program)
    return _Sublayers(program).done() if nested and not fixed else program


class _Sublayers:
    def __init__(self, program: Program) -> None:
        self.program, self.reading = program, Reading(program)
        self.widths = {N, *map(width_symbol, program.widths)}
        self.streams = {program.state}
        for position, s in enumerate(program):
            if isinstance(s, OuterNonlin) and self._is_stream(s):
                self.streams.add(position)

    def done(self) -> Program:
        if not (set(self.program.returns) <= self.streams and all(map(self._is_covered, range(len(self.program))))):
            return self.program
        place: dict[int, int] = {}
        made: dict[Instruction, int] = {}
        for position, s in enumerate(self.program):
            # products of equal operands are one, so that functions of the same logits are of one law
            s = moved(self._at_the_state(s), place.__getitem__)
            key = s if isinstance(s, Initial) else replace(s, name="")
            place[position] = made.setdefault(key, len(made))
        kept = {k: position for position, k in reversed(place.items())}
        order = [moved(self._at_the_state(self.program[kept[k]]), place.__getitem__) for k in range(len(made))]
        state = self.program.state
        return self.program.rearranged(order, place.__getitem__).replace(state=None if state is None else place[state])

    def _at_the_state(self, s: Instruction) -> Instruction:
        if isinstance(s, MatMul) and s.operand.source in self.streams:
            return replace(s, operand=Entry(Integer(self.program.state or 0), *s.operand.args[1:]))
        return s

    def _is_stream(self, s: OuterNonlin) -> bool:
        """Whether a vector is the state, or another stream, and images over √n."""
        terms = sympy.Add.make_args(sympy.expand_mul(s.body, deep=False))
        before = [t for t in terms if isinstance(t, Entry) and t.source in self.streams]
        if s.slots or len(before) != 1 or before[0].neuron != OWN:
            return False
        state = self.program[self.program.state or 0]
        own = tuple(before[0].indices) == tuple(map(axis_symbol, s.axes))
        return own and s.axes == state.axes and all(self._is_branch(t) for t in terms if t is not before[0])

    def _is_branch(self, term: Expr) -> bool:
        front, rest = term.as_independent(Entry, AxisSum, ArrayEntry, as_Add=False)
        return not (front * sqrt(N)).free_symbols & self.widths and self._is_image(self.reading.inlined(rest))

    def _is_image(self, expr: Expr) -> bool:
        """Whether an expression is linear in images and Gaussian vectors, with coefficients that are scalars."""
        if isinstance(expr, Entry):
            s = self.program[expr.source]
            if isinstance(s, OuterNonlin) and not s.slots and expr.source not in self.streams:
                return self._is_image(s.body)
            return isinstance(s, MatMul) or self.reading.is_fresh(expr.source)
        if isinstance(expr, AxisSum):
            return self._is_image(expr.summand)
        if isinstance(expr, sympy.Add):
            return all(map(self._is_image, expr.args))
        vectors = [a for a in sympy.Mul.make_args(expr) if self._reads_vectors(a)]
        if not isinstance(expr, sympy.Mul) or len(vectors) != 1:
            return False
        return self._is_image(vectors[0]) and self._is_tame(expr / vectors[0])

    def _reads_vectors(self, expr: Expr) -> bool:
        return bool(reads_vectors(expr))

    def _is_covered(self, position: int) -> bool:
        s = self.program[position]
        if isinstance(s, InitialMatrix):
            return bool(s.law == NORMAL)
        if isinstance(s, Initial):
            return not isinstance(s, InitialVector) or position == self.program.state or self.reading.is_fresh(position)
        moved_by = self.streams - {self.program.state}
        if isinstance(s, Nonlin) and position not in self.streams:
            slots = isinstance(s, OuterNonlin) and bool(s.slots)
            return not slots and not moved_by & set(s.operands) and self._is_tame(s.body)
        return not isinstance(s, Avg) or s.operand.source not in moved_by

    def _is_tame(self, expr: Expr) -> bool:
        """Whether a function is continuous in what it reads, with slopes of polynomial growth, at every width alike."""
        if isinstance(expr, (Entry, ArrayEntry)):
            return True
        if not expr.has(Entry, ArrayEntry, AxisSum):
            return not expr.free_symbols & self.widths
        if isinstance(expr, AxisSum):
            return self._is_tame(expr.summand)
        if isinstance(expr, sympy.Mul):
            return self._is_tame_product(expr)
        whole = isinstance(expr, sympy.Pow) and expr.exp.is_Integer and expr.exp.is_positive
        if isinstance(expr, sympy.Add) or whole or isinstance(expr, _TAME):
            return all(map(self._is_tame, expr.args))
        return False

    def _is_tame_product(self, expr: Expr) -> bool:
        """Products, shares of a softmax, and logits: the root of a width times an average of two vectors apart."""
        factors = self._without_shares(list(expr.args))
        if factors is None:
            return False
        sizes = [a for a in factors if a.free_symbols & self.widths and not a.has(Entry, ArrayEntry, AxisSum)]
        power = S.Zero
        for size in sizes:
            base, exponent = size.as_base_exp()
            if base not in self.widths or not exponent.is_Rational:
                return False
            power += exponent
        if power > 0:
            read = [a for a in factors if isinstance(a, Entry) and self._is_logit(a)]
            if power > Rational(1, 2) or not read:
                return False
        return all(self._is_tame(a) for a in factors if a not in sizes)

    def _without_shares(self, factors: list[Expr]) -> list[Expr] | None:
        """Factors with eᵘ/Σ eᵘ taken for what it is, a smooth function of u; None where u is not tame."""
        for divisor in [a for a in factors if isinstance(a, sympy.Pow) and a.exp == -1 and isinstance(a.base, AxisSum)]:
            total = divisor.base
            for share in [a for a in factors if isinstance(a, sympy.exp)]:
                runs = [i for i in share.free_symbols if axis_of(i) == axis_of(total.bound)]
                if any(total.summand.xreplace({total.bound: i}) == share for i in runs):
                    if not self._is_tame(share.args[0]):
                        return None
                    factors = [a for a in factors if a is not divisor and a is not share]
                    break
        return factors

    def _is_logit(self, entry: Entry) -> bool:
        """Whether an average is of products of two vectors of matrices apart."""
        s = self.program[entry.source]
        if not isinstance(s, Avg):
            return False
        for term in sympy.Add.make_args(sympy.expand_mul(self.reading.inlined(s.operand))):
            read = [a for a in sympy.Mul.make_args(term) if a.has(Entry)]
            if len(read) != 2 or not all(isinstance(a, Entry) and a.neuron == OWN for a in read):
                return False
            own = {self._drawn(a.source) for a in read}
            if len(own) != 2 or None in own:
                return False
        return bool(entries(s.operand))

    def _drawn(self, position: int) -> int | None:
        s = self.program[position]
        return s.matrix if isinstance(s, MatMul) else position if self.reading.is_fresh(position) else None
