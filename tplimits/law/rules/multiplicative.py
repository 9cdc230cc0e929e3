"""Signs and moduli of products with scalars that tend to 0, apart: |s v|/|s| is |v|, sign(s v) sign(s) is sign(v).

    |a b| = |a| |b|,   sign(a b) = sign(a) sign(b),   sign(s)² = 1 where s is not 0 at finite width
    relu(a b) = a relu(b) for a ≥ 0,   step(s²) = 1

Together they hide that the limit does not depend on the side from which s tends to 0.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.bounds import never_negative
from tplimits.law.hypotheses.zero import cancelled
from tplimits.program.nodes.entries import Entry, entries, reads_vectors
from tplimits.program.nodes.functions import JUMPS, leaky_relu, maximum, minimum, relu
from tplimits.program.parts import found, holds, put_in

_HALVES = (relu, leaky_relu)
_HEADS = (sympy.sign, sympy.Abs, *_HALVES)
#: may be 0 for a share of their arguments
_FLAT = (*_HALVES, maximum, minimum, *JUMPS)


def apart(body: Expr, tends: Callable[[Entry], Expr | None], moves: Callable[[Expr], bool]) -> Expr:
    """A body with signs and moduli of scalars that tend to 0 apart from those of what they multiply.

    `tends` tells what scalars tend to, `moves` which functions of them are not 0 at finite width, with probability 1.

    >>> from tplimits.program.nodes.entries import NO_NEURON, OWN
    >>> s, v = Entry(S(0), NO_NEURON), Entry(S(1), OWN)
    >>> body = sympy.sign(s * v) * sympy.sign(s) + sympy.Abs(s * v) / sympy.Abs(s)
    >>> apart(body, lambda entry: S(0), lambda scalar: True) == sympy.sign(v) + sympy.Abs(v)
    True
    """
    if not holds(body, *_HEADS, *JUMPS):
        return body

    def small(factor: Expr) -> bool:
        base = factor.as_base_exp()[0]
        if not entries(base) or reads_vectors(base):
            return False
        limits = {e: tends(e) for e in entries(base)}
        return None not in limits.values() and cancelled(sympy.expand(base.xreplace(limits))) == 0 and moves(base)

    body = put_in(body, _on_one_side(body, small), {})
    swap: dict[Expr, Expr] = {}
    for node in found(body, *_HEADS):
        factors = sympy.Mul.make_args(node.args[0])
        mine = [f for f in factors if small(f) and (f.is_nonnegative or not isinstance(node, _HALVES))]
        if mine and len(factors) > 1:
            others = sympy.Mul(*(f for f in factors if f not in mine))
            swap[node] = sympy.Mul(node.func(others, *node.args[1:]), *(_of_power(node.func, f) for f in mine))
    body = put_in(body, swap, {}) if swap else body
    signs = [f for f in found(body, sympy.sign) if small(f.args[0])]
    powers = [p for p in found(body, sympy.Pow) if p.base in signs and p.exp.is_Integer]
    body = put_in(body, {p: p.base if p.exp.is_odd else S.One for p in powers}, {}) if powers else body
    # sign(s) tanh(s)/|s| has the pole of 1/s² at s tanh(s)
    quotients = {}
    for product in found(body, sympy.Mul) if signs else ():
        for sign in set(product.args).intersection(signs):
            s = sign.args[0]
            if any(f.as_base_exp()[0] in (s, sympy.Abs(s)) for f in product.args):
                quotients[product] = product / sign * s / sympy.Abs(s)
    return put_in(body, quotients, {}) if quotients else body


def _on_one_side(body: Expr, small: Callable[[Expr], bool]) -> dict[Expr, Expr]:
    """Jumps whose argument touches 0 from one side alone, which are at their value there: step(s²) is 1."""
    found_at: dict[Expr, Expr] = {}
    for node in found(body, *JUMPS):
        argument = node.args[0]
        # what is flat somewhere may be 0 with a probability that few networks do not show
        if not holds(argument, *_FLAT) and small(argument):
            side = next((sign for sign in (1, -1) if never_negative(sign * argument)), 0)
            if side:
                found_at[node] = node.func(S(side), *node.args[1:])
    return found_at


def _of_power(head: type[Expr], factor: Expr) -> Expr:
    base, power = factor.as_base_exp()
    if head in _HALVES:
        return factor
    if head is sympy.Abs or not power.is_Integer:
        return head(factor)
    return sympy.sign(base) if power.is_odd else S.One
