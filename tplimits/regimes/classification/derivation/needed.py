"""Vectors of which one has to start at its natural size: others may be smaller, and are 0 beside it in the limit.

What is small is judged by the powers of values (`Counting.small`), which grow with each start: what may be small
together may be small in parts, and the least sets that may not say all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy

from tplimits.program.optimizers.linear import Frozen
from tplimits.program.parametrization.exponents import Exponents
from tplimits.regimes.classification.derivation.counting import Counting

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.table import Parametrization


def needed(counting: Counting) -> tuple[frozenset[str], ...]:
    """Each vector alone but those that are small here."""
    return tuple(frozenset({name}) for name in counting.roles.named("vector") if name not in counting.small)


def needed_for_symbols(network: Program, parametrization: Parametrization) -> tuple[frozenset[str], ...]:
    """All least sets of vectors that cannot start smaller together."""
    # forward values at the start alone: neither the optimizer nor the power of the output is seen in them
    natural = Counting(network, replace(parametrization, a_out=sympy.S.One), Frozen()).at_natural_start
    found: list[frozenset[str]] = []
    vectors = natural.roles.named("vector")
    for names in _sets_without(natural, vectors, found):
        found.append(_least(natural, names))
    return tuple(found)


def _sets_without(natural: Counting, vectors: Collection[str], found: list[frozenset[str]]) -> Iterator[list[str]]:
    """Sets that cannot be small and hold none of those found, which are added to meanwhile."""
    open_, seen = [frozenset(vectors)], set()
    while open_:
        names = open_.pop()
        inside = next((s for s in found if s <= names), None)
        if inside is None and not _may_be_small(natural, names):
            open_.append(names)
            yield [v for v in vectors if v in names]
        elif inside is not None:
            smaller = [names - {v} for v in inside]
            open_ += [s for s in smaller if s not in seen]
            seen |= {*smaller}


def _least(natural: Counting, names: list[str]) -> frozenset[str]:
    """A set in it of which no part would do."""
    kept = names
    for name in names:
        fewer = [v for v in kept if v != name]
        if not _may_be_small(natural, fewer):
            kept = fewer
    return frozenset(kept)


def _may_be_small(natural: Counting, names: Collection[str]) -> bool:
    starts = natural.exponents
    smaller = starts | {v: Exponents(e.a, e.b + sympy.S.Half, e.c, e.d) for v, e in starts.items() if v in names}
    return set(replace(natural, parametrization=natural.parametrization.with_names(smaller)).small) == set(names)


__all__ = ["needed", "needed_for_symbols"]
