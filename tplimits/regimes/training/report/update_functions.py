r"""Update functions as recursions, and the norms that divide them, in text and in LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import sympy

from tplimits.program.language.render import number_text
from tplimits.report.latex_formulas import Formula, FormulaPrinter
from tplimits.report.latex_names import name as latex_name

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.derivation.norms import Norm, WholeNorm

#: what a limit with norms rests on
NOT_ZERO = "norms that divide updates do not vanish in the limit, unless they do at every width"
#: how norms of matrices are read
SIDES = "E[X²] of a matrix, of each in a family, is E E□ X², a mean over both of its sides; where ν = 0 nothing moves."
#: Adafactor, whose update of a matrix is no function of single entries
_FACTORED = (
    "of a matrix r ← ρ*r + (1 − ρ)*E□ g², c ← ρ*c + (1 − ρ)*E g² (means over columns and over rows), "
    "Q_t = g/√(r c□/(⟨1|r⟩*(1 − ρ^(t + 1))) + ε²)"
)
_FACTORED_LATEX = (
    ("r", r"\leftarrow", r"\rho r + (1 - \rho) \operatorname{E}_{\boxed{1}} g^2"),
    ("c", r"\leftarrow", r"\rho c + (1 - \rho) \operatorname{E} g^2"),
    ("Q_t", "=", r"g \Big/ \sqrt{\frac{r\, c^{\boxed{1}}}{\langle 1|r\rangle (1 - \rho^{t+1})} + \epsilon^2}"),
)
_ENTRIES = "of a vector v ← ρ*v + (1 − ρ)*g², Q_t = g/√(v/(1 − ρ^(t + 1)) + ε²)"
_ENTRIES_LATEX = (
    ("v", r"\leftarrow", r"\rho v + (1 - \rho) g^2"),
    ("Q_t", "=", r"g \Big/ \sqrt{\frac{v}{1 - \rho^{t+1}} + \epsilon^2}"),
)


def is_factored(optimizer: Optimizer) -> bool:
    """Whether the update of a matrix is no function of single entries."""
    return optimizer.entry_by_entry("matrix") is None


def factored_text() -> tuple[str, str]:
    """Adafactor for matrices, and for vectors and scalars."""
    return _FACTORED, _ENTRIES


def factored_latex() -> Iterator[Formula]:
    """The same in LaTeX, r and c for matrices, v for vectors and scalars."""
    for left, relation, right in (*_FACTORED_LATEX, *_ENTRIES_LATEX):
        yield Formula(left, relation, (right,))


def entry_by_entry(optimizer: Optimizer) -> Optimizer:
    """The update function before a norm divides."""
    found = optimizer.entry_by_entry("matrix")
    assert found is not None
    return found


def norm_text(inside: str, norm: Norm) -> str:
    """√(widths Σ_axes E[inside²]), with the threshold of clipping; `inside` is all there is of an initial matrix."""
    widths = "" if norm.widths == 1 else f"{number_text(norm.widths)} "
    if norm.is_of_start:
        root = f"√({widths.strip()})" if widths else ""
        return " ".join(part for part in (inside, root) if part) or "1"
    square = _square_text(inside, norm)
    return _clipped_text(f"√{square}" if square.startswith("E") else f"√({square})", norm.optimizer)


def _square_text(inside: str, norm: Norm) -> str:
    widths = "" if norm.widths == 1 else f"{number_text(norm.widths)} "
    sums = f"Σ_{{{', '.join(norm.axes)}}} " if norm.axes else ""
    return f"{widths}{sums}E[{inside}²]"


def _clipped_text(root: str, optimizer: Optimizer) -> str:
    clip = optimizer.clips_at
    return root if clip is None else f"{clip[0]}({number_text(clip[1])}, {root})"


def whole_text(gradients: Mapping[str, str], norm: WholeNorm) -> str:
    """The norm of the whole gradient, with the threshold of clipping."""
    squares = " + ".join(_square_text(f"({gradients[name]})", part) for name, part in norm.parts.items())
    return _clipped_text(f"√({squares})", norm.optimizer)


def whole_latex(gradients: Mapping[str, str], norm: WholeNorm) -> str:
    """The same in LaTeX."""
    squares = " + ".join(_square_latex(gradients[name], part) for name, part in norm.parts.items())
    return _clipped_latex(rf"\sqrt{{{squares}}}", norm.optimizer)


def norm_latex(inside: str, norm: Norm) -> str:
    """The same in LaTeX."""
    widths = "" if norm.widths == 1 else FormulaPrinter().doprint(norm.widths)
    if norm.is_of_start:
        root = rf"\sqrt{{{widths}}}" if widths else ""
        return rf"{inside}\,{root}" if inside and root else inside or root or "1"
    return _clipped_latex(rf"\sqrt{{{_square_latex(inside, norm)}}}", norm.optimizer)


def _square_latex(inside: str, norm: Norm) -> str:
    widths = "" if norm.widths == 1 else FormulaPrinter().doprint(norm.widths)
    axes = ",".join(latex_name(a) for a in norm.axes)
    sums = rf"\sum_{{{axes}}} " if axes else ""
    return rf"{widths}{sums}\operatorname{{E}}\Big[\big({inside}\big)^2\Big]"


def _clipped_latex(root: str, optimizer: Optimizer) -> str:
    clip = optimizer.clips_at
    if clip is None:
        return root
    return rf"\{clip[0]}\Big({FormulaPrinter().doprint(sympy.sympify(clip[1]))}, {root}\Big)"
