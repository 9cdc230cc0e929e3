"""Sizes of entries by the weights that they passed last: which terms of a sum add up, and which add in squares."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy

from tplimits.program.nodes import functions
from tplimits.program.nodes.properties import SATURATING
from tplimits.regimes.classification.derivation.sizes import HOMOGENEOUS, LINEAR_AT_BOTH_ENDS

#: what nonlinear functions make of different streams is alike
COMMON = "common"
_X = sympy.Symbol("x", real=True)


@dataclass(frozen=True)
class Value:
    """The size of entries by the weights that they passed last."""

    parts: Mapping[Hashable, float] = field(default_factory=dict)
    #: "scalar", "chance" (one of random sign), "constant" (a vector of equal entries), "drawn" (a random vector
    #: itself), "vector"
    kind: str = "scalar"
    #: the size of the mean over neurons
    mean: float = 0.0
    #: the parts of what is left without this mean, where they are known
    centred: Mapping[Hashable, float] | None = None

    @property
    def size(self) -> float:
        return math.sqrt(sum(x * x for x in self.parts.values()))

    @property
    def without_mean(self) -> Mapping[Hashable, float] | None:
        """The parts of what is left when its mean over neurons is taken away; None where they are not known."""
        if self.is_number:
            return {}
        is_centred = not self.mean and COMMON not in self.parts
        return self.parts if self.centred is None and is_centred else self.centred

    @property
    def is_number(self) -> bool:
        """Whether it is no vector."""
        return self.kind in ("scalar", "chance")


def centred(x: Value) -> Value:
    """A vector without its mean: of relu(W x) it is as random as W x."""
    parts = x.without_mean
    return x if parts is None else Value(parts, "vector")


def summed_up(terms: Sequence[Value]) -> Value:
    """A sum: what passed the same weights adds up."""
    parts = _added([t.parts for t in terms]) or {}
    kind = _of_scalars(terms) if all(t.is_number for t in terms) else "vector"
    mean = sum(t.size if t.kind == "scalar" else t.mean for t in terms)
    return Value(parts, kind, mean, _added([t.without_mean for t in terms]))


def _added(many: Sequence[Mapping[Hashable, float] | None]) -> dict[Hashable, float] | None:
    """The parts of a sum; None where those of a term are not known."""
    parts: dict[Hashable, float] = {}
    for one in many:
        if one is None:
            return None
        for k, x in one.items():
            parts[k] = parts.get(k, 0.0) + x
    return parts


def _of_scalars(parts: Sequence[Value]) -> str:
    return "chance" if any(t.kind == "chance" for t in parts) else "scalar"


def product(factors: Sequence[Value]) -> Value:
    """A product is as random as the vectors in it that are drawn, as a random sign, or as a vector of its own."""
    drawn = [f for f in factors if f.kind == "drawn"]
    chances = [f for f in factors if f.kind == "chance"]
    vectors = [f for f in factors if f.kind in ("vector", "drawn")]
    whole = math.prod(f.size for f in factors)
    own = vectors if len(vectors) == 1 else [v for v in vectors if _is_apart(v, vectors)]
    lead = next(iter(drawn or chances or own), None)
    parts: Mapping[Hashable, float] = {COMMON: whole}
    if lead is not None and lead.size:
        parts = {k: x * whole / lead.size for k, x in lead.parts.items()}
    kind = "vector" if vectors else "constant" if any(f.kind == "constant" for f in factors) else _of_scalars(factors)
    is_centred = bool(chances or (own and len(vectors) > 1))
    # one factor without its mean at a time, the others as large as they are
    left = [_scaled(v.without_mean, whole / v.size if v.size else 0.0) for v in vectors]
    return Value(parts, kind, 0.0 if is_centred else _mean(vectors, whole), _added(left))


def _scaled(parts: Mapping[Hashable, float] | None, by: float) -> dict[Hashable, float] | None:
    return None if parts is None else {k: x * by for k, x in parts.items()}


def _is_apart(vector: Value, vectors: Sequence[Value]) -> bool:
    """Whether a vector without a mean has no weights in common with others: then E ab a′b′ is E aa′ E bb′."""
    others = {k for v in vectors if v is not vector for k in v.parts}
    return not vector.mean and COMMON not in vector.parts and others.isdisjoint(vector.parts)


def _mean(vectors: Sequence[Value], whole: float) -> float:
    """The mean of a product: of two vectors, what they have of the same weights."""
    if not vectors or not whole or len(vectors) > 2:
        return whole
    rest = whole / math.prod(v.size for v in vectors)
    if len(vectors) == 1:
        return vectors[0].mean * rest
    a, b = vectors
    # streams of different weights are orthogonal; means of either multiply
    return rest * max(sum(x * b.parts.get(k, 0.0) for k, x in a.parts.items()), a.mean * b.mean)


def function_of(node: sympy.Expr, arguments: Sequence[Value]) -> Value:
    """A function of some arguments, as its head tells."""
    if isinstance(node, sympy.Pow) and node.exp.is_Rational:
        x = arguments[0]
        return Value(
            {COMMON: x.size ** float(node.exp) if x.size else 0.0},
            _kind(x),
            x.size ** float(node.exp) if x.size else 0.0,
        )
    x = summed_up(arguments) if arguments else Value({COMMON: 1.0})
    keeps = (*HOMOGENEOUS, functions.where, functions.softplus, *LINEAR_AT_BOTH_ENDS)
    size = x.size if isinstance(node, keeps) else min(x.size, 1.0) if isinstance(node, SATURATING) else 1.0
    if x.kind == "vector" and x.size and not x.mean and is_odd(node):
        # no mean, and E φ(x) φ(y) is at most E xy / √(E x² E y²) of E φ(x)²: as random as what it is of
        return Value({k: p * size / x.size for k, p in x.parts.items()}, "vector")
    # without its mean it is a function of the same random numbers
    left = x.without_mean
    whole = math.sqrt(sum(p * p for p in left.values())) if left else 0.0
    return Value({COMMON: size}, _kind(x), size, _scaled(left, size / whole) if whole else None)


def is_odd(node: sympy.Expr) -> bool:
    """Whether a function of one argument changes sign with it, as far as its head tells."""
    return len(node.args) == 1 and bool(node.func(-_X) == -node.func(_X))


def _kind(x: Value) -> str:
    return "scalar" if x.is_number else "vector"
