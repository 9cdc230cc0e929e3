"""Vectors and scalars of which one starts at its natural size: others may be smaller, and are 0 beside it in the limit.

What is small is judged by the powers of values (`Counting.small`), which grow with each start: what may be small
together may be small in parts, and the least sets that may not say all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy

from tplimits.program.parametrization.exponents import Exponents

if TYPE_CHECKING:
    from tplimits.regimes.classification.derivation.counting import Counting


def needed(counting: Counting) -> tuple[frozenset[str], ...]:
    """Each vector and scalar alone but those that are small here."""
    return tuple(frozenset({name}) for name in counting.roles.named("vector", "scalar") if name not in counting.small)


def needed_at_any(natural: Counting) -> tuple[frozenset[str], ...]:
    """All least sets of vectors and scalars that cannot start smaller together, from a natural start."""
    found: list[frozenset[str]] = []
    names = natural.roles.named("vector", "scalar")
    left, seen = [frozenset(names)], {frozenset(names)}
    while left:
        together = left.pop()
        inside = next((s for s in found if s <= together), None)
        if inside is None and not _may_be_small(natural, together):
            inside = _least(natural, [v for v in names if v in together])
            found.append(inside)
        # another such set does not hold all of this one
        fewer = {together - {v} for v in inside or ()} - seen
        left += sorted(fewer, key=sorted)
        seen |= fewer
    return tuple(found)


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
