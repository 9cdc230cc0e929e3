"""A covariance SDE that has numbers and no formulas, as text, steps and LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.law.kets import Reference, Step
from tplimits.regimes.depth.derivation.assumptions import NOCI
from tplimits.regimes.finite_width.report import EXPANDED
from tplimits.report.latex_formulas import Formula

if TYPE_CHECKING:
    from tplimits.regimes.depth.expanded.limit import NumericSDE

KATZENBERGER = Reference("Katzenberger 1991", "katzenberger1991solutions")
ASSUMED = (
    "layers attract V to a manifold of fixed points of their leading map M, geometrically, and π = lim Mᵏ is smooth "
    "near them; decided from M and its derivatives at given numbers",
    "V starts on that manifold, or is taken there at once",
)
_WHY = (
    "no formulas: the block holds what the algebra of indices has no place for, such as norms of the state, weights "
    "that are read twice, or biases inside of a function"
)
_MAP = "V′ = M(V) + b₁/n + fluctuations of covariance C₁/n"
_DRIFT, _NOISE = "Dπ b₁ + ½ D²π : C₁", "Dπ C₁ Dπᵀ"
FORMULAS = (
    Formula(
        r"V'",
        "=",
        (r"M(V) + \tfrac{1}{n} b_1(V) + \tfrac{1}{\sqrt{n}} C_1(V)^{1/2} g,", r"\quad \pi = \lim_{k\to\infty} M^k"),
    ),
    Formula(r"\mathrm{d}V", "=", (r"b\,\mathrm{d}t + \Sigma^{1/2}\,\mathrm{d}B", r"\quad \text{where } V = M(V)")),
    Formula("b", "=", (r"\mathrm{D}\pi\,b_1", r"+ \tfrac{1}{2} \mathrm{D}^2\pi : C_1")),
    Formula(r"\Sigma", "=", (r"\mathrm{D}\pi\,C_1\,\mathrm{D}\pi^{\top}",)),
)


def text(sde: NumericSDE) -> str:
    """What it is, and by which route its numbers come."""
    lines = [
        f"covariance SDE of {sde.program.name}, in numbers",
        f"  one layer = {_MAP}, by its expansion in 1/n on quadrature nodes",
        f"  b         = {_DRIFT} at fixed points of M, π = lim Mᵏ",
        f"  Σ         = {_NOISE}",
        f"  {_WHY}",
        "              drift_at(V), diffusion_at(V), attracted(V) = π(V), simulate(V0) for two tokens",
    ]
    lines += [f"  {'given' if i == 0 else '':<9}   {a}" for i, a in enumerate(sde.assumptions)]
    return "\n".join(lines)


def steps(name: str) -> tuple[Step, ...]:
    """The derivation."""
    return (
        Step("no formulas", (name,), lambda: _WHY, NOCI),
        Step("expansion of one layer in 1/n", (name,), lambda: _MAP, EXPANDED),
        Step("fixed points that attract", ("M", "b₁", "C₁"), lambda: f"b = {_DRIFT}, Σ = {_NOISE}", KATZENBERGER),
        Step("diffusion limit", ("b", "Σ"), lambda: f"`{name}`: V at layer t·n converges on V = M(V)", NOCI),
    )
