"""Quotients of fluctuations whose powers of n have cancelled: |√n s|/(√n s) is |s|/s before anything is read.

What a body divides by, and what scalars are of order n^(−1/2), tells that √n takes part, not how it is written:

    F(s) = F(√n s)  for s → 0 and F homogeneous of degree 0,   as   |S/√n|/(S/√n) = |S|/S
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.zero import cancelled
from tplimits.law.kets import key_of
from tplimits.law.rules.powers import smoothed, with_fluctuations
from tplimits.program.nodes.domains import singular_places
from tplimits.program.nodes.entries import Entry, entries, reads_vectors

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.law.state import Derivation


def of_quotients(state: Derivation, key: Key, body: Expr) -> Expr:
    """A body without powers of n that divides by what tends to 0, where fluctuations are divided by each other.

    |√n s|/(√n s) is |s|/s before anything is read: of |S/√n|/(S/√n) no power of n is left.
    """

    def vanishes_there(argument: Expr) -> bool:
        limits = {e: state.scalars.get(key_of(e)) for e in entries(argument)}
        known = bool(limits) and None not in limits.values() and not state.exact.issuperset(map(key_of, limits))
        return known and cancelled(sympy.expand(argument.xreplace(limits))) == 0

    def divides(expr: Expr) -> bool:
        return any(vanishes_there(a) for node, a in singular_places(expr) if node.is_Pow)

    if not divides(body) or not divides(smoothed(state, body)):
        return body
    with contextlib.suppress(NoLimitError):
        return with_fluctuations(state, key, body)
    return body


def divides_by_signed(body: Expr, nonnegative: Callable[[Entry], bool]) -> bool:
    """Whether a body divides by scalars that may be of either sign, and by nothing else.

    >>> from tplimits.program.nodes.entries import NO_NEURON
    >>> s, t = Entry(S(0), NO_NEURON), Entry(S(1), NO_NEURON)
    >>> [divides_by_signed(f, lambda entry: entry == t) for f in (s / sympy.Abs(s), s / t, s / (s**2 + t))]
    [True, False, False]
    """
    for node, argument in singular_places(body):
        signed = dict.fromkeys((e for e in entries(argument) if not nonnegative(e)), S.Zero)
        if node.is_Pow and signed and not reads_vectors(argument) and sympy.expand(argument.xreplace(signed)) == 0:
            return True
    return False
