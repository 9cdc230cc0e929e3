"""Removable poles at the limit of a scalar: log(1 + s)/s tends to 1 as s → 0, whatever the width.

    N(s, θ) / g(s)^k → N_m(θ) / (g_1)^k   as s → 0,   N = N_m s^m + …,  g = g_1 s^(m/k) + …

where N and g are analytic in s near 0 and N vanishes there to the order of the denominator for every θ: then the
quotient is continued by a function that is continuous at (0, θ), and the continuous mapping theorem holds.  It is
asked of poles at scalars whose limit is 0 by algebra; one that is 0 as far as numbers tell is refused by `pole`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.taylor import is_analytic
from tplimits.program.nodes.entries import Entry, entries
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import OuterNonlin, ScalarNonlin
from tplimits.program.parts import found, put_in

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: so many terms of a numerator are looked at
_MOST = 6
_SCALAR = sympy.Dummy("s", real=True)


def continued(body: Expr, vanishes: Callable[[Entry], bool]) -> Expr:
    """A body with its removable poles at scalars that vanish replaced by what they tend to.

    >>> s = Entry(S(1), S(0))
    >>> continued(sympy.log(1 + s) / s, lambda entry: True)
    1
    >>> continued(sympy.exp(s) / s, lambda entry: True) == sympy.exp(s) / s
    True
    """
    for scalar in _divisors(body, vanishes):
        # product by product, a sum of poles is none of them: 1/s − cos(s)/s stays for `pole` to refuse
        for product in sorted(found(body, sympy.Mul), key=sympy.default_sort_key):
            value = _quotient(product, scalar)
            if value is not None:
                body = put_in(body, {product: value}, {})
    return body


def is_spread(program: Program, position: int) -> bool:
    """Whether a scalar is at its limit with probability 0 at every width, as none that counts signs is."""
    # counts of signs sit on a lattice and are 0 with probability ~1/√n, where the continued value is not the function's
    above = {position} | networkx.ancestors(program.graph, position)
    makers = (program[p] for p in above)
    return not any(found(s.body, *JUMPS) for s in makers if isinstance(s, (OuterNonlin, ScalarNonlin)))


def _divisors(body: Expr, vanishes: Callable[[Entry], bool]) -> list[Entry]:
    """Scalars that vanish and are divided by, each alone in its denominator."""
    alone = [entries(p.base) for p in _poles(found(body, sympy.Pow))]
    return sorted({e[0] for e in alone if len(e) == 1 and vanishes(e[0])}, key=str)


def _poles(factors: Iterable[Expr]) -> list[Expr]:
    return [f for f in factors if f.is_Pow and f.exp.is_Integer and f.exp.is_negative and entries(f.base)]


def _quotient(product: Expr, scalar: Entry) -> Expr | None:
    """The limit of a product as a scalar in a denominator of it tends to 0; None where there is none."""
    poles = [f for f in _poles(product.args) if entries(f.base) == (scalar,)]
    # an Entry is no symbol that SymPy differentiates by
    below = sympy.Mul(*(1 / f for f in poles)).xreplace({scalar: _SCALAR})
    above = sympy.Mul(*(f for f in product.args if f not in poles)).xreplace({scalar: _SCALAR})
    if not poles or not all(is_analytic(part, _SCALAR) for part in (above, below)):
        return None
    leading = _leading(below)
    # order 0: the denominator does not vanish at all and nothing is to be continued
    if leading is None or leading[0] == 0:
        return None
    order, slope = leading
    for _ in range(order):
        # numerators must vanish to the whole order of the denominator for every value of the others, else the pole
        # stays
        if sympy.expand(above.xreplace({_SCALAR: S.Zero})) != 0:
            return None
        above = above.diff(_SCALAR)
    return above.xreplace({_SCALAR: S.Zero}) / (sympy.factorial(order) * slope)


def _leading(expr: Expr) -> tuple[int, Expr] | None:
    """(k, c) with expr ~ c s^k at 0."""
    for k in range(_MOST + 1):
        value = sympy.expand(expr.xreplace({_SCALAR: S.Zero}))
        if value != 0:
            # a leading coefficient in other scalars may vanish at some of their values, and the order jumps there
            return (k, value / sympy.factorial(k)) if value.is_number else None
        expr = expr.diff(_SCALAR)
    return None
