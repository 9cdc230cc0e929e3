"""Powers of n that a program multiplies values by."""

from __future__ import annotations

from fractions import Fraction

import sympy
from sympy import Expr

from tplimits.program.nodes.entries import NO_NEURON, Entry, entries
from tplimits.program.parts import found
from tplimits.regimes.classification.derivation.near_limits import left_of
from tplimits.regimes.classification.derivation.sizes import Power, exponent_of


def powers_in(product: Expr, widths: frozenset[sympy.Symbol]) -> dict[Expr, Power]:
    """The factors of a product that hold powers of widths and no entries, with these powers."""
    own = (f for f in sympy.Mul.make_args(product) if f.free_symbols & widths and not f.has(Entry))
    return {f: exponent_of(f, widths) for f in own}


def multiplied_by_powers(body: Expr, widths: frozenset[sympy.Symbol]) -> dict[Entry, Power]:
    """Entries that stand in a product with a positive power of a width, and that power; its root for squares."""
    largest: dict[Entry, Power] = {}
    for product in found(body, sympy.Mul):
        powers = powers_in(product, widths)
        power = sum(powers.values())
        if any(p > 0 for p in powers.values()):
            for f in product.args:
                own = power / as_power(f) if f not in powers else power
                largest |= {e: max(own, largest.get(e, own)) for e in f.atoms(Entry)}
    return largest


def as_power(factor: Expr) -> Fraction:
    """k of a factor x^k with k > 1, or of a sum of scalars that is left of order k where they vanish; 1 of others."""
    if isinstance(factor, sympy.Add):
        left = left_of(factor, frozenset(e for e in entries(factor) if e.neuron == NO_NEURON))
        return Fraction(left.order if left is not None else 1)
    k = factor.exp if isinstance(factor, sympy.Pow) and factor.exp.is_Rational else sympy.S.One
    return max(Fraction(int(k.p), int(k.q)), Fraction(1))
