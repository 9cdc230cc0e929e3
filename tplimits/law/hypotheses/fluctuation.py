"""Fluctuations S = √n·Avg(F) with E F = 0: when is Cov(S, S′) the bracket E F F′?

Safe class.  F = Σ_k v_k ⊙ y_k, where the v_k are entries of initial vectors, or images W z under a matrix that is
used nowhere else, and neither the y_k, nor the z, nor any scalar they contain depend on those sources.  Given
everything else S is exactly Gaussian and Cov(S, S′) → E F F′ (Yang & Littwin 2023, Thm 2.9.19 with its hypothesis).

Initial data.  F a function of initial vectors alone, without scalars: the classical central limit theorem.

Outside both the bracket is not the covariance (√n·Avg((Wz)² − 1) has variance 4, not 2): earlier averages and inner
products fluctuate at the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.program.nodes.kinds import Avg, InitialMatrix, InitialVector, MatMul, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.laws import GRID

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Sources
    from tplimits.program.nodes.kinds import Instruction
    from tplimits.program.nodes.program import Program

#: the hypothesis in the words of an error
HYPOTHESIS = (
    "hypothesis: F = Σ v_k·y_k with v_k a fresh initial vector or an image under a matrix used nowhere else, or "
    "F a function of initial vectors alone"
)
#: why a fluctuation may be refused
SHARED = "its fresh factors are not independent of everything else in it"
OTHER_WIDTH = "it shares sources with a fluctuation scalar of another width"
#: the random factors of one term
Product = Sequence[Expr]


def is_safe(reader: Sources, vectors: Sequence[tuple[Expr, int]], graph: networkx.DiGraph | None = None) -> bool:
    """Whether one set of fresh sources makes every term of all vectors linear in them.

    A vector comes with the position of the instruction that reads it (the average), whose ancestors it is made by.
    `graph` says what depends on what; by default that of the program.
    """
    products: list[Product] = []
    for vector, _ in vectors:
        for factors in reader.products(vector):
            # a constant, as in g² − 1, is linear in no source
            if not factors:
                return False
            products.append(factors)
    places = _Places(reader.program, graph or reader.program.graph, [position for _, position in vectors])
    return _choose(reader, products, places, frozenset())


@dataclass(frozen=True)
class _Places:
    """The averages that are judged, in a program and the graph of what depends on what."""

    program: Program
    graph: networkx.DiGraph
    positions: list[int]


def refused(program: Program, position: int, name: str, why: str) -> NoLimitError:
    """The error for the fluctuation √width·`name` of an average, the instruction at a position."""
    average = program[position]
    assert isinstance(average, Avg)
    return NoLimitError(
        f"{program.where(position)}: the fluctuation √{average.over}·{name} is outside the class whose covariance is "
        f"known: {why} ({HYPOTHESIS}). ⟨x|x'⟩ would be wrong here: earlier averages fluctuate at the same order. Read "
        "it out with a fresh initial vector or an independent matrix."
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
        if _is_average(program, p):
            return False
    return True


def _choose(reader: Sources, products: list[Product], places: _Places, fresh: frozenset[int]) -> bool:
    """Backtracking over which source makes the next term linear."""
    for factors in products:
        # linear in the fresh sources: exactly one factor is such a variable, and no function of one stands beside it
        count = sum(_uses(reader, f, fresh) for f in factors)
        if count == 1:
            continue
        # quadratic in them, or a function of them: given everything else it is not Gaussian
        if count:
            return False
        # the choice for this term may spoil an earlier one, so all terms are gone through again with the larger set
        candidates = {c for c in map(reader.origin, factors) if c is not None}
        return any(_choose(reader, products, places, fresh | {c}) for c in sorted(candidates))
    return all(_free(places, p, fresh) for p in dict.fromkeys(places.positions))


def _uses(reader: Sources, factor: Expr, fresh: frozenset[int]) -> int:
    """How a factor depends on the fresh sources: 0 not, 1 linearly (it is one variable), 2 otherwise."""
    origin = reader.origin(factor)
    if origin is not None:
        return int(origin in fresh)
    return 2 if reader.origins(factor) & fresh else 0


def _is_average(program: Program, position: int) -> bool:
    instruction = program[position]
    return isinstance(instruction, Avg) or (isinstance(instruction, OuterNonlin) and bool(instruction.slots))


def _free(places: _Places, position: int, fresh: frozenset[int]) -> bool:
    """Whether averages and products with matrices upstream do not depend on the fresh sources."""
    program, graph = places.program, places.graph
    if not all(isinstance(program[f], (InitialVector, InitialMatrix)) and not is_place(program[f]) for f in fresh):
        return False
    # an average or a Gram that holds fresh sources fluctuates with them at the same order as S itself
    touched = fresh.union(*(networkx.descendants(graph, f) for f in fresh))
    for p in networkx.ancestors(graph, position) if position in graph else ():
        instruction = program[p]
        if p in touched and _is_average(program, p):
            return False
        if isinstance(instruction, MatMul):
            assert instruction.operand is not None
            # images under other matrices mix the entries of a fresh vector: given the rest they are not independent any
            # more
            if instruction.operand.source in touched:
                return False
            # Wᵀ of anything remembers W: a dot part couples it to what else was read
            if instruction.matrix in fresh and not _one_orientation(program, instruction.matrix):
                return False
    return True


def _one_orientation(program: Program, matrix: int) -> bool:
    """Whether all products with a matrix use it the same way round."""
    return len({s.transposed for s in program if isinstance(s, MatMul) and s.matrix == matrix}) == 1
