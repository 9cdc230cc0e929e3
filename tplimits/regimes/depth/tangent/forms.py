"""Drift, diffusion and noise of (V, C, D): those of two sequences, moved along their tangents.

If a block takes two sequences X, Y with the same weights to b_XY and Σ, then with Y = X + t δX

    b_V = b_XY at t = 0,    b_C = ∂_Y b_XY,    b_D = ∂_X ∂_Y b_XY,    and Σ likewise in each of its four tokens,

a derivative along a sequence as in `moving`.  The noise of a step is that of the forward root at 2m tokens: isotropic
noise of the joint covariance, and responses to R̃ = L̃ G L̃ᵀ.  What multiplies the state there, x ← (1 + X) x with X a
form in the one sequence x belongs to, multiplies the tangent as δx ← (1 + X) δx + (∂X) x.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.algebra.products import ALPHA, BETA, COPIES, renamed
from tplimits.regimes.depth.derivation.copies import sequence_of
from tplimits.regimes.depth.derivation.splitting import alone, closed, rows, second_moment
from tplimits.regimes.depth.tangent.moving import moved, moved_terms, together, together_terms

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.block import BlockLimit

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
        left = left - second_moment(response, rows(response.form, _of_one, COPIES))
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
    found = rows(form, _of_one, COPIES)
    own = collected(together_terms(closed(found)))
    tangent = collected(
        together_terms(
            (renamed(factors, {row.token: BETA}), c)
            for row in found
            for factors, c in moved_terms([(row.factors, row.coefficient)], 0)
        )
    )
    return Part(Factor(own, tangent), _blocks(_rest(form)))


def _rest(form: Form) -> Form:
    """What multiplies rows of neither sequence."""
    ends = ALPHA, BETA
    return Form({f: c for f, c in form.terms.items() if all(alone(f, end, _of_one) is None for end in ends)})


def _of_one(i: int, token: int) -> bool:
    # X_(α, x) V_(x, β): nothing else of the term may hold a token of the second sequence
    return sequence_of(i) == sequence_of(token)
