"""The structured square root of the diffusion, from the independent groups of weights (Hoeffding).

To leading order the noise of a layer is the sum of what each independent group of weights contributes,
Σ = Σ_g Cov(E[V′ | g]).  For weights that enter through averages of two dense layers (the logits of attention) the
contribution is linear in a matrix R whose limit law is L G Lᵀ, V = L Lᵀ, G with iid N(0, 1) entries; it is read off as
a form in R.  Averages of different pairs of matrices, or of different members of a family, are uncorrelated even where
one of the two is shared (the keys of all heads), and jointly Gaussian in the limit: each pair has an R of its own.
Pairs with forms that are multiples of one another act as one.  What is left must be a multiple of
Σ_lin^(αβ,δω) = V^αδ V^βω + V^αω V^βδ, the covariance of √(s/2) L (G + Gᵀ) Lᵀ.  A step then needs one Cholesky factor
of V, never a root of the diffusion itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr, S

from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import ALPHA, BETA, DELTA, OMEGA
from tplimits.regimes.depth.algebra.vanishing import vanishes
from tplimits.regimes.depth.derivation.responses import Response, proportional_as_one, responses_of

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.derivation import OneLayer

SIGMA_LIN = Form(
    {
        (("V", (ALPHA, DELTA), 0), ("V", (BETA, OMEGA), 0)): S.One,
        (("V", (ALPHA, OMEGA), 0), ("V", (BETA, DELTA), 0)): S.One,
    }
)


@dataclass(frozen=True)
class Root:
    """dV = √(s/2) L (G + Gᵀ) Lᵀ + Σ responses, all G independent; `isotropic` is s."""

    isotropic: Expr
    responses: tuple[Response, ...] = ()

    def covariance(self) -> Form:
        """The diffusion that this is a root of."""
        found = SIGMA_LIN.scaled(self.isotropic)
        for response in self.responses:
            found = found + response.covariance()
        return found

    def rescaled(self, before: Expr, after: Expr) -> Root:
        """The root at before·V, times after: one block of a stack."""
        responses = tuple(
            Response(r.matrices, r.form.degree_scaled(before).scaled(after), r.symmetric) for r in self.responses
        )
        return Root(self.isotropic * (before * after) ** 2, responses)


def structured_root(layer: OneLayer, groups: list[frozenset[int]], diffusion: Form) -> tuple[Root | None, str]:
    """The root of a diffusion, or None and the reason where it has not this structure."""
    responses: list[Response] = []
    for group in groups:
        found = responses_of(layer, group)
        if found is None:
            weights = ", ".join(f"`{layer.model.names[m]}`" for m in sorted(group))
            return None, f"the noise of {weights} is not linear in averages of two products with the state"
        responses += found
    merged = proportional_as_one(responses)
    rest = diffusion
    for response in merged:
        # groups are independent given V at leading order: what their noise leaves of Σ is that of the others
        rest = rest - response.covariance()
    # one coefficient tells s, the rest of the form has to agree with it
    isotropic = rest.terms.get(next(iter(SIGMA_LIN.terms)), S.Zero)
    if not vanishes(rest - SIGMA_LIN.scaled(isotropic), layer.arrays.values, diffusion):
        return None, (
            "Σ without the noise of averages of two products is no multiple of V^αδ V^βω + V^αω V^βδ, as where a "
            "matrix stands inside an average and outside of it"
        )
    return Root(isotropic, tuple(merged)), ""
