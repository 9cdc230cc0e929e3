"""Piecewise linear functions in means: their slopes on the two half-lines."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.program.nodes.functions import BENT, elementary, step
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.leaves import Moment

#: how far a product of slopes may be off by the rounding of decimal numbers
_ROUNDING = 1e-12


def slopes(moment: Moment) -> tuple[float, float] | None:
    """(f₊, f₋) of a moment E φ(z)φ(z′) with φ(z) = f₊ z₊ + f₋ (−z)₊; None of what bends elsewhere, too."""
    if len(moment.variables) != 2 or moment.values or not _piecewise_linear(moment.integrand):
        return None
    z, w = moment.variables
    body = elementary(moment.integrand)
    steps = {s: _side(s.args[0], z, w) for s in found(body, step)}
    if None in steps.values():
        return None
    products = {}
    # no values at points: relu(x) − relu(x − 6) is relu up to 6
    for sides in itertools.product((1, -1), repeat=2):
        quadrant = {s: S.One if sides[side[0]] == side[1] else S.Zero for s, side in steps.items() if side is not None}
        product = sympy.expand(body.xreplace(quadrant) / (z * w))
        if not product.is_number:
            return None
        products[sides] = float(product) * sides[0] * sides[1]
    plus, minus, mixed = products[1, 1], products[-1, -1], products[1, -1]
    if plus < 0 or minus < 0:
        return None
    f, g = plus**0.5, minus**0.5 * (1 if mixed >= 0 else -1)
    is_product = all(abs(m - f * g) <= _ROUNDING * (1 + abs(m)) for m in (mixed, products[-1, 1]))
    return (f, g) if is_product else None


def _side(argument: Expr, z: Expr, w: Expr) -> tuple[int, int] | None:
    """Which variable an argument is a multiple of, and the sign of the multiple; None where it is none."""
    for place, variable in enumerate((z, w)):
        multiple = sympy.expand(argument / variable)
        if multiple.is_number and multiple.is_nonzero:
            return place, 1 if multiple.is_positive else -1
    return None


def _piecewise_linear(integrand: Expr) -> bool:
    return integrand != S.One and all(isinstance(f, BENT) for f in integrand.atoms(sympy.Function))
