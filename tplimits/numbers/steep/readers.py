"""Which functions of a program read means over particles, which of them as polynomials, and what they are made of.

A polynomial with the errors of its arguments has an error of its own that replicates show; a function that turns, peaks
or saturates may do so within them.  Names are seen through: what counts is how a function depends on means.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.program.nodes.entries import AxisSum, Entry, entries
from tplimits.program.nodes.kinds import Avg, MatMul, Nonlin, OuterNonlin, ScalarNonlin
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class Readers:
    """Functions by position, with the means that each rests on, what is made of these before it, and other vectors."""

    means: Mapping[int, tuple[int, ...]]
    behind: Mapping[int, tuple[frozenset[int], frozenset[int]]]
    #: those of them that are polynomials in the means
    polynomials: frozenset[int] = frozenset()

    @property
    def sources(self) -> tuple[int, ...]:
        """All means that they rest on."""
        return tuple(sorted({p for means in self.means.values() for p in means}))

    @cached_property
    def scalars(self) -> tuple[int, ...]:
        """All scalars, and vectors made of them, that have to be known for their values, in order."""
        return tuple(sorted(frozenset[int]().union(*(scalars for scalars, _ in self.behind.values()))))

    @cached_property
    def vectors(self) -> tuple[int, ...]:
        """All vectors that they read."""
        return tuple(sorted(frozenset[int]().union(*(vectors for _, vectors in self.behind.values()))))

    def among(self, known: Collection[int]) -> Readers:
        """Those of them whose means and vectors are known."""
        kept = [p for p, means in self.means.items() if {*means, *self.behind[p][1]} <= set(known)]
        return self.only(kept)

    @cached_property
    def curved(self) -> Readers:
        """Those of them that are no polynomials in the means."""
        return self.only([p for p in self.means if p not in self.polynomials])

    def only(self, kept: Collection[int]) -> Readers:
        """Those at these positions."""
        return Readers({p: self.means[p] for p in kept}, {p: self.behind[p] for p in kept}, self.polynomials)


@remembered(1 << 8)
def readers_of(program: Program, asked: frozenset[int], moving: frozenset[int] = frozenset()) -> Readers:
    """Those that some instructions rest on; `moving` are scalars that differ between replicates and are no means."""
    behind = sorted(program.behind(asked))
    means: dict[int, frozenset[int]] = {}
    polynomial: set[int] = set()
    polynomials: set[int] = set()
    found: dict[int, tuple[int, ...]] = {}
    for position in behind:
        s = program[position]
        if isinstance(s, Avg) or position in moving:
            means[position] = frozenset({position})
            polynomial.add(position)
            continue
        if isinstance(s, MatMul) and (source := int(s.operand.source)) in polynomial:
            # an image grows with what it is an image of; after functions that normalise it is what it is
            means[position] = means[source]
            polynomial.add(position)
        if not isinstance(s, Nonlin):
            continue
        read = {int(e.source) for e in entries(s.body)} & means.keys()
        own = frozenset[int]().union(*(means[p] for p in read))
        is_polynomial = read <= polynomial and _is_polynomial(s.body, frozenset(read))
        # of what is averaged over other neurons few particles tell too little to be read on
        if isinstance(s, ScalarNonlin) or (own and isinstance(s, OuterNonlin) and not s.slots):
            means[position] = own
            polynomial |= {position} if is_polynomial else set()
        if own and (position in asked or isinstance(s, OuterNonlin)):
            found[position] = tuple(sorted(own))
            polynomials |= {position} if is_polynomial else set()
    made = frozenset(p for p in means if isinstance(program[p], (Nonlin, MatMul)))
    return Readers(found, {position: _behind(program, position, made) for position in found}, frozenset(polynomials))


def _behind(program: Program, reader: int, made: Collection[int]) -> tuple[frozenset[int], frozenset[int]]:
    """What is made of scalars behind a function as far as the means, and the vectors that it reads beside."""
    scalars: set[int] = set()
    vectors: set[int] = set()
    waiting = [*program[reader].operands]
    while waiting:
        position = waiting.pop()
        s = program[position]
        if s.width is not None and position not in made:
            vectors.add(position)
        elif position not in scalars:
            scalars.add(position)
            waiting += s.operands if isinstance(s, Nonlin) else ()
            if isinstance(s, MatMul):
                source = int(s.operand.source)
                # as they are where they were seen
                vectors |= {position, source}
                waiting.append(source)
    return frozenset(scalars), frozenset(vectors)


@remembered(1 << 12)
def _is_polynomial(node: Expr, moving: frozenset[int]) -> bool:
    """Whether an expression is a polynomial in the scalars of some instructions."""
    if isinstance(node, Entry) or not _reads(node, moving):
        return True
    if type(node) is AxisSum:  # the largest of some is no sum
        return _is_polynomial(node.summand, moving)
    if node.is_Add or node.is_Mul:
        return all(_is_polynomial(a, moving) for a in node.args)
    if node.is_Pow and node.exp.is_Integer and node.exp > 0:
        return _is_polynomial(node.base, moving)
    return False


def _reads(node: Expr, moving: frozenset[int]) -> bool:
    return any(int(e.source) in moving for e in entries(node))


@remembered(1 << 10)
def parts(body: Expr, moving: frozenset[int]) -> tuple[Expr, ...]:
    """What stands in functions and powers and reads the scalars of some instructions."""
    found: dict[Expr, None] = {}

    def look(node: Expr) -> None:
        if isinstance(node, Entry) or not _reads(node, moving):
            return
        through = node.is_Add or node.is_Mul or isinstance(node, AxisSum)
        inside = () if through else (node.base,) if node.is_Pow else node.args
        for part in inside:
            if _reads(part, moving):
                found.setdefault(part)
        for part in node.args:
            look(part)

    look(body)
    return tuple(found)
