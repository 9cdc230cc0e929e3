"""A covariance SDE as a table, and in LaTeX."""

from __future__ import annotations

from collections.abc import Mapping

from tplimits.limit.depth import writing
from tplimits.limit.depth.block import BlockLimit
from tplimits.limit.depth.forms import Form


def _rows(form: Form, arrays: Mapping[str, str]) -> list[str]:
    """The terms of a form, those with one coefficient together."""
    groups: dict = {}
    for factors, coefficient in form.terms.items():
        groups.setdefault(coefficient, {})[factors] = coefficient
    return [writing.text(Form(terms), arrays) for terms in groups.values()] or ["0"]


def text(name: str, limit: BlockLimit, arrays: Mapping[str, str]) -> str:
    """Drift, diffusion, root and assumptions."""
    lines = [f"covariance {limit.verdict.kind} of {name}"]
    for symbol, form in (("b[αβ]", limit.drift), ("Σ[αβ,δω]", limit.diffusion)):
        for i, row in enumerate(_rows(form, arrays)):
            sign = "  " if row.startswith("-") or i == 0 else "+ "
            lines.append(f"  {symbol if i == 0 else '':<9} {'=' if i == 0 else ' '} {sign if i else ''}{row}")
    if limit.root is not None and limit.diffusion:
        lines.append(f"  noise     = √(s/2) L(G + Gᵀ)Lᵀ with s = {limit.root.isotropic}, V = LLᵀ")
        for response in limit.root.responses:
            law = "L(G + Gᵀ)Lᵀ/√2" if response.symmetric else "LGLᵀ"
            shown, weights = writing.text(response.form, arrays), ", ".join(response.matrices)
            lines.append(f"            + {shown} with R = {law}, from {weights}")
    if _has(limit, "N"):
        lines.append("  N[αβ]     = √(V[αα]V[ββ]) (√(1−ρ²) − ρ arccos ρ), ρ = V[αβ]/√(V[αα]V[ββ])")
    if any("x̄" in line for line in lines):
        lines.append("  x̄         = a mean over the tokens")
    for label, shown in arrays.items():
        lines.append(f"  {shown:<9} = the constant array {(limit.arrays[label] + 0.0).round(4).tolist()}")
    lines += [f"  {'given' if i == 0 else '':<9}   {a}" for i, a in enumerate(limit.assumptions)]
    return "\n".join(lines)


def _has(limit: BlockLimit, label: str) -> bool:
    return any(f[0] == label for form in (limit.drift, limit.diffusion) for factors in form.terms for f in factors)


def latex(limit: BlockLimit, arrays: Mapping[str, str]) -> str:
    """Drift and diffusion as an aligned display."""
    rows = [
        rf"b^{{\alpha\beta}} &= {writing.latex(limit.drift, arrays)}",
        rf"\Sigma^{{\alpha\beta,\delta\omega}} &= {writing.latex(limit.diffusion, arrays)}",
    ]
    if _has(limit, "N"):
        rows.append(
            r"N^{\alpha\beta} &= \sqrt{V^{\alpha\alpha}V^{\beta\beta}}\left(\sqrt{1-\rho^2}-\rho\arccos\rho\right),"
            r"\quad \rho = V^{\alpha\beta}/\sqrt{V^{\alpha\alpha}V^{\beta\beta}}"
        )
    body = " \\\\\n".join(rows)
    return f"\\begin{{align*}}\n{body}\n\\end{{align*}}"


def notebook(limit: BlockLimit, arrays: Mapping[str, str]) -> str:
    """The same for a notebook."""
    return latex(limit, arrays)
