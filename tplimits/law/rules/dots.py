"""Coefficients of dot parts, E[∂|x⟩/∂|Wᵀy⟩^] (Yang & Littwin, Eq. 2.19), in one of two forms.

    derivative   E[∂x/∂ŷ_i], where the derivative of x is a function, or one with deltas that can be integrated
    Stein        Σ_j (⟨ŷ|ŷ⟩⁺)_ij E[ŷ_j x], by Stein's lemma, for any square integrable x

A delta is integrated where everything beside it is continuous, c(z) δ(z) = c(0) δ(z).  Beside another jump the product
is ambiguous (∂ relu(h + sign h) has step(…)·δ(h)), and a derivative such as that of sign(h)|h|^¼ is not integrable term
by term: there Stein's form is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy
from sympy import DiracDelta, Expr

from tplimits.errors import NoLimitError
from tplimits.program.nodes.functions import JUMPS, elementary


class NotAFunction(NoLimitError):
    """A derivative holds deltas that cannot be integrated, or is not integrable."""

    def __init__(
        self,
        message: str = "a mean holds the derivative of a jump beside another jump or a pole at one place, which is no "
        "number (hypothesis of Eq. 2.19: a derivative in the mean). Train only the parameters behind the jump "
        "(train=…), or smooth it.",
    ) -> None:
        super().__init__(message)


def coefficient(by_derivative: Callable[[], Expr], by_stein: Callable[[], Expr]) -> tuple[Expr, str]:
    """The coefficient and the form that gave it; `by_derivative` may raise NotAFunction."""
    try:
        return by_derivative(), "derivative"
    except NotAFunction:
        return by_stein(), "Stein"


def solved(gram: Sequence[Sequence[Expr]], products: Sequence[Expr]) -> list[Expr]:
    """C⁻¹ E[ŷ x] for hats with a regular covariance C."""
    return list(sympy.Matrix(gram).LUsolve(sympy.Matrix(products)))


def beside_jump(derivative: Expr, jumps: Callable[[Expr], bool]) -> bool:
    """Whether some delta of a derivative stands beside a factor that `jumps`, or in one."""
    # kinks and jumps written through steps first: relu′ is a step and would not be seen as a jump beside the delta
    for term in sympy.Add.make_args(sympy.expand(elementary(derivative))):
        if term.has(DiracDelta):
            others = [f for f in sympy.Mul.make_args(term) if not isinstance(f, DiracDelta)]
            # a jump inside of the delta's argument moves the place of the delta itself: δ(h + sign h)
            if any(map(jumps, others)) or any(f.args[0].has(*JUMPS) for f in term.atoms(DiracDelta)):
                return True
    return False
