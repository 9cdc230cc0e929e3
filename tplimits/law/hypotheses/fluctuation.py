"""Fluctuations S = √n·Avg(F) with E F = 0: when is Cov(S, S′) the bracket E F F′?

Safe class.  F = Σ_k v_k ⊙ y_k, where the v_k are entries of initial vectors, or images W z under a matrix that is
used nowhere else, and neither the y_k, nor the z, nor any scalar they contain depend on those sources.  Given
everything else S is exactly Gaussian and Cov(S, S′) → E F F′ (Yang & Littwin 2023, Thm 2.9.19 with its hypothesis).

Initial data.  F a function of initial vectors alone, without scalars: the classical central limit theorem.

The F that is asked is that of finite width: relu(h)·s with s → 0 is 0 in the limit, and √n times its average is not.

Outside both the bracket is not the covariance (√n·Avg((Wz)² − 1) has variance 4, not 2): earlier averages and inner
products fluctuate at the same order.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import OWN, AxisSum, Entry, entries, reads_vectors
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialVector,
    Instruction,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
    made_of,
)
from tplimits.program.nodes.laws import GRID
from tplimits.program.nodes.members import members_apart
from tplimits.program.parts import addends, found, holds

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: the hypothesis in the words of an error
HYPOTHESIS = (
    "hypothesis: F = Σ v_k·y_k with v_k a fresh initial vector or an image under a matrix used nowhere else, or "
    "F a function of initial vectors alone"
)
#: why a fluctuation may be refused
SHARED = "its fresh factors are not independent of everything else in it"
OTHER_WIDTH = "it shares sources with a fluctuation scalar of another width, and no fresh factors make them independent"
#: the random factors of one term
Product = Sequence[Expr]


def is_safe(program: Program, positions: Sequence[int], infinite: Set[str] = frozenset()) -> bool:
    """Whether one set of fresh sources makes every term of some averages, or of vectors, linear in them.

    No single member of an `infinite` family matters to a sum over all of them.
    """
    written = opened(program, positions, infinite)
    products = written.every
    # a scalar that is added, as in g² − s, is linear in no source
    return all(products) and _choose(written, products, frozenset())


def is_apart(program: Program, a: int, b: int, infinite: Set[str] = frozenset()) -> bool:
    """Whether fluctuations over two widths have covariance 0: nothing random stands above both, or they are safe
    together, since a fresh source has entries along one width.
    """
    return origins_of(program, a).isdisjoint(origins_of(program, b)) or is_safe(program, [a, b], infinite)


def opened(program: Program, positions: Sequence[int], infinite: Set[str] = frozenset()) -> Written:
    """Some averages, or vectors, of a program whose members of families stand apart."""
    program, places = members_apart(program, tuple(sorted({*positions})), frozenset(infinite))
    positions = [place for position in positions for place in places[position].values()]
    return Written(program, _without_single_members(program, infinite), positions)


def _without_single_members(program: Program, infinite: Set[str]) -> networkx.DiGraph:
    """What depends on what: one of infinitely many members moves a mean over all of them by nothing."""
    if not infinite:
        return program.graph
    kept = networkx.DiGraph(program.graph)
    families = [infinite & {*s.axes} for s in program]
    kept.remove_edges_from([(u, v) for u, v in kept.edges if families[u] - families[v]])
    return kept


@dataclass(frozen=True)
class Written:
    """Vectors as they run at finite width, at the positions that are judged, in a graph of what depends on what."""

    program: Program
    graph: networkx.DiGraph
    positions: Sequence[int]

    @property
    def every(self) -> list[Product]:
        """The terms at all positions."""
        return [product for position in self.positions for product in self.products(self.at(position))]

    def at(self, position: int) -> Expr:
        """What an average is taken of; a vector itself."""
        s = self.program[position]
        return made_of(s) if isinstance(s, Avg) else Entry(sympy.Integer(position), OWN)

    def products(self, vector: Expr) -> list[Product]:
        """The terms, functions of other vectors opened, without scalars and sums over axes; none that is a number."""
        found: list[Product] = []
        for term in addends(_without_sums(vector)):
            factors = [f for f in sympy.Mul.make_args(term) if reads_vectors(f)]
            opened = next((f for f in factors if isinstance(f, Entry) and self._inside(f) != f), None)
            if opened is not None:
                factors.remove(opened)
                found += self.products(sympy.Mul(self._inside(opened), *factors))
            elif any(origins_of(self.program, e.source) for e in entries(term)) or factors:
                found.append(factors)
        return found

    def _inside(self, entry: Entry) -> Expr:
        s = self.program[entry.source]
        return s.body if isinstance(s, OuterNonlin) and entry.neuron == OWN else entry

    def origin(self, factor: Expr) -> int | None:
        """The initial vector or the matrix behind the entry of a vector, a centred one or an image."""
        s = self.program[factor.source] if isinstance(factor, Entry) and factor.neuron == OWN else None
        if isinstance(s, InitialVector) and s.law.mean == 0:
            return int(factor.source)
        return s.matrix if isinstance(s, MatMul) else None

    def uses(self, factor: Expr, fresh: frozenset[int]) -> int:
        """How a factor depends on the fresh sources: 0 not, 1 linearly (it is one variable), 2 otherwise."""
        origin = self.origin(factor)
        if origin is not None:
            return int(origin in fresh)
        read = {e.source for e in entries(factor)}
        return 2 if fresh & read.union(*(origins_of(self.program, p) for p in read)) else 0


def _without_sums(expr: Expr) -> Expr:
    """A sum over an axis as one of its terms."""
    while sums := found(expr, AxisSum):
        expr = expr.xreplace({node: node.summand for node in sums if not holds(node.summand, AxisSum)})
    return expr


def refused(program: Program, position: int, name: str, why: str) -> NoLimitError:
    """The error for the fluctuation √width·`name` of an average, the instruction at a position."""
    average = program[position]
    assert isinstance(average, Avg)
    return NoLimitError(
        f"{program.where(position)}: the fluctuation √{average.over}·{name} is outside the class whose covariance is "
        f"known: {why} ({HYPOTHESIS}). ⟨x|x'⟩ would be wrong here: earlier averages fluctuate at the same order. Read "
        "it out with a fresh initial vector or an independent matrix."
    )


def diverging(where: str, average: str, mean: str, term: str, certain: bool = True) -> NoLimitError:
    """The error for √n times an average whose mean is not 0, or, if that is not `certain`, not seen to vanish."""
    seen = "non-zero mean diverges" if certain else "a mean that is not seen to vanish may diverge"
    # a mean in symbols may still be 0 at some of their values, or be taken away by others
    grows = f"so the term {term} grows" if certain else f"and unless the means of the term {term} cancel it grows"
    # the mean of logits q·k with one matrix for both is a bracket, no number
    logits = "" if certain else "; logits of one matrix for queries and keys are divided by n"
    return NoLimitError(
        f"{where}: √n·Avg of a ket with {seen}: `{average}` tends to {mean}, {grows} without bound (hypothesis: a "
        f"fluctuation scalar needs ⟨1|x⟩ = 0). Subtract the mean, or drop the positive power of n{logits}."
    )


def growing(where: str, term: str, trained: bool = False) -> NoLimitError:
    """The error for a positive power of n beside no average, or, where features are `trained`, beside any."""
    absorbs = "gradients through what absorbs it diverge" if trained else "nothing of order 1/√n absorbs it"
    helps = (
        "Average without the power, as attention with logits q·k/d does."
        if trained
        else "Remove the positive power of n, or let it multiply an average with mean zero."
    )
    return NoLimitError(
        f"{where}: the term {term} grows with n and {absorbs} (hypothesis: bodies are O(1) in the limit). {helps}"
    )


def is_place(s: Instruction) -> bool:
    """Whether a vector holds places of neurons: sums over those are Riemann's and do not fluctuate."""
    return isinstance(s, InitialVector) and s.law.shape == GRID


def origins_of(program: Program, position: int) -> set[int]:
    """Initial vectors and matrices that an instruction depends on."""
    above = networkx.ancestors(program.graph, position)
    return {p for p in above if isinstance(program[p], (InitialVector, InitialMatrix))}


def initial_only(program: Program, position: int) -> bool:
    """Whether an instruction reads functions of initial vectors alone, through no matrix, scalar or box."""
    for p in networkx.ancestors(program.graph, position):
        # entries that share a scalar, an image or a box are dependent: the central limit theorem is about iid ones
        if isinstance(program[p], (InitialMatrix, MatMul, Avg, ScalarNonlin)) or is_place(program[p]):
            return False
        if is_average(program, p):
            return False
    return True


def _choose(written: Written, products: list[Product], fresh: frozenset[int]) -> bool:
    """Backtracking over which source makes the next term linear."""
    for factors in products:
        # linear in the fresh sources: exactly one factor is such a variable, and no function of one stands beside it
        count = sum(written.uses(f, fresh) for f in factors)
        if count == 1:
            continue
        # quadratic in them, or a function of them: given everything else it is not Gaussian
        if count:
            return False
        # the choice for this term may spoil an earlier one, so all terms are gone through again with the larger set
        candidates = {c for c in map(written.origin, factors) if c is not None}
        return any(_choose(written, products, fresh | {c}) for c in sorted(candidates))
    return all(_free(written, p, fresh) for p in dict.fromkeys(written.positions))


def is_average(program: Program, position: int) -> bool:
    """Whether an instruction is a mean over neurons: a number, or for each neuron one over others."""
    instruction = program[position]
    return isinstance(instruction, Avg) or (isinstance(instruction, OuterNonlin) and bool(instruction.slots))


def _free(written: Written, position: int, fresh: frozenset[int]) -> bool:
    """Whether averages and products with matrices upstream do not depend on the fresh sources."""
    program, graph = written.program, written.graph
    if not all(isinstance(program[f], (InitialVector, InitialMatrix)) and not is_place(program[f]) for f in fresh):
        return False
    # an average or a Gram that holds fresh sources fluctuates with them at the same order as S itself
    touched = fresh.union(*(networkx.descendants(graph, f) for f in fresh))
    for p in networkx.ancestors(graph, position) if position in graph else ():
        instruction = program[p]
        if p in touched and is_average(program, p):
            return False
        if isinstance(instruction, MatMul):
            # images under other matrices mix the entries of a fresh vector: given the rest they are not independent any
            # more
            if instruction.operand.source in touched:
                return False
            # Wᵀ of anything remembers W: a dot part couples it to what else was read
            if instruction.matrix in fresh and not one_orientation(program, instruction.matrix):
                return False
    return True


def one_orientation(program: Program, matrix: int) -> bool:
    """Whether all products with a matrix use it the same way round."""
    return len({s.transposed for s in program if isinstance(s, MatMul) and s.matrix == matrix}) == 1
