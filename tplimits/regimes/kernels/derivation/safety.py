"""Where the randomness of a kernel derivation comes from, for the hypotheses on fluctuations and readouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx
from sympy import Expr

from tplimits.law.hypotheses.fluctuation import OTHER_WIDTH, SHARED, initial_only, is_safe, origins_of, refused
from tplimits.program.nodes.kinds import InitialVector
from tplimits.regimes.kernels.derivation.leaves import Of
from tplimits.regimes.kernels.derivation.terms import Term, terms

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.derivation.recursion import Recursion


@dataclass(frozen=True)
class KernelSources:
    """The nodes of a derivation as `hypotheses.reader.Sources`; tangents δv of fresh factors are fresh as well."""

    state: Recursion

    @property
    def program(self) -> Program:
        """The network followed by its tangents."""
        return self.state.program

    def products(self, vector: Expr) -> list[tuple[Expr, ...]]:
        """Terms with Gaussian sums written out: every factor comes from one source or is a function."""
        return [t.factors for t in self._opened(vector)]

    def origin(self, factor: Expr) -> int | None:
        """The initial vector or matrix behind a Gaussian leaf."""
        if not isinstance(factor, Of):
            return None
        found = self._behind(factor)
        return next(iter(found)) if len(found) == 1 else None

    def origins(self, factor: Expr) -> set[int]:
        """All of them behind a function."""
        return set().union(*map(self._behind, self.state.leaves(factor)))

    def _behind(self, leaf: Of) -> set[int]:
        return {position for kind, position, _ in self.state.nodes[leaf.node].sources if kind != "√n"}

    def _is_made(self, node: int) -> bool:
        """Whether a node is made of others; centred iid entries of any law are as good as normal ones in a sum."""
        s = self.program[node] if node < len(self.program) else None
        centred = isinstance(s, InitialVector) and s.law.shape != "normal" and s.law.mean == 0
        return self.state.nodes[node].body is not None and not centred

    def _opened(self, vector: Expr) -> list[Term]:
        found = []
        for term in terms(vector):
            for i, factor in enumerate(term.factors):
                if isinstance(factor, Of) and self._is_made(factor.node):
                    inner = self.state.opened(factor)
                    for other in (*term.factors[:i], *term.factors[i + 1 :]):
                        inner = inner * other
                    found += self._opened(inner)
                    break
            else:
                found.append(term)
        return found


def settle(state: Recursion, node: int) -> None:
    """Refuse a fluctuation whose law, alone or together with the earlier ones, is not given by brackets."""
    if node in state.fluctuations:
        return
    state.fluctuations.append(node)
    for other in state.fluctuations:
        why = _objection(state, node, other)
        if why:
            raise refused(state.program, node, state.nodes[node].name, why)


def _objection(state: Recursion, node: int, other: int) -> str:
    """Why two fluctuations (or one, given twice) are not jointly Gaussian with their brackets; "" where they are."""
    mine, theirs = state.nodes[node], state.nodes[other]
    # of different degrees: an odd power of δθ has mean zero
    if mine.degree != theirs.degree or (node != other and other in networkx.ancestors(state.program.graph, node)):
        return ""  # given the earlier one, the later is Gaussian, centred, of the law it has without it
    if mine.over != theirs.over:
        shared = origins_of(state.program, node) & origins_of(state.program, other)
        return OTHER_WIDTH if shared else ""
    if initial_only(state.program, node) and initial_only(state.program, other):
        return ""
    assert mine.operand is not None and theirs.operand is not None
    pair = [(mine.operand, node)] if node == other else [(mine.operand, node), (theirs.operand, other)]
    return "" if is_safe(KernelSources(state), pair, _of_members(state)) else SHARED


def _of_members(state: Recursion) -> networkx.DiGraph | None:
    """What depends on what, where no single member of an infinite family matters to a sum over all of them."""
    if not state.infinite:
        return None
    kept = networkx.DiGraph(state.program.graph)
    families = [state.infinite.intersection(s.axes) for s in state.program]
    # one of infinitely many members moves a mean over all of them by nothing
    kept.remove_edges_from([(u, v) for u, v in kept.edges if families[u] - families[v]])
    return kept
