"""A classification as text and as LaTeX, and what widening does in words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sympy
from sympy import latex as written

from tplimits.report.latex_names import prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tplimits.regimes.classification.derivation.sizes import Power
    from tplimits.regimes.classification.derivation.verdict import StabilityVerdict
    from tplimits.regimes.classification.widening import Widening

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
    rest = [f"{name} stays at rest: gradients behind a jump are 0" for name in verdict.behind_jumps]
    about = (
        *_about_kernels(verdict),
        *rest,
        *about_start(verdict),
        *_about_powers(verdict),
        *_about_falling(verdict),
        *_about_assumption(verdict),
    )
    lines += [f"  {line}" for line in about]
    for group, rows in verdict.groups.items():
        if rows:
            lines.append(f"  {TITLES[group]}")
            lines += [f"    {row}" for row in rows]
    if verdict.breaks:
        lines.append("  what breaks")
        lines += [f"    {line}" for line in verdict.breaks]
    return "\n".join(lines)


def _about_falling(verdict: StabilityVerdict) -> list[str]:
    """What a bounded update compares gradients with, where these fall below it: ε, which few widths reach."""
    if not verdict.falling:  # with symbols nothing is counted
        return []
    falling = ", ".join(f"{name} like n^({power})" for name, power in verdict.falling)
    above = f"counted where it is far below the constants of its optimizer, as ε; above them: {verdict.above.regime}"
    return [f"n^d g falls, of {falling}: {above}"]


def _about_kernels(verdict: StabilityVerdict) -> list[str]:
    """Whether feature kernels evolve, where nothing grows."""
    if verdict.regime in ("unstable", "unfaithful"):
        return []
    if verdict.evolves in (sympy.true, sympy.false):
        first = f", from {verdict.evolving[0]} on" if verdict.evolving else ""
        return ["feature kernels " + (f"evolve{first}" if verdict.evolves == sympy.true else "are fixed")]
    return [f"feature kernels evolve if {verdict.evolves}"]


def about_start(verdict: StabilityVerdict) -> list[str]:
    """Hypotheses that fail or are open before training, where nothing grows."""
    return [] if verdict.regime in ("unstable", "unfaithful") else verdict.at_start.lines()


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
    lines = [rf"&\text{{{prose(line)}}}" for line in _about_powers(verdict)]
    for group, rows in verdict.groups.items():
        for row in rows:
            sign = {"=": "=", "≥": r"\ge", "≤": r"\le"}[row.relation]
            lines.append(
                rf"&\text{{{TITLES[group]}, {prose(row.about)}:}} & {written(row.left)} &{sign} {written(row.right)}"
            )
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def power_of_n(p: Power) -> str:
    """A power of n for sentences."""
    return "1" if p == 0 else "n" if p == 1 else f"n^({p})"


def widening_text(found: Widening) -> str:
    """The verdict, the powers of every layer and parameter, the largest rate, and the nearest table that learns."""
    lines = [found.sentence, "", "at the start"]
    starts = [f"  {name} starts like {power_of_n(p)}: it grows" for name, p in named(found.growing_starts).items()]
    starts += [
        f"  {name} starts like {power_of_n(p)}: harmless, where it is added to what is larger"
        for name, p in found.vanishing_starts.items()
        if p < 0
    ]
    lines += starts or ["  everything is of order 1"]
    lines.append("in training, at a rate that does not depend on n")
    if found.saturated:
        lines.append(
            f"  at most, for `{found.saturated}` saturates at the start, and lets less pass than is counted: powers "
            "that follow are bounds"
        )
    if found.averages:
        lines.append("  at most: averages over neurons count as small only where symmetry makes their means zero")
    lines += [f"  {line}" for line in (*_layers(found), *_outputs(found))]
    c = found.largest_rate
    least = " or larger" if found.saturated or found.averages else ""
    lines.append(f"the largest rate at which nothing grows: of order {power_of_n(-c)}{least}, for all parameters alike")
    moving, resting = _split(found)
    lines.append("  there " + ("f moves" if found.at_largest_rate["f"] >= 0 else "f does not move"))
    if moving:
        lines.append(f"  features that move: {', '.join(moving)}")
    if resting:
        lines.append(f"  features that stay as they start: {', '.join(resting)}")
    return "\n".join([*lines, *_nearest(found)])


def _named(names: Iterable[str]) -> list[str]:
    return [n for n in names if not n.startswith("_")]


def named(powers: Mapping[str, Power]) -> Mapping[str, Power]:
    """Those of values that have a name of their own, where there are any: `_38` says nothing to anyone."""
    return {n: powers[n] for n in _named(powers)} or powers


def _layers(found: Widening) -> Iterator[str]:
    for name in _named(found.layers):
        power, step = found.first_change(name)
        relative = power - found.scales.get(name, Fraction(0))
        what = "grows" if relative > 0 else "vanishes" if relative < 0 else "stays of order 1"
        yield f"{name} moves like {power_of_n(power)} from step {step} on: {what}"


def _outputs(found: Widening) -> Iterator[str]:
    by_power: dict[Power, list[str]] = {}
    for name, power in found.by_parameter.items():
        by_power.setdefault(power, []).append(name)
    for power in found.f:
        yield f"f moves like {power_of_n(power)} by the updates of {', '.join(by_power[power])}"


def _split(found: Widening) -> tuple[list[str], list[str]]:
    """The features that move at the largest rate, and those that do not."""
    late = found.at_largest_rate
    named = [n for n in _named(found.layers) if n in late]
    moving = [n for n in named if late[n] >= found.scales.get(n, Fraction(0))]
    return moving, [n for n in named if n not in moving]


def _nearest(found: Widening) -> list[str]:
    """What would have to change for features to be learned at every width."""
    if found.nearest is None:
        return ["no table of rates and initial entries that learns features was found"]
    lines = ["the nearest table in which features are learned, with nothing growing"]
    now, wanted = found.parametrization.of(found.program), found.nearest.of(found.program)
    for name, e in wanted.items():
        std, rate = now[name].b - e.b, now[name].c - e.c
        changes = [
            f"{what} times n^({p})" for what, p in (("initial entries", std), ("rate", rate)) if p != 0
        ]  # fmt: skip
        lines.append(f"  {name}: {', '.join(changes) or 'as it is'}")
    a_out = found.nearest.a_out - found.parametrization.a_out
    return [*lines, f"  the output times n^({-a_out})"] if a_out != 0 else lines
