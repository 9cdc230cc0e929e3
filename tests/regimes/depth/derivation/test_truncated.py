"""Products of sums that are cut: no term below the cut is missing, and none above it is claimed."""

from __future__ import annotations

import itertools

import pytest
import sympy

from tplimits.regimes.depth.algebra.products import ZERO, Poly, ProductTerm, lowest, multiplied, total

#: orders of ε and coefficients that are kept, beside an order above which more may be missing
SERIES = {
    "exact": ({0: 2, 1: 3, 4: 1}, None),
    "cut": ({0: 1, 2: 5}, 2),
    "small": ({1: 7, 2: 1}, 3),
    "all of it cut": ({}, 1),
    "zero": ({}, None),
    "negative": ({-1: 2, 1: 3}, 1),
}
ε = sympy.Symbol("ε")


def poly(series) -> Poly:
    kept, cut = series
    return Poly(tuple(ProductTerm(c, (k,), k, (("V", (k, k), 0),)) for k, c in kept.items()), cut)


def written(name, rest):
    """A series as an expression, with what may stand above its cut."""
    kept, cut = SERIES[name]
    return sum(c * ε**k for k, c in kept.items()) + (0 if cut is None else sympy.Symbol(rest) * ε ** (cut + 1))


@pytest.mark.parametrize("most", [0, 2, 9])
@pytest.mark.parametrize(("one", "other"), list(itertools.product(SERIES, repeat=2)))
def test_a_product_is_known_up_to_its_cut_and_no_further(one, other, most):
    found = multiplied(poly(SERIES[one]), poly(SERIES[other]), most)
    kept = sum(t.coeff * ε**t.pert for t in found.terms)
    missing = sympy.Poly(sympy.expand((written(one, "r") * written(other, "s") - kept) * ε**2), ε)
    orders = [k - 2 for (k,), c in missing.terms() if c != 0]
    if not orders:
        assert found.cut is None
    else:
        assert found.cut in (min(orders) - 1, most) and found.cut < min(orders)
    for t in found.terms:
        assert t.powers == (t.pert,) and sum(at[0] for _, at, _ in t.factors) == t.pert <= most
        assert len(t.factors) == 2


def test_sums_are_cut_where_one_of_them_is():
    found = total(map(poly, SERIES.values()))
    assert found.cut == 1 and len(found.terms) == sum(len(kept) for kept, _ in SERIES.values())
    assert total([poly(SERIES["exact"]), ZERO]) == poly(SERIES["exact"]) and lowest(found) == -1
