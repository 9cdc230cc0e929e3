"""Scalars that are read off the law where particles take means: what functions turn at is no number with noise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sympy import Expr, Symbol

from tplimits.law.hypotheses.reader import Unreadable
from tplimits.law.observables import Observable, keys
from tplimits.law.rules.read_at_kinks import scalars_at_kinks
from tplimits.numbers import intervals
from tplimits.numbers.precision import SPREADS

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.law.state import Derivation

#: the largest error of a scalar that is read off the law
_KNOWN = 1e-9


def at_kinks(state: Derivation, chosen: Sequence[Observable], values: Mapping[Symbol, Expr]) -> dict[Key, float]:
    """Numbers of the scalars that kinks and roots at 0 rest on, 0 where they are it within their errors."""
    positions = sorted({position for o in chosen for position, _ in keys(o)})
    asked = scalars_at_kinks(state, positions, partial(intervals.values, state.engine, constants=values))
    return read_off_law(state, asked, values)


def read_off_law(state: Derivation, asked: Iterable[Key], values: Mapping[Symbol, Expr]) -> dict[Key, float]:
    """Numbers of scalars where exact values or quadrature have them, 0 where they are it within their errors."""
    numbers: dict[Key, float] = {}
    for key in asked:
        with contextlib.suppress(Unreadable):
            (number,) = intervals.intervals(state.engine, [state.scalars[key]], values)
            if number.error <= _KNOWN * max(1.0, abs(number.value)):
                numbers[key] = 0.0 if abs(number.value) <= SPREADS * number.error else number.value
    return numbers
