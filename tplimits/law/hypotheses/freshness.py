"""Readouts: f = n^(−1/2) Σ x is Gaussian with covariance ⟨x|x′⟩ for x = Σ v ⊙ y with fresh readout vectors v.

The hypothesis of Yang & Littwin 2023, Thm 2.9.19 (as printed it asks for less and has counterexamples: x = (Wz)² − 1).
It is the safe class of `fluctuation`, asked of the vector that is read out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.fluctuation import is_safe

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Sources


def is_fresh(reader: Sources, vector: Expr, position: int) -> bool:
    """Whether the readout x = Σ v·y at this position is linear in vectors (or images) that nothing else depends on."""
    return is_safe(reader, [(vector, position)])


def readout(reader: Sources, vector: Expr, position: int) -> None:
    """NoLimitError where a readout is not fresh."""
    if not is_fresh(reader, vector, position):
        raise NoLimitError(
            f"{reader.program.where(position)}: the output n^(−1/2) Σ x is Gaussian with covariance ⟨x|x′⟩ only for "
            "x = Σ v·y with fresh readout vectors v (or images W y with W used there alone). Multiply what is read "
            "out by a fresh vector."
        )
