"""The size of an average over neurons, as a power of ε = n^(−1/2), from its own second moment.

The moments of one variable in a Gaussian chaos of bounded degree are bounded by powers of the second, so that a product
of averages is at most of the product of their sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.regimes.depth.algebra.forms import Form, Orders, by_order
from tplimits.regimes.depth.algebra.model import ONES
from tplimits.regimes.depth.algebra.products import (
    MOST,
    OPEN,
    Factors,
    Poly,
    ProductTerm,
    free_index,
    indices,
    renamed,
)
from tplimits.regimes.depth.derivation.contraction import Contraction
from tplimits.regimes.depth.derivation.not_covered import no_central_limit, too_random

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.arrays import Arrays
    from tplimits.regimes.depth.algebra.coefficients import Ring
    from tplimits.regimes.depth.algebra.model import Model

#: axes an average can have
_AXES = 9


def measured(poly: Poly, model: Model, free: frozenset[int]) -> Poly:
    """The terms with `pert` set to what their second moments tell; `free` are the indices that are not summed."""
    # with coefficients terms might cancel, and the size of a single one would be taken for smaller than it is
    counting = Contraction(model, 1, counting=True)
    sizes = [(t, counting.size(t._replace(pert=0), free)) for t in poly.terms]
    return Poly(tuple(t._replace(pert=size) for t, size in sizes if size is not None), poly.cut)


def mean_and_covariance(poly: Poly, model: Model, arrays: Arrays, free: frozenset[int]) -> tuple[Orders, Orders]:
    """E of a sum of averages and its covariance with itself, exactly: what cancels in the sum has cancelled.

    The indices that are not summed are called α, β, …
    """
    # pert 0: bounds of single terms must not cut what is measured here
    exact, ring, terms = _in_ring(poly, model, free)
    exact_terms = [t._replace(pert=0) for t in terms]
    contraction = Contraction(exact, ring.one)
    mean, covariance = contraction.mean(exact_terms), contraction.covariance(exact_terms, exact_terms)
    return by_order(mean, exact, ring, arrays), by_order(covariance, exact, ring, arrays)


def variance(poly: Poly, model: Model, arrays: Arrays, free: frozenset[int]) -> Form:
    """n times the variance of a sum of averages in the limit, what is smaller by its bound left out from the start."""
    exact, ring, terms = _in_ring(poly, model, free)
    return by_order(Contraction(exact, ring.one).covariance(terms, terms), exact, ring, arrays)[MOST]


def _in_ring(poly: Poly, model: Model, free: frozenset[int]) -> tuple[Model, Ring, list[ProductTerm]]:
    """A model with its coefficients in one ring with those of a sum, and the terms of it with their indices named."""
    exact, ring = model.in_ring(poly.terms)
    held = indices(f for t in poly.terms for f in t.factors)
    change = {i: free_index(place) for place, i in enumerate(sorted(held & free))}
    return exact, ring, [t._replace(factors=renamed(t.factors, change)) for t in ring.poly(poly).terms]


def laws(model: Model, ring: Ring, arrays: Arrays) -> dict[tuple[int, int], Form]:
    """n·Cov of each two of the averages that weights of order 1 read: indices α, β, … of the first, then of the second.

    NoLimitError where they are not Gaussian of mean zero in the limit.
    """
    contraction = Contraction(model, ring.one)
    found = {}
    for position, poly in model.averages.items():
        terms = [t._replace(pert=0) for t in poly.terms]
        mean = by_order(contraction.mean(terms), model, ring, arrays, least=MOST + 1)
        layers = [model.layers[f[0]] for t in poly.terms for f in t.factors if f[0][0] == "F"]
        if mean.forms or mean.opaque or not layers or any(layer.operand not in (None, ONES) for layer in layers):
            raise no_central_limit(model.names[position])
        for other, second in model.averages.items():
            # indices of the second average begin beyond those of the first
            axes = 1 + max((OPEN - 1 - i for t in poly.terms for f in t.factors for i in f[1] if i < 0), default=0)
            left = [t._replace(factors=_opened(t.factors, 0)) for t in terms]
            right = [t._replace(factors=_opened(t.factors, axes), pert=0) for t in second.terms]
            joint = by_order(contraction.covariance(left, right), model, ring, arrays)
            if joint.opaque or any(order < 2 for order in joint.forms):
                raise too_random(model.names[position])
            found[position, other] = joint[2]
    for matrix in model.neurons:
        # entries of one matrix at one neuron have the covariance V, those of others, and averages, are independent
        found |= {pair: Form({}) for a in (*model.averages, *model.neurons) for pair in ((matrix, a), (a, matrix))}
    return found | {(matrix, matrix): form for matrix, form in model.neurons.items()}


def _opened(factors: Factors, beyond: int) -> Factors:
    """Open indices OPEN − 1, OPEN − 2, … as −1, −2, …, beyond those of another average."""
    places = range(beyond, beyond + _AXES)
    return renamed(factors, {OPEN - 1 - k: free_index(place) for k, place in enumerate(places)})
