"""The maximal update parametrization that changes least of what is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.roles import roles
from tplimits.program.parametrization.table import Parametrization
from tplimits.program.program import Program


def nearest_maximal_update(network: Program, parametrization: Parametrization, optimizer: Any) -> Parametrization:
    """μP with the a and a_out that are given, and with the d that is given where the optimizer lets it be.

    By the symmetry (a, b, c, d) → (a + θ, b − θ, c − θ, d + θ) every a will do; then b, c, d are those of μP:

        matrices b = ½ − a, c = 1 − a, d = 1 + a;    vectors b = c = −a, d = 1 + a;
        readouts b = c = 1 − a_out − a, d = a_out + a;    scalars b = c = −a, d = a.

    An optimizer of degree 1 sees c − d alone, one of degree 0 no d at all: then d stays as given.
    """
    kinds = roles(network).kinds
    found = {}
    for name, e in parametrization.of(network).items():
        chosen: Optimizer = optimizer[name] if isinstance(optimizer, Mapping) else optimizer
        b, c, d = _maximal(kinds[name], e, parametrization.a_out)
        c = c - chosen.extra_power(kinds[name], e)
        if chosen.degree == 1:
            c, d = c - d + e.d, e.d
        elif chosen.degree == 0:
            d = e.d
        found[name] = Exponents(e.a, b, c, d)
    return parametrization.with_names(found).renamed(f"μP nearest to {parametrization.name}")


def _maximal(kind: str, e: Exponents, a_out: sympy.Expr) -> tuple[sympy.Expr, ...]:
    if kind == "matrix":
        return sympy.S.Half - e.a, 1 - e.a, 1 + e.a
    if kind == "vector":
        return -e.a, -e.a, 1 + e.a
    if kind == "scalar":
        return -e.a, -e.a, e.a
    total = a_out + e.a
    return 1 - total, 1 - total, total
