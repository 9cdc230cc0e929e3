"""Expressions that differ by the names of their symbols: what is found of one holds for all of them.

Layers of a network ask for the same means of other variables.  Names are exchanged for numbers in their own order, and
flags stay, so that whatever rules and SymPy decide by comparing is decided alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sympy import Expr, Symbol

from tplimits.program.parts import found, remembered

#: more symbols than this have no numbers of equal length
_MOST = 1000


class Renamed:
    """Expressions under names of their own: `parts`, equal for all that are alike, and the way there and back.

    >>> x, y, z = (Symbol(name, real=True) for name in "xyz")
    >>> Renamed([x + y**2]).parts == Renamed([y + z**2]).parts != Renamed([z + y**2]).parts
    True
    >>> Renamed([y + z**2]).back(Renamed([x + y**2]).there(x * y))
    y*z
    """

    def __init__(self, exprs: Sequence[Expr]) -> None:
        symbols = sorted(frozenset().union(*(found(e, Symbol) for e in exprs)), key=lambda s: s.name)
        flags = [tuple(sorted(s.assumptions0.items())) for s in symbols]
        self._there = {
            s: _stand_in(number, known) for number, (s, known) in enumerate(zip(symbols, flags, strict=True))
        }
        #: whether names tell the symbols apart, and are free everywhere
        self.is_faithful = (
            len({s.name for s in symbols}) == len(symbols) < _MOST
            and all(type(s) is Symbol for s in symbols)
            and all(e.free_symbols == found(e, Symbol) for e in exprs)
        )
        self.parts = tuple(map(self.there, exprs))

    def there(self, expr: Expr) -> Expr:
        """An expression in the names of `parts`."""
        return expr.xreplace(self._there)

    def back(self, expr: Expr) -> Expr:
        """An expression of `parts` in one's own names."""
        return expr.xreplace({stand_in: s for s, stand_in in self._there.items()})


@lru_cache(_MOST)
def _stand_in(number: int, flags: tuple[tuple[str, bool], ...]) -> Symbol:
    return Symbol(f"_{number:03d}", **dict(flags))


@remembered(1 << 13)
def answers(*question: Any) -> list[Any]:
    """Where the first who asks leaves the answer for those who ask alike."""
    return []
