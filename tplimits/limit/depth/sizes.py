"""The size of an average over neurons, as a power of ε = n^(−1/2), from its own second moment.

The moments of one variable in a Gaussian chaos of bounded degree are bounded by powers of the second, so that a product
of averages is at most of the product of their sizes.
"""

from __future__ import annotations

from tplimits.limit.depth.algebra import Poly, next_number, product, renamed
from tplimits.limit.depth.contraction import Contraction, shifted
from tplimits.limit.depth.model import Model

#: free indices of the average that is measured are below this
_FREE = -200


def measured(poly: Poly, model: Model, free: frozenset[int]) -> Poly:
    """The terms with `pert` set to what their second moments tell; `free` are the indices that are not summed."""
    counting = Contraction(model, 1, 1, counting=True)
    change = {i: _FREE - place for place, i in enumerate(sorted(i for i in free if i >= 0))}
    terms = []
    for t in poly.terms:
        own = t._replace(factors=renamed(t.factors, change), pert=0)
        twice = product(own, shifted(own, next_number(own.factors), 0))
        orders = [model.order_of(powers) for _, powers, _, _ in counting.mean([twice])]
        if orders:
            terms.append(t._replace(pert=min(orders) // 2))
    return Poly(tuple(terms), poly.cut)
