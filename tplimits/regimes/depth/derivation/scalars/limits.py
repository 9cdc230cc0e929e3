"""Functions of scalars of order 1 as n → ∞, and by which power of n they are random of order 1: weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sympy import Add, Expr, Pow, Rational, Symbol, expand

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.sharp_divisors import sharp_divisors
from tplimits.program.nodes.entries import N, entries, free_axes, width_symbol, with_names
from tplimits.program.nodes.scale import at_infinity
from tplimits.regimes.depth.algebra.coefficients import ratio_symbol
from tplimits.regimes.depth.algebra.products import axis_of
from tplimits.regimes.depth.derivation.not_covered import LargeWeightError
from tplimits.regimes.depth.derivation.scalars.continuity import insist_on_continuity
from tplimits.regimes.depth.derivation.scalars.growth import insist_on_a_second_moment, names
from tplimits.regimes.depth.derivation.scalars.leading import GROWN, brought_out, in_front
from tplimits.regimes.depth.derivation.scalars.written import Rest

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.algebra.forms import Form
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


def size_of(lowering: Lowering, written: Expr, reason: NotSmall) -> int | None:
    """The k for which a written expression times n^(k/2) is random of order 1, beyond the limit for less, or None."""
    for k in range(-GROWN, lowering.limit + 1):
        try:
            limit = limit_of(lowering, written * roots(k), reason)
        except NotSmall:
            return None
        if entries(limit):
            return k
    return lowering.limit + 1 if limit == 0 else None


def roots(count: int) -> Expr:
    """n^(count/2)."""
    return N ** Rational(count, 2)


def axes_of(lowering: Lowering, function: Expr) -> tuple[Symbol, ...]:
    """The indices of a function, in the order of the axes of a program; NoFormulasError for picked entries."""
    for index in (i for e in entries(function) for i in e.indices if not isinstance(i, Symbol)):
        lowering.index(index, {})
    order = {a: k for k, a in enumerate(lowering.program.all_axes)}
    return tuple(sorted(free_axes(function), key=lambda a: order[axis_of(a)]))


def weight(lowering: Lowering, written: Expr, reason: NotSmall) -> Weight:
    """The weight that a written expression of scalars is."""
    program, function = lowering.program, limit_of(lowering, written, reason)
    insist_on_a_limit(lowering, function, reason)
    return Weight(program, function, axes_of(lowering, function), matrices(lowering, function), str(reason))


def limit_of(lowering: Lowering, written: Expr, reason: NotSmall) -> Expr:
    """A written expression as n → ∞; `reason` where it grows."""
    leading = in_front(of_n(lowering, written))
    # √n·tanh(T/√n) is T
    for form in (lambda expr: expr, brought_out):
        try:
            found = at_infinity(form(leading))
        except ValueError:
            continue
        if not found.has(Rest):
            return found
    raise reason


def of_n(lowering: Lowering, expr: Expr) -> Expr:
    """With other widths by their ratio to n."""
    return expr.xreplace({width_symbol(w): ratio_symbol(w) * N for w in lowering.program.other_widths})


def in_widths(lowering: Lowering, expr: Expr) -> Expr:
    """With ratios to n as other widths."""
    return expr.xreplace({ratio_symbol(w): width_symbol(w) / N for w in lowering.program.other_widths})


def insist_on_divisors(lowering: Lowering, written: Expr) -> None:
    """Refuse quotients whose limit at every value hides how large they are near a zero, as 1/(1 + n²S²) at S ~ 1/n."""
    if not any(p.exp.is_negative and p.base.is_Add and p.base.has(N) for p in written.atoms(Pow)):
        return
    for term in Add.make_args(expand(of_n(lowering, written))):
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


def matrices(lowering: Lowering, written: Expr) -> frozenset[int]:
    """The matrices that stand in the averages of a written expression."""
    return frozenset().union(*(lowering.reading.matrices_of[e.source] for e in entries(written)))
