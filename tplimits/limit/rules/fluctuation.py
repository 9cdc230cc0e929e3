"""Fluctuation scalars S = √n·Avg(x) with ⟨1|x⟩ = 0: Gaussian, with which covariance?

Safe class.  F = Σ_k v_k ⊙ y_k, where the v_k are entries of initial vectors, or images W z under a
matrix that is used nowhere else, and neither the y_k, nor the z, nor any scalar they contain depend
on those sources.  Given everything else S is exactly Gaussian and Cov(S, S') → ⟨x|x'⟩.

Initial data.  F a function of initial vectors alone, without scalars: the classical central limit
theorem, Cov(S, S') = Cov(F, F').

Outside both, ⟨x|x'⟩ is not the covariance (√n·Avg((Wz)² − 1) has variance 4, not 2): earlier
averages and inner products fluctuate at the same order.  Such a scalar is refused.
"""

from __future__ import annotations

import networkx
import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.limit.gaussians import HatSource, InitialSource
from tplimits.limit.kets import MASTER, Key, Reference, Step
from tplimits.limit.span import negligible
from tplimits.limit.state import Fluctuation, State
from tplimits.program.nodes import Avg, InitialMatrix, InitialVector, MatMul, OuterNonlin, ScalarNonlin

REFERENCE = Reference(
    f"central limit theorem given everything but the fresh factors; {MASTER}, Thm 2.9.19", "yang2023tensor"
)

#: a source of randomness: an initial vector or a matrix, by position
Origin = int


def fluctuation_symbol(state: State, key: Key) -> Symbol:
    """The Gaussian variable that stands for √width·(Avg − limit)."""
    average = state.program[key[0]]
    assert isinstance(average, Avg)
    return Symbol(f"√{average.over}·{state.label(key)}", real=True)


def settle(state: State, key: Key) -> None:
    """Find the covariances of a fluctuation with itself and all earlier ones, or refuse it."""
    if key in state.fluctuations:
        return
    average = state.program[key[0]]
    assert isinstance(average, Avg)
    new = Fluctuation(fluctuation_symbol(state, key), key, average.over)
    state.fluctuations[key] = new
    for other in list(state.fluctuations.values()):
        value = _covariance(state, new, other)
        state.covariances[new.symbol, other.symbol] = state.covariances[other.symbol, new.symbol] = value
    own = state.covariances[new.symbol, new.symbol]
    text = lambda: f"{new.symbol} ~ Gaussian, variance {state.text(own)}"  # noqa: E731 - written when read
    mean = state.scalars[key]
    judged = mean != 0 and negligible(mean, state.tolerance)
    remarks = (
        (f"⟨1|x⟩ = {float(mean):.1e}, judged zero at {state.tolerance:g}: array constants are data",) if judged else ()
    )
    state.steps.append(Step("fluctuation", (state.label(key),), text, REFERENCE, lambda: remarks))


def _ket(state: State, fluctuation: Fluctuation) -> Expr:
    """F: the averaged ket minus its mean."""
    average = state.program[fluctuation.key[0]]
    assert isinstance(average, Avg) and average.operand is not None
    place = state.unroller.at(average.operand, average.axes, fluctuation.key[1])
    ket = state.kets[(place.source, tuple(int(i) for i in place.indices))]
    return ket.expr - state.scalars[fluctuation.key]


def _covariance(state: State, a: Fluctuation, b: Fluctuation) -> Expr:
    if a.over != b.over:
        left, right = _origins(state, a), _origins(state, b)
        if left & right:
            raise _refused(state, a, "it shares sources with a fluctuation scalar of another width")
        return S.Zero
    f, g = _ket(state, a), _ket(state, b)
    if not (_initial_only(state, (a, b)) or _safe(state, (a, b))):
        raise _refused(state, a, "its fresh factors are not independent of everything else in it")
    if any(s in {x.symbol for x in state.fluctuations.values()} for s in (f * g).free_symbols):
        raise _refused(state, a, "its covariance depends on another fluctuation scalar")
    return state.engine.named(sympy.expand(state.engine.inner(f, g)), positive=a is b)


def _refused(state: State, fluctuation: Fluctuation, why: str) -> NoLimitError:
    where = state.program.where(fluctuation.key[0])
    name = state.label(fluctuation.key)
    return NoLimitError(
        f"{where}: the fluctuation √{fluctuation.over}·{name} is outside the class whose covariance is known: {why} "
        "(hypothesis: F = Σ v_k·y_k with v_k a fresh initial vector or an image under a matrix used nowhere else, or "
        "F a function of initial vectors alone). ⟨x|x'⟩ would be wrong here: earlier averages fluctuate at the same "
        "order. Read it out with a fresh initial vector or an independent matrix."
    )


def _origins(state: State, fluctuation: Fluctuation) -> set[Origin]:
    """Initial vectors and matrices a scalar depends on."""
    ancestors = networkx.ancestors(state.program.graph, fluctuation.key[0])
    return {p for p in ancestors if isinstance(state.program[p], (InitialVector, InitialMatrix))}


def _initial_only(state: State, pair: tuple[Fluctuation, ...]) -> bool:
    """Whether the kets are functions of initial vectors, through no matrix, scalar or box."""
    for fluctuation in pair:
        for position in networkx.ancestors(state.program.graph, fluctuation.key[0]):
            instruction = state.program[position]
            if isinstance(instruction, (InitialMatrix, MatMul, Avg, ScalarNonlin)):
                return False
            if isinstance(instruction, OuterNonlin) and instruction.slots:
                return False
    return True


def _safe(state: State, pair: tuple[Fluctuation, ...]) -> bool:
    """Whether one set of fresh sources makes every term of all kets linear in them."""
    engine, terms = state.engine, []
    for fluctuation in pair:
        for atom in engine.terms(_ket(state, fluctuation)):
            if atom == 1:
                return False
            terms.append((fluctuation, sympy.Mul.make_args(atom)))
    return _choose(state, terms, frozenset())


def _choose(state: State, terms: list, fresh: frozenset[Origin]) -> bool:
    """Backtracking over which source makes the next term linear."""
    for _, factors in terms:
        count = sum(_uses(state, f, fresh) for f in factors)
        if count == 1:
            continue
        if count > 1:
            return False
        candidates = {_source_of(state, f) for f in factors if f in state.gaussians}
        return any(_choose(state, terms, fresh | {c}) for c in sorted(c for c in candidates if c is not None))
    return all(_fresh(state, fluctuation, fresh) for fluctuation in {id(f): f for f, _ in terms}.values())


def _source_of(state: State, symbol: Symbol) -> Origin | None:
    source = state.gaussians.source[symbol]
    if isinstance(source, InitialSource):
        return source.position
    return source.view[0] if isinstance(source, HatSource) else None


def _uses(state: State, factor: Expr, fresh: frozenset[Origin]) -> int:
    """How a factor depends on the fresh sources: 0 not, 1 linearly (it is one variable), 2 otherwise."""
    if factor in state.gaussians:
        return int(_source_of(state, factor) in fresh)
    touched = {_source_of(state, s) for s in state.gaussians.everywhere(factor)}
    return 2 if touched & fresh else 0


def _fresh(state: State, fluctuation: Fluctuation, fresh: frozenset[Origin]) -> bool:
    """Whether scalars and matrix inputs upstream are free of the fresh sources."""
    program, graph = state.program, state.program.graph
    upstream = networkx.ancestors(graph, fluctuation.key[0])
    for position in upstream:
        instruction = program[position]
        behind = networkx.ancestors(graph, position)
        averages = isinstance(instruction, Avg) or (isinstance(instruction, OuterNonlin) and instruction.slots)
        if averages and behind & fresh:
            return False
        if isinstance(instruction, MatMul):
            assert instruction.operand is not None
            inputs = networkx.ancestors(graph, instruction.operand.source) | {instruction.operand.source}
            if inputs & fresh:
                return False
            if instruction.matrix in fresh and not _one_orientation(state, instruction.matrix):
                return False
    return True


def _one_orientation(state: State, matrix: int) -> bool:
    """Whether all products with a matrix use it the same way round."""
    used = [s.transposed for s in state.program if isinstance(s, MatMul) and s.matrix == matrix]
    return len(set(used)) == 1
