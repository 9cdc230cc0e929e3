"""Functions of scalars that fluctuate by order 1: random weights of their own, as of ordinary attention.

Where logits S keep their size as n → ∞, a function F(S) of them has no Taylor series, and V is random at order 1 unless
the branch they stand on is of size n^(−1/2), x + (g/√n) Σ F v.  There only the mean of a product of two F remains,

    b ∋ g² Σ_νκ E[F_αν F_βκ] V_νκ,   S Gaussian given V, of covariance n·Cov(averages),

and the noise of a layer is o(1/n): V follows an ordinary differential equation.  Hypotheses: S are averages, over a
width that grows, of products of dense layers of the state, of mean zero (central limit theorem); the matrices in S
stand nowhere else, so that F is independent of what it multiplies; F grows at most like exp(c|S|).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sympy import Add, Dummy, Expr, Mul, Pow, Rational, S, Symbol, expand

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.quotients import kept_together
from tplimits.law.hypotheses.sharp import sharp_divisors
from tplimits.program.nodes.entries import (
    ArrayEntry,
    AxisSum,
    Entry,
    N,
    entries,
    free_axes,
    width_symbol,
    with_names,
)
from tplimits.program.nodes.functions import kinks
from tplimits.program.nodes.kinds import Avg, InitialMatrix, InitialVector
from tplimits.program.nodes.parity import parity
from tplimits.program.nodes.scale import at_infinity
from tplimits.regimes.depth.algebra.coefficients import ratio_symbol
from tplimits.regimes.depth.algebra.expansions import ARGUMENT
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import MOST, Poly, free_index, has_kinks, multiplied, total
from tplimits.regimes.depth.derivation.not_covered import LargeWeightError
from tplimits.regimes.depth.derivation.scalars.continuity import insist_on_continuity
from tplimits.regimes.depth.derivation.scalars.growth import insist_on_a_second_moment, names, tail_of
from tplimits.regimes.depth.derivation.scalars.leading import GROWN, brought_out, in_front, in_powers
from tplimits.regimes.depth.derivation.scalars.written import Rest, average
from tplimits.regimes.depth.derivation.scalars.written import written as written_out

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import Instruction
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.derivation.lowering import Lowering


class NotSmall(NoLimitError):
    """A function of a scalar that fluctuates by order 1."""


@dataclass(frozen=True)
class Weight:
    """F(S) at the indices `axes`: `function` in the limit, entries of averages standing for S.

    `refusal` says why it has no place on a branch that is larger than n^(−1/2); `of_neuron`: entries are also those of
    dense layers at one neuron, under their matrices (`neurons`).
    """

    program: Program
    function: Expr
    axes: tuple[Symbol, ...]
    matrices: frozenset[int]
    refusal: str
    of_neuron: bool = False
    #: averages that stand beside their mean, or behind scalars that multiply them
    parts: frozenset[int] = frozenset()

    @property
    def read(self) -> tuple[int, ...]:
        """The averages and matrices whose entries it reads, and the state if it reads V."""
        return tuple(sorted({e.source for e in entries(self.function)}))

    def too_large(self, more: str = "") -> LargeWeightError:
        """The refusal of what is more than a random weight of mean square 1/n."""
        return LargeWeightError(self.refusal + more, self.matrices)

    def met(self, scale: Expr) -> Weight:
        """The weight of a block that meets `scale` times V."""
        of_state = (e for e in entries(self.function) if e.source == self.program.state)
        return replace(self, function=self.function.xreplace({e: scale * e for e in of_state}))


#: the covariance of two of what weights read: free indices α, β, … are those of the first, then those of the second
Law = Mapping[tuple[int, int], "Form"]


def scalars(lowering: Lowering, exprs: Sequence[Expr], env: Mapping[Expr, int]) -> list[Poly]:
    """Factors that are expressions of scalars; where one of them fluctuates by order 1, all are one weight."""
    here, outer, lowering.in_scalar = lowering.here, lowering.in_scalar, True
    try:
        if lowering.taken.as_weights & _matrices(lowering, Mul(*exprs)):
            raise NotSmall(f"{lowering.where}: functions of these scalars are averaged together, as weights.")
        return lowering.of_scalars(exprs, env)
    except NotSmall as reason:
        lowering.here = here
        if (factor := _as_factor(lowering, Mul(*exprs), reason, env)) is not None:
            return [factor]
        # inside of a larger expression of scalars: the whole of it becomes the weight, not this part
        if outer:
            raise
        return [_weighed(lowering, Mul(*exprs), reason, env)]
    finally:
        lowering.in_scalar = outer


def _weighed(lowering: Lowering, expr: Expr, reason: NotSmall, env: Mapping[Expr, int]) -> Poly:
    """An expression of scalars as a weight, or as terms of which some are smaller weights: I + F(S)/√n."""
    written = written_out(lowering, expr, {}, itertools.count())
    _insist_on_divisors(lowering, written)
    size = _size(lowering, written, reason)
    if size is not None and size <= 0:
        return _sized(lowering, written, size, reason, env)
    try:
        return _split(lowering, written, size or 1, reason, env)
    except NotSmall:
        expanded = _in_widths(lowering, in_powers(_of_n(lowering, written), lowering.limit))
        if expanded == written:
            raise
        return total([_split(lowering, expanded, size or 1, reason, env), Poly((), lowering.limit)])


def _split(lowering: Lowering, written: Expr, least: int, reason: NotSmall, env: Mapping[Expr, int]) -> Poly:
    """Terms that are lowered as ever, and weights; `reason` where one is larger than their sum, n^(−least/2)."""
    terms: dict[Expr, tuple[int | None, Poly]] = {}
    weighed: dict[Expr, int] = {}
    for term in _apart(lowering, written):
        size = _size(lowering, term, reason)
        if size is not None and size < least:
            raise reason
        # I + F(S)/√n: what does not fluctuate by order 1 is lowered as ever, and F alone is the weight
        weighed_alone = size is not None and (size <= 0 or bool(lowering.taken.as_weights & _matrices(lowering, term)))
        ordinary = None if weighed_alone else _ordinary(lowering, term, env)
        # what has a kink stands beside a weight of the same scalars as a weight
        if ordinary is not None and (size is None or not has_kinks(ordinary)):
            terms[term] = size, ordinary
        elif size is None:
            raise reason
        else:
            weighed[term] = size
    # S/√n beside tanh(S)/√n is random together with it, and no independent small quantity
    while joined := [t for t, (k, _) in terms.items() if k is not None and _is_joined(lowering, t, k, weighed)]:
        weighed |= {t: k for t in joined for k in [terms.pop(t)[0]] if k is not None}
    small = Poly((), lowering.limit)
    own = (_sized(lowering, t, k, reason, env) if k <= lowering.limit else small for t, k in weighed.items())
    return total([*(ordinary for _, ordinary in terms.values()), *own])


def _is_joined(lowering: Lowering, term: Expr, size: int, weighed: Mapping[Expr, int]) -> bool:
    """Whether a term of a size and a weight of the same matrices make a product of order 1/n."""
    own = _matrices(lowering, term)
    # what stands in front, and makes larger orders known, makes each of both larger by as much
    most = 2 * lowering.limit - MOST
    return any(size + k <= most and own & _matrices(lowering, other) for other, k in weighed.items())


def _matrices(lowering: Lowering, written: Expr) -> frozenset[int]:
    return frozenset().union(*(lowering.reading.matrices_of[e.source] for e in entries(written)))


def _apart(lowering: Lowering, written: Expr) -> list[Expr]:
    """The terms of a sum, multiplied out; those in one that have a second moment only together, as coth S − 1/S."""
    names = {e: Dummy(real=True) for e in entries(written)}
    back = {name: e for e, name in names.items()}
    terms = [t for a in Add.make_args(written.xreplace(names)) for t in _multiplied_out(a)]
    sizes = (N, *map(width_symbol, lowering.program.widths))
    whole = kept_together(
        terms, sizes, lambda base: base.has(*back), lambda term: tail_of(lowering, term.xreplace(back)).established
    )
    return [term.xreplace(back) for term in whole]


def _multiplied_out(product: Expr) -> Iterator[Expr]:
    """The terms of a product of sums; denominators stay as they are."""
    factors = Mul.make_args(product)
    rest = [f for f in factors if not f.is_Add]
    for terms in itertools.product(*(f.args for f in factors if f.is_Add)):
        yield Mul(*rest, *terms)


def _size(lowering: Lowering, written: Expr, reason: NotSmall) -> int | None:
    """The k for which a written expression times n^(k/2) is random of order 1, beyond the limit for less, or None."""
    for k in range(-GROWN, lowering.limit + 1):
        try:
            limit = limit_of(lowering, written * _roots(k), reason)
        except NotSmall:
            return None
        if entries(limit):
            return k
    return lowering.limit + 1 if limit == 0 else None


def _sized(lowering: Lowering, written: Expr, size: int, reason: NotSmall, env: Mapping[Expr, int]) -> Poly:
    """n^(−size/2) times a weight."""
    own = _as_weight(lowering, weight(lowering, written * _roots(size), reason), env)
    return multiplied(lowering.number(1 / _roots(size)), own, lowering.limit)


def _ordinary(lowering: Lowering, written: Expr, env: Mapping[Expr, int]) -> Poly | None:
    """A written expression as it is lowered without weights; None where it holds what is random of order 1."""
    here = lowering.here
    if written.has(Rest) or any(e.source == lowering.program.state for e in entries(written)):
        return None  # S is less than √n times its average there
    try:
        return lowering.alone(written.xreplace({e: e * _roots(1) for e in entries(written)}), env)
    except NotSmall:
        lowering.here = here
        return None


def _roots(count: int) -> Expr:
    """n^(count/2)."""
    return N ** Rational(count, 2)


def _as_factor(lowering: Lowering, expr: Expr, reason: NotSmall, env: Mapping[Expr, int]) -> Poly | None:
    """A function of one average, of mean zero in the limit, as a factor; None for others."""
    if not lowering.taken.as_factors & _matrices(lowering, expr):
        return None
    front, core = expr.as_independent(Entry, AxisSum, as_Add=False)
    written = written_out(lowering, core, {}, itertools.count())
    read = entries(written)
    if len(read) != 1 or written.has(ArrayEntry, AxisSum) or not isinstance(lowering.program[read[0].source], Avg):
        return None
    size = _size(lowering, written, reason)
    if size is None or not average(lowering, read[0].source).whole:
        return None
    function = weight(lowering, written * _roots(size), reason).function.xreplace({read[0]: ARGUMENT})
    if kinks(function) and parity(function, ARGUMENT) != -1:  # algebra may not see that its mean vanishes
        return None
    whole = lowering.around(function, read[0] * _roots(1), env, {}).whole()
    return None if whole is None else multiplied(lowering.alone(front / _roots(size), env), whole, lowering.limit)


def _as_weight(lowering: Lowering, found: Weight, env: Mapping[Expr, int]) -> Poly:
    """A weight at indices."""
    label = kept(lowering, found)
    return lowering.one((label, tuple(lowering.index(a, env) for a in found.axes), 0))


def kept(lowering: Lowering, found: Weight) -> str:
    """The label of a weight, which the model keeps, with what it reads for their law."""
    model, program = lowering.model, lowering.program
    digest = hashlib.sha256(f"{program.name} {found.function}".encode()).hexdigest()[:12]
    parts = set()
    for position in found.read:
        if isinstance(program[position], (InitialMatrix, InitialVector)) and position != program.state:
            model.neurons[position] = _of_entries(program[position])
        elif position != program.state:
            own = average(lowering, position)
            model.averages[position] = own.random
            parts |= set() if own.whole else {position}
    model.weights[f"Y|{digest}"] = replace(found, parts=frozenset(parts))
    return f"Y|{digest}"


def _of_entries(s: Instruction) -> Form:
    """The covariance of entries at one neuron, of a matrix times the state or of a vector: members are independent."""
    times_state = isinstance(s, InitialMatrix)
    count = len(s.axes) + times_state
    pairs = [(free_index(k), free_index(count + k)) for k in range(count)]
    return Form({tuple(("I" if k < len(s.axes) else "V", pair, 0) for k, pair in enumerate(pairs)): S.One})


def axes_of(program: Program, function: Expr) -> tuple[Symbol, ...]:
    """The indices of a function, in the order of the axes of a program."""
    order = {a: k for k, a in enumerate(program.all_axes)}
    return tuple(sorted(free_axes(function), key=lambda a: order[a.name.split("′")[0]]))


def weight(lowering: Lowering, written: Expr, reason: NotSmall) -> Weight:
    """The weight that a written expression of scalars is."""
    program, function = lowering.program, limit_of(lowering, written, reason)
    insist_on_a_limit(lowering, function, reason)
    return Weight(program, function, axes_of(program, function), _matrices(lowering, function), str(reason))


def limit_of(lowering: Lowering, written: Expr, reason: NotSmall) -> Expr:
    """A written expression as n → ∞; `reason` where it grows."""
    leading = in_front(_of_n(lowering, written))
    # √n·tanh(T/√n) is T
    for form in (lambda expr: expr, brought_out):
        try:
            found = at_infinity(form(leading))
        except ValueError:
            continue
        if not found.has(Rest):
            return found
    raise reason


def _of_n(lowering: Lowering, expr: Expr) -> Expr:
    """With other widths by their ratio to n."""
    return expr.xreplace({width_symbol(w): ratio_symbol(w) * N for w in lowering.program.other_widths})


def _in_widths(lowering: Lowering, expr: Expr) -> Expr:
    return expr.xreplace({ratio_symbol(w): width_symbol(w) / N for w in lowering.program.other_widths})


def _insist_on_divisors(lowering: Lowering, written: Expr) -> None:
    """Refuse quotients whose limit at every value hides how large they are near a zero, as 1/(1 + n²S²) at S ~ 1/n."""
    if not any(p.exp.is_negative and p.base.is_Add and p.base.has(N) for p in written.atoms(Pow)):
        return
    for term in Add.make_args(expand(_of_n(lowering, written))):
        # 1/(1 + n S²) as n⁻¹/(S² + 1/n): what the limit divides by, and the power that hides it
        for base, left in sharp_divisors(in_front(term), lambda entry: True):
            divisor, zero = (with_names(e, names(term).__getitem__, indexed=False) for e in (base, left))
            raise NoLimitError(
                f"{lowering.where}: `{divisor}`, S being √n times an average, is kept off 0 by less and less of it as "
                f"n grows, and where `{zero}` is nearly 0 the function is far larger than it is elsewhere: its mean "
                "square is not that of its limit. Let no power of n weigh the parts of a divisor against each other."
            )


def insist_on_a_limit(lowering: Lowering, function: Expr, reason: NotSmall) -> None:
    """Refuse a function of Gaussian scalars without a second moment, and one of V that is not continuous."""
    insist_on_continuity(lowering, function)
    insist_on_a_second_moment(lowering, function, reason)
