"""Drift and noise of a step split into what multiplies V and what is added to it.

A symmetric form X V + V Xᵀ, where X is a form in the first token and one more, can be applied as
V ← (1 + X) V (1 + X)ᵀ, which keeps V positive whatever X is.  The response of weights to noise R has mean zero, so that
doing this to √h E(R) adds h E[E V Eᵀ] to the drift, which is taken out of it beforehand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr, S

from tplimits.regimes.depth.algebra.canonical import canonical
from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.algebra.products import ALPHA, BETA, Factors, next_number, renamed

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.responses import Response
    from tplimits.regimes.depth.derivation.roots import Root


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
        drift = drift - _second_moment(response, split.factor)
    return Splitting(left_factor(drift), responses)


def left_factor(form: Form) -> Split:
    """What of a symmetric form multiplies V."""
    taken: list[tuple[Factors, Expr]] = []
    rest: dict[Factors, Expr] = {}
    for factors, coefficient in form.terms.items():
        right, left = _alone(factors, BETA), _alone(factors, ALPHA)
        if right is not None:
            share = S.Half if left is not None else S.One  # its mirror image has the other half
            taken.append((_without(factors, right), share * coefficient))
        # the mirror image of what was taken is the other half of X V + V Xᵀ and is no rest
        elif left is None or canonical(renamed(factors, {ALPHA: BETA, BETA: ALPHA})) not in form.terms:
            rest[factors] = coefficient
    return Split(collected(taken), Form(rest))


def _alone(factors: Factors, token: int) -> int | None:
    """The place of the V that is the only factor with a token."""
    places = [k for k, (_, at, _) in enumerate(factors) if token in at]
    if len(places) != 1:
        return None
    label, at, _ = factors[places[0]]
    return places[0] if label == "V" and at[0] != at[1] else None


def _without(factors: Factors, place: int) -> Factors:
    """The product without V[x, β], at (α, β) in the place of (α, x)."""
    a, b = factors[place][1]
    other = a if b == BETA else b
    rest = factors[:place] + factors[place + 1 :]
    if other == ALPHA:
        return (*rest, ("I", (ALPHA, BETA), 0))
    return renamed(rest, {other: BETA})


def _second_moment(response: Response, factor: Form) -> Form:
    """E[E V Eᵀ] of the response that a factor is a part of."""
    found: list[tuple[Factors, Expr]] = []
    for (left, a), (right, b) in itertools.product(factor.terms.items(), repeat=2):
        x = next_number(left)
        y = x + 1
        first = renamed(left, {BETA: x})
        change = {i: i + y + 1 for _, at, _ in right for i in at if i >= 0} | {ALPHA: BETA, BETA: y}
        second = renamed(right, change)
        moments = response.second_moments((*first, *second, ("V", (x, y), 0)))
        found += [(without_identities(factors), a * b) for factors in moments]
    return collected(found)


def without_identities(factors: Factors) -> Factors:
    """A product with its sums over δ done; what is left of δ is δ[αβ]."""
    for k, (label, (a, *more), _) in enumerate(factors):
        if label == "I" and (max(a, *more) >= 0 or a == more[0]):
            rest = factors[:k] + factors[k + 1 :]
            kept, gone = sorted((a, more[0]))
            return without_identities(renamed(rest, {gone: kept} if gone >= 0 else {}))
    return factors
