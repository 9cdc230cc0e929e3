"""What a limit of depth proportional to width rests on, and whose theorems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.law.kets import Reference

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

NOCI = Reference("Noci et al. 2023, Prop. A.2", "noci2023shaped")
LI = Reference("Li, Nica & Roy 2022, Prop. 2.6", "li2022neural")


def assumed(program: Program, fixed: tuple[str, ...]) -> list[str]:
    """What the limit of a block rests on."""
    found = ["depth d and width n go to infinity with d/n → T; weights are drawn afresh in every layer"]
    growing = [w for w in program.other_widths if w not in fixed]
    if growing:
        found.append(f"widths {', '.join(growing)} grow in proportion to n")
    if fixed:
        found.append(f"widths {', '.join(fixed)} stay fixed")
    found.append("convergence is local: up to the time at which V leaves a ball")
    return found
