"""The kernel N of |u|: E|u_a||u_b| = V_ab + (2/π) N_ab for Gaussians with covariance V.

By Price's theorem ∂²E|u_a||u_b|/∂V_ab² = E[|u_a|″ |u_b|″] = 4/(2π√(V_aa V_bb − V_ab²)), integrated twice.  It is stated
once, in `of`, and read by four arithmetics: SymPy, arrays, compiled loops, and what is printed.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, IndexedBase

#: N[αβ] as reports print it
TEXT = "√(V[αα]V[ββ]) (√(1−ρ²) − ρ arccos ρ), ρ = V[αβ]/√(V[αα]V[ββ])"
LATEX = (
    r"\sqrt{V^{\alpha\alpha}V^{\beta\beta}}\left(\sqrt{1-\rho^2}-\rho\arccos\rho\right),"
    r"\quad \rho = V^{\alpha\beta}/\sqrt{V^{\alpha\alpha}V^{\beta\beta}}"
)


def of(scale: Any, rho: Any, sine: Any, angle: Any) -> Any:
    """√(V_aa V_bb) (√(1 − ρ²) − ρ arccos ρ): scale, correlation, sine and angle are numbers, arrays or expressions.

    In floating point the sine is √((1 − ρ)(1 + ρ)) and the angle atan2(sine, ρ): 1 − ρ² and arccos lose half of their
    digits near ρ = 1, where layers of deep networks end up.

    >>> of(2.0, 0.0, 1.0, 1.5707963267948966)
    2.0
    """
    return scale * (sine - rho * angle)


def expression(ab: Expr, aa: Expr, bb: Expr) -> Expr:
    """N of two tokens with covariance V_ab and variances V_aa, V_bb."""
    scale = sympy.sqrt(aa * bb)
    rho = ab / scale
    return of(scale, rho, sympy.sqrt(1 - rho**2), sympy.acos(rho))


def first_moved(scale: Any, sine: Any, angle: Any, aa: Any, moved: Any, back: Any) -> Any:
    """The derivative of N_ab where token a moves, √Δ C_aa/V_aa − C_ba arccos ρ, √Δ = scale·sine.

    `moved` is C_aa and `back` C_ba; zero where the tokens are parallel, though √Δ there is rounding.
    """
    return scale * sine * moved / aa - angle * back


def both_moved(
    laws: tuple[Any, Any, Any, Any], ab: Any, aa: Any, bb: Any, moved: tuple[Any, Any, Any, Any], D: Any
) -> Any:
    """The derivative of that where token b moves as well; `moved` is C_aa, C_ab, C_ba, C_bb.

    −D_ab arccos ρ + ρ′ C_ab/√(1 − ρ²) + (C_aa V_bb − V_ab C_ba) C_bb/(√Δ V_bb), ρ′ the derivative of ρ where a moves.
    """
    scale, rho, sine, angle = laws
    c_aa, c_ab, c_ba, c_bb = moved
    slope = c_ba / scale - rho * c_aa / aa
    return slope * c_ab / sine + (c_aa * bb - ab * c_ba) / (scale * sine) * c_bb / bb - angle * D


def moved_expression(label: str, V: IndexedBase, C: IndexedBase, D: IndexedBase, a: Expr, b: Expr) -> Expr:
    """N_ab with its first token moved (A), or with both (B)."""
    scale = sympy.sqrt(V[a, a] * V[b, b])
    rho = V[a, b] / scale
    sine, angle = sympy.sqrt(1 - rho**2), sympy.acos(rho)
    if label == "A":
        return first_moved(scale, sine, angle, V[a, a], C[a, a], C[b, a])
    moved = (C[a, a], C[a, b], C[b, a], C[b, b])
    return both_moved((scale, rho, sine, angle), V[a, b], V[a, a], V[b, b], moved, D[a, b])
