"""The hypotheses on poles and roots, asked of the scalars of a block: this regime's side of `hypotheses.reader.Reader`.

Jumps are not asked: a scalar at a jump, as sign(S/√n), has a law here, and what it multiplies is averaged over layers.
Poles that a numerator takes away, as in (tanh(h + s) − tanh(h))/s, are continued by `tplimits.law.rules.removable`, to
the order that is kept; scalars that settle at one function of the state, as avg(h²) and avg(x²), are beside each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy
from sympy import Dummy, Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.pole import insist_finite, poles
from tplimits.law.hypotheses.reader import Unreadable, Value
from tplimits.law.hypotheses.root import roots
from tplimits.law.hypotheses.spread import is_spread
from tplimits.law.hypotheses.tails import Growth, infinite_moment
from tplimits.law.rules.magnified import brought_out
from tplimits.law.rules.removable import continued
from tplimits.law.state import in_widths_of_n
from tplimits.program.nodes.domains import ends_of_domains, open_powers, real_where, seen_nonnegative, singular_places
from tplimits.program.nodes.entries import (
    ArrayEntry,
    AxisSum,
    Entry,
    N,
    axis_symbol,
    entries,
    reads_vectors,
    width_symbol,
    with_names,
)
from tplimits.program.nodes.kinds import Avg, InitialScalar, Nonlin, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.scale import at_infinity, powers_of_n
from tplimits.program.parts import found
from tplimits.regimes.depth.algebra.products import Poly, lowest
from tplimits.regimes.depth.algebra.vanishing import vanishes
from tplimits.regimes.depth.derivation.scalars.continuity import insist_on_continuity
from tplimits.regimes.depth.derivation.scalars.growth import insist_on_a_second_moment, tail_of
from tplimits.regimes.depth.derivation.scalars.limits import NotSmall, limit_of
from tplimits.regimes.depth.derivation.scalars.row_weights import in_rows
from tplimits.regimes.depth.derivation.scalars.scalars import fixed_number, fixed_table, parts
from tplimits.regimes.depth.derivation.scalars.sizes import mean_and_covariance
from tplimits.regimes.depth.derivation.scalars.written import Unwritten
from tplimits.regimes.depth.derivation.scalars.written import written as written_out

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering


@dataclass(frozen=True)
class ScalarReader:
    """Parts of a body at indices: scalars at what they settle at, a number where nothing of order 1 is random."""

    lowering: Lowering
    env: Mapping[Expr, int]

    @property
    def around(self) -> None:
        """Scalars of a block read no averages over other neurons."""
        return None

    def tolerance(self, expr: Expr) -> float:
        """None: numbers are exact, and what is rounding of an array alone is zero."""
        return 0.0

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
            return S.Zero if (table == 0).any() else free
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

    def within(self, expr: Expr) -> Expr:
        """Maps are written out before."""
        return expr

    def bounds(self, expr: Expr) -> tuple[Expr, Expr]:
        """By interval arithmetic, maps written out; sums over axes keep the sign of their terms."""
        return bounds(self._signed(self.lowering.reading.inlined(expr), {}))

    def shown(self, expr: Expr) -> str:
        """With the names of the program."""
        return with_names(expr, lambda entry: self.lowering.program[entry.source].name)

    def written(self, expr: Expr) -> str:
        """The limit."""
        return sympy.sstr(self.limit(expr))

    def _signed(self, expr: Expr, known: dict[Expr, Expr]) -> Expr:
        """With one symbol for each entry and each sum over an axis, `known` where it stands twice."""
        if not isinstance(expr, (Entry, AxisSum)):
            return expr.func(*(self._signed(a, known) for a in expr.args)) if expr.args else expr
        if expr not in known:
            if isinstance(expr, Entry):
                sign = self._is_nonnegative(expr) or None
            else:
                sign = bool(self.bounds(expr.summand)[0] >= 0) or None
            known[expr] = Dummy(real=True, nonnegative=sign)
        return known[expr]

    def _is_nonnegative(self, entry: Entry) -> bool:
        s = self.lowering.program[entry.source]
        if isinstance(s, Avg):
            return self._is_nonnegative(s.operand)
        return isinstance(s, Nonlin) and bool(self.bounds(s.body)[0] >= 0)


def _refused_at_pole(lowering: Lowering, body: Expr, env: Mapping[Expr, int]) -> NoLimitError | None:
    """Why scalars of a body may not settle at a pole of it; NoLimitError where one does at the end of a domain."""
    if not singular_places(body) and not ends_of_domains(body):
        return None
    reader, outer = ScalarReader(lowering, env), lowering.remarks
    lowering.remarks = dict(outer)  # what is looked at is lowered again where it stands
    pole = None
    try:
        try:
            poles(reader, body, lowering.where)
        except NoLimitError as error:
            pole = error
        try:
            roots(reader, body, lowering.where)
        except NoLimitError as error:
            raise pole or error from None
    finally:
        lowering.remarks = outer
    return pole


def insist_on_real(lowering: Lowering) -> None:
    """Refuse maps that are no numbers where what they are written out in would be one: r² with r = √h is h."""
    program, stack = lowering.program, set(lowering.program.returns)
    seen: set[int] = set()
    while stack:
        seen.add(position := stack.pop())
        s = program[position]
        stack |= set(s.operands) - seen
        if not isinstance(s, Nonlin):
            continue
        lowering.here = position
        _insist_on_constants(lowering, s.body)
        if not real_where(s.body):
            continue
        _insist_on_domains(lowering, s.body)
        if isinstance(s, ScalarNonlin):
            env: dict[Expr, int] = {axis_symbol(a): lowering.fresh(lowering.dimension_of(a)) for a in s.axes}
            roots(ScalarReader(lowering, env), s.body, lowering.where)
        elif isinstance(s, OuterNonlin) and not s.slots and not (body := lowering.reading.inlined(s.body)).has(AxisSum):
            # scalars are near their limits, whatever their sign could be
            found = tail_of(lowering, body.xreplace({e: S.One for e in entries(body) if not reads_vectors(e)}))
            if found.unreal and found.kind is Growth.INFINITE:
                raise NoLimitError(infinite_moment(lowering.where, f"{s.name}⟩", found.reason.replace("⁽1⁾", "")))


def _insist_on_constants(lowering: Lowering, body: Expr) -> None:
    """Refuse functions of vectors of which constants without a value tell whether they are real: x^c, and √(c x)."""
    for node, end in [*((node, node.base) for node in open_powers(body)), *real_where(body)]:
        if seen_nonnegative(lowering.reading.inlined(end)):
            continue
        whole = lowering.reading.inlined(node)
        plain = whole.xreplace({e: S.One for e in entries(whole) if not reads_vectors(e)})
        open_ = {str(s) for s in plain.free_symbols} & lowering.program.constants.keys()
        if reads_vectors(end) and open_ and not tail_of(lowering, plain).established:
            shown, constants = ScalarReader(lowering, {}).shown(node), ", ".join(sorted(open_))
            lowering.fail(
                f"whether `{shown}` is real at all neurons rests on {constants}; give the constant a number by .bind."
            )


def _insist_on_domains(lowering: Lowering, body: Expr) -> None:
    """The same of functions of scalars that V decides, or that are random of order 1."""
    for node, end in real_where(body):
        if not entries(end) or not lowering.reading.is_scalar(end):
            continue
        try:
            function = limit_of(lowering, written_out(lowering, node, {}, itertools.count()), NotSmall(""))
        except (NoLimitError, Unwritten):  # refused where it is lowered
            continue
        insist_on_continuity(lowering, function)
        found = tail_of(lowering, function)
        if found.unreal and found.kind is Growth.INFINITE:
            insist_on_a_second_moment(lowering, function, NoLimitError(""))


def lowered_at_poles(lowering: Lowering, body: Expr, env: Mapping[Expr, int], judged: bool = True) -> Poly:
    """A body lowered, with Taylor polynomials of the order that is kept in the place of its removable poles.

    NoLimitError where another pole is left, unless what is lowered has a value there, as relu(s)/s has.
    """
    regular = _continued(lowering, body, env)
    written = in_rows(regular, lowering.data, lowering.reading.inlined)
    left = _refused_at_pole(lowering, written, env) if judged else None
    try:
        value = lowering.lower(regular, env)
    except NoLimitError as error:
        # what is random inside of a larger expression of scalars is judged with it
        raise error if left is None or (lowering.in_scalar and isinstance(error, NotSmall)) else left from None
    # 0/0 of what is 0 at every width
    for term in value.terms if singular_places(body) else ():
        if isinstance(term.coeff, Expr):
            insist_finite(ScalarReader(lowering, env), body, term.coeff, lowering.where)
    if regular is body:
        return value
    return Poly(value.terms, lowering.limit if value.cut is None else min(value.cut, lowering.limit))


def _continued(lowering: Lowering, body: Expr, env: Mapping[Expr, int]) -> Expr:
    if not any(entries(a) for _, a in singular_places(body)) or _brings_out(in_widths_of_n(body, lowering.program)):
        return body
    widths = [width_symbol(w) for w in lowering.program.widths]

    def tends(entry: Entry) -> Expr | None:
        return _limit(lowering, entry, env)

    def moves(argument: Expr) -> bool:
        return is_spread(lowering.program, argument)

    return continued(body, tends, moves, lowering.limit + brought_out([body], widths))


def _brings_out(body: Expr) -> bool:
    """Whether a width inside of a function makes what is small as large as the function: sin(√n s)/s has no series."""
    inside = [a for f in found(body, sympy.Function) if f.has(Entry) for a in f.args if a.has(N)]
    return any(p.is_positive for a in inside for p in powers_of_n(a) or [S.One])


def _limit(lowering: Lowering, entry: Entry, env: Mapping[Expr, int]) -> Expr | None:
    """What a scalar settles at, a number or a name for a function of the state; None where it stays random."""
    if not lowering.reading.is_scalar(entry):
        return None
    try:
        fixed, small = parts(lowering, lowering.lower(entry, env))
        number = fixed_number(lowering, fixed)
        if number is None:
            return None
        number = at_infinity(number)
        if not small.terms or lowest(small) > 0:
            return number
        mean, covariance = mean_and_covariance(small, lowering.model, lowering.arrays, frozenset(env.values()))
    except (NoLimitError, ValueError):  # refused where it is lowered
        return None
    known = lowering.arrays.values
    random = any(order < 2 and not vanishes(form, known) for order, form in covariance.forms.items())
    if mean.opaque or covariance.opaque or random or any(order < 0 for order in mean.forms):
        return None
    terms = sorted((str(factors), str(c)) for factors, c in mean[0].terms.items())
    return number + (Symbol(str(terms), real=True) if terms else S.Zero)
