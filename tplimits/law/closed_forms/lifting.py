"""The error function as a mean of steps.

    erf(u) = E_g[ 2 step(√2 u + g) − 1 ],   g ~ N(0, 1) independent of everything else

so products of error functions, and the exact GELU x(1 + erf(x/√2))/2, close wherever steps do; the
mean of two error functions becomes the arcsine kernel (Williams, NIPS 1996).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy
from sympy import Expr

from tplimits.law.closed_forms.integrand import Affine, Integrand, Law


def lift_error_function(law: Law, integrand: Integrand, rest: Callable[[Law, Integrand], Expr]) -> Expr:
    """Replace one erf factor by steps with an independent variable."""
    form, *others = integrand.errors
    wider = law.with_independent()
    root = sympy.sqrt(2)
    lifted = Affine((*(root * a for a in form.slope), sympy.S.One), root * form.constant)
    extended = extend(replace(integrand, errors=tuple(others)))
    with_step = rest(wider, replace(extended, steps=(*extended.steps, lifted)))
    without = rest(law, replace(integrand, errors=tuple(others)))
    return 2 * with_step - without


def extend(integrand: Integrand) -> Integrand:
    """The same integrand with one more variable that it does not depend on."""
    zero = sympy.S.Zero
    return Integrand(
        tuple(((*e, 0), c) for e, c in integrand.polynomial),
        tuple(f.extended() for f in integrand.steps),
        tuple(f.extended() for f in integrand.deltas),
        tuple(
            ((*((*row, zero) for row in a), (zero,) * (len(b) + 1)), (*b, zero), c) for a, b, c in integrand.exponents
        ),
        tuple((s, f.extended()) for s, f in integrand.waves),
        tuple(f.extended() for f in integrand.errors),
    )
