"""Roots: what stands under a root, or in an arcsine, stays where the function is real.

    √θ_n → √θ   needs θ > 0, or θ_n ≥ 0 at every width;   log θ_n → log θ   needs θ > 0

A scalar that tends to the end of the domain with either sign leaves it at finite width with positive probability,
however large the width.  So do entries of a vector: h² + s with s → 0 is negative where h is small, of n entries there
is always such a one, and a single one leaves the mean without a number.  A scalar whose limit is negative makes no
number at any large width, and no square of a root or logarithm, by which kernels are made of it, shows that: (√−1)² is
the real number −1.
"""

from __future__ import annotations

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.bounds import bounds, keeps_off
from tplimits.law.hypotheses.reader import Doubt, Reader, Unreadable, Value
from tplimits.law.hypotheses.zero import Kind, Place, Zero, kept_from_zero, zero
from tplimits.program.nodes.digits import value_of
from tplimits.program.nodes.domains import ends_of_domains
from tplimits.program.nodes.entries import reads_vectors
from tplimits.program.parts import found

#: digits to which the limit of a scalar is told from a negative number
_DIGITS = 40
#: roots of these powers and higher ones lose half of the digits of a zero at most; an error that is told as none
_STEEP, _KNOWN = sympy.S.Half, 1e-6


def roots(reader: Reader, body: Expr, where: str) -> list[Doubt]:
    """NoLimitError where the limit lands on the end of a domain; the doubts where that cannot be told."""
    # what is never negative at finite width may tend to 0: √(avg(x²)) → 0 is harmless
    ends = [(node, a) for node, a in ends_of_domains(body) if reader.moves(a) and _may_be_negative(reader, a)]
    doubts = kept_from_zero(reader, "root", [_place(reader, node, a) for node, a in ends], where)
    # logarithms at 0 are poles, judged there; of them only entries that may turn negative are asked here
    ends += [
        (node, a) for node in found(body, sympy.log) if reader.moves(a := node.args[0]) and _may_be_negative(reader, a)
    ]
    for node, argument in ends:
        judge = _touching if reads_vectors(argument) else _outside
        doubts += judge(reader, node, argument, where)
    for node in found(body, sympy.Pow):
        # of an exponent in symbols it is not known how steep it is
        if (
            node.exp.is_Number
            and 0 < node.exp < _STEEP
            and reader.moves(node.base)
            and not _may_be_negative(reader, node.base)
        ):
            doubts += _steep(reader, node, where)
    return doubts


def _steep(reader: Reader, node: Expr, where: str) -> list[Doubt]:
    """NoLimitError where a steep root of what is 0 within its error is known to few digits; the doubt before numbers.

    Of s = 10⁻¹⁶ ± 10⁻¹², a zero in disguise, |s|^(1/10) is 0.03, or anything up to 0.06.
    """
    seen = zero(reader, node.base)
    if seen.kind is Kind.OPEN and seen.later:
        return [Doubt("root", reader.shown(node), where, seen.reason, later=True)]
    if seen.kind is not Kind.ZERO or seen.seen is None:
        return []
    known = (abs(seen.seen.number) + seen.seen.error) ** float(node.exp)
    if known < _KNOWN:
        return []
    raise NoLimitError(
        f"{where}: `{reader.shown(node)}` is known to {known:.1g} and no better, as `{reader.shown(node.base)}` is "
        f"{seen}. Keep what stands under a root away from zero, or take a lower root."
    )


def _may_be_negative(reader: Reader, argument: Expr) -> bool:
    return bool(reader.bounds(argument)[0].is_extended_negative)


def _touching(reader: Reader, node: Expr, argument: Expr, where: str) -> list[Doubt]:
    """The doubt where entries whose limit comes as near to 0 as one likes may be negative at finite width."""
    kept, later = _without_zeros(reader, argument)
    limit = reader.limit(kept)
    # exp(h) + s is positive with a bound 0 that no entry comes near, unlike h² + s
    touches = bounds(limit)[0] == 0 and not keeps_off(limit)
    if not touches and not later:
        return []
    reason = (
        f"whether `{reader.shown(argument)}` is negative at finite width is not decided: its limit "
        f"`{reader.written(argument)}` comes as near to 0 as one likes"
    )
    return [Doubt("root", reader.shown(node), where, reason, later=not touches)]


def _outside(reader: Reader, node: Expr, argument: Expr, where: str) -> list[Doubt]:
    """NoLimitError where a scalar tends to a negative number, the doubt where that cannot be told.

    Of vectors, which leave a domain with positive probability, the hypothesis on moments is asked.
    """
    limit = reader.limit(argument)
    if bounds(limit)[0].is_extended_nonnegative:
        return []
    value = value_of(limit, _DIGITS) if limit.is_number else None
    try:
        seen = reader.values(argument) if value is None else [Value(float(value), reader.tolerance(argument))]
    except Unreadable as error:
        reason = f"whether `{reader.shown(argument)}` tends to a negative number is not decided: {error.reason}"
        return [Doubt("root", reader.shown(node), where, reason, error.later)]
    negative = next((v.number for v in seen if v.number + v.error < 0), None)
    if negative is None:
        return []
    raise NoLimitError(
        f"{where}: `{reader.shown(node)}` is not real at the limit of its arguments: `{reader.shown(argument)}` tends "
        f"to {negative:.6g} (hypothesis: ψ is real and continuous near the limits of its scalars). Keep what stands "
        "under a root or in a logarithm positive, or take its absolute value."
    )


def _without_zeros(reader: Reader, argument: Expr) -> tuple[Expr, bool]:
    """A sum without the terms whose scalars tend to 0, also in disguise; and whether only numbers tell that of one."""
    terms = sympy.Add.make_args(argument)
    fixed = sympy.Add(*(t for t in terms if not reads_vectors(t)))
    kept, later = [], False
    for term in (fixed, *(t for t in terms if reads_vectors(t))):
        scalars = sympy.Mul(*(f for f in sympy.Mul.make_args(term) if not reads_vectors(f)))
        # terms that tend to 0 are what makes entries negative: the limit without them tells whether it touches 0
        seen = zero(reader, scalars) if reader.moves(scalars) else Zero(Kind.NEVER)
        later |= seen.later
        if seen.kind is not Kind.ZERO:
            kept.append(term)
    return sympy.Add(*kept), later


def _place(reader: Reader, node: Expr, argument: Expr) -> Place:
    what = f"the root in `{reader.shown(node)}`"
    if not node.is_Pow:
        what = f"the root at the end of the domain of `{type(node).__name__}`"

    def refusal(seen: Zero) -> str:
        return (
            f"what stands under {what} tends to {seen} and is negative at finite width with positive probability "
            "(hypothesis: ψ is real and continuous near the limits of its scalars). Take the root of a square or of a "
            "mean of squares, or multiply by tp.sqrt(tp.n) and look at the fluctuation."
        )

    return Place(argument, argument, refusal)
