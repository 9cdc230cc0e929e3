"""The Gaussian variables a derivation works with, and their covariances.

Three kinds: entries of initial vectors (standard normal), hats (fresh images under a matrix, Yang &
Littwin Eq. 2.18), and copies of either for the boxes of an outer nonlinearity.  Covariances of hats
are brackets of earlier kets; they are asked for lazily and remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy
from sympy import Expr, S, Symbol

from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.hidden_jumps import divisors, hidden_jumps
from tplimits.program.parts import found, holds, symbols

#: (position of the matrix, indices along its finite axes, transposed)
View = tuple[int, tuple[int, ...], bool]


@dataclass(frozen=True)
class InitialSource:
    """An entry of an initial vector."""

    position: int
    index: tuple[int, ...]


@dataclass(frozen=True)
class HatSource:
    """The Gaussian part of W x: which matrix, in which orientation, which of its uses."""

    view: View
    use: int


@dataclass(frozen=True)
class CopySource:
    """The copy of a variable in one box."""

    original: Symbol
    box: int


Source = InitialSource | HatSource | CopySource


@dataclass(frozen=True)
class LongAtom:
    """A long random factor under a name: its definition and the variables it depends on.

    Kets of deep programs would otherwise grow exponentially when they are written out.  The definition is made
    when it is read: of the many derivatives in a deep program most are never looked at.
    """

    define: Callable[[], Expr]
    variables: frozenset[Symbol]
    has_delta: bool
    has_jump: bool

    @cached_property
    def definition(self) -> Expr:
        return self.define()


class Gaussians:
    """All Gaussian variables of one derivation."""

    def __init__(self) -> None:
        self.source: dict[Symbol, Source] = {}
        self.long: dict[Symbol, LongAtom] = {}
        self.growths: dict[Expr, Any] = {}
        self.answers: dict[tuple[Any, ...], Any] = {}
        self._copies: dict[tuple[Symbol, int], Symbol] = {}
        self._boxes = 0
        self.hat_covariance: Callable[[HatSource, HatSource], Expr] = lambda a, b: S.Zero

    def __contains__(self, symbol: Expr) -> bool:
        return symbol in self.source

    def add(self, name: str, source: Source) -> Symbol:
        symbol = Symbol(name, real=True)
        while symbol in self.source:  # two entries may print alike; the variables must differ
            symbol = Symbol(symbol.name + "′", real=True)
        self.source[symbol] = source
        return symbol

    def of(self, expr: Expr) -> set[Symbol]:
        """The Gaussian variables an expression depends on, through names of long factors too."""
        return self._reached(symbols(expr))

    def everywhere(self, expr: Expr) -> set[Symbol]:
        """The same, boxed variables included."""
        return self._reached(found(expr, Symbol))

    def _reached(self, read: Iterable[Symbol]) -> set[Symbol]:
        reached: set[Symbol] = set()
        for s in read:
            if s in self.source:
                reached.add(s)
            elif s in self.long:
                reached |= self.long[s].variables
        return reached

    def is_random(self, symbol: Symbol) -> bool:
        return symbol in self.source or symbol in self.long

    def definition(self, symbol: Symbol) -> Expr | None:
        """What a name of a long factor stands for; None for a variable."""
        return self.long[symbol].definition if symbol in self.long else None

    def name_long(self, name: str, definition: Expr, nonnegative: bool = False) -> Symbol:
        """A name for a long random factor."""
        jumps = (
            holds(definition, *JUMPS, sympy.DiracDelta)
            or any(self.long[s].has_jump for s in found(definition, Symbol) if s in self.long)
            or bool(any(map(self.of, divisors(definition))) and hidden_jumps(definition))
        )
        variables = frozenset(self.everywhere(definition))
        return self._add_long(
            name, LongAtom(lambda: definition, variables, self.has_delta(definition), jumps), nonnegative
        )

    def name_derivative(self, of: Symbol, by: Symbol, define: Callable[[], Expr]) -> Symbol:
        """A name for the derivative of a long factor without jumps, which is worked out when it is read."""
        # no delta, since what it is the derivative of does not jump; that itself may jump, where that had a kink
        return self._add_long(f"∂{of}/∂{by}", LongAtom(define, self.long[of].variables, False, True))

    def _add_long(self, name: str, atom: LongAtom, nonnegative: bool = False) -> Symbol:
        sign = {"nonnegative": True} if nonnegative else {"real": True}
        symbol = Symbol(name, **sign)
        while symbol in self.source or symbol in self.long:
            symbol = Symbol(symbol.name + "′", **sign)
        self.long[symbol] = atom
        return symbol

    def has_delta(self, expr: Expr) -> bool:
        """Whether a delta stands in an expression, or in the definition of a long factor of it."""
        if expr.is_Symbol:
            return expr in self.long and self.long[expr].has_delta
        return holds(expr, sympy.DiracDelta, sympy.Derivative) or any(
            self.long[s].has_delta for s in found(expr, Symbol) if s in self.long
        )

    def copied(self, expr: Expr, box: int) -> tuple[Expr, set[Symbol]]:
        """The expression with its free variables replaced by their copies in a box, and those copies."""
        copies: dict[Expr, Expr] = {}
        for s in sorted(symbols(expr), key=lambda s: s.name):
            if s in self.source:
                copies[s] = self.copy(s, box)
            elif s in self.long:
                copies[s] = self._copy_long(s, box)
        return expr.xreplace(copies), {self.copy(s, box) for s in self.of(expr)}

    def _copy_long(self, symbol: Symbol, box: int) -> Symbol:
        key = (symbol, box)
        if key not in self._copies:
            definition, _ = self.copied(self.long[symbol].definition, box)
            copy = self.name_long(f"{symbol.name}⁽{box}⁾", definition, bool(symbol.is_nonnegative))
            # an independent copy has the same law, hence the same tail
            if symbol in self.growths:
                self.growths[copy] = self.growths[symbol]
            self._copies[key] = copy
        return self._copies[key]

    def new_box(self) -> int:
        """A box not used before: an independent copy of everything."""
        self._boxes += 1
        return self._boxes

    def copy(self, symbol: Symbol, box: int) -> Symbol:
        """The copy of a variable in a box; a copy of a copy is again a fresh variable."""
        key = (symbol, box)
        if key not in self._copies:
            self._copies[key] = self.add(f"{symbol.name}⁽{box}⁾", CopySource(symbol, box))
        return self._copies[key]

    def family(self, symbol: Symbol) -> object:
        """A mark shared by all variables that may be correlated with this one."""
        source = self.source[symbol]
        if isinstance(source, CopySource):
            return source.box
        return source.view if isinstance(source, HatSource) else symbol

    def is_constant(self, symbol: Symbol) -> bool:
        """Whether it is a standard normal of its own (tp.expect), a copy of what is no variable of the program."""
        source = self.source[symbol]
        return isinstance(source, CopySource) and source.original not in self.source

    def covariance(self, a: Symbol, b: Symbol) -> Expr:
        left, right = self.source[a], self.source[b]
        if isinstance(left, CopySource) and isinstance(right, CopySource):
            if left.box != right.box:
                return S.Zero
            if self.is_constant(a):
                return S.One if a == b else S.Zero
            return self.covariance(left.original, right.original)
        if isinstance(left, HatSource) and isinstance(right, HatSource):
            # (2.18): hats of other matrices, and of W and Wᵀ, are independent
            return self.hat_covariance(left, right) if left.view == right.view else S.Zero
        return S.One if a == b else S.Zero


def independent(variables: Iterable[Symbol]) -> Gaussians:
    """Symbols as independent standard normal variables."""
    gaussians = Gaussians()
    gaussians.source.update({v: InitialSource(i, ()) for i, v in enumerate(variables)})
    return gaussians
