"""Readouts: f = n^(−1/2) Σ x is Gaussian with covariance ⟨x|x′⟩ for x = Σ v ⊙ y with fresh readout vectors v.

The hypothesis of Yang & Littwin 2023, Thm 2.9.19 (as printed it asks for less and has counterexamples: x = (Wz)² − 1).
It is the safe class of `fluctuation`, asked of the vector that is read out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.fluctuation import is_safe

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def readout(program: Program, position: int) -> None:
    """NoLimitError where a vector that is read out is not linear in vectors, or images, that stand nowhere else."""
    if not is_safe(program, [position]):
        raise NoLimitError(
            f"{program.where(position)}: the output n^(−1/2) Σ x is Gaussian with covariance ⟨x|x′⟩ only for "
            "x = Σ v·y with fresh readout vectors v (or images W y with W used there alone). Multiply what is read "
            "out by a fresh vector."
        )
