"""Functions of widths alone as their powers: √(n/(n − 1)) is 1 + 1/(2n) to order 1/n."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Rational, S, Symbol

from tplimits.law.rules.small import in_powers_of_n
from tplimits.program.nodes.entries import N, width_symbol
from tplimits.program.nodes.scale import powers_of_n
from tplimits.program.parts import rebuilt

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def in_powers_of_widths(program: Program, ratios: Mapping[str, float]) -> Program:
    """The program with what reads widths alone as sums of their powers, as far as order 1/n reads them."""
    widths = {width_symbol(w): sympy.nsimplify(ratios[w], rational=True) * N for w in program.widths}
    return program.replace(instructions=tuple(s.changed(lambda body: _written(body, widths)) for s in program))


def _written(body: Expr, widths: Mapping[Symbol, Expr], order: int = 2) -> Expr:
    """A body to n^(−order/2): a power of n before a sum asks for as many more orders of what stands in it.

    >>> x = sympy.Symbol("x", real=True)
    >>> _written(x * sympy.sqrt(N / (N - 1)), {N: N}), _written(sympy.sqrt(N) * x * (N - 1) / N, {N: N})
    (x*(1 + 1/(2*n)), sqrt(n)*x*(1 - 1/n))
    """
    if body.free_symbols.isdisjoint(widths):
        return body
    parts = body.args if body.is_Add or body.is_Mul else (body,)
    alone = [a for a in parts if a.free_symbols and a.free_symbols <= widths.keys()]
    if not alone and parts == (body,):
        return rebuilt(body, [_written(a, widths, order) for a in body.args])
    power, series = _series((sympy.Add if body.is_Add else sympy.Mul)(*alone), widths, order)
    if not body.is_Add:  # what is small by itself may be divided by, or stand under a root that a power is before
        power, series = _series(sympy.Mul(*alone), widths, order + 2 * abs(power))
        order += 2 * max(power, 0)
    rest = [_written(a, widths, order) for a in parts if a not in alone]
    (width, multiple), *_ = widths.items()
    found = (N**power * series).xreplace({N: width * N / multiple})
    return sympy.Add(found, *rest) if body.is_Add else sympy.Mul(found, *rest)


def _series(expr: Expr, widths: Mapping[Symbol, Expr], order: int) -> tuple[Rational, Expr]:
    """The highest power of n in what reads widths alone, and what stands beside it."""
    written = expr.xreplace(widths)
    series = in_powers_of_n(written, order)
    series = sympy.expand(written) if series is None else series
    # of what has no such series whoever reads it tells the line
    power = max(powers_of_n(series), default=S.Zero)
    return power, sympy.expand(series / N**power)
