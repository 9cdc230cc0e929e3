"""Source of the coefficients of one joint SDE of state and tangent."""

from __future__ import annotations

from collections.abc import Sequence

from tplimits.regimes.depth.numbers.source import Generated, Output, assembly

#: what the blocks of R are called in loops, by the labels of forms, and their places
RESPONSES = {"R": "xx", "R·δ": "xd", "Rδ·": "dx", "Rδδ": "dd"}
#: what a step of state and tangent reads and fills beside its responses and constant arrays
OF_BOTH = ("c", "V", "C", "D", "d", "s", "N", "A", "B", "r", "DV", "DC", "DD", "X", "Y")


def tangent_source(outputs: Sequence[Output], responses: int) -> Generated:
    """The module of one SDE; `outputs` are DV, DC, DD, X and Y."""
    return assembly(outputs, OF_BOTH, [f"R{k}{part}" for k in range(responses) for part in RESPONSES.values()])
