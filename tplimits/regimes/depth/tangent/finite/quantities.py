"""What a check of gradients measures, and what claims call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tplimits.regimes.depth.numbers.influence import LEVELS

#: the layers, as parts of the depth, whose correlation with the first is judged
BESIDE = (0.5, 1.0)


@dataclass(frozen=True)
class Quantity:
    """What a gradient is taken of, in which layer (as a part of the depth), and the power of n it is multiplied by."""

    of: str
    place: float = 0.0
    order: int = 0

    @property
    def name(self) -> str:
        """As claims call it."""
        return f"{self.of}@{self.place:g}"


def labels(quantities: Sequence[Quantity]) -> tuple[str, ...]:
    """What can be claimed of some quantities."""
    own = [f"{level} {q.name}" for q in quantities for level in LEVELS]
    dual = (f"duality {level} {q.name}" for q in quantities if q.place == 0 for level in LEVELS)
    first = [q for q in quantities if q.place == 0]
    return (*own, *dual, *map(met, first), *map(aligned, first), *(correlated(*pair) for pair in pairs(quantities)))


def pairs(quantities: Sequence[Quantity]) -> list[tuple[Quantity, Quantity]]:
    """The matrices in the first layer, and in others where the law over layers is known: those judged in the last."""
    last = {q.of for q in quantities if q.place == 1}
    first = {q.of: q for q in quantities if q.place == 0}
    return [(first[q.of], q) for q in quantities if q.of in last and q.place in BESIDE]


def met(q: Quantity) -> str:
    """The correlation with the state behind the last layer, as claims call it."""
    return f"correlation end {q.name}"


def aligned(q: Quantity) -> str:
    """How much of the response is along the state behind the last layer, as claims call it."""
    return f"alignment {q.name}"


def correlated(first: Quantity, second: Quantity) -> str:
    """That of two layers."""
    return f"correlation {first.name} {second.name}"
