"""An average over neurons as its mean, a function of V, and what it fluctuates by.

Of (1/n) Σ_i G_i, G_i a product of functions of W u at neuron i, the mean given u is of order 1, and what is left,
(1/n) Σ_i (G_i − E G_i), smaller by n^(−1/2).  Kept apart, a power of avg(h h) − avg(x x) is one of the small part
alone; multiplied out, the tenth power would hold 19!! pairings of which all that are large cancel.  Cumulants do not
see a mean that is subtracted, so that a factor "Z|…" at i says enough: no G_i may be averaged on its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import S

from tplimits.regimes.depth.algebra.coefficients import ROOT
from tplimits.regimes.depth.algebra.forms import together, written_out
from tplimits.regimes.depth.algebra.model import Model, centred_label
from tplimits.regimes.depth.algebra.products import (
    SPAN,
    Factor,
    Poly,
    ProductTerm,
    indices,
    next_number,
    placed,
    product,
    renamed,
)
from tplimits.regimes.depth.derivation.contraction import Contraction

#: the indices of a term stand below this while a part of it is averaged
_HELD = -300


def centred(poly: Poly, model: Model, limit: int, free: frozenset[int]) -> Poly:
    """The same sum, its averages over neurons apart from their means; `free` are the indices that are not summed."""
    contraction = Contraction(model, S.One, limit)
    return collected_terms(Poly(tuple(part for t in poly.terms for part in _parts(contraction, t)), poly.cut), free)


def _parts(contraction: Contraction, term: ProductTerm) -> Iterator[ProductTerm]:
    for index in sorted(indices(term.factors)):
        powers, factors = contraction.closed(term.factors, term.powers, index)
        term = term._replace(powers=powers, factors=factors)
        own = _functions_at(contraction.model, term, index)
        if not own:
            continue
        mean = _mean(contraction, term, own)
        if mean is None:
            continue
        matrix = contraction.model.layers[own[0][0]].matrix
        yield from _parts(contraction, term._replace(factors=(*term.factors, (centred_label(matrix), (index,), 0))))
        for part in mean:
            yield from _parts(contraction, part)
        return
    yield term


def _functions_at(model: Model, term: ProductTerm, index: int) -> list[Factor]:
    """All that stands at a neuron, where these are functions of one matrix and its family."""
    own = [f for f in term.factors if index in f[1]]
    if not model.dimensions[index // SPAN].width or any(f[0][0] != "F" for f in own):
        return []
    layers = [model.layers[f[0]] for f in own]
    places = {(y.matrix, f[1][: y.families]) for f, y in zip(own, layers, strict=True)}
    return own if len(places) == 1 and all(f[1][-1] == index and f[1].count(index) == 1 for f in own) else []


def _mean(contraction: Contraction, term: ProductTerm, own: list[Factor]) -> list[ProductTerm] | None:
    """The term with functions of one matrix averaged; None where it vanishes or has no closed form."""
    model = contraction.model
    matrix = model.layers[own[0][0]].matrix
    (index,) = {f[1][-1] for f in own}
    held = {i: _HELD - k for k, i in enumerate(sorted(indices(term.factors) - {index}))}
    back = {k: i for i, k in held.items()}
    alone = ProductTerm(S.One, model.zero_powers, 0, renamed(own, held))
    rest = term._replace(factors=tuple(f for f in term.factors if f not in own))
    found = []
    for (factors, powers, pert, _), c in contraction.mean([alone], frozenset(model.depth) - {matrix}).items():
        moments = written_out(factors)
        if moments is None:
            return None
        for m in moments:
            inner = placed(m.factors, back, next_number(term.factors), 0)
            mean = ProductTerm(c * m.number * ROOT**m.roots, powers, pert, inner)
            found.append(product(rest, mean))
    return found or None


def collected_terms(poly: Poly, free: frozenset[int]) -> Poly:
    """A sum with equal terms added up; `free` are the indices that are not summed."""
    change = {i: _HELD - k for k, i in enumerate(sorted(i for i in free if i >= 0))}
    return Poly(tuple(t for _, t in together(poly.terms, change)), poly.cut)
