"""Domains that are lost when values are written out in their users: √x·√x is x, and no number where x < 0.

A value whose domain is lost becomes an instruction, of which every regime asks whether it is real: r = √x, then r·r.
What nothing reads any more, log x − log x, is a ProgramError unless its argument is seen to stay in the domain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sympy
from sympy import Dummy, Expr, Symbol

from tplimits.errors import ProgramError
from tplimits.program.nodes import functions
from tplimits.program.nodes.domains import (
    PARTIAL,
    open_powers,
    real_where,
    seen_nonnegative,
    seen_positive,
    singular_places,
)
from tplimits.program.nodes.entries import AxisSum, Entry, entries, sources
from tplimits.program.parts import found, holds

if TYPE_CHECKING:
    from tplimits.program.language.values import Value

#: may be one number for a share of neurons; what is made of other heads is zero with probability 0
_CHOOSING = (functions.maximum, functions.minimum, functions.where)
_FLAT = (functions.step, functions.relu, *_CHOOSING)


class HiddenDomains:
    """What the values of a trace are like, and which of their domains the bodies they are written into lose."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.values = values
        self._signs: dict[int, Dummy | None] = {}
        self._flats: dict[int, bool] = {}
        self._rests: dict[int, bool] = {}
        self.chooses = any(holds(v.expr, functions.where) for v in values)

    def may_be_unreal(self, uid: int) -> bool:
        """Whether a map of vectors may be no number, and `where` may leave it out where it is none."""
        value = self.values[uid]
        asked = self.chooses and value.width is not None and value.origin.kind == "map"
        return asked and any(not self._stays(node, u) for node, u in real_where(value.expr))

    def found(self, roots: set[int], apart: set[int], resolved: Callable[[Expr], Expr]) -> Iterator[tuple[int, int]]:
        """(user, value) where a body has lost a domain of what is written out in it: the last value that has it.

        `apart`: the instructions that are read by their names, and not written out.
        """
        for user in sorted(roots):
            parts = self._parts(user, apart)
            partial = [p for p in parts if holds(self.body(p), *PARTIAL)]
            # SymPy takes a logarithm for complex where it writes |u eᵘ| as |u| e^(Re u): by a name it is a real number
            if partial and found(resolved(self.body(user)), sympy.re, sympy.im, sympy.arg):
                yield user, max(partial)
                continue
            for part in sorted({user, *parts}):
                for place in self._places(part):
                    place = place.of(_bare(resolved(place.argument)))
                    whole = resolved(self.body(user))
                    if place.is_nowhere:
                        continue
                    if not place.is_in(whole) or (part != user and place.may_leave(whole)):
                        over = [p for p in parts if part == p or part in self._parts(p, apart)]
                        bodies = {p: resolved(self.body(p)) for p in over}
                        having = [p for p, b in bodies.items() if place.is_in(b) and not place.may_leave(b)]
                        yield user, max(having, default=part)

    def refuse(self, user: int, part: int) -> None:
        """ProgramError for a value that is lost with its domain."""
        value = self.values[part]
        raise ProgramError(
            f"{self.values[user].line}: what is computed at {value.line} cancels, and may be no number (a root, a "
            "logarithm, a quotient outside of its domain), which no limit would show; leave it out, or keep its "
            "argument in the domain, as by tp.abs."
        )

    def body(self, uid: int) -> Expr:
        """The expression that an instruction would be made of."""
        value = self.values[uid]
        return value.origin.data[0] if value.origin.kind == "outer" else value.expr

    def _parts(self, uid: int, apart: set[int]) -> set[int]:
        """The maps that are written out in a value."""
        stack, seen = [uid], set[int]()
        while stack:
            value = self.values[stack.pop()]
            read = set(value.made_of) | sources(self.body(value.uid))
            new = {p for p in read - seen - apart if self.values[p].origin.kind in ("map", "outer")}
            seen |= new
            stack += new
        return seen

    def _places(self, uid: int) -> list[_Place]:
        """Where a value may be no number."""
        body = self.body(uid)
        if not holds(body, *PARTIAL):
            return []
        ends = [u for node, u in real_where(body) if not self._stays(node, u)]
        poles = [
            u for _, u in singular_places(body) if self._may_rest_at_zero(u) and not seen_positive(self._signed(u))
        ]
        powers = [node for node in open_powers(body) if not self._stays(node, node.base)]
        return [*map(_End, ends), *map(_Pole, poles), *(_Power(node.base, _broken(node.exp)) for node in powers)]

    def _stays(self, node: Expr, u: Expr) -> bool:
        """Whether an argument is seen to stay in a domain."""
        signed = self._signed(u)
        closed = not isinstance(node, sympy.log) or not self._may_rest_at_zero(u)
        return seen_positive(signed) or (closed and seen_nonnegative(signed))

    def _may_rest_at_zero(self, expr: Expr) -> bool:
        """Whether it may be zero for a share of neurons: max(x, y) is only where x is, or y, and so is a product."""
        if expr.is_Mul:
            return any(map(self._may_rest_at_zero, expr.args))
        return not seen_positive(self._signed(expr)) and all(map(self._rests_at_zero, self._zero_with(expr)))

    def _rests_at_zero(self, part: Expr) -> bool:
        if part.is_number:
            return not part.is_nonzero
        if isinstance(part, Entry):
            if part.source not in self._rests:
                value = self.values[part.source]
                self._rests[part.source] = value.origin.kind == "map" and self._may_rest_at_zero(value.expr)
            return self._rests[part.source]
        if isinstance(part, _CHOOSING):
            # a constant, or a scalar, may be given as 0: max(x, c) is relu(x) then
            given = (a for a in part.args[-2:] if not a.is_number and not any(self.values[u].width for u in sources(a)))
            return any(given) or any(map(self._may_rest_at_zero, part.args[-2:]))
        return self._is_flat(part)

    def _is_flat(self, expr: Expr) -> bool:
        """Whether it may be one number for a share of neurons."""
        parts = self._zero_with(expr)
        return all(holds(p, *_FLAT) or any(map(self._is_flat_value, sources(p))) for p in parts)

    def _zero_with(self, expr: Expr) -> Iterator[Expr]:
        """What is zero all together where an expression is: of x² + relu(y)² it is x and relu(y)."""
        base, power = expr.as_base_exp()
        if expr.is_Pow and power.is_number:
            yield from self._zero_with(base)
        elif expr.is_Add and all(seen_nonnegative(self._signed(a)) for a in expr.args):
            for a in expr.args:
                yield from self._zero_with(a)
        else:
            yield expr

    def _is_flat_value(self, uid: int) -> bool:
        if uid not in self._flats:
            value = self.values[uid]
            self._flats[uid] = value.origin.kind == "map" and self._is_flat(value.expr)
        return self._flats[uid]

    def _signed(self, expr: Expr) -> Expr:
        """With symbols that are not negative, or positive, for values that are seen to be that."""
        sums = {s: Dummy(nonnegative=True) for s in found(expr, AxisSum) if seen_nonnegative(self._signed(s.summand))}
        own = {e: sign for e in entries(expr) if (sign := self._sign(e.source)) is not None}
        return expr.xreplace({**own, **sums})

    def _sign(self, uid: int) -> Dummy | None:
        """A positive symbol for a value that is seen to be positive, one that is not negative, or None."""
        if uid not in self._signs:
            value, kind = self.values[uid], self.values[uid].origin.kind
            if kind == "avg":
                self._signs[uid] = self._sign(value.origin.data[0].source)
            else:
                signed = self._signed(self.body(uid)) if kind in ("map", "outer") else sympy.S.NegativeOne
                known = {"positive": True} if seen_positive(signed) else {"nonnegative": True}
                self._signs[uid] = Dummy(**known) if seen_nonnegative(signed) else None
        return self._signs[uid]


@dataclass(frozen=True)
class _Place(ABC):
    """An argument where something may be no number."""

    argument: Expr

    def of(self, argument: Expr) -> _Place:
        """The same of another argument."""
        return replace(self, argument=argument)

    @property
    def is_nowhere(self) -> bool:
        """Whether what is written out has no such place: √(1 + 0·x)."""
        return bool(self.argument.is_number and self.argument.is_positive)

    @abstractmethod
    def is_in(self, body: Expr) -> bool:
        """Whether a body is no number there, too."""

    def may_leave(self, body: Expr) -> bool:
        """Whether a body may cancel there once constants have values: x^c·x^(1 − c) at c = ½, exp(c log x) at c = 2."""
        own = _sign_of(self.argument)
        if len({p for p in _powers(body) if _sign_of(_bare(p.base)) == own}) > 1:
            return True
        outer = (node for f, g in _INVERSES for node in found(body, f) if holds(node.args[0], g))
        return any(
            _has_constants(node.args[0]) and any(_sign_of(_bare(v)) == own for _, v in real_where(node.args[0]))
            for node in outer
        )


class _End(_Place):
    """Where the argument is negative."""

    @property
    def is_nowhere(self) -> bool:
        """1 + y with y = sign(x)² − 1 is a square."""
        return seen_nonnegative(self.argument)

    def is_in(self, body: Expr) -> bool:
        return _sign_of(self.argument) in {_sign_of(_bare(v)) for _, v in real_where(body)}


class _Pole(_Place):
    """Where the argument is zero."""

    def is_in(self, body: Expr) -> bool:
        poles = {f for _, v in singular_places(body) for f in _factors(_bare(v))}
        return all(f in poles for f in _factors(self.argument))


@dataclass(frozen=True)
class _Power(_Place):
    """Where the argument is negative, if an exponent in constants that are given later is no whole number."""

    broken: Expr

    def is_in(self, body: Expr) -> bool:
        powers = ((_sign_of(_bare(node.base)), _broken(node.exp)) for node in open_powers(body))
        return (_sign_of(self.argument), self.broken) in set(powers)


#: functions that cancel one another, the inner one real on a part of the line
_INVERSES = ((sympy.exp, sympy.log), (sympy.sin, sympy.asin), (sympy.cos, sympy.acos), (sympy.tanh, sympy.atanh))


def _powers(body: Expr) -> list[Expr]:
    """Powers that may be broken, if one of them has its exponent in constants."""
    powers = [p for p in found(body, sympy.Pow) if not p.exp.is_Integer and entries(p.base)]
    return powers if any(not p.exp.is_number for p in powers) else []


def _has_constants(expr: Expr) -> bool:
    """Whether constants without a value stand in it; indices and sizes are whole, widths positive."""
    own = expr.xreplace({e: Dummy(positive=True) for e in entries(expr)})
    return any(not (s.is_integer or s.is_positive) for s in own.free_symbols)


def _broken(exponent: Expr) -> Expr:
    """What of an exponent tells whether it is whole: c of −c and of c + 1, but 2c of 2c."""
    whole = sympy.Add(*(t for t in sympy.Add.make_args(sympy.expand(exponent)) if not t.is_Integer))
    return -whole if whole.could_extract_minus_sign() else whole


def _bare(expr: Expr) -> Expr:
    """An expression without neurons and indices, which averages and sums rename."""
    sums = {s: _bare(s.summand) for s in found(expr, AxisSum)}
    return expr.xreplace(sums).xreplace({e: Symbol(f"value {e.source}", real=True) for e in entries(expr)})


def _factors(expr: Expr) -> Iterator[Expr]:
    """What is zero where a product is."""
    return (f.as_base_exp()[0] for f in sympy.Mul.make_args(expr) if not f.is_number)


def _sign_of(expr: Expr) -> Expr:
    """What of a product decides its sign."""
    factors: Mapping[bool, list[Expr]] = {True: [], False: []}
    for f in sympy.Mul.make_args(expr):
        factors[seen_nonnegative(f)].append(f)
    return sympy.Mul(*factors[False])
