"""Poles that are removable at the limit of a scalar, and at no other value of it.

    h / (h + s) → 1   as s → 0,   and   E (h / (h + s))² = ∞   at every other s

A scalar moves around its limit at finite width, and an image W y with it where y reads it.  The pole of such a
quotient then stands beside the zero of its numerator, of n entries some come as near to it as 1/n, and the mean of
their squares does not tend to that of the limit.  So what moves is displaced by small numbers, one for each, and
moments are judged again: tanh(h + s)/(h + s) keeps its own, tanh(h)/(h + s) does not.  Shifts such as 1/√n move as
scalars do; those of order 1/n are smaller than what is nearest to a pole.

What has moments at every s may lose them as s → 0: E (s/(h² + s²))² ~ 1/|s|, while the limit is 0 wherever h ≠ 0.
Where |s| is as small as h the function is 1/h.  So what moves is displaced once more by multiples of what is divided
by, and of its roots: whatever scalars do, the function is at most of the order that is found there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import networkx
import sympy
from sympy import Expr, Rational, S

from tplimits.law.hypotheses.bounds import bounds, keeps_off, never_negative
from tplimits.program.nodes.branches import CONDITIONS, SIDES
from tplimits.program.nodes.domains import singular_places
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, N, entries
from tplimits.program.nodes.kinds import Avg, MatMul, Nonlin, OuterNonlin, ScalarNonlin
from tplimits.program.parts import found, longer, put_in

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness
    from tplimits.program.nodes.program import Program

#: signs of every second displacement, and of the others: a pole may be on one side of the limit alone
_TURNS = ((1, 1), (-1, -1), (1, -1), (-1, 1))
#: displacements are primes over this, from that one on
_SMALL, _FIRST = 10**7, 200
#: what a pole is changed by where displacements are small beside it
_SHARE = Rational(1, 10**4)
#: nodes of what is read through names
_LONG = 200
#: two sizes of displacements, to see how arguments move with them
_UNITS = (Rational(1, 10**3), Rational(1, 10**6))


@dataclass(frozen=True)
class Surroundings:
    """What is asked of a derivation about the entries of its bodies, and what of it is known."""

    program: Program
    #: the limit of a part that reads scalars alone
    limit: Callable[[Expr], Expr]
    #: what the instruction of an entry is made of (a body, an operand), where the entry stands
    inside: Callable[[Entry], Expr]
    #: whether an entry is the same at every width
    fixed: Callable[[Entry], bool]
    #: whether it is negative at no width
    nonnegative: Callable[[Entry], bool]
    #: the random variable of a vector, or the entry where none is known
    ket: Callable[[Entry], Expr] = lambda entry: entry
    #: what these are functions of
    gaussians: Randomness | None = None
    turns: tuple[_Displacement, ...] = field(init=False, repr=False)
    _polar: dict[Entry, bool] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", tuple(_Displacement(self, signs) for signs in _TURNS))

    @cached_property
    def may_be_empty(self) -> frozenset[int]:
        """Averages over other neurons of what is flat on one side of something that reads several of them."""
        averages = {p: s.body for p, s in enumerate(self.program) if isinstance(s, OuterNonlin) and s.slots}
        return frozenset(p for p, body in averages.items() if any(map(mixes_neurons, found(body, *SIDES))))

    @cached_property
    def beside_empty(self) -> frozenset[int]:
        """Instructions that such averages stand above."""
        return frozenset().union(*(networkx.descendants(self.program.graph, p) for p in self.may_be_empty))

    def bodies(self, body: Expr) -> list[Expr]:
        """A body with what moves on one side of its limit, on the other, …; none where nothing moves, or no pole."""
        if not self.is_polar(body):
            return []
        moved = dict.fromkeys(turn.body(body) for turn in self.turns)
        moved |= dict.fromkeys(turn.body(body) for turn in self._as_small(body))
        # bodies whose poles are gone where things are displaced, such as 1/(h² + s) for s > 0, are no doubt
        return [x for x in moved if x != body and any(map(self._vanishes, singular_places(x)))]

    def _as_small(self, body: Expr) -> list[_Displacement]:
        """Displacements that are as small as what vanishes in a pole of the body: s² beside h² is a multiple of h²."""
        found = []
        for node, argument in singular_places(body):
            # powers of a logarithm are integrable at its zero, wherever that is moved to
            if isinstance(node, sympy.log) or not self._comes_near(argument):
                continue
            inside = argument.args[0] if isinstance(argument, sympy.Abs) else argument
            if isinstance(inside, Entry):  # a multiple of itself
                continue
            size, added = self._still(inside), _added(inside)
            for order in self._orders(inside):
                # displaced by the order-th root, the argument moves by as much as it is itself
                unit = size if order == 1 else abs(size) ** (1 / order)
                found.append(_Displacement(self, (1, 1), unit, added, pole=argument))
        return found

    def _orders(self, argument: Expr) -> Sequence[Rational]:
        """Powers of displacements that an argument moves by; none where it does not move."""
        here = _at_zero(self._still(argument))
        ways = (_Displacement(self, (1, 1), unit, _added(argument)).body(argument) for unit in _UNITS)
        # two displacements at two sizes: the slope on a logarithmic scale is the order, as in s² it is 2
        near, far = (sympy.Abs(_at_zero(self._still(way)) - here) for way in ways)
        if near == 0 and far == 0:  # beside a vector, if at all
            moves = shifts(argument) or any(self.turns[0].entry(e) != e for e in entries(argument))
            return (S.One, Rational(2)) if moves else ()
        if not (near.is_number and near.is_positive and far.is_number and far.is_positive):
            return (S.One,)
        # rounded to quarters: roots of roots are what occurs, and the quotient is exact only as the units go to 0
        found = Rational(round(4 * float(sympy.log(near / far) / sympy.log(_UNITS[0] / _UNITS[1]))), 4)
        return (found if found > 0 else S.One,)

    def _still(self, argument: Expr) -> Expr:
        """What vanishes in a pole, with scalars at their limits."""
        limits = {e: self.limit(e) for e in entries(argument) if not _is_vector(e)}
        still = argument.xreplace(limits)
        if still.has(S.NaN, S.ComplexInfinity):  # a removable pole inside, as of 1 + |tanh(h s)/s|: a little beside it
            still = argument.xreplace({e: limit + self.turns[0].size(e) for e, limit in limits.items()})
        return _without_shifts(still)

    def why(self, body: Expr, shown: Callable[[Expr], str]) -> str:
        """The words for a body that has a second moment at the limits, and none beside them."""
        places = (a for _, a in singular_places(body) if any(map(_is_vector, entries(a))))
        poles = ", ".join(dict.fromkeys(f"`{shown(a)}`" for a in places))
        moving = (e for e in entries(body) if self.turns[0].entry(e) != e)
        movers = ", ".join(f"`{shown(e)}`" for e in (*moving, *shifts(body)))
        return (
            f"{f'the pole where {poles} is 0' if poles else 'a pole'} is removable only at the limit of {movers}, "
            "which moves at finite width"
        )

    def opened(self, expr: Expr, kept: Container[Entry] = ()) -> Expr:
        """A part of a body with the functions of the same neuron that it reads written out, but for some."""
        maps = {e: self.program[e.source] for e in entries(expr) if e.neuron in (OWN, NO_NEURON) and e not in kept}
        one = (
            e for e, s in maps.items() if isinstance(s, ScalarNonlin) or (isinstance(s, OuterNonlin) and not s.slots)
        )
        swap = {e: self.inside(e) for e in one}
        return expr.xreplace(swap) if swap else expr

    def is_polar(self, body: Expr) -> bool:
        """Whether what is random is divided by, in a body or in the functions that it reads."""
        places = (a for node, a in singular_places(body) if not isinstance(node, sympy.log))
        return any(map(self._comes_near, places)) or any(map(self._reads_pole, entries(body)))

    def _comes_near(self, argument: Expr) -> bool:
        """Whether of n entries one comes as near to 0 as scalars move, which exp(h) + s with s → 0 does not."""
        terms = sympy.Add.make_args(argument)
        vectors = sympy.Add(*(t for t in terms if any(map(_is_vector, entries(t)))))
        if vectors == 0:
            return False
        # numbers of limits last: in deep programs they cost more than all else
        if not never_negative(vectors) or not keeps_off(vectors):
            # of all entries together scalars move it by what vanishes: off 0 in the limit it was so before
            kets = {e: self.ket(e) for e in entries(argument) if _is_vector(e)}
            low, high = bounds(self._still(argument.xreplace(kets)))
            return bool(low <= 0 <= high)
        return self.limit(_without_shifts(argument - vectors)) != 0

    def _reads_pole(self, entry: Entry) -> bool:
        if not isinstance(self.program[entry.source], OuterNonlin) or self.fixed(entry):
            return False
        if entry not in self._polar:
            # once an entry: chains of functions that read one another would be walked along every path
            self._polar[entry] = self.is_polar(self.inside(entry))
        return self._polar[entry]

    def _vanishes(self, place: tuple[Expr, Expr]) -> bool:
        """Whether something random that may be 0 is divided by; what is negative under a root is asked by `root`."""
        node, argument = place
        if isinstance(node, sympy.log) or not any(map(_is_vector, entries(argument))):
            return False
        # at finite width, not at the limit: what is never negative there cannot be displaced through 0
        signed = {e: sympy.Dummy(nonnegative=True) for e in entries(argument) if self.nonnegative(e)}
        low, high = bounds(argument.xreplace(signed))
        return bool(low <= 0 <= high and (low >= 0 or not node.is_Pow or node.exp.is_Integer))


@dataclass
class _Displacement:
    around: Surroundings
    signs: tuple[int, int]
    #: what displacements are multiples of
    unit: Expr = S.One
    #: with a unit, scalars with other limits than 0 that are displaced, too
    added: frozenset[Entry] = frozenset()
    #: the pole itself, which displacements that are small beside it change by a small share: its zeros stay forms
    pole: Expr = S.One
    sizes: dict[object, Expr] = field(default_factory=dict)
    done: dict[Entry, Expr] = field(default_factory=dict)

    def body(self, body: Expr) -> Expr:
        moving = {p: self._positive(p) for p in shifts(body) if self.unit != 1 or p.exp > -1}
        # not by none: 1/√(h² + s²) − h²/√(h² + s²)³ is 0 at s = 0 alone
        share = {} if self.pole == 1 else {self.pole: self.around._still(self.pole) * (1 + _SHARE)}
        return put_in(body, {**{e: self.entry(e) for e in entries(body)}, **moving, **share}, {})

    def entry(self, entry: Entry) -> Expr:
        if entry not in self.done:
            self.done[entry] = entry if self.around.fixed(entry) else self._moved(entry)
        return self.done[entry]

    def _moved(self, entry: Entry) -> Expr:
        s = self.around.program[entry.source]
        if isinstance(s, MatMul):
            return self._image(s, entry)
        if isinstance(s, Avg):
            # distinct primes: displacements of two scalars must not cancel, nor one be a multiple of the other
            size, limit = self.size(entry), self.around.limit(entry)
            if self.unit != 1:
                return entry + size if limit == 0 or entry in self.added else entry
            if limit.is_number and limit != 0:  # a small one keeps its sign
                return entry * (1 + size)
            if not self.around.nonnegative(entry):
                return entry + size
            # away from 0 it moves either way; at 0, as data or a moment without closed form may have it, only up
            return entry + abs(size) if limit == 0 else entry * (1 + size) + size**2
        if not isinstance(s, Nonlin) or (isinstance(s, OuterNonlin) and s.slots):
            return entry
        inner = self.around.inside(entry)
        # with powers of n that do not vanish it is a fluctuation, random at order one: nothing small is added to it
        moved = inner if inner.has(N) and not shifts(inner) else self.body(inner)
        if moved == inner or not _is_vector(entry):  # scalars move by what a vector is at its own neuron
            return entry if moved == inner else moved
        return moved.xreplace({OWN: entry.neuron})

    def _image(self, s: MatMul, entry: Entry) -> Expr:
        operand = self.around.inside(entry)
        assert isinstance(operand, Entry)
        moved = self.entry(operand)
        if moved == operand:
            return entry
        (before, vector), (after, other) = _split(self.around.inside(operand)), _split(moved)
        limit = self.around.limit(before)
        # an image of a multiple is that multiple of the image: with a displacement of its own the quotient would get a
        # pole
        if vector == other and limit.is_number and limit.is_finite and limit != 0:  # W (c y) = c W y
            return entry * after / before
        # keyed by what is mapped: two products of one matrix with equal operands move alike
        return entry + self.size((s.matrix, s.transposed, entry.indices if s.matrix_indices else (), moved))

    def _positive(self, key: object) -> Expr:
        """A displacement to where what is never negative may be; of a multiple one side is as good as the other."""
        return abs(self.size(key)) if self.unit == 1 else self.size(key)

    def size(self, key: object) -> Expr:
        count = len(self.sizes)
        number = Rational(self.signs[count % 2] * sympy.prime(_FIRST + count), _SMALL)
        return self.sizes.setdefault(key, number * self.unit)


def _added(argument: Expr) -> frozenset[Entry]:
    """The scalars that are added to what reads vectors."""
    terms = (t for t in sympy.Add.make_args(argument) if not any(map(_is_vector, entries(t))))
    return frozenset(e for t in terms for e in entries(t))


def mixes_neurons(node: Expr) -> bool:
    """Whether what decides on the side of a bent function reads several neurons."""
    condition = CONDITIONS[type(node)](*node.args)
    return len({e.neuron for e in entries(condition)} - {NO_NEURON}) > 1


def shifts(body: Expr) -> list[sympy.Pow]:
    """The powers of n in a body where all of them vanish."""
    powers = [p for p in found(body, sympy.Pow) if p.base == N and p.exp.is_number] if body.has(N) else []
    bare = powers and body.xreplace(dict.fromkeys(powers, S.One)).has(N)
    # a bare n, or one positive power, is no small shift: `rules.powers` decides what such a body is
    return powers if not bare and all(p.exp < 0 for p in powers) else []


def vanishing_inside(expr: Expr, vanishes: Callable[[Entry], bool], within: Callable[[Expr], Expr]) -> bool:
    """Whether a scalar that tends to 0, or 1/√n, stands in a part of a body, or in what it reads by name."""
    while not longer(expr, _LONG):
        if shifts(expr) or any(map(vanishes, entries(expr))):
            return True
        expr, before = within(expr), expr
        if expr == before:
            break
    return False


def _without_shifts(body: Expr) -> Expr:
    return body.xreplace(dict.fromkeys(shifts(body), S.Zero))


def _is_vector(entry: Entry) -> bool:
    return bool(entry.neuron != NO_NEURON)


def _split(expr: Expr) -> tuple[Expr, Expr]:
    """The factors that read scalars alone, and the others."""
    factors = sympy.Mul.make_args(expr)
    scalar = [f for f in factors if not any(map(_is_vector, entries(f)))]
    return sympy.Mul(*scalar), sympy.Mul(*(f for f in factors if f not in scalar))


def _at_zero(argument: Expr) -> Expr:
    """An argument where vectors are 0: those it reads, and those that a displacement has opened in what it reads."""
    return argument.xreplace(dict.fromkeys(filter(_is_vector, entries(argument)), S.Zero))
