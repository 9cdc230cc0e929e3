"""The size of an average over neurons, as a power of ε = n^(−1/2), from its own second moment.

The moments of one variable in a Gaussian chaos of bounded degree are bounded by powers of the second, so that a product
of averages is at most of the product of their sizes.
"""

from __future__ import annotations

import sympy

from tplimits.limit.depth.algebra import Factors, Poly, Term, next_number, product, renamed
from tplimits.limit.depth.contraction import Contraction, shifted
from tplimits.limit.depth.model import Model

#: free indices of the average that is measured are below this
_FREE = -200


def measured(poly: Poly, model: Model, free: frozenset[int]) -> Poly:
    """The terms with `pert` set to what their second moments tell; `free` are the indices that are not summed."""
    terms = []
    for t in poly.terms:
        orders = [model.order_of(powers) for _, powers in _second_moment(t, model, free)]
        if orders:
            terms.append(t._replace(pert=min(orders) // 2))
    return Poly(tuple(terms), poly.cut)


def _second_moment(term: Term, model: Model, free: frozenset[int]) -> list[tuple[Factors, tuple[int, ...]]]:
    """The products in E[term²], their coefficients counted as 1."""
    counting = Contraction(model, 1, 1, counting=True)
    change = {i: _FREE - place for place, i in enumerate(sorted(i for i in free if i >= 0))}
    own = term._replace(factors=renamed(term.factors, change), pert=0)
    twice = product(own, shifted(own, next_number(own.factors), 0))
    return [(factors, powers) for factors, powers, _, _ in counting.mean([twice])]


def second_moment_text(term: Term, model: Model, free: frozenset[int]) -> str:
    """The leading part of E[term²], for messages: "V[αα] V[ββ]/τ0**2"."""
    found = _second_moment(term, model, free)
    lowest = min(model.order_of(powers) for _, powers in found)
    pieces = []
    for factors, powers in found:
        if model.order_of(powers) == lowest:
            number = sympy.Integer(1)
            for power, dimension in zip(powers, model.dimensions, strict=True):
                number *= 1 if dimension.name == "n" else dimension.size ** sympy.Rational(power, 2)
            names = {_FREE - place: name for place, name in enumerate("αβδω")}
            shown = [f"{label}[{''.join(names.get(i, 'ν') for i in at)}]" for label, at, _ in factors]
            size = sympy.sstr(term.coeff**2 * number)
            pieces.append(" ".join(shown if size == "1" and shown else [f"({size})", *shown]))
    return " + ".join(pieces)
