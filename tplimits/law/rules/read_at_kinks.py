"""Scalars on which kinks and roots at 0 rest: where |s u| with s → 0 is read, a little beside 0 is not as good as 0.

A mean over M samples is off by M^(−1/2), and |s|^(1/4) by M^(−1/8), always to the same side: no spread tells that.
Jumps and poles at 0 are refused; of kinks and roots the law knows what samples would have to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import sympy
from sympy import Expr

from tplimits.law.hypotheses.zero import Kind, zero
from tplimits.law.kets import Key, key_of
from tplimits.law.rules.reading import BodyReader
from tplimits.program.nodes.branches import CONDITIONS, SIDES
from tplimits.program.nodes.domains import ends_of_domains
from tplimits.program.nodes.entries import entries
from tplimits.program.nodes.functions import KINKS
from tplimits.program.nodes.kinds import Nonlin
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Numbers
    from tplimits.law.state import Derivation


def scalars_at_kinks(state: Derivation, positions: Sequence[int], numbers: Numbers) -> list[Key]:
    """The scalars above instructions whose kinks or roots are met at 0, of those that some positions rest on."""
    program = state.program
    above = program.behind(positions)
    before, state.numbers = state.numbers, numbers
    try:
        met = [p for p in sorted(above) if any(_is_met(state, key) for key in _keys(state, p))]
    finally:
        state.numbers = before
    read = program.behind(met) & above
    return [key for key in state.scalars if key[0] in read and program[key[0]].width is None]


def _keys(state: Derivation, position: int) -> Iterator[Key]:
    if isinstance(state.program[position], Nonlin):
        yield from (key for known in (state.kets, state.scalars) for key in known if key[0] == position)


def _is_met(state: Derivation, key: Key) -> bool:
    """Whether a kink or a root of a body is met at 0 by what moves."""
    s = state.program[key[0]]
    assert isinstance(s, Nonlin)
    if not _places(s.body):
        return False
    # written out first: what stands in a sum over an axis is read at entries that the sum alone knows
    asked = _places(state.unroller.at(s.body, s.axes, key[1]))
    swap: dict[Expr, Expr] = {}
    for entry in {e for place in asked for e in entries(place)}:
        known = state.kets.get(key_of(entry))
        limit = state.scalars.get(key_of(entry)) if known is None else known.expr
        if limit is not None:
            swap[entry] = limit
    reader = BodyReader(state, swap)
    return any(
        reader.moves(a) and zero(reader, a).kind is Kind.ZERO for a in asked if not state.widths & a.free_symbols
    )


def _places(body: Expr) -> list[Expr]:
    """What is 0 at a kink or at the end of a root."""
    kinks = [CONDITIONS[type(f)](*f.args) for f in found(body, *KINKS) if type(f) in SIDES]
    return [*dict.fromkeys([*kinks, *(a for node, a in ends_of_domains(body) if isinstance(node, sympy.Pow))])]
