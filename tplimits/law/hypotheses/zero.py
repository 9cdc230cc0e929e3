"""Whether an argument vanishes in the limit: never, exactly, or as far as numbers can tell (a zero in disguise).

r = E[h tanh h] / E[1 − tanh² h] is 1 by Stein's lemma, so h − r·h is zero; no algebra here sees that, but numbers
with intervals do: a value whose interval holds 0 cannot be told from 0.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.reader import Doubt, Reader, Unreadable, Value
from tplimits.program.nodes import functions
from tplimits.program.nodes.branches import Branch, on_sides
from tplimits.program.nodes.digits import value_of
from tplimits.program.nodes.entries import AxisSum, Entry, N, entries
from tplimits.program.parts import by_products, found, holds, longer, put_in, remembered

#: heads that may vanish on more than a null set
_FLAT = functions.BENT
#: nodes of a limit that is multiplied out to see whether it is zero; a longer one is looked at with numbers
LONG = 400
#: digits to which a constant without symbols is told from zero, and what then counts as zero
_DIGITS, _NOTHING = 40, 1e-30
#: terms that are larger are not looked for where a sum may be their rounding
_LARGEST = 1e6
#: terms with multiples 1 and 2 of one number whose sum is exact in any order where it is 0
_EXACT = 3
#: points at which an identity is looked for
_LOOKED = 3


def has_flat(expr: Expr) -> bool:
    """Whether an expression has a head that may vanish on more than a null set."""
    return bool(expr.has(*_FLAT))


def may_cancel(expr: Expr) -> bool:
    """Whether kinks may add up to 0 on each of their sides, as max(x, y) + min(x, y) − x − y."""
    return any(sum(map(has_flat, total.args)) > 1 for total in found(expr, sympy.Add)) if has_flat(expr) else False


@remembered(1 << 12)
def cancels_on_a_side(expr: Expr) -> bool:
    """Whether a sum of kinks in independent variables may be 0 beside all others of its zeros, which are a null set.

    It is analytic on each side of its kinks, and so it is 0 almost nowhere, or everywhere on that side.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> cancels_on_a_side(abs(x) - abs(y)), cancels_on_a_side(functions.relu(x) - functions.relu(y))
    (False, True)
    """
    totals = [t for t in found(expr, sympy.Add) if sum(map(has_flat, t.args)) > 1]
    return any(_may_be_nothing(branch) for t in totals for branch in on_sides(t))


def _may_be_nothing(branch: Branch) -> bool:
    value = branch.value
    roots = (p for p in found(value, sympy.Pow) if not p.exp.is_Integer or p.exp.is_negative)
    partial = has_flat(value) or holds(value, sympy.log) or any(roots)
    return partial or longer(value, LONG) or any(map(vanishes, (value, *branch.conditions)))


class Kind(enum.Enum):
    """What is known of a zero."""

    NEVER = 0
    ZERO = 1
    OPEN = 2


@dataclass(frozen=True)
class Zero:
    """The verdict, and what was seen: the number that is zero within its error, or why nothing is known."""

    kind: Kind
    seen: Value | None = None
    reason: str = ""
    #: open, but known once there are numbers (and values of constants)
    later: bool = False

    def __str__(self) -> str:
        return "0" if self.seen is None else f"0 within its error: {self.seen.number:.2g} ± {self.seen.error:.1g}"


def zero(reader: Reader, expr: Expr, still: bool = False) -> Zero:
    """Whether a part of a body tends to 0 for a set of its random variables that has positive probability.

    What is zero at every width near its limit, as relu(h) for h < 0, counts where `still` says so.
    """
    # before the limit is looked at: exp(s) of anything finite cannot vanish, however long its limit is
    if positive(expr):
        return Zero(Kind.NEVER)
    # what holds at every finite width holds in the limit
    low, high = (end.xreplace({N: S.Infinity}) for end in reader.bounds(expr))  # what is above 1/n may tend to 0
    if low.is_extended_positive or high.is_extended_negative:
        return Zero(Kind.NEVER)
    limit = reader.limit(expr)
    if limit == 0 or (not longer(limit, LONG) and (sympy.expand(limit) == 0 or _is_nothing(limit))):
        return Zero(Kind.ZERO)
    if limit.is_number:
        return _of_number(reader, expr, limit)
    # 0.1 + 0.2 − 0.3 times a variable: decimal constants do not cancel to 0
    tolerance = reader.tolerance(expr)
    if tolerance and _is_nothing_but_rounding(reader, expr, limit, tolerance):
        return Zero(Kind.ZERO)
    if reader.settled(expr):
        return Zero(Kind.NEVER)
    return seen_in_numbers(reader, expr, still)


def seen_in_numbers(reader: Reader, expr: Expr, still: bool = False) -> Zero:
    """The same by numbers at points of its random variables."""
    try:
        hit = _hit(reader, expr, still)
    except Unreadable as error:
        return Zero(Kind.OPEN, reason=error.reason, later=error.later)
    return Zero(Kind.NEVER) if hit is None else Zero(Kind.ZERO, hit)


def _hit(reader: Reader, expr: Expr, still: bool) -> Value | None:
    """A value that is zero and moves, or of what stays where it is, too; None where none is seen."""
    values = reader.values(expr)
    # a value that is zero and does not move is a flat part, at which every width has the same value: a jump has one
    # there, a pole has none
    nothing = [v for v in values if v.is_zero or _is_rounded(reader, expr, v.number)]
    hit = next((v for v in nothing if v.moves or still), None)
    # scalars that vectors are made of move as well: max(y, 0)·s + min(y, 0) − y, s → 1, is 0 at the limit alone
    inside = reader.within(expr) if nothing and hit is None else expr
    return hit if inside == expr or longer(inside, LONG) else _hit(reader, inside, still)


@dataclass(frozen=True)
class Place:
    """An argument that may not tend to 0: what a doubt is called after, and the words where it does."""

    of: Expr
    argument: Expr
    refusal: Callable[[Zero], str]
    what: str = ""
    #: whether it may not be 0 at every width either
    still: bool = False


def kept_from_zero(
    reader: Reader, hypothesis: str, places: Iterable[Place], where: str, asked: Callable[..., Zero] = zero
) -> list[Doubt]:
    """NoLimitError where an argument that moves tends to 0; the doubts where that cannot be told."""
    doubts = []
    for place in places:
        if not reader.moves(place.argument):
            continue
        seen = asked(reader, place.argument, place.still)
        if seen.kind is Kind.ZERO:
            raise NoLimitError(f"{where}: {place.refusal(seen)}")
        if seen.kind is Kind.OPEN:
            reason = f"whether {place.what}`{reader.shown(place.argument)}` tends to 0 is not decided: {seen.reason}"
            doubts.append(Doubt(hypothesis, reader.shown(place.of), where, reason, seen.later))
    return doubts


def _is_nothing(limit: Expr) -> bool:
    """Whether a limit is zero by an identity between functions, as tanh h − 2 σ(2h) + 1 is."""
    return not has_flat(limit) and vanishes_where_looked(limit)


@remembered(1 << 12)
def vanishes_where_looked(expr: Expr) -> bool:
    """Whether a function is zero at some points of its symbols, which are nowhere special."""
    symbols = sorted(expr.free_symbols, key=lambda s: str(s.name))
    if not symbols or longer(expr, LONG):
        return False
    for point in range(_LOOKED):
        places = {s: sympy.Rational(2 * ((7 * i + 3 * point) % 11) - 9, 17 + 2 * i) for i, s in enumerate(symbols)}
        value = value_of(expr.xreplace(places), _DIGITS)
        if value is None or abs(value) > _NOTHING:
            return False
    return True


def vanishes(expr: Expr) -> bool:
    """Whether a function is zero, by algebra or at some points."""
    named = expr.xreplace({e: sympy.Dummy(str(e), real=True) for e in entries(expr)})
    return bool(sympy.expand(expr) == 0) or vanishes_where_looked(named)


@remembered(1 << 12)
def is_nothing_by_halves(expr: Expr) -> bool:
    """Whether a function of one entry is 0 on each side of its kinks at every width, without rounding.

    Sums of several entries, and multiples other than 1 and 2, are rounded: networks have ±1e-16 there, and either sign.

    >>> from tplimits.program.nodes.entries import OWN, Entry
    >>> x, y = (Entry(sympy.Integer(i), OWN) for i in range(2))
    >>> relu = functions.relu
    >>> is_nothing_by_halves(relu(x) - relu(-x) - x), is_nothing_by_halves(sympy.Abs(x) - relu(x) - relu(-x))
    (True, True)
    >>> is_nothing_by_halves(3 * relu(x) - 3 * relu(-x) - 2 * x - x), is_nothing_by_halves(relu(x) - relu(-x))
    (True, False)
    >>> is_nothing_by_halves(relu(x - y) - relu(y - x) - x + y)
    False
    """
    if not holds(expr, functions.relu, sympy.Abs):
        return False
    read, terms = entries(expr), [t.as_coeff_Mul() for t in sympy.Add.make_args(expr)]
    least = min(abs(c) for c, _ in terms)
    if len(read) != 1 or len(terms) > _EXACT or not all(abs(c) in (least, 2 * least) for c, _ in terms):
        return False
    (x,) = read
    halves = {functions.relu(x): x, functions.relu(-x): S.Zero, sympy.Abs(x): x, x: x}
    if not all(part in halves for _, part in terms):
        return False
    other = {functions.relu(x): S.Zero, functions.relu(-x): -x, sympy.Abs(x): -x, x: x}
    return all(sympy.Add(*(c * side[part] for c, part in terms)) == 0 for side in (halves, other))


@remembered(1 << 12)
def positive(expr: Expr, known: frozenset[int] = frozenset()) -> bool:
    """Whether it is positive at every finite argument, as the limit is: an exponential, a sum or a product of such.

    Instructions at the positions of `known` are.
    """
    if isinstance(expr, sympy.exp):
        return True
    if isinstance(expr, AxisSum):
        return positive(expr.summand, known)
    if isinstance(expr, Entry):
        return expr.source in known
    return isinstance(expr, (sympy.Add, sympy.Mul)) and all(
        a.is_positive if a.is_number else positive(a, known) for a in expr.args
    )


def _of_number(reader: Reader, expr: Expr, limit: Expr) -> Zero:
    value = value_of(limit, _DIGITS)
    if value is None or (value != 0 and not _is_rounded(reader, expr, float(value))):
        return Zero(Kind.NEVER)
    return Zero(Kind.ZERO, Value(float(value), reader.tolerance(expr)) if value != 0 else None)


def _is_rounded(reader: Reader, expr: Expr, number: float) -> bool:
    """Whether a number may be nothing but the rounding of decimal numbers, beside the largest term of a sum.

    A product is it where a factor is: 1e-31 ⟨x²⟩ is small, and not zero.
    """
    tolerance = reader.tolerance(expr)
    if not tolerance or abs(number) > _LARGEST * tolerance:
        return False
    if expr.is_Mul:
        return any(_is_rounded(reader, f, _size(reader, f)) for f in expr.args if reader.moves(f))
    return abs(number) <= tolerance * (max(_size(reader, a) for a in expr.args) if expr.is_Add else 1)


def _size(reader: Reader, expr: Expr) -> float:
    """The largest absolute value of a part of a body at the points where it is looked at; 1 where it is not."""
    limit = reader.limit(expr)
    if limit.is_number and (value := value_of(limit, _DIGITS)) is not None:
        return abs(float(value))
    try:
        return max((abs(v.number) for v in reader.values(expr)), default=1.0)
    except Unreadable:
        return 1.0


def without_rounding(reader: Reader, body: Expr) -> Expr:
    """A body whose sums with limits that are nothing but rounding of decimal numbers, as 0.1 + 0.2 − 0.3, tend to 0.

    Jumps, poles and roots of it have been asked before; what reads it finds a zero, and no variable of size 1e-17.
    What fluctuates about such a limit is left: a power of n brings it out.
    """
    sums = found(body, sympy.Add) if reader.tolerance(body) else ()
    moving = {total: _beside_width(total) for total in sums if reader.moves(total)}
    lost = {
        total: n * (left - reader.limit(left)) for total, (n, left) in moving.items() if _may_be_rounding(reader, left)
    }
    return put_in(body, lost, {}) if lost else body


def _beside_width(total: Expr) -> tuple[Expr, Expr]:
    """A sum as a power of n that all of its terms share, and the rest."""
    powers = {t.as_powers_dict().get(N, S.Zero) for t in total.args}
    shared = N ** powers.pop() if len(powers) == 1 else S.One
    return shared, sympy.Add(*(t / shared for t in total.args)) if shared != 1 else total


def _may_be_rounding(reader: Reader, total: Expr) -> bool:
    limit, tolerance = reader.limit(total), reader.tolerance(total)
    # of what is no number all terms are looked at, which is quick: most are no rounding
    terms = () if limit.is_number else (t.as_coeff_Mul()[0] for t in sympy.Add.make_args(limit))
    if limit == 0 or not all(c.is_comparable and abs(c) <= _LARGEST * tolerance for c in terms):
        return False
    return _is_nothing_but_rounding(reader, total, limit, tolerance)


def _is_nothing_but_rounding(reader: Reader, expr: Expr, limit: Expr, tolerance: float) -> bool:
    """Of a product where a sum in it is: 1e-31 ⟨x²⟩ is small, and not zero."""
    if expr.is_Mul:
        return any(f.is_Add and reader.moves(f) and _may_be_rounding(reader, f) for f in expr.args)
    if limit.is_number:
        return _of_number(reader, expr, limit).kind is Kind.ZERO
    return _is_rounding(limit, tolerance)


def _is_rounding(limit: Expr, tolerance: float) -> bool:
    """Whether the numbers before all products are rounding, those before the same product taken together."""
    # read with many digits: what cancels has no digits left in few, and is called no number
    read = {product: value_of(sympy.Add(*numbers), _DIGITS) for product, numbers in by_products(limit).items()}
    return all(product != 1 and value is not None and abs(value) <= tolerance for product, value in read.items())


def cancelled(expr: Expr) -> Expr:
    """Every sum without its numbers where these cancel, as log 2 + log 3 − log 6 does.

    >>> from sympy import log, sqrt, Symbol
    >>> cancelled(sqrt(Symbol("x") + log(2) + log(3) - log(6)))
    sqrt(x)
    """
    swap = {}
    for total in found(expr, sympy.Add):
        numbers = [a for a in total.args if a.is_number]
        if len(numbers) > 1 and value_of(sympy.Add(*numbers)) == 0:
            swap[total] = sympy.Add(*(a for a in total.args if not a.is_number))
    return cancelled(expr.xreplace(swap)) if swap else expr
