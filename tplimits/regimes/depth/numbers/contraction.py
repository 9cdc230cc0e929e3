"""Sums of products over tokens as a list of small sums: bucket elimination with shared intermediates.

A product Σ_{νκ} T[α,ν] U[ν,κ] W[κ,β] is computed one summed token at a time: all factors that hold it are
multiplied and summed to a new tensor.  Of all orders the cheapest is taken, where a tensor that another product has
made already costs nothing; tensors are recognised by the graph of what they are made of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tplimits.regimes.depth.derivation.splitting import without_identities

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.products import Factors

#: a tensor and the tokens at which it stands
At = tuple[str, tuple[int, ...]]
#: costs are compared at this number of tokens
_TYPICAL = 16
#: products with more summed tokens than this take the order of least degree, without a search
_SEARCHED = 6


@dataclass(frozen=True)
class Intermediate:
    """name[0, …, rank − 1] = Σ_rank Π factors; `symmetric` under exchange of its two indices."""

    name: str
    rank: int
    factors: tuple[At, ...]
    symmetric: bool


@dataclass(frozen=True)
class Product:
    """One term of an output: coefficient times tensors at the free tokens only, on the diagonal if `diagonal`."""

    factors: tuple[At, ...]
    diagonal: bool


@dataclass
class ContractionPlan:
    """Intermediates in the order in which they are computed, shared by all products planned with it."""

    symmetric: set[str] = field(default_factory=lambda: {"V", "N", "D", "B"})
    intermediates: list[Intermediate] = field(default_factory=list)
    _known: dict[tuple[At, ...], Intermediate] = field(default_factory=dict)

    def product(self, factors: Factors, names: Mapping[str, str]) -> Product:
        """Plan one canonical product; `names` gives the tensor of each label."""
        resolved = without_identities(factors)
        diagonal = any(label == "I" for label, _, _ in resolved)
        own = tuple(self._sorted(_diagonals((names.get(f[0], f[0]), f[1]) for f in resolved if f[0] != "I")))
        summed = sorted({i for _, at in own for i in at if i >= 0})
        for chosen in self._best(own, summed):
            own = self._eliminated(own, chosen, keep=True)[0]
        return Product(own, diagonal)

    def _best(self, factors: tuple[At, ...], summed: Sequence[int]) -> Sequence[int]:
        if len(summed) > _SEARCHED:
            return sorted(summed, key=lambda i: sum(i in at for _, at in factors))
        return min(itertools.permutations(summed), key=lambda order: (self._cost(factors, order), order), default=())

    def _cost(self, factors: tuple[At, ...], order: Sequence[int]) -> tuple[int, int]:
        """The largest loop, and work in all."""
        largest, work = 0, 0
        made: dict[tuple[At, ...], str] = {}
        for i in order:
            factors, loops, new = self._eliminated(factors, i, keep=False, made=made)
            largest = max(largest, loops)
            work += _TYPICAL**loops if new else 0
        return largest, work

    def _eliminated(
        self, factors: tuple[At, ...], summed: int, keep: bool, made: dict[tuple[At, ...], str] | None = None
    ) -> tuple[tuple[At, ...], int, bool]:
        """The factors with one token summed over, the number of nested loops it took, and whether that is new."""
        bucket = [f for f in factors if summed in f[1]]
        rest = [f for f in factors if summed not in f[1]]
        open_ = sorted({i for _, at in bucket for i in at} - {summed})
        forms: dict[tuple[At, ...], list[tuple[int, ...]]] = {}
        for order in itertools.permutations(open_):
            change = {i: k for k, i in enumerate(order)} | {summed: len(open_)}
            form = self._sorted((name, tuple(change[i] for i in at)) for name, at in bucket)
            forms.setdefault(tuple(form), []).append(order)
        key = min(forms)
        known = self._known.get(key)
        symmetric = len(open_) == 2 and len(forms[key]) == 2
        if known is None and keep:
            known = Intermediate(f"t{len(self.intermediates)}", len(open_), key, symmetric)
            self._known[key] = known
            self.intermediates.append(known)
            if symmetric:
                self.symmetric.add(known.name)
        name = (
            known.name
            if known is not None
            else (made if made is not None else {}).setdefault(key, f"?{len(made or ())}")
        )
        result = tuple(self._sorted([*rest, (name, forms[key][0])]))
        return result, len(open_) + 1, known is None or keep

    def _sorted(self, factors: Iterable[At]) -> list[At]:
        return sorted((name, tuple(sorted(at)) if name in self.symmetric else at) for name, at in factors)


def _diagonals(factors: Iterable[At]) -> Iterable[At]:
    """V[i, i] as d[i]: a vector is read faster than a diagonal."""
    return (("d", at[:1]) if name == "V" and at[0] == at[1] else (name, at) for name, at in factors)
