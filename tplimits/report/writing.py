"""Formulas of a derivation as reports write them: short means written out, long ones by name and defined at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sympy import Expr, Symbol

if TYPE_CHECKING:
    from tplimits.law.state import Derivation

#: a mean with more nodes than this is written by its name
MOST_NODES = 250
#: so many definitions are given at the end
MOST_DEFINITIONS = 60


class Writer:
    """Writes expressions out and remembers the names it left standing."""

    def __init__(self, state: Derivation) -> None:
        self._state = state
        self._left: dict[Symbol, None] = {}

    def __call__(self, expr: Expr) -> Expr:
        """The expression with its short means written out."""
        written = self._state.engine.written_out(expr, MOST_NODES)
        known = (s for s in written.atoms(Symbol) if s in self._state.engine.moments or s in self._state.gaussians.long)
        self._left.update(dict.fromkeys(sorted(known, key=lambda s: s.name)))
        return written

    def definitions(self) -> Iterator[tuple[Symbol, Expr]]:
        """What the names stand for, those met on the way included."""
        done: set[Symbol] = set()
        while (following := next((s for s in self._left if s not in done), None)) is not None:
            if len(done) == MOST_DEFINITIONS:
                return
            done.add(following)
            long = self._state.gaussians.long.get(following)
            yield following, self(self._state.engine.definition(following) if long is None else long.definition)

    @property
    def left_out(self) -> int:
        """How many names `definitions` did not come to."""
        return max(len(self._left) - MOST_DEFINITIONS, 0)
