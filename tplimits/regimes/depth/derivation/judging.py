"""The hypotheses on poles and roots, asked of the scalars of a block: this regime's side of `hypotheses.reader.Reader`.

Jumps are not asked: a scalar at a jump, as sign(S/√n), has a law here, and what it multiplies is averaged over layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy
from sympy import Dummy, Expr, S

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.pole import poles, singular_places
from tplimits.law.hypotheses.reader import Unreadable, Value
from tplimits.law.hypotheses.root import ends_of_domains, roots
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry, N, with_names
from tplimits.program.nodes.kinds import Avg, InitialScalar, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.scale import at_infinity
from tplimits.regimes.depth.derivation.algebra import lowest
from tplimits.regimes.depth.derivation.scalars import fixed_number, fixed_table, parts

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering


@dataclass(frozen=True)
class ScalarReader:
    """Parts of a body at indices: scalars at what they settle at, a number where nothing of order 1 is random."""

    lowering: Lowering
    env: Mapping[Expr, int]

    @property
    def tolerance(self) -> float:
        """Rounding of constant arrays."""
        return 1e-12

    def limit(self, expr: Expr) -> Expr:
        """A number, 0 for an array of which an entry is 0, and a symbol for what the state or a vector decides."""
        lowering, free = self.lowering, Dummy(real=True)
        if not lowering.reading.is_scalar(expr):
            return free
        # |y| + n^(−1/2) tends to zero and is kept off it by its own size: the whole function is judged where it stands
        if any(t.has(N) and not t.has(Entry, ArrayEntry, AxisSum) for t in sympy.Add.make_args(expr)):
            return free
        try:
            fixed, small = parts(lowering, lowering.lower(expr, self.env))
        except NoLimitError:  # of order 1, or refused for a reason of its own where it is lowered
            return free
        if small.terms and lowest(small) <= 0:
            return free
        number = fixed_number(lowering, fixed)
        if number is None:
            table = fixed_table(lowering, fixed, self.env)[1]
            return S.Zero if (abs(table) <= self.tolerance).any() else free
        return at_infinity(number) if number.has(N) else number

    def moves(self, expr: Expr) -> bool:
        """Whether it reads more than given scalars."""
        return any(not isinstance(self.lowering.program[e.source], InitialScalar) for e in expr.atoms(Entry))

    def settled(self, expr: Expr) -> bool:
        """Limits are numbers here."""
        return True

    def values(self, expr: Expr) -> Sequence[Value]:
        """Nothing is decided by numbers."""
        raise Unreadable("it has no numbers", later=False)

    def bounds(self, expr: Expr) -> tuple[Expr, Expr]:
        """By interval arithmetic, maps written out; sums over axes keep the sign of their terms."""
        return bounds(self._signed(self.lowering.reading.inlined(expr)))

    def shown(self, expr: Expr) -> str:
        """With the names of the program."""
        return with_names(expr, lambda entry: self.lowering.program[entry.source].name)

    def written(self, expr: Expr) -> str:
        """The limit."""
        return sympy.sstr(self.limit(expr))

    def _signed(self, expr: Expr) -> Expr:
        if isinstance(expr, Entry):
            return Dummy(real=True, nonnegative=True if self._is_nonnegative(expr) else None)
        if isinstance(expr, AxisSum):
            return Dummy(real=True, nonnegative=True if self.bounds(expr.summand)[0] >= 0 else None)
        return expr.func(*map(self._signed, expr.args)) if expr.args else expr

    def _is_nonnegative(self, entry: Entry) -> bool:
        s = self.lowering.program[entry.source]
        if isinstance(s, Avg):
            return s.operand is not None and self._is_nonnegative(s.operand)
        return isinstance(s, (OuterNonlin, ScalarNonlin)) and bool(self.bounds(s.body)[0] >= 0)


def insist_on_regular(lowering: Lowering, body: Expr, env: Mapping[Expr, int]) -> None:
    """NoLimitError where scalars of a body settle at a pole, or at the end of where a root is real."""
    if not singular_places(body) and not ends_of_domains(body):
        return
    reader, outer = ScalarReader(lowering, env), lowering.remarks
    lowering.remarks = dict(outer)  # what is looked at is lowered again where it stands
    try:
        for hypothesis in (poles, roots):
            hypothesis(reader, body, lowering.where)
    finally:
        lowering.remarks = outer


__all__ = ["ScalarReader", "insist_on_regular"]
