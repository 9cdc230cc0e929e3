"""Which instructions of a network and its tangents an output rests on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import networkx

if TYPE_CHECKING:
    from tplimits.program.network.tangent import Tangent


def used(tangent: Tangent, outputs: Iterable[int] | None) -> list[int]:
    """The instructions behind outputs and their tangents, in order; all of them where no output is named.

    Of the others no hypothesis is asked: networks run them, and nothing that is claimed depends on them.
    """
    if outputs is None:
        return list(range(len(tangent.program)))
    outputs = tuple(outputs)
    ends = {*outputs, *(tangent.of[p] for p in outputs if p in tangent.of)}
    return sorted(ends.union(*(networkx.ancestors(tangent.program.graph, end) for end in ends)))
