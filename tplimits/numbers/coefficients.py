"""The numbers that an integrand is made of, which may be 0 within their errors where the integrand does not show it.

    E |s u|^(1/4)   with   s = E x tanh(x) − E (1 − tanh²(x))   is 0, and 10⁻⁴ at s = 10⁻¹⁶

A mean moves with the numbers in it, and where one of them is rounding alone no accuracy of its own tells how far.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.program.parts import by_products, remembered

if TYPE_CHECKING:
    from tplimits.numbers.forms import Integrand


@remembered(1 << 12)
def coefficients(integrand: Integrand) -> tuple[Expr, ...]:
    """Factors and shifts of forms and of the body that read no variable; alike terms of a sum are one."""
    return tuple(dict.fromkeys(c for c in _of(integrand, frozenset()) if c.free_symbols))


def _of(integrand: Integrand, outer: frozenset[Symbol]) -> Iterator[Expr]:
    names = {entry[0] if isinstance(entry, tuple) else entry.symbol for entry in integrand.locals}
    random = outer | names | {symbol for symbol, _ in integrand.forms}
    for _, form in integrand.forms:
        yield from (slope for _, slope in form.slope)
        yield from parts_without(form.constant, random)
    for entry in integrand.locals:
        yield from parts_without(entry[1], random) if isinstance(entry, tuple) else _of(entry.integrand, random)
    yield from parts_without(integrand.body, random)


def parts_without(expr: Expr, random: frozenset[Symbol]) -> Iterator[Expr]:
    """The largest parts of an expression that read nothing random.

    >>> s, t, u = sympy.symbols("s t u")
    >>> [c for c in parts_without(sympy.tanh((s - t) * u) + s * u**2 - t * u**2, frozenset({u})) if c.free_symbols]
    [s - t, s - t]
    """
    if expr.free_symbols.isdisjoint(random):
        yield expr
        return
    for rest, numbers in by_products(expr, random).items():
        yield sympy.Add(*numbers)
        for factor in sympy.Mul.make_args(rest):
            for part in factor.args if rest != S.One else ():
                yield from parts_without(part, random)
