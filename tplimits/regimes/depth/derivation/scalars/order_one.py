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
from dataclasses import replace
from typing import TYPE_CHECKING

from sympy import Add, Dummy, Expr, Mul, S, expand

from tplimits.law.hypotheses.quotients import kept_together
from tplimits.program.nodes.entries import (
    ArrayEntry,
    AxisSum,
    Entry,
    N,
    entries,
    width_symbol,
)
from tplimits.program.nodes.functions import elementary, kinks
from tplimits.program.nodes.kinds import Avg, InitialMatrix, InitialVector
from tplimits.program.nodes.parity import parity
from tplimits.regimes.depth.algebra.expansions import ARGUMENT
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import MOST, Poly, free_index, has_kinks, lowest, multiplied, total
from tplimits.regimes.depth.derivation.scalars.growth import tail_of
from tplimits.regimes.depth.derivation.scalars.leading import in_powers
from tplimits.regimes.depth.derivation.scalars.limits import (
    NotSmall,
    Weight,
    in_widths,
    insist_on_divisors,
    matrices,
    of_n,
    roots,
    size_of,
    weight,
)
from tplimits.regimes.depth.derivation.scalars.written import Rest, average
from tplimits.regimes.depth.derivation.scalars.written import written as written_out

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import Instruction
    from tplimits.regimes.depth.derivation.lowering import Lowering


def scalars(lowering: Lowering, exprs: Sequence[Expr], env: Mapping[Expr, int]) -> list[Poly]:
    """Factors that are expressions of scalars; where one of them fluctuates by order 1, all are one weight."""
    here, outer, lowering.in_scalar = lowering.here, lowering.in_scalar, True
    try:
        if lowering.taken.as_weights & matrices(lowering, Mul(*exprs)):
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
    insist_on_divisors(lowering, written)
    size = size_of(lowering, written, reason)
    if size is not None and size <= 0:
        return _sized(lowering, written, size, reason, env)
    try:
        return _split(lowering, written, size or 1, reason, env)
    except NotSmall:
        expanded = in_widths(lowering, in_powers(of_n(lowering, written), lowering.limit))
        if expanded == written:
            raise
        return total([_split(lowering, expanded, size or 1, reason, env), Poly((), lowering.limit)])


def _split(lowering: Lowering, written: Expr, least: int, reason: NotSmall, env: Mapping[Expr, int]) -> Poly:
    """Terms that are lowered as ever, and weights; `reason` where one is larger than their sum, n^(−least/2)."""
    terms: dict[Expr, tuple[int | None, Poly]] = {}
    weighed: dict[Expr, int] = {}
    for term in _apart(lowering, written):
        size = size_of(lowering, term, reason)
        if size is not None and size < least:
            raise reason
        # I + F(S)/√n: what does not fluctuate by order 1 is lowered as ever, and F alone is the weight
        weighed_alone = size is not None and (size <= 0 or bool(lowering.taken.as_weights & matrices(lowering, term)))
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
    own = matrices(lowering, term)
    # what stands in front, and makes larger orders known, makes each of both larger by as much
    most = 2 * lowering.limit - MOST
    return any(size + k <= most and own & matrices(lowering, other) for other, k in weighed.items())


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


def _sized(lowering: Lowering, written: Expr, size: int, reason: NotSmall, env: Mapping[Expr, int]) -> Poly:
    """n^(−size/2) times a weight."""
    own = _as_weight(lowering, weight(lowering, written * roots(size), reason), env)
    return multiplied(lowering.number(1 / roots(size)), own, lowering.limit)


def _ordinary(lowering: Lowering, written: Expr, env: Mapping[Expr, int]) -> Poly | None:
    """A written expression as it is lowered without weights; None where it holds what is random of order 1."""
    here = lowering.here
    if written.has(Rest) or any(e.source == lowering.program.state for e in entries(written)):
        return None  # S is less than √n times its average there
    try:
        return lowering.alone(written.xreplace({e: e * roots(1) for e in entries(written)}), env)
    except NotSmall:
        lowering.here = here
        return None


def _as_factor(lowering: Lowering, expr: Expr, reason: NotSmall, env: Mapping[Expr, int]) -> Poly | None:
    """A function of one average, of mean zero in the limit, as a factor; None for others."""
    if not lowering.taken.as_factors & matrices(lowering, expr):
        return None
    front, core = expr.as_independent(Entry, AxisSum, as_Add=False)
    written = written_out(lowering, core, {}, itertools.count())
    read = entries(written)
    if len(read) != 1 or written.has(ArrayEntry, AxisSum) or not isinstance(lowering.program[read[0].source], Avg):
        return None
    before = lowering.alone(front, env)
    # of what grows, smaller terms than those below would count
    if not average(lowering, read[0].source).whole or lowest(before) < 0:
        return None
    found, left = [], written
    # the terms of each size, which a kink joins: sign(S)/√n + |S|/n
    while (size := size_of(lowering, left, reason)) is not None and size <= lowering.limit:
        function = weight(lowering, left * roots(size), reason).function
        of_one = function.xreplace({read[0]: ARGUMENT})
        # algebra may not see that its mean vanishes, which nothing asks of what is of size 1/n
        odd = size == lowering.limit or not kinks(of_one) or parity(of_one, ARGUMENT) == -1
        whole = lowering.around(of_one, read[0] * roots(1), env, {}).whole() if odd else None
        rest = _beside(lowering, left, function, size, reason)
        if whole is None or rest is None:
            return None
        found.append(multiplied(lowering.alone(front / roots(size), env), whole, lowering.limit))
        left = rest
    return None if size is None else total(found)


def _beside(lowering: Lowering, written: Expr, leading: Expr, size: int, reason: NotSmall) -> Expr | None:
    """What is smaller than n^(−size/2) beside the term of this size; None where it is not seen to be."""
    left = written - leading / roots(size)
    # logarithms stay whole: their powers of n cancel inside
    for rest in (expand(form, log=False) for form in (left, elementary(left))):
        found = size_of(lowering, rest, reason)
        if found is not None and found > size:
            return rest
    return None


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
