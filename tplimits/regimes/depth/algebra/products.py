"""Index algebra: sums of products of tensors, with exact powers of every width and size.

A factor is (label, indices, copy).  Labels:

    X  the state at (token, neuron)            F|…  a function of a dense layer at (family, token, neuron)
    Z|…  functions of a matrix at a neuron less their mean (`centred`)
    V  the covariance of two tokens            C|…  a joint cumulant of functions of one neuron at tokens
    N  the kernel of |u| (`folded`)       P|…  a constant array; S|… a symmetric one
    s  √V_aa                                   I    1 where two tokens are the same, else 0
    R  a matrix that weights act through       Q|…  a sum over neurons that is no function of V
    K|… κ|…  a Gaussian mean (`means`)          G|…  a power of a scalar with a kink (`kinks`)
    Y|…  a function of scalars of order 1 (`order_one`); all in one product stand under one mean

of tangents (`tplimits.regimes.depth.tangent`), with C_ab = x_a·δx_b/n and D_ab = δx_a·δx_b/n at tokens:

    C    of a token and a moved one               D    of two moved ones
    A    N with its first token moved             B    with both
    r    1/√V_aa                                  Rδ·  R with its first token moved

An index is an integer: negative ones are free, the others are summed, and index // SPAN tells the dimension they run
over (a width or a finite axis).  `copy` keeps apart the two copies of V′ in a covariance until something joins them.

>>> V = ("V", (-1, -2), 0)
>>> product(ProductTerm(2, (0,), 0, (V,)), ProductTerm(3, (2,), 1, (("X", (-1, 4), 0),)))
ProductTerm(coeff=6, powers=(2,), pert=1, factors=(('V', (-1, -2), 0), ('X', (-1, 4), 0)))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sympy import Expr, Symbol

#: n^(−1/2)
EPS = Symbol("ε", positive=True)
#: nothing beyond ε² is kept
MOST = 2
#: free token indices: α, β, δ, ω
ALPHA, BETA, DELTA, OMEGA = -4, -3, -2, -1
#: indices of one dimension are SPAN * dimension + a number
SPAN = 1 << 24
#: in forms the tokens of one sequence are in dimension 0; of several, those of sequence k in dimension COPIES + k
COPIES = 1 << 10
#: open indices of a template are OPEN, OPEN − 1, …
OPEN = -100

#: laws of R: L G Lᵀ, L (G + Gᵀ) Lᵀ/√2, and L g
MATRIX, SYMMETRIC, VECTOR = range(3)

Factor = tuple[str, tuple[int, ...], int]
Factors = tuple[Factor, ...]
#: (factors, powers, pert, joined) -> coefficient
Sum = dict[tuple[Factors, tuple[int, ...], int, bool | None], Any]


class ProductTerm(NamedTuple):
    """coeff · Π dimension^(power/2) · Σ over its summed indices of Π factors.

    `pert` is a lower bound on its size as a power of ε = n^(−1/2): explicit powers, and series orders used.
    """

    coeff: Any
    powers: tuple[int, ...]
    pert: int
    factors: Factors


def axis_of(index: Symbol) -> str:
    """The axis that an index runs over, or is a copy of."""
    return index.name.split("′")[0].split("″")[0]


@dataclass(frozen=True)
class Dimension:
    """What an index runs over: a width or a finite axis, as a symbol or a number.

    A width that `grows` does so in proportion to n.
    """

    name: str
    size: Expr
    width: bool
    grows: bool


@dataclass(frozen=True)
class Poly:
    """A sum of terms; terms of `pert` above `cut` may be missing (None: it is exact)."""

    terms: tuple[ProductTerm, ...]
    cut: int | None = None


ZERO = Poly(())


def free_index(place: int) -> int:
    """The free indices in order: α, β, δ, ω, and those without a name."""
    return place - 4 if place < 4 else -1 - place


def lowest(poly: Poly) -> int:
    """The smallest `pert` in a sum; of nothing, a large number."""
    return min((t.pert for t in poly.terms), default=1 << 20)


def has_kinks(poly: Poly) -> bool:
    """Whether a sum holds functions of scalars with a kink."""
    return any(label[0] == "G" for t in poly.terms for label, _, _ in t.factors)


def lowest_of_all(poly: Poly) -> int:
    """The same, of what may be missing too: n·Y⁴ is of order 1/n though nothing is kept of Y⁴."""
    return min(lowest(poly), lowest(ZERO) if poly.cut is None else poly.cut + 1)


def _least(*cuts: int | None) -> int | None:
    return min((c for c in cuts if c is not None), default=None)


def total(polys: Iterable[Poly]) -> Poly:
    """The sum of several."""
    polys = list(polys)
    return Poly(tuple(t for p in polys for t in p.terms), _least(*(p.cut for p in polys)))


def product(a: ProductTerm, b: ProductTerm) -> ProductTerm:
    """Two terms without summed indices in common, multiplied."""
    powers = tuple(x + y for x, y in zip(a.powers, b.powers, strict=True))
    return ProductTerm(a.coeff * b.coeff, powers, a.pert + b.pert, a.factors + b.factors)


def multiplied(a: Poly, b: Poly, most: int) -> Poly:
    """Two sums without summed indices in common, multiplied; terms above `most` are cut."""
    # exactly zero, whatever is missing in the other: without this the cut of the other would stay
    if any(not p.terms and p.cut is None for p in (a, b)):
        return ZERO
    terms = tuple(product(x, y) for x in a.terms for y in b.terms if x.pert + y.pert <= most)
    cuts = [
        # what is missing in a, times the largest of b, is missing in the product
        None if a.cut is None else a.cut + lowest_of_all(b),
        None if b.cut is None else b.cut + lowest_of_all(a),
        most if len(terms) < len(a.terms) * len(b.terms) else None,
    ]
    return Poly(terms, _least(*cuts))


def renamed(factors: Iterable[Factor], change: Mapping[int, int]) -> Factors:
    """Factors with indices replaced."""
    return tuple((label, tuple(change.get(i, i) for i in at), copy) for label, at, copy in factors)


def indices(factors: Iterable[Factor]) -> set[int]:
    """The summed indices of a product."""
    return {i for _, at, _ in factors for i in at if i >= 0}


def placed(factors: Iterable[Factor], open_to: Mapping[int, int], beyond: int, copy: int) -> Factors:
    """A template at actual indices, with summed indices beyond a number, as part of one copy."""
    return tuple(
        (label, tuple(i + beyond if i >= 0 else open_to.get(i, i) for i in at), copy) for label, at, _ in factors
    )


def next_number(factors: Iterable[Factor]) -> int:
    """A number that no summed index of a product has within its dimension."""
    return 1 + max((i % SPAN for _, at, _ in factors for i in at if i >= 0), default=-1)


def at_token(poly: Poly, token: int, beyond: int) -> Poly:
    """An entry of a state at a token, its neuron summed over with number 0, other sums numbered from `beyond`."""
    terms = (t._replace(factors=placed(t.factors, {OPEN: 0, OPEN - 1: token}, beyond, 0)) for t in poly.terms)
    return Poly(tuple(terms), poly.cut)


def times(powers: tuple[int, ...], dimension: int, exponent: int) -> tuple[int, ...]:
    """Powers with that of one dimension raised, in halves."""
    return (*powers[:dimension], powers[dimension] + exponent, *powers[dimension + 1 :])


def averaged(poly: Poly, index: int) -> Poly:
    """(1/size) Σ over a summed index; what does not depend on it stays as it is."""
    dimension = index // SPAN
    return Poly(
        tuple(
            t._replace(powers=times(t.powers, dimension, -2)) if index in indices(t.factors) else t for t in poly.terms
        ),
        poly.cut,
    )


def identified(factors: Factors, bound: int) -> Factors:
    """A product with a summed index replaced by the one that a diagonal array equates it with."""
    for factor in factors:
        if factor[0] == "I" and bound in factor[1] and factor[1][0] != factor[1][1]:
            other = factor[1][0] if factor[1][1] == bound else factor[1][1]
            # a δ squared is a δ
            return renamed((f for f in factors if f[0] != "I" or set(f[1]) != set(factor[1])), {bound: other})
    return factors
