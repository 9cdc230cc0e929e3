"""Fluctuations √n·Avg(x) whose covariance is ⟨x|x′⟩: linear in fresh factors that nothing else in them depends on.

x = Σ_k v_k ⊙ y_k with v_k initial vectors or images W z under matrices used here alone, the y_k, the z and all scalars
free of them.  Given everything else the fluctuation is then exactly Gaussian.  (The tangents δv of fresh factors are
fresh as well.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.limit.kernels.leaves import Of
from tplimits.limit.kernels.terms import terms
from tplimits.program.nodes import Avg, InitialMatrix, InitialVector, MatMul, OuterNonlin

if TYPE_CHECKING:
    from tplimits.limit.kernels.recursion import Recursion


def refuse_unsafe(state: Recursion, node: int, position: int) -> None:
    """NoLimitError where the covariance of a fluctuation is not the bracket of what is averaged."""
    family = state.nodes[node]
    assert family.operand is not None
    if not is_safe(state, family.operand, node):
        raise NoLimitError(
            f"{state.program.where(position)}: the fluctuation √n·`{family.name}` is outside the class whose "
            "covariance is known (hypothesis: a sum of products of a fresh factor, an initial vector or an image W x "
            "with W used nowhere else, with what does not depend on it). Use independent matrices, or divide by n."
        )


def is_safe(state: Recursion, expr: Expr, position: int) -> bool:
    """Whether the terms of a vector are linear in a set of fresh sources."""
    products = [t.factors for t in _opened(state, expr)]
    if any(not factors for factors in products):
        return False
    return _choose(state, products, frozenset(), position)


def _opened(state: Recursion, expr: Expr) -> list:
    """Terms with Gaussian sums written out, so that every factor comes from one source or is a function."""
    found = []
    for term in terms(expr):
        for i, factor in enumerate(term.factors):
            if isinstance(factor, Of) and state.nodes[factor.node].body is not None:
                rest = [f for j, f in enumerate(term.factors) if j != i]
                inner = state.opened(factor)
                for f in rest:
                    inner = inner * f
                found += _opened(state, inner)
                break
        else:
            found.append(term)
    return found


def _choose(state: Recursion, products: list, fresh: frozenset[int], position: int) -> bool:
    for factors in products:
        count = sum(_count(state, f, fresh) for f in factors)
        if count == 1:
            continue
        if count > 1:
            return False
        origins = [_origin(state, f) for f in factors if isinstance(f, Of)]
        candidates = {o for o in origins if o is not None}
        return any(_choose(state, products, fresh | {c}, position) for c in sorted(candidates))
    return _free(state, fresh, position)


def _origin(state: Recursion, leaf: Of) -> int | None:
    sources = [s for s in state.nodes[leaf.node].sources if s[0] != "√n"]
    return sources[0][1] if len(sources) == 1 else None


def _count(state: Recursion, factor: Expr, fresh: frozenset[int]) -> int:
    if isinstance(factor, Of):
        return int(_origin(state, factor) in fresh)
    touched = {s[1] for leaf in state.leaves(factor) for s in state.nodes[leaf.node].sources if s[0] != "√n"}
    return 2 if touched & fresh else 0


def _free(state: Recursion, fresh: frozenset[int], position: int) -> bool:
    """Whether averages and products with matrices upstream do not depend on the fresh sources."""
    program, graph = state.program, state.program.graph
    upstream = networkx.ancestors(graph, position) if position in graph else set()
    for p in upstream:
        s = program[p]
        behind = networkx.ancestors(graph, p)
        averages = isinstance(s, Avg) or (isinstance(s, OuterNonlin) and s.slots)
        if averages and behind & fresh:
            return False
        if isinstance(s, MatMul):
            assert s.operand is not None
            if (networkx.ancestors(graph, s.operand.source) | {s.operand.source}) & fresh:
                return False
            if (
                s.matrix in fresh
                and len({m.transposed for m in program if isinstance(m, MatMul) and m.matrix == s.matrix}) > 1
            ):
                return False
    return all(isinstance(program[f], (InitialVector, InitialMatrix)) for f in fresh)
