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

import networkx
from sympy import Expr

from tplimits.limit.hypotheses.reader import Sources
from tplimits.program.nodes import Avg, InitialMatrix, InitialVector, MatMul, OuterNonlin, ScalarNonlin
from tplimits.program.program import Program

#: the hypothesis in the words of an error
HYPOTHESIS = (
    "hypothesis: F = Σ v_k·y_k with v_k a fresh initial vector or an image under a matrix used nowhere else, or "
    "F a function of initial vectors alone"
)
#: the random factors of one term
Product = Sequence[Expr]


def is_safe(reader: Sources, vectors: Sequence[tuple[Expr, int]]) -> bool:
    """Whether one set of fresh sources makes every term of all vectors linear in them.

    A vector comes with the position of the instruction that reads it (the average), whose ancestors it is made by.
    """
    products: list[Product] = []
    for vector, _ in vectors:
        for factors in reader.products(vector):
            if not factors:
                return False
            products.append(factors)
    return _choose(reader, products, [position for _, position in vectors], frozenset())


def initial_only(program: Program, position: int) -> bool:
    """Whether an instruction reads functions of initial vectors alone, through no matrix, scalar or box."""
    for p in networkx.ancestors(program.graph, position):
        if isinstance(program[p], (InitialMatrix, MatMul, Avg, ScalarNonlin)):
            return False
        if _is_average(program, p):
            return False
    return True


def _choose(reader: Sources, products: list[Product], positions: list[int], fresh: frozenset[int]) -> bool:
    """Backtracking over which source makes the next term linear."""
    for factors in products:
        count = sum(_uses(reader, f, fresh) for f in factors)
        if count == 1:
            continue
        if count > 1:
            return False
        candidates = {c for c in map(reader.origin, factors) if c is not None}
        return any(_choose(reader, products, positions, fresh | {c}) for c in sorted(candidates))
    return all(_free(reader.program, p, fresh) for p in dict.fromkeys(positions))


def _uses(reader: Sources, factor: Expr, fresh: frozenset[int]) -> int:
    """How a factor depends on the fresh sources: 0 not, 1 linearly (it is one variable), 2 otherwise."""
    origin = reader.origin(factor)
    if origin is not None:
        return int(origin in fresh)
    return 2 if reader.origins(factor) & fresh else 0


def _is_average(program: Program, position: int) -> bool:
    instruction = program[position]
    return isinstance(instruction, Avg) or (isinstance(instruction, OuterNonlin) and bool(instruction.slots))


def _free(program: Program, position: int, fresh: frozenset[int]) -> bool:
    """Whether averages and products with matrices upstream do not depend on the fresh sources."""
    if not all(isinstance(program[f], (InitialVector, InitialMatrix)) for f in fresh):
        return False
    graph = program.graph
    for p in networkx.ancestors(graph, position) if position in graph else ():
        behind = networkx.ancestors(graph, p)
        if _is_average(program, p) and behind & fresh:
            return False
        instruction = program[p]
        if isinstance(instruction, MatMul):
            assert instruction.operand is not None
            source = instruction.operand.source
            if (networkx.ancestors(graph, source) | {source}) & fresh:
                return False
            if instruction.matrix in fresh and not _one_orientation(program, instruction.matrix):
                return False
    return True


def _one_orientation(program: Program, matrix: int) -> bool:
    """Whether all products with a matrix use it the same way round."""
    return len({s.transposed for s in program if isinstance(s, MatMul) and s.matrix == matrix}) == 1
