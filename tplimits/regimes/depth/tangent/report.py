"""A joint SDE of tokens and tangents as a table, and in LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy

from tplimits.errors import NoLimitError
from tplimits.law.kets import Step
from tplimits.regimes.depth import report as covariance
from tplimits.regimes.depth.algebra import folded, writing
from tplimits.regimes.depth.algebra.products import MATRIX
from tplimits.regimes.depth.derivation.assumptions import NOCI
from tplimits.report.latex_formulas import Formula

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.tangent.derived import DerivedTangents
    from tplimits.report.letters import Letters

#: what the limit rests on besides the forward one
ASSUMED = (
    "readouts are independent of the features: standard normal given the network",
    "weights are W = θ/√columns with θ of variance 1, as the block draws them",
)
LETTERS = "VCD"
#: derivatives of the kernel N as text
_KERNELS = {
    "A": "the derivative of N[αβ] where token α moves along δx",
    "B": "that of A[αβ] where token β does",
    "r": "1/√V[αα]",
}
_AREA = r"\sqrt{V^{\alpha\alpha}V^{\beta\beta}-(V^{\alpha\beta})^2}"
_SLOPE = (
    r"\left(\frac{C^{\beta\alpha}}{\sqrt{V^{\alpha\alpha}V^{\beta\beta}}} "
    r"- \rho\frac{C^{\alpha\alpha}}{V^{\alpha\alpha}}\right)"
)
_TURNED = r"\left(C^{\alpha\alpha}V^{\beta\beta}-V^{\alpha\beta}C^{\beta\alpha}\right)"
#: and as formulas
_LATEX = {
    "A": (r"A^{\alpha\beta}", rf"{_AREA}\,C^{{\alpha\alpha}}/V^{{\alpha\alpha}} - C^{{\beta\alpha}}\arccos\rho"),
    "B": (
        r"B^{\alpha\beta}",
        rf"-D^{{\alpha\beta}}\arccos\rho + \frac{{C^{{\alpha\beta}}}}{{\sqrt{{1-\rho^2}}}}{_SLOPE} "
        rf"+ \frac{{{_TURNED}}}{{{_AREA}}}\frac{{C^{{\beta\beta}}}}{{V^{{\beta\beta}}}}",
    ),
    "r": (r"r^{\alpha}", r"1/\sqrt{V^{\alpha\alpha}}"),
}


def text(name: str, limit: DerivedTangents, arrays: Letters, assumptions: Sequence[str]) -> str:
    """Drift, noise, where gradients of parameters start, and assumptions."""
    own = arrays.text
    lines = [f"SDE of tokens and tangents of {name}: {own('V = XXᵀ/n, C = X δXᵀ/n, D = δX δXᵀ/n')}"]
    for letter in LETTERS:
        lines += covariance.defined_as(f"b_{letter}[αβ]", limit.forms.drift[letter], arrays)
    root = limit.sequences.root
    if root is not None:
        where = own("that of V at the 2m vectors x, δx")
        lines.append(f"  noise     = {where}: {covariance.isotropic(root, arrays)}")
        lines += [f"            + the response to {', '.join(r.matrices)}, moved along δx" for r in root.responses]
    else:
        lines.append(f"  noise     = no structured root of Σ: {limit.rootless}")
    if covariance.holds(limit.forms.drift.values(), "NAB"):
        lines.append(own(f"  N[αβ]     = {folded.TEXT}"))
    lines += [
        own(f"  {label}         = {_KERNELS[label]}")
        for label in "ABr"
        if covariance.holds(limit.forms.drift.values(), label)
    ]
    lines += [f"  {left:<9} = {right}" for left, right in writing.definitions(arrays)]
    for parameter in limit.parameters:
        lines.append(f"  ∂/∂{parameter:<6} : {_start(limit, parameter, arrays)}")
    if any("x̄" in line for line in lines):
        lines.append("  x̄         = a mean over the tokens")
    lines += [f"  {'given' if i == 0 else '':<9}   {a}" for i, a in enumerate(assumptions)]
    return "\n".join(lines)


def _start(limit: DerivedTangents, parameter: str, arrays: Letters) -> str:
    try:
        start = limit.start(parameter)
    except NoLimitError as refused:
        return f"not derived: {refused}"
    power, D = f"n^(-{start.order}) · " if start.order else "", arrays["D"]
    if start.quadratic is not None:
        found = f"starts from {D} = {power}({writing.text(start.quadratic, arrays)})"
        if start.linear:
            found += f", {arrays['C']} = n^(-{sympy.Rational(start.order, 2)}) · ({writing.text(start.linear, arrays)})"
        return f"{found}, {arrays['R']} = {covariance.LAWS[MATRIX].format_map(arrays)}"
    mean = "a mean of " if start.refusal else ""
    return f"starts from {mean}{D} = {power}({writing.text(start.form, arrays)})"


def steps(program: Program, limit: DerivedTangents) -> tuple[Step, ...]:
    """The derivation, one step a rule."""

    def drift(letter: str) -> str:
        return writing.text(limit.forms.drift[letter])

    return (
        *limit.sequences.steps[:-1],
        Step("two sequences with the same weights", (program.name,), lambda: "b and Σ at tokens of X and of Y", NOCI),
        Step("moved along Y", ("b",), lambda: f"b_C = ∂b_XY/∂Y·δX = {drift('C')}", NOCI),
        Step("moved along both", ("b",), lambda: f"b_D = ∂²b_XY/∂X∂Y = {drift('D')}", NOCI),
        Step(
            "duality",
            ("D",),
            lambda: "|Mᵀu|² and |M e|² have one law for standard normal u and e: gradients have that of responses",
            NOCI,
        ),
    )


def formulas(limit: DerivedTangents, arrays: Letters) -> list[Formula]:
    """Drift of the three blocks, and what stands in it."""
    own = arrays.latex
    rows = [
        Formula(
            own(rf"\mathrm{{d}}{letter}^{{\alpha\beta}}"),
            "=",
            (
                own(rf"b_{letter}^{{\alpha\beta}}\,\mathrm{{d}}t"),
                own(rf"+ \mathrm{{d}}M_{letter}^{{\alpha\beta}},"),
            ),
        )
        for letter in LETTERS
    ]
    for letter in LETTERS:
        form: Form = limit.forms.drift[letter]
        rows.append(Formula(own(rf"b_{letter}^{{\alpha\beta}}"), "=", tuple(covariance.summed(form, arrays))))
    if covariance.holds(limit.forms.drift.values(), "NAB"):
        rows.append(Formula(own(r"N^{\alpha\beta}"), "=", (own(folded.LATEX),)))
    rows += [
        Formula(own(_LATEX[k][0]), "=", (own(_LATEX[k][1]),))
        for k in "ABr"
        if covariance.holds(limit.forms.drift.values(), k)
    ]
    rows += covariance.definitions(limit.forms.drift.values(), limit.sequences.arrays, arrays)
    return [*rows, *covariance.tokens(rows, arrays)]
