r"""Update functions as recursions, and the norms that divide them, in text and in LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sympy import Expr, Symbol

from tplimits.report.latex_formulas import Formula

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.report.letters import Letters

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


def factored_text(letters: Letters) -> tuple[str, str]:
    """Adafactor for matrices, and for vectors and scalars."""
    return letters.text(_FACTORED), letters.text(_ENTRIES)


def factored_latex(letters: Letters) -> Iterator[Formula]:
    """The same in LaTeX, r and c for matrices, v for vectors and scalars."""
    for left, relation, right in (*_FACTORED_LATEX, *_ENTRIES_LATEX):
        yield Formula(letters.latex(left), relation, (letters.latex(right),))


def recursion(optimizer: Optimizer, letters: Letters) -> tuple[list[tuple[str, Expr]], Expr]:
    """The update function before a norm divides, hyperparameters by name: what states become, and the output."""
    found = optimizer.entry_by_entry("matrix")
    assert found is not None
    states, output = found.formula

    def told_apart(expr: Expr) -> Expr:
        return expr.xreplace({s: Symbol(letters[s.name], real=True) for s in expr.free_symbols})

    return [(letters[s.name], told_apart(s.update)) for s in states], told_apart(output)


def latex_signs(letters: Letters) -> tuple[Formula, ...]:
    """What stands in every recursion without a definition of its own."""
    own = letters.latex
    error = own(r"\quad \varepsilon_t") + r" = \text{the derivative of the error in the outputs}"
    return (
        Formula(own(r"\eta"), "=", (r"\text{the learning rate},", error)),
        Formula(own("g"), "=", (rf"\text{{the gradient at step }} {own('t')}",)),
    )
