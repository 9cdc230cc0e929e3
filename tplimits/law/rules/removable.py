"""Removable poles at the limit of a scalar: log(1 + s)/s tends to 1 as s → 0, whatever the width.

    N(s, θ) / g(s)^k → N_m(θ) / (g_1)^k   as s → 0,   N = N_m s^m + …,  g = g_1 s^(m/k) + …

where N and g are analytic in s near 0 and N vanishes there to the order of the denominator for every θ: then the
quotient is continued by a function that is continuous at (0, θ), and the continuous mapping theorem holds.  So are
powers of s beside logarithms, s log|s| → 0.  It is
asked of poles at scalars whose limit is 0 by algebra; one that is 0 as far as numbers tell is refused by `pole`.
Where a power of n may bring out what fluctuates beside the limit, the quotient is continued by more of its series.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.pole import singular_places
from tplimits.law.hypotheses.taylor import is_analytic, order_at_zero
from tplimits.program.nodes.entries import Entry, entries
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import Instruction, OuterNonlin, ScalarNonlin
from tplimits.program.parts import found, put_in

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: so many terms of a numerator are looked at
_MOST = 6
_SCALAR = sympy.Dummy("s", real=True)


def continued(body: Expr, vanishes: Callable[[Entry], bool], order: int = 0) -> Expr:
    """A body with its removable poles at scalars that vanish replaced by Taylor polynomials of this order.

    >>> s = Entry(S(1), S(0))
    >>> continued(sympy.log(1 + s) / s, lambda entry: True)
    1
    >>> continued(sympy.exp(s) / s, lambda entry: True) == sympy.exp(s) / s
    True
    """
    for scalar in _singular(body, vanishes):
        # product by product, a sum of poles is none of them: 1/s − cos(s)/s stays for `pole` to refuse
        for product in sorted(found(body, sympy.Mul), key=sympy.default_sort_key):
            value = (None if order else _tamed(product, scalar)) or _quotient(product, scalar, order)
            if value is not None:
                body = put_in(body, {product: value}, {})
    return body


def smooth(program: Program, vanishes: Callable[[Entry], bool], order: int) -> Program:
    """A program with all its bodies continued, to an order beyond what powers of its widths bring out."""
    widths = program.known.width_symbols

    def changed(s: Instruction) -> Instruction:
        if not isinstance(s, (OuterNonlin, ScalarNonlin)):
            return s
        body = continued(s.body, vanishes, order + brought_out([s.body], widths))
        return s if body is s.body else replace(s, body=body)

    return program.replace(instructions=tuple(map(changed, program)))


def brought_out(bodies: Iterable[Expr], widths: Collection[Symbol]) -> int:
    """To which order in a scalar beside its limit powers of widths may bring out what it does, within reason."""
    powers = (p.as_base_exp() for body in bodies for p in found(body, sympy.Pow, Symbol))
    halves = (sympy.ceiling(2 * power) for base, power in powers if base in widths and power.is_positive)
    return int(min(sympy.Add(*halves), _MOST))


def is_spread(program: Program, position: int) -> bool:
    """Whether a scalar is at its limit with probability 0 at every width, as none that counts signs is."""
    # counts of signs sit on a lattice and are 0 with probability ~1/√n, where the continued value is not the function's
    above = {position} | networkx.ancestors(program.graph, position)
    makers = (program[p] for p in above)
    return not any(found(s.body, *JUMPS) for s in makers if isinstance(s, (OuterNonlin, ScalarNonlin)))


def _singular(body: Expr, vanishes: Callable[[Entry], bool]) -> list[Entry]:
    """Scalars that vanish and are divided by, or have a logarithm, each alone there."""
    alone = [entries(a) for _, a in singular_places(body)]
    return sorted({e[0] for e in alone if len(e) == 1 and vanishes(e[0])}, key=str)


def _tamed(product: Expr, scalar: Entry) -> Expr | None:
    """A product of logarithms and powers of a scalar without the former, which are weaker; None for others."""
    mine = [f for f in product.args if scalar in entries(f)]
    logs = [f for f in mine if isinstance(f.as_base_exp()[0], sympy.log) and _weak(f.as_base_exp()[0].args[0], scalar)]
    powers = [f for f in mine if f.as_base_exp()[0] in (scalar, sympy.Abs(scalar))]
    if not logs or not powers or any(f.as_base_exp()[1].could_extract_minus_sign() for f in mine):
        return None
    return sympy.Mul(*(f for f in product.args if f not in logs))


def _weak(argument: Expr, scalar: Entry) -> bool:
    """Whether the logarithm of an argument is real for every value of a scalar, and diverges as its own at 0."""
    smooth = argument.replace(sympy.Abs, lambda x: x).xreplace({scalar: _SCALAR})
    return bounds(argument)[0] >= 0 and bool(order_at_zero(smooth, _SCALAR))


def _poles(factors: Iterable[Expr]) -> list[Expr]:
    return [f for f in factors if f.is_Pow and f.exp.is_Integer and f.exp.is_negative and entries(f.base)]


def _quotient(product: Expr, scalar: Entry, order: int) -> Expr | None:
    """A product as a scalar in a denominator of it tends to 0, as a polynomial; None where it has no limit."""
    poles = [f for f in _poles(product.args) if entries(f.base) == (scalar,)]
    # what may have poles of its own stays to be judged, also where the quotient vanishes
    others = [f for f in product.args if scalar not in entries(f) and singular_places(f)]
    # an Entry is no symbol that SymPy differentiates by
    below = sympy.Mul(*(1 / f for f in poles)).xreplace({scalar: _SCALAR})
    above = sympy.Mul(*(f for f in product.args if f not in (*poles, *others))).xreplace({scalar: _SCALAR})
    if not poles or not all(is_analytic(part, _SCALAR) for part in (above, below)):
        return None
    down = _taylor(below, _MOST + order)
    first = next((k for k, c in enumerate(down) if c != 0), 0)
    # a leading coefficient in other scalars may vanish at some of their values, and the order jumps there; order 0: the
    # denominator does not vanish at all and nothing is to be continued
    if first in (0, _MOST + 1) or not down[first].is_number:
        return None
    up = _taylor(above, first + order)
    # numerators must vanish to the whole order of the denominator for every value of the others, else the pole stays
    if any(c != 0 for c in up[:first]):
        return None
    found: list[Expr] = []
    for k in range(order + 1):
        taken = sympy.Add(*(down[first + i] * found[k - i] for i in range(1, k + 1)))
        found.append((up[first + k] - taken) / down[first])
    value = sympy.Add(*(c * scalar**k for k, c in enumerate(found)))
    if value == 0 and any(entries(argument) for _, argument in singular_places(above)):
        return None
    return sympy.Mul(value or scalar ** (order + 1), *others)


def _taylor(expr: Expr, order: int) -> list[Expr]:
    """The coefficients at 0."""
    found = []
    for k in range(order + 1):
        found.append(sympy.expand(expr.xreplace({_SCALAR: S.Zero})) / sympy.factorial(k))
        expr = expr.diff(_SCALAR)
    return found
