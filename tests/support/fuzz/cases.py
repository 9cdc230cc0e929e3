"""A case from one integer."""

from __future__ import annotations

from fuzz.blocks import block_case
from fuzz.draft import Case
from fuzz.networks import kernel_case, training_case
from fuzz.programs import width_case

MAKERS = {"width": width_case, "kernels": kernel_case, "depth": block_case, "training": training_case}
#: the last digit of a seed says which regime
ROUND = ("width", "kernels", "depth", "training", "width", "kernels", "depth", "training", "width", "width")


def case(seed: int) -> Case:
    """The case of a seed."""
    return MAKERS[ROUND[seed % len(ROUND)]](seed)


def seeds(start: int, count: int, regime: str | None = None) -> list[int]:
    """So many seeds from one on, of one regime if asked."""
    found: list[int] = []
    seed = start
    while len(found) < count:
        if regime in (None, ROUND[seed % len(ROUND)]):
            found.append(seed)
        seed += 1
    return found
