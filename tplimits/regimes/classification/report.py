"""A classification as text and as LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy
from sympy import latex as written

if TYPE_CHECKING:
    from tplimits.regimes.classification.derivation.verdict import StabilityVerdict

#: what each group of inequalities decides
TITLES = {
    "start": "stable at the start",
    "gradients": "faithful: scaled gradients of order 1",
    "training": "stable in training",
    "output": "nontrivial if one holds",
    "features": "features are learned if one holds",
}


def text(verdict: StabilityVerdict, optimizer: Any) -> str:
    """The verdict, every inequality, and what breaks."""
    by = ", ".join(f"{k}: {o}" for k, o in optimizer.items()) if isinstance(optimizer, dict) else str(optimizer)
    lines = [f"{verdict.network.name} in {verdict.parametrization!r}, trained by {by}: {_regime(verdict)}"]
    lines += [f"  {line}" for line in (*_about_kernels(verdict), *_about_powers(verdict), *_about_assumption(verdict))]
    for group, rows in verdict.groups.items():
        if rows:
            lines.append(f"  {TITLES[group]}")
            lines += [f"    {row}" for row in rows]
    if verdict.breaks:
        lines.append("  what breaks")
        lines += [f"    {line}" for line in verdict.breaks]
    return "\n".join(lines)


def _about_kernels(verdict: StabilityVerdict) -> list[str]:
    """Whether feature kernels evolve, where nothing grows."""
    if verdict.regime in ("unstable", "unfaithful"):
        return []
    if verdict.evolves in (sympy.true, sympy.false):
        first = f", from {verdict.evolving[0]} on" if verdict.evolving else ""
        return ["feature kernels " + (f"evolve{first}" if verdict.evolves == sympy.true else "are fixed")]
    return [f"feature kernels evolve if {verdict.evolves}"]


def _about_assumption(verdict: StabilityVerdict) -> list[str]:
    """What the theorems behind a verdict ask for, and what of it fails."""
    failing = [finding for finding in verdict.findings if not finding.holds]
    if not failing:
        return [f"Assumption 2.8.2 {' and '.join(map(str, verdict.findings))}"]
    lines = [f"Assumption 2.8.2 {finding}" for finding in failing]
    return [*lines, "that features move where powers say so is then counted, not proved (Thm 2.8.19)"]


def _about_powers(verdict: StabilityVerdict) -> list[str]:
    """What factors of n in the program mean for the inequalities."""
    if verdict.doubt:
        return [verdict.doubt]
    if verdict.scaling is None or not verdict.scaling.shifts:
        return []
    shifts = ", ".join(f"{name}: a {'−' if s < 0 else '+'} {abs(s)}" for name, s in verdict.scaling.shifts.items())
    return [f"powers of n in the program count as part of a: {shifts}"]


def _regime(verdict: StabilityVerdict) -> str:
    if verdict.regime:
        return verdict.regime
    return "; ".join(f"{name} if {c}" for name, c in verdict.conditions.items() if c not in (True, False))


def latex(verdict: StabilityVerdict) -> str:
    """Every inequality on a line."""
    lines = [rf"&\text{{{line}}}" for line in _about_powers(verdict)]
    for group, rows in verdict.groups.items():
        for row in rows:
            sign = {"=": "=", "≥": r"\ge", "≤": r"\le"}[row.relation]
            about = row.about.replace("_", r"\_")
            lines.append(rf"&\text{{{TITLES[group]}, {about}:}} & {written(row.left)} &{sign} {written(row.right)}")
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"
