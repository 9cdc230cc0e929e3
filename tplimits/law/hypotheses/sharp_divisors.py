"""Divisors that a power of n keeps off 0 by less and less, and poles that it hides: where functions turn sharp."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy
from sympy import Expr

from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.nodes.domains import singular_places
from tplimits.program.nodes.entries import Entry, N, entries
from tplimits.program.nodes.functions import BENT
from tplimits.program.nodes.scale import at_infinity, led_by
from tplimits.program.parts import found


def sharp_divisors(term: Expr, random: Callable[[Entry], bool], trained: bool = False) -> Iterator[tuple[Expr, Expr]]:
    """Divisors that n → ∞ leaves with what may vanish alone, where that is `random`: each, and what is left of it.

    >>> from tplimits.program.nodes.entries import NO_NEURON
    >>> x = Entry(sympy.Integer(0), NO_NEURON)
    >>> [left == x**2 for _, left in sharp_divisors(1 / (1 + N * x**2), lambda entry: True)]
    [True]
    >>> list(sharp_divisors(x / (1 + x**2 / N), lambda entry: True))
    []
    """
    lead = lead_of(term)

    def may_vanish(left: Expr) -> bool:
        low, high = bounds(left)
        return bool(low <= 0 <= high) and any(map(random, entries(left)))

    divisors = [(base, power, left) for base, power, left in weighed(term) if may_vanish(left)]
    bent = [head for head in found(term, *BENT) if head.has(N)] if lead != 1 else []
    if not divisors and not bent:
        return
    # a factor that vanishes may hide the pole of what it multiplies
    hidden = [a for _, a in _poles(term / lead) if may_vanish(a)] if lead.as_base_exp()[1].is_negative else []
    for base, power, left in divisors:
        if trained or power > 0 or hidden:
            yield base, left
    # as where(|x| − 1/n, 1/x², 0)/n that of 1/x²
    yield from ((bent[0], left) for left in hidden[:1] if bent)


def weighed(term: Expr) -> Iterator[tuple[Expr, int, Expr]]:
    """Sums that are divided by and hold n, the highest power of n in each, and what is left by it, which may be 0."""
    for node in found(term, sympy.Pow):
        if node.exp.is_negative and node.base.is_Add and node.base.has(N):
            power, left = led_by(node.base)
            low, high = bounds(left)
            if low <= 0 <= high:
                yield node.base, power, left


def lead_of(term: Expr) -> Expr:
    """The powers of n among the factors of a term."""
    return sympy.Mul(*(f for f in sympy.Mul.make_args(term) if f.as_base_exp()[0] == N))


def _poles(rest: Expr) -> list[tuple[Expr, Expr]]:
    try:
        return singular_places(at_infinity(rest))
    except ValueError:  # what grows is refused elsewhere
        return []
