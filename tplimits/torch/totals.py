"""Sums over all neurons, which are readouts where a model ends, and what stands for −∞."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tplimits.program.language.operations import avg, width

if TYPE_CHECKING:
    from tplimits.program.language.values import Value

#: logits below this are hidden: softmax gives them no weight
HIDDEN = -1e4


@dataclass(eq=False)
class Total:
    """Σ_α x_α of a vector, written as a readout where the model ends, and as n·⟨x⟩ where it goes on."""

    vector: Value
    shift: Value | None = None
    scalar: Value | None = None
    #: a power of n in front of the sum: it stays outside of the average where the model goes on
    factor: Any = 1

    @property
    def summand(self) -> Value:
        """What is summed, with the factor."""
        return self.vector if isinstance(self.factor, int) and self.factor == 1 else self.factor * self.vector

    def now(self) -> Value:
        """The sum as a scalar of the program."""
        if self.scalar is None:
            found = self.factor * width(str(self.vector.width)) * avg(self.vector)
            self.scalar = found if self.shift is None else found + self.shift
        return self.scalar
