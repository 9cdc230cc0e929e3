"""What means in the formulas of kernels are called: by the function, κ_relu, κ_snake′, or φ1, φ2, …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy
from sympy import Expr, Function, Symbol

from tplimits.regimes.kernels.derivation.closing import MeanFunction, closed_form
from tplimits.report.text import shown

#: closed forms with more operations than this are not shown
_CLOSED_UP_TO = 90


@dataclass(frozen=True)
class NamedMean:
    """A mean that formulas refer to by name, with its closed form if there is one."""

    name: str
    function: MeanFunction
    closed: Expr | None
    rows: tuple[str, ...]
    too_long: bool = False
    #: the integrand as it is shown
    integrand: Expr = sympy.S.Zero


def of_user(functions: Mapping[str, tuple[Symbol, Expr]], function: MeanFunction) -> tuple[str, Expr] | None:
    """Name and integrand of a mean of a function that the user named, or of its derivative."""
    variables = function.variables
    for name, (slot, body) in functions.items():
        for title, value in ((name, body), (f"{name}′", body.diff(slot))):
            product = sympy.Mul(*(value.xreplace({slot: z}) for z in variables))
            if product == function.integrand or sympy.expand(product - function.integrand) == 0:
                head = sympy.Function(title, real=True)
                return f"{'κ' if len(variables) == 2 else 'μ'}_{title}", sympy.Mul(*map(head, variables))
    return None


def function_name(heads: Sequence[type], factor: Expr) -> str | None:
    """The name of a function of one variable, or of the derivative of one."""
    if len(factor.free_symbols) != 1:
        return None
    (z,) = factor.free_symbols
    for head in heads:
        if factor == head(z).diff(z):
            return f"{head.__name__}′"
    return type(factor).__name__ if isinstance(factor, Function) and factor.args == (z,) else None


def named_mean(name: str, function: MeanFunction) -> NamedMean:
    """A mean with its closed form, if that is known and short."""
    found = closed_form(function)
    if found is None:
        return NamedMean(name, function, None, ())
    value, rows = found
    closed = shown(value)
    if closed.count_ops() > _CLOSED_UP_TO:
        return NamedMean(name, function, None, rows, too_long=True)
    return NamedMean(name, function, closed, rows)
