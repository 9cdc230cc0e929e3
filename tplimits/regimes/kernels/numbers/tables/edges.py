"""Sums of gaps over shared taps: a place outside counts as the variable 0, whose gap to z is half the variance of z."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tplimits.regimes.kernels.numbers.tables.entrywise import added
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, contracted, mapped, step
from tplimits.regimes.kernels.numbers.tables.shifts import Read, after, summed_entries


@step(lambda values, reads: after(values[0], reads))
def summed_gaps(values: Sequence[Labelled], reads: Sequence[Read]) -> Labelled:
    """Σ_t G[T₁(t, i), T₂(t, j)] of (gaps, variances of either side)."""
    found: Labelled = mapped(added, [summed_entries(values[:1], reads), *edges(values[1:], reads)])
    return Labelled(found.at(after(values[0], reads)), after(values[0], reads))


def edges(variances: Sequence[Any], reads: Sequence[Read]) -> list[Any]:
    """Half the variances of taps of which the other side is outside: rows, then columns."""
    tap = f"′{len(reads[0].places)} taps"
    away = [Labelled((r.flat < 0).astype(float).reshape(r.places.shape), (tap, *r.labels)) for r in reads]
    half, over = Labelled(numpy.asarray(0.5)), frozenset({tap})
    left, right = (
        summed_entries([v], (Read(r.label, r.places[None], (tap, *r.labels)),))
        for v, r in zip(variances, reads, strict=True)
    )
    return [contracted([left, away[1], half], over), contracted([away[0], right, half], over)]
