"""Drift and noise of a step split into what multiplies V and what is added to it.

A symmetric form X V + V Xᵀ, where X is a form in the first token and one more, can be applied as
V ← (1 + X) V (1 + X)ᵀ, which keeps V positive whatever X is.  The response of weights to noise R has mean zero, so that
doing this to √h E(R) adds h E[E V Eᵀ] to the drift, which is taken out of it beforehand.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sympy import Expr, S

from tplimits.regimes.depth.algebra.canonical import canonical
from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.algebra.products import ALPHA, BETA, SPAN, Factors, indices, next_number, renamed
from tplimits.regimes.depth.derivation.copies import sequence_of

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.responses import Response
    from tplimits.regimes.depth.derivation.roots import Root

#: whether an index is that of a token, or one of the same sequence
Same = Callable[[int, int], bool]


@dataclass(frozen=True)
class Split:
    """A symmetric form as factor·V + V·factorᵀ + rest; `factor` is not symmetric."""

    factor: Form
    rest: Form


@dataclass(frozen=True)
class Splitting:
    """dV = (D V + V Dᵀ + rest) dt + Σ_k (E_k V + V E_kᵀ + rest_k) + isotropic noise.

    `drift` is what is left of b after h E[E_k V E_kᵀ] has been taken out.
    """

    drift: Split
    responses: tuple[Split, ...]


def splitting(drift: Form, root: Root) -> Splitting:
    """The drift and the responses of a root, split."""
    responses = tuple(left_factor(r.form) for r in root.responses)
    for response, split in zip(root.responses, responses, strict=True):
        # (1 + E) V (1 + E)ᵀ adds E V Eᵀ, whose mean is of the order of the drift: taken out here, put in by the step
        tokens = ((next_number(f), f, c) for f, c in split.factor.terms.items())
        drift = drift - second_moment(response, [Row(renamed(f, {BETA: x}), c, x) for x, f, c in tokens])
    return Splitting(left_factor(drift), responses)


def left_factor(form: Form) -> Split:
    """What of a symmetric form multiplies V."""
    rest: dict[Factors, Expr] = {}
    for factors, coefficient in form.terms.items():
        left = alone(factors, ALPHA, operator.eq)
        # the mirror image of what was taken is the other half of X V + V Xᵀ and is no rest
        mirrored = left is not None and canonical(renamed(factors, {ALPHA: BETA, BETA: ALPHA})) in form.terms
        if alone(factors, BETA, operator.eq) is None and not mirrored:
            rest[factors] = coefficient
    return Split(collected(closed(rows(form, operator.eq, 0))), Form(rest))


class Row(NamedTuple):
    """One term coefficient · Π factors of X_(α, token), the token one that is summed."""

    factors: Factors
    coefficient: Expr
    token: int


def rows(form: Form, same: Same, tokens: int) -> list[Row]:
    """The terms X_(α, x) V_(x, β) of a form, V_(x, β) left out; `tokens` is what x runs over."""
    found = []
    for factors, coefficient in form.terms.items():
        right, left = alone(factors, BETA, same), alone(factors, ALPHA, same)
        if right is not None:
            share = S.Half if left is not None else S.One  # its mirror image has the other half
            a, b = factors[right][1]
            rest, token = (*factors[:right], *factors[right + 1 :]), a if b == BETA else b
            if token == ALPHA:  # a number times V_αβ
                # a fresh summed token, tied to α by an identity, so that all rows have one shape
                token = tokens * SPAN + next_number(factors)
                rest = (*rest, ("I", (ALPHA, token), 0))
            found.append(Row(rest, share * coefficient, token))
    return found


def closed(found: Iterable[Row]) -> Iterator[tuple[Factors, Expr]]:
    """X_αβ term by term."""
    return ((renamed(row.factors, {row.token: BETA}), row.coefficient) for row in found)


def alone(factors: Factors, token: int, same: Same) -> int | None:
    """The place of the V that holds `token` and one that is not the same, where nothing else holds one that is."""
    held = [(k, i) for k, (_, at, _) in enumerate(factors) for i in at if same(i, token)]
    if len(held) != 1 or held[0][1] != token:
        return None
    return held[0][0] if factors[held[0][0]][0] == "V" else None


def second_moment(response: Response, found: Sequence[Row]) -> Form:
    """E[E V Eᵀ] of a response that multiplies rows by E(R): R of both sequences are of one G."""
    terms: list[tuple[Factors, Expr]] = []
    for one, two in itertools.product(found, repeat=2):
        # the second factor at β and tokens of the second sequence, if there are two, with numbers of its own
        beyond = next_number((*one.factors, ("I", (one.token, one.token), 0)))
        held = indices(two.factors) | {two.token}
        change = {i: i + beyond + (SPAN if sequence_of(i) == 0 else 0) for i in held} | {ALPHA: BETA}
        every = (*one.factors, *renamed(two.factors, change))
        moments = response.second_moments((*every, ("V", (one.token, change[two.token]), 0)))
        terms += [(without_identities(factors), one.coefficient * two.coefficient) for factors in moments]
    return collected(terms)


def without_identities(factors: Factors) -> Factors:
    """A product with its sums over δ done; what is left of δ is δ[αβ]."""
    for k, (label, (a, *more), _) in enumerate(factors):
        if label == "I" and (max(a, *more) >= 0 or a == more[0]):
            rest = factors[:k] + factors[k + 1 :]
            kept, gone = sorted((a, more[0]))
            return without_identities(renamed(rest, {gone: kept} if gone >= 0 else {}))
    return factors
