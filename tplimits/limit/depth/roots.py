"""The structured square root of the diffusion, from the independent groups of weights (Hoeffding).

To leading order the noise of a layer is the sum of what each independent group of weights contributes,
Σ = Σ_g Cov(E[V′ | g]).  For weights that enter through averages of two dense layers (the logits of attention) the
contribution is linear in a matrix R whose limit law is L G Lᵀ, V = L Lᵀ, G with iid N(0, 1) entries; it is read off as
a form in R.  What is left must be a multiple of Σ_lin^(αβ,δω) = V^αδ V^βω + V^αω V^βδ, the covariance of
√(s/2) L (G + Gᵀ) Lᵀ.  A step then needs one Cholesky factor of V, never a root of the diffusion itself.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import sympy
from sympy import Expr, S

from tplimits.limit.depth.activations import LINEAR
from tplimits.limit.depth.algebra import SPAN, Factors, Term, indices, next_number, product, times
from tplimits.limit.depth.contraction import shifted
from tplimits.limit.depth.derivation import ALPHA, BETA, DELTA, OMEGA, OneLayer
from tplimits.limit.depth.forms import Form, collected, dimension_factor, over_tokens
from tplimits.limit.depth.vanishing import vanishes

SIGMA_LIN = Form(
    {
        (("V", (ALPHA, DELTA), 0), ("V", (BETA, OMEGA), 0)): S.One,
        (("V", (ALPHA, OMEGA), 0), ("V", (BETA, DELTA), 0)): S.One,
    }
)


@dataclass(frozen=True)
class Response:
    """The noise of one group of weights: dV^αβ = form(R), R = L G Lᵀ (or L (G + Gᵀ) Lᵀ/√2 if `symmetric`)."""

    matrices: tuple[str, ...]
    form: Form
    symmetric: bool = False

    def covariance(self) -> Form:
        """Cov of the noise with itself at other tokens."""
        found = []
        for (left, a), (right, b) in itertools.product(self.form.terms.items(), repeat=2):
            one = Term(a, (), 0, left)
            other = shifted(Term(b, (), 0, _elsewhere(right)), next_number(left), 0)
            both = product(one, other)
            (a1, a2), (b1, b2) = (f[1] for f in both.factors if f[0] == "R")
            rest = tuple(f for f in both.factors if f[0] != "R")
            found.append(((*rest, ("V", (a1, b1), 0), ("V", (a2, b2), 0)), both.coeff))
            if self.symmetric:
                found.append(((*rest, ("V", (a1, b2), 0), ("V", (a2, b1), 0)), both.coeff))
        return collected(found)


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


def _elsewhere(factors: Factors) -> Factors:
    change = {ALPHA: DELTA, BETA: OMEGA}
    return tuple((label, tuple(change.get(i, i) for i in at), copy) for label, at, copy in factors)


def structured_root(layer: OneLayer, groups: list[frozenset[int]], diffusion: Form) -> tuple[Root | None, str]:
    """The root of a diffusion, or None and the reason where it has not this structure."""
    responses, rest = [], diffusion
    for group in groups:
        response = _response(layer, group)
        if response is None:
            weights = ", ".join(f"`{layer.model.names[m]}`" for m in sorted(group))
            return None, f"the noise of {weights} is not linear in averages of two products with the state"
        if response.form:
            responses.append(response)
            rest = rest - response.covariance()
    isotropic = rest.terms.get(next(iter(SIGMA_LIN.terms)), S.Zero)
    if not vanishes(rest - SIGMA_LIN.scaled(isotropic), layer.arrays.values):
        return None, (
            "Σ without the noise of averages of two products is no multiple of V^αδ V^βω + V^αω V^βδ, as where a "
            "matrix stands inside an average and outside of it"
        )
    return Root(isotropic, tuple(responses)), ""


def _response(layer: OneLayer, group: frozenset[int]) -> Response | None:
    """What E[V′ | group] has at order ε: linear in averages of two dense layers."""
    model = layer.model
    found: list[tuple[Factors, Expr]] = []
    symmetric = False
    for (factors, powers, _, _), coefficient in layer.contraction.mean(layer.gram(ALPHA, BETA).terms, group).items():
        dense = [f for f in factors if f[0][0] == "F"]
        bent = any(f[0][0] == "G" for f in factors)
        if not dense and not bent:
            continue
        neurons = {f[1][-1] for f in dense}
        linear = len(dense) == 2 and len(neurons) == 1 and all(model.layers[f[0]].basis == LINEAR for f in dense)
        # Σ_j q_j k_j of a width is √width times a variable of order 1, and each sum that is left to do counts so
        halves = sum(1 for i in neurons if model.dimensions[i // SPAN].width and model.dimensions[i // SPAN].grows)
        order = model.order_of(powers) - halves
        if order > 1:
            continue
        closed = not any(f[0][0] == "C" for f in factors)
        if bent or not linear or not closed or any(model.layers[f[0]].operand is not None for f in dense):
            return None
        (neuron,) = neurons
        powers = times(powers, neuron // SPAN, 1)
        left = model.layers[dense[0][0]], model.layers[dense[1][0]]
        family = [f[1][: layer_.families] for f, layer_ in zip(dense, left, strict=True)]
        rest = tuple(f for f in factors if f not in dense)
        if family[0] != family[1] or set(family[0]) & indices(rest):
            return None
        for i in family[0]:  # independent members, each with the same weight: √members times one
            powers = times(powers, i // SPAN, 1)
        symmetric = symmetric or left[0].matrix == left[1].matrix
        ordered = sorted(dense, key=lambda f: (model.layers[f[0]].matrix, f))
        tokens = tuple(f[1][model.layers[f[0]].families] for f in ordered)
        scale, rest = layer.arrays.arranged((*rest, ("R", tokens, 0)), indices((*rest, ("R", tokens, 0))))
        number = layer.ring.expr(coefficient) * dimension_factor(model, powers)
        found.append((over_tokens(rest, model), number * sympy.Rational(scale.numerator, scale.denominator)))
    names = tuple(model.names[m] for m in sorted(group))
    return Response(names, collected(found), symmetric)
