"""The kernel N of |u|: E|u_a||u_b| = V_ab + (2/π) N_ab for Gaussians with covariance V.

By Price's theorem ∂²E|u_a||u_b|/∂V_ab² = E[|u_a|″ |u_b|″] = 4/(2π√(V_aa V_bb − V_ab²)), integrated twice.  It is stated
once, in `of`, and read by four arithmetics: SymPy, arrays, compiled loops, and what is printed.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr

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
