"""How large the entries of an expression are, as powers of n: at the start, and what training has changed.

Products add powers, sums take the largest.  A change is counted as if it were aligned with what it is multiplied by,
which is what training makes it; what a scalar changes in all neurons at once is as random as they were, and is kept
apart (`loose`).

A jump takes a change of n^(−m) to one of order 1 in a share of n^(−m) of the neurons: averages change by n^(−m), but
the root mean square of entries by n^(−m/2), which is kept apart (`rough`), behind matrices, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

import sympy
from sympy import Expr

from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry, N, entries
from tplimits.program.nodes.properties import SATURATING
from tplimits.program.parts import found
from tplimits.regimes.classification.derivation.bends import Bent, bent
from tplimits.regimes.classification.derivation.near_limits import (
    JUMPS,
    Side,
    at_sides,
    beside,
    left_of,
    side_at,
    vanishes_at,
    without_poles,
)

#: a power of n; −∞ is the power of what is zero
Power = Fraction | float
NOTHING = float("-inf")
HALF = Fraction(1, 2)

#: f(λx) = λ f(x), so that powers pass
HOMOGENEOUS = functions.KINKS
#: others whose slope is counted as of order 1, and may be smaller where the argument grows
FLATTENING = (functions.sigmoid, sympy.exp, sympy.log, sympy.cos, sympy.erfc)
#: linear at 0 and at infinity
LINEAR_AT_BOTH_ENDS = (functions.gelu,)


@dataclass(frozen=True)
class Size:
    """Entries of size n^start before training, and changes since: aligned ones of size n^move, others of n^loose.

    Changes of root mean square n^rough are those of a few neurons: averages of them are counted in `move`.  The part
    of the start that is small because a scalar in it has the limit zero is of size n^fallen: an average of it is no
    smaller, though its mean has the limit zero, for the scalar is the same at all neurons.
    """

    start: Power = NOTHING
    move: Power = NOTHING
    loose: Power = NOTHING
    fallen: Power = NOTHING
    rough: Power = NOTHING

    @property
    def powers(self) -> tuple[Power, Power, Power, Power, Power]:
        """All of them."""
        return self.start, self.move, self.loose, self.fallen, self.rough

    @property
    def change(self) -> Power:
        """The size of all changes."""
        return max(self.move, self.loose, self.rough)

    @property
    def total(self) -> Power:
        """The size now."""
        return max(self.start, self.change)

    def times(self, power: Power) -> Size:
        """The size of n^power times this."""
        return Size(*(p + power for p in self.powers))

    def flipping(self, argument: Size) -> Power:
        """The root mean square of what the flips of a jump as high as this change, where it is one of an argument."""
        return self.total + _share(argument, argument.change) / 2 if self.total != NOTHING else NOTHING


CONSTANT = Size(Fraction(0))


def size_of(
    expr: Expr,
    of_entry: Callable[[Entry], Size],
    widths: frozenset[sympy.Symbol],
    arguments: list[Size] | None = None,
    limits: Mapping[Entry, Expr] = MappingProxyType({}),
) -> Size:
    """The size of an expression, given those of the entries that it reads; `widths` are symbols that grow like n.

    The sizes of arguments of functions are added to `arguments`, since a saturating function hides them; powers pass
    through f(λx) = λ f(x), which may be multiplied by what they lack.  `limits` are those of scalars where they are
    numbers: functions are read there.
    """

    known: dict[Expr, Size] = {}
    vanishing = frozenset(e for e in entries(expr) if NOTHING < of_entry(e).total < 0)
    centred = frozenset(e for e, limit in limits.items() if limit == 0 and of_entry(e).total <= 0)

    def walk(node: Expr) -> Size:
        if node not in known:  # bodies hold what they read several times, and so do these: trees of them have no end
            known[node] = fresh(node)
        return known[node]

    def fresh(node: Expr) -> Size:
        if node == 0:
            return Size()
        if isinstance(node, Entry):
            return of_entry(node)
        if node in widths:
            return Size(Fraction(1))
        if node.is_number or node.is_Symbol or isinstance(node, ArrayEntry):
            return CONSTANT
        if isinstance(node, AxisSum):
            return walk(node.summand)
        if limits and (there := at_limits(node)) is not None:
            return replace(_function(node, list(map(walk, node.args))), start=there.start, fallen=there.fallen)
        if (
            centred
            and isinstance(node, (sympy.Mul, sympy.Add))
            and (series := without_poles(node, centred)) is not None
        ):
            return walk(series)
        if vanishing and (near := _beside_a_constant(node, vanishing, walk)) is not None:
            if arguments is not None and not isinstance(node, HOMOGENEOUS):
                arguments.append(walk(node.args[0]))
            return near
        if isinstance(node, (sympy.Add, *HOMOGENEOUS)) and (bends := bent(node, widths)) and not fluctuates(node):
            return largest([_bounded(walk(bends.argument), bends, widths), *map(walk, bends.rest)])
        parts = [walk(a) for a in node.args]
        if isinstance(node, sympy.Add):
            whole, left = largest(parts), _left(node, vanishing) if vanishing else None
            # a polynomial grows where the functions that it stands for do not
            return whole if left is None else Size(*map(min, whole.powers, walk(left).powers))
        if isinstance(node, sympy.Mul):
            return product(parts)
        if isinstance(node, sympy.Pow) and node.exp.is_Rational:
            return _power(parts[0], Fraction(int(node.exp.p), int(node.exp.q)))
        if arguments is not None and not isinstance(node, HOMOGENEOUS):
            arguments.extend(parts)
        if isinstance(node, sympy.log) and node.args[0].as_coeff_Add()[0] == 1:
            # log(1 + r) is r at 0, and of order 1 far from it
            return _saturated(walk(node.args[0] - 1))
        return _function(node, parts)

    def fluctuation(argument: Expr) -> Power:
        return size_of(beside(argument, limits), of_entry, widths | {N}).start

    def at_limits(node: Expr) -> Size | None:
        """Where a function of scalars starts that has moved to its other side, is not off its kink, or at a zero."""
        if not isinstance(node, sympy.Function):
            return None
        side = side_at(node, limits)
        if side is None:
            if not vanishes_at(node, limits):
                return None
            start = min(Fraction(0), fluctuation(node.args[0]))
        elif side.body is not None and decided(side):
            return Size(walk(side.body).start)
        elif isinstance(node, functions.where):
            return None
        else:
            start = max(fluctuation(side.condition), exponent_of(side.limit, widths))
            if isinstance(node, JUMPS) and start != NOTHING:
                return Size(Fraction(0))
        # a scalar is the same at all neurons
        return Size(start, fallen=start)

    def decided(side: Side) -> bool:
        """Whether networks are on one side at the start: what fluctuates is smaller than the limit."""
        return fluctuation(side.condition) < exponent_of(side.limit, widths)

    def fluctuates(node: Expr) -> bool:
        """Whether networks are on both sides of a kink in it."""
        sides = (side_at(f, limits) for f in found(node, *HOMOGENEOUS)) if limits else ()
        return any(side is not None and not (side.body is not None and decided(side)) for side in sides)

    def stays(side: Side) -> bool:
        return walk(side.condition).change < exponent_of(side.limit, widths)

    return walk(at_sides(expr, limits, decided, stays))


def _left(total: Expr, vanishing: frozenset[Entry]) -> Expr | None:
    """The first Taylor terms of a sum, beside its value where some entries vanish; None where they tell no more."""
    value = total.xreplace(dict.fromkeys(vanishing, sympy.S.Zero))
    if not (value.is_number and value.is_finite):
        return None
    # slopes cancel in 1 + s − log(1 + s), too
    left = left_of(sympy.Add(*total.args, -value, evaluate=False), vanishing)
    return None if left is None else value + left.body


def _beside_a_constant(node: Expr, vanishing: frozenset[Entry], walk: Callable[[Expr], Size]) -> Size | None:
    """A function of a number that is not 0 and of what vanishes beside it: its value there, and changes by its slope.

    step(relu(x) − 0.4) is 0, and not of order 1, where x is small, and where(x − 1, x, x²) is x².
    """
    chooses = isinstance(node, functions.where)
    if not isinstance(node, sympy.Function) or not (len(node.args) == 1 or chooses) or node.args[0].is_number:
        return None
    at = node.args[0].xreplace(dict.fromkeys(vanishing, sympy.S.Zero))
    if not (at.is_number and at.is_real and at.is_nonzero):
        return None
    inner = walk(node.args[0] - at)
    # √n s is not small where s is
    if inner.total >= 0:
        return None
    if chooses:
        return walk(node.args[1] if at > 0 else node.args[2])
    value = node.func(at)
    # a jump or a kink is elsewhere
    inner = Size() if isinstance(node, JUMPS) else inner
    if isinstance(node, HOMOGENEOUS) and value == 0:
        inner = Size()
    if value == 0:
        return inner
    return Size(Fraction(0), *inner.powers[1:]) if value.is_finite else None


def _bounded(x: Size, found: Bent, widths: frozenset[sympy.Symbol]) -> Size:
    """Bends of one argument: what they are at 0, and the argument, as far as they follow it."""
    start = exponent_of(found.at_zero, widths)
    # a clamp: beyond its constants it follows its argument no more
    if found.is_bounded:
        bound = max(exponent_of(c, widths) for c in found.constants)
        x = Size(*(min(p, bound) for p in x.powers))
    return largest([Size(start), x])


def largest(parts: Iterable[Size]) -> Size:
    """The size of a sum: the largest of each kind."""
    return Size(*(max(x) for x in zip(*(p.powers for p in parts), strict=True)))


def product(parts: list[Size]) -> Size:
    """The size of a product: a change of one factor meets all the others as they are now."""
    start = sum((p.start for p in parts), Fraction(0))
    moves, loose, fallen, rough = [], [], [], []
    for i, p in enumerate(parts):
        others = parts[:i] + parts[i + 1 :]
        # a change is aligned with whatever it meets
        now = sum((q.total for q in others), Fraction(0))
        moves.append(p.move + now)
        rough.append(p.rough + now)
        # with what has moved in alignment it is counted there, as part of the total of that factor
        loose.append(p.loose + sum((max(q.start, q.loose) for q in others), Fraction(0)))
        fallen.append(p.fallen + sum((q.start for q in others), Fraction(0)))
    # −∞ + ∞ is no number
    return Size(start, *(max(m for m in many if m == m) for many in (moves, loose, fallen, rough)))


def _power(base: Size, e: Fraction) -> Size:
    if base.start == NOTHING and e < 0:
        # a quotient by what is zero at the start: larger than any power of n that is asked for
        return Size(-e * 10**6)
    start, *changes = base.powers
    return Size(e * start, *(_power_of_change(start, change, e) for change in changes))


def _power_of_change(start: Power, change: Power, e: Fraction) -> Power:
    if change == NOTHING:
        return NOTHING
    # a small change moves x^e by e x^(e − 1) times itself; a large one is what is left of x
    if change <= start:
        return change + (e - 1) * start
    return e * change if e > 0 else e * start


def _function(node: Expr, parts: list[Size]) -> Size:
    """A function of one or several arguments, by what it does at zero and at infinity."""
    if isinstance(node, functions.where):
        condition, *parts = parts
        between = largest(parts)
        # the condition chooses between values, and is none of them: what changes in it exchanges one for the other
        parts.append(product([Size(between.start), replace(_flipped(condition), start=NOTHING)]))
    start, *changes = largest(parts).powers
    zero = Fraction(0)
    if isinstance(node, (*HOMOGENEOUS, functions.where, *LINEAR_AT_BOTH_ENDS)):
        return Size(start, *changes)
    if isinstance(node, SATURATING):
        return _saturated(largest(parts))
    if isinstance(node, JUMPS):
        return _flipped(parts[0])
    if isinstance(node, functions.softplus):
        # softplus is log 2 at 0 and follows its argument beyond
        return Size(max(start, zero), *changes)
    return Size(zero, *(min(c, zero) for c in changes))


def _saturated(x: Size) -> Size:
    """What follows its argument as far as this is small."""
    return Size(*(min(p, Fraction(0)) for p in x.powers))


def _flipped(x: Size) -> Size:
    """A jump: a change as large as the argument flips signs, a smaller one those of a share of entries."""
    shares = [_share(x, c) for c in x.powers[1:-1]]
    return Size(NOTHING if x.start == NOTHING else Fraction(0), *shares)


def _share(x: Size, change: Power) -> Power:
    return min(Fraction(0), change - x.start) if change != NOTHING else NOTHING


def saturates(body: Expr) -> bool:
    """Whether a body holds a function whose slope falls as its argument grows."""
    return any(isinstance(node, (*SATURATING, *FLATTENING)) for node in found(body, sympy.Function))


def exponent_of(factor: Expr, widths: frozenset[sympy.Symbol]) -> Power:
    """The power of n of an expression without entries."""
    return size_of(factor, lambda _: CONSTANT, widths).start
