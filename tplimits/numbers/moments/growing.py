"""Means of functions that hold e^(a x²), a > 0: squares are completed, which leaves slower functions of a wider law.

    E e^(−(p x² + q y²)/2) f(x) h(y) = d^(−1/2) E f(x') h(y'),   (x', y') ~ N(0, (I + C diag(p, q))⁻¹ C)

with d = det(I + C diag(p, q)), where I + C^½ diag(p, q) C^½ is positive definite; elsewhere the mean is infinite
(the rule "gaussian-tilt" of `law.closed_forms.table`, on arrays).  Quadrature on the law itself sees nothing of what
lies at many of its deviations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy
import sympy
from sympy import Expr, S, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError

#: c11, c12, c22 and the determinant
Law = tuple[Array, Array, Array, Array]
#: the mean of f(x) h(y) under a law, and its error
Mean = Callable[[Expr, Expr, Law], tuple[Array, Array]]
#: of the sum of the absolute values of all terms
_ROUNDING = 4e-15


def squares_taken_out(function: Expr, x: Symbol) -> dict[float, Expr]:
    """{p: f_p} with the function Σ_p e^(−p x²/2) f_p(x).

    >>> x = Symbol("x", real=True)
    >>> squares_taken_out(sympy.exp(x**2 / 4 + x) * sympy.tanh(x) - 1, x)
    {0.0: -1, -0.5: exp(x)*tanh(x)}
    """
    found: dict[float, Expr] = {}
    for term in sympy.Add.make_args(sympy.expand_mul(function)):
        curvature, left = S.Zero, []
        for factor in sympy.Mul.make_args(term):
            square = sympy.expand(factor.args[0]).coeff(x, 2) if isinstance(factor, sympy.exp) else S.Zero
            if square.is_number and square != 0:
                curvature += square
                factor = sympy.exp(sympy.expand(factor.args[0] - square * x**2))
            left.append(factor)
        tilt = float(-2 * curvature)
        found[tilt] = found.get(tilt, S.Zero) + sympy.Mul(*left)
    return found


def on_wider_laws(
    factors: Sequence[tuple[Expr, Expr]], variables: tuple[Symbol, Symbol], law: Law, mean: Mean
) -> tuple[Array, Array] | None:
    """The mean of Σ f(x) h(y) and its error, squares completed; None where no exponential of a square grows.

    Raises EvaluationError where the mean is infinite.
    """
    sides = [[squares_taken_out(f, v).items() for f, v in zip(pair, variables, strict=True)] for pair in factors]
    if all(p >= 0 for pair in sides for side in pair for p, _ in side):
        return None
    value, error, size = (numpy.zeros_like(law[0]) for _ in range(3))
    for left, right in sides:
        for (p, f), (q, h) in itertools.product(left, right):
            weight, inner, near = _tilted(p, q, law, f"{f}", f"{h}")
            one, doubt = mean(f, h, inner)
            value += weight * one
            error += weight * doubt
            size += abs(weight * one) * near
    return value, error + _ROUNDING * size


def _tilted(p: float, q: float, law: Law, f: str, h: str) -> tuple[Array, Law, Array]:
    """d^(−1/2), the wider law, and how rounding of d counts."""
    c11, c12, c22, det = law
    d = 1 + p * c11 + q * c22 + p * q * det
    if not ((d > 0) & (2 + p * c11 + q * c22 > 0)).all():
        raise EvaluationError(
            f"the mean of e^({-p / 2:g} x²) e^({-q / 2:g} y²) times `{f}` at x and `{h}` at y is infinite at some of "
            "the covariances: an exponential of a square grows faster than a Gaussian density decays. Narrow its "
            "argument."
        )
    return 1 / numpy.sqrt(d), ((c11 + q * det) / d, c12 / d, (c22 + p * det) / d, det / d), 1 + 1 / d
