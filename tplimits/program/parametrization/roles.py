"""What each parameter of a network is to its parametrization: a matrix, a vector, a scalar, or a readout.

A readout is a vector that multiplies the last features, entry by entry: the returned vector is a sum of products of
readouts with what does not depend on them.  Vectors that multiply data, or that data look up, are input weights, even
in a linear network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr

from tplimits.program.network.parameters import parameter_places
from tplimits.program.nodes.entries import OWN, AxisSum, DataIndex, Entry, Lookup
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector, OuterNonlin, standing

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

KINDS = ("matrix", "vector", "scalar", "readout")


@dataclass(frozen=True)
class Roles:
    """The kind of every parameter by name, in order; whether every term of the output holds a readout."""

    kinds: Mapping[str, str] = field(hash=False)
    read_out_everywhere: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", FrozenDict(self.kinds))

    def named(self, *kinds: str) -> tuple[str, ...]:
        """The parameters of some kinds."""
        return tuple(name for name, kind in self.kinds.items() if kind in kinds)


def roles(network: Program) -> Roles:
    """The roles of a network's parameters."""
    readouts = _readouts(network)
    kinds: dict[str, str] = {}
    for position, name in parameter_places(network).items():
        s = network[position]
        if isinstance(s, InitialMatrix):
            kinds[name] = "matrix"
        elif isinstance(s, InitialVector):
            kinds[name] = "readout" if position in readouts else "vector"
        else:
            kinds[name] = "scalar"
    body = _flat(network)
    # every term of the output holds a readout
    read_out = body != 0 and all(any(_holds(t, p) for p in readouts) for t in terms_of(body))
    return Roles(kinds, read_out)


def _flat(network: Program) -> Expr:
    """The returned vector as an expression, entrywise instructions written out."""

    def written(expr: Expr) -> Expr:
        swap = {}
        for entry in expr.atoms(Entry):
            s = network[entry.source]
            looked_up = any(isinstance(index, Lookup) for index in entry.indices)
            if isinstance(s, OuterNonlin) and not s.slots and not looked_up:
                swap[entry] = written(standing(s, entry))
        return expr.xreplace(swap)

    s = network[network.returns[0]]
    return written(s.body) if isinstance(s, OuterNonlin) and not s.slots else sympy.S.Zero


def _readouts(network: Program) -> frozenset[int]:
    """Positions of the readouts."""
    body = _flat(network)
    found = [p for p, s in enumerate(network) if isinstance(s, InitialVector) and _can_read_out(network, body, p)]
    weights = [p for p in found if not _multiplies(body, p, set(network.inputs))]
    # of several candidates in one product a random one is the readout, that in most terms, for what it multiplies may
    # be a sum with biases, and of these the last in the signature; others are gains
    terms = terms_of(body)
    many = {p: sum(_holds(t, p) for t in terms) for p in found}
    kept: list[int] = []
    for position in sorted(weights or found, key=lambda p: (is_centred(network, p), many[p], p), reverse=True):
        if not any(_holds(t, position) and _holds(t, other) for other in kept for t in terms):
            kept.append(position)
    return frozenset(kept)


def _can_read_out(network: Program, body: Expr, position: int) -> bool:
    """Whether the returned vector is linear in a parameter that nothing else depends on."""
    leaves = body.atoms(Entry)
    behind = networkx.descendants(network.graph, position)
    visible = any(e.source == position for e in leaves) and not any(e.source in behind for e in leaves)
    return visible and _is_linear(body, position)


def is_centred(network: Program, position: int) -> bool:
    """Whether an initial vector is drawn with mean zero."""
    s = network[position]
    return isinstance(s, InitialVector) and s.law.mean == 0 and s.law.std != 0


def terms_of(body: Expr) -> list[Expr]:
    """The summands of an expression, sums over finite axes opened."""
    terms = []
    for term in sympy.Add.make_args(sympy.expand(body)):
        sums = [f for f in sympy.Mul.make_args(term) if isinstance(f, AxisSum)]
        if sums:
            rest = sympy.Mul(*(f for f in sympy.Mul.make_args(term) if f not in sums))
            inner = sympy.Mul(*(s.summand for s in sums)) * rest
            terms.extend(terms_of(inner))
        else:
            terms.append(term)
    return terms


def _holds(expr: Expr, position: int) -> bool:
    return any(e.source == position for e in expr.atoms(Entry))


def _is_linear(body: Expr, position: int) -> bool:
    """Whether every term with the vector has it once, as a factor at its own neuron."""
    for term in terms_of(body):
        factors = [f for f in sympy.Mul.make_args(term) if _holds(f, position)]
        if factors and not (len(factors) == 1 and isinstance(factors[0], Entry) and factors[0].neuron == OWN):
            return False
    return True


def _multiplies(body: Expr, position: int, sources: set[int]) -> bool:
    """Whether the vector is multiplied by data directly, as U is in Σ_d U ξ, or data pick its entries."""
    if any(isinstance(i, DataIndex) for e in body.atoms(Entry) if e.source == position for i in e.indices):
        return True
    for node in sympy.preorder_traversal(body):
        if isinstance(node, sympy.Mul):
            direct = {f.source for f in node.args if isinstance(f, Entry)}
            if position in direct and direct & sources:
                return True
    return False
