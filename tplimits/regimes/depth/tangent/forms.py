"""Drift, diffusion and noise of (V, C, D): those of two sequences, moved along their tangents.

If a block takes two sequences X, Y with the same weights to b_XY and Σ, then with Y = X + t δX

    b_V = b_XY at t = 0,    b_C = ∂_Y b_XY,    b_D = ∂_X ∂_Y b_XY,    and Σ likewise in each of its four tokens,

a derivative along a sequence as in `moving`.  The noise of a step is that of the forward root at 2m tokens: isotropic
noise of the joint covariance, and responses to R̃ = L̃ G L̃ᵀ.  What multiplies the state there, x ← (1 + X) x with X a
form in the one sequence x belongs to, multiplies the tangent as δx ← (1 + X) δx + (∂X) x.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sympy import Expr, S

from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.algebra.products import ALPHA, BETA, COPIES, SPAN, Factors, next_number, renamed
from tplimits.regimes.depth.derivation.copies import sequence_of
from tplimits.regimes.depth.derivation.splitting import without_identities
from tplimits.regimes.depth.tangent.moving import moved, moved_terms, together, together_terms

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.derivation.responses import Response

#: the sequences of α and β (of δ and ω) that each block of the joint covariance moves
MOVES: Mapping[str, tuple[int, ...]] = {"V": (), "C": (1,), "D": (0, 1)}
#: a form for each of V, C and D
Blocks = Mapping[str, Form]


@dataclass(frozen=True)
class Factor:
    """What multiplies the rows of x, and of δx beside it: x ← (1 + own) x, δx ← (1 + own) δx + (tangent) x."""

    own: Form
    tangent: Form


@dataclass(frozen=True)
class Part:
    """One symmetric form: what multiplies rows, and what is added to V, C and D."""

    factor: Factor
    added: Blocks


@dataclass(frozen=True)
class TangentForms:
    """Drift and diffusion of (V, C, D), and the parts of a step: drift, then one response a group of weights.

    `sequences` is Σ of four sequences; `drift_part` is what is left of the drift where responses multiply, as in
    `splitting`.
    """

    drift: Blocks
    sequences: Form
    isotropic: Expr | None
    drift_part: Part | None
    responses: tuple[Part, ...]
    laws: tuple[int, ...]

    @cached_property
    def diffusion(self) -> Mapping[tuple[str, str], Form]:
        """Cov of each pair of blocks, the second at δ, ω."""
        return {
            (one, two): together(moved(self.sequences, *MOVES[one], *(2 + k for k in MOVES[two])))
            for one, two in itertools.combinations_with_replacement(MOVES, 2)
        }


def tangent_forms(limit: BlockLimit) -> TangentForms:
    """The joint forms of a limit of several sequences (`derive_block(…, sequences=True)`)."""
    drift = _blocks(limit.drift)
    if limit.root is None:
        return TangentForms(drift, limit.diffusion, None, None, (), ())
    left = limit.drift
    for response in limit.root.responses:
        # x ← (1 + X) x brings E[X V Xᵀ] into the mean of the new V by itself: what is left of the drift goes without it
        left = left - _second_moment(response, _rows(response.form))
    return TangentForms(
        drift,
        limit.diffusion,
        limit.root.isotropic,
        _part(left),
        tuple(_part(r.form) for r in limit.root.responses),
        tuple(r.law for r in limit.root.responses),
    )


def _blocks(form: Form) -> dict[str, Form]:
    return {name: together(moved(form, *sequences)) for name, sequences in MOVES.items()}


def _part(form: Form) -> Part:
    rows = list(_rows(form))
    own = collected(together_terms(_closed(rows)))
    tangent = collected(
        together_terms(
            (renamed(found, {row.token: BETA}), c)
            for row in rows
            for found, c in moved_terms([(row.factors, row.coefficient)], 0)
        )
    )
    return Part(Factor(own, tangent), _blocks(_rest(form)))


@dataclass(frozen=True)
class _Row:
    """One term coefficient · Π factors of X_(α, token), whose tokens are all of the first sequence."""

    factors: Factors
    coefficient: Expr
    token: int


def _rows(form: Form) -> list[_Row]:
    """The terms X_(α, x) V_(x, β) of a form in two sequences, V_(x, β) left out."""
    found = []
    for factors, coefficient in form.terms.items():
        # X_(α, x) V_(x, β): nothing else of the term may hold a token of the second sequence
        right, left = _only(factors, 1, BETA), _only(factors, 0, ALPHA)
        if right is not None:
            share = S.Half if left is not None else S.One  # its mirror image has the other half
            a, b = factors[right][1]
            rest, token = (*factors[:right], *factors[right + 1 :]), a if b == BETA else b
            if token == ALPHA:  # a number times V_αβ
                # a fresh summed token, tied to α by an identity, so that all rows have one shape
                token = COPIES * SPAN + next_number(factors)
                rest = (*rest, ("I", (ALPHA, token), 0))
            found.append(_Row(rest, share * coefficient, token))
    return found


def _rest(form: Form) -> Form:
    """What multiplies rows of neither sequence."""
    return Form({f: c for f, c in form.terms.items() if _only(f, 1, BETA) is None and _only(f, 0, ALPHA) is None})


def _only(factors: Factors, sequence: int, token: int) -> int | None:
    """The place of the V that holds `token` and a token of the other sequence, where that is all of a sequence."""
    held = [(k, i) for k, (_, at, _) in enumerate(factors) for i in at if sequence_of(i) == sequence]
    if len(held) != 1 or held[0][1] != token:
        return None
    return held[0][0] if factors[held[0][0]][0] == "V" else None


def _closed(rows: Sequence[_Row]) -> Iterator[tuple[Factors, Expr]]:
    for row in rows:
        yield renamed(row.factors, {row.token: BETA}), row.coefficient


def _second_moment(response: Response, rows: Sequence[_Row]) -> Form:
    """E[E V Eᵀ] of a response that multiplies rows by E(R): R of both sequences are of one G."""
    found: list[tuple[Factors, Expr]] = []
    for one, two in itertools.product(rows, repeat=2):
        # the second factor at β and tokens of the second sequence, with numbers of its own
        beyond = next_number((*one.factors, ("I", (one.token, one.token), 0)))
        held = {i for _, at, _ in two.factors for i in at if i >= 0} | {two.token}
        change = {i: i + beyond + (SPAN if sequence_of(i) == 0 else 0) for i in held} | {ALPHA: BETA}
        every = (*one.factors, *renamed(two.factors, change))
        moments = response.second_moments((*every, ("V", (one.token, change[two.token]), 0)))
        found += [(factors, one.coefficient * two.coefficient) for factors in moments]
    return collected((without_identities(f), c) for f, c in found)
