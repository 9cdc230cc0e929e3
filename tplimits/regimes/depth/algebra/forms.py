"""Sums of products of V, kernels and constant arrays over tokens: what drifts and diffusions are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy
import sympy
from sympy import Expr, S

from tplimits.program.nodes.frozen import FrozenDict
from tplimits.regimes.depth.algebra.activations import Moment, cumulant
from tplimits.regimes.depth.algebra.arrays import Arrays
from tplimits.regimes.depth.algebra.canonical import canonical
from tplimits.regimes.depth.algebra.coefficients import Ring, ratio_symbol
from tplimits.regimes.depth.algebra.means import definition_of, mean_label, scaled
from tplimits.regimes.depth.algebra.model import ColumnLabel, Model
from tplimits.regimes.depth.algebra.products import (
    COPIES,
    MOST,
    SPAN,
    Factors,
    ProductTerm,
    Sum,
    indices,
    renamed,
    times,
)
from tplimits.regimes.depth.algebra.settling import Sizes, added, largest, settle, settled, sizes_of


@dataclass(frozen=True)
class Form:
    """Σ coefficient · product, the products canonical; equal forms are equal for every number of tokens."""

    terms: Mapping[Factors, Expr]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", FrozenDict(self.terms))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __sub__(self, other: Form) -> Form:
        return collected([*self.terms.items(), *((f, -c) for f, c in other.terms.items())])

    def __add__(self, other: Form) -> Form:
        return collected([*self.terms.items(), *other.terms.items()])

    def scaled(self, number: Expr) -> Form:
        """Every coefficient times a number."""
        return collected((f, number * c) for f, c in self.terms.items())

    def degree_scaled(self, scale: Expr) -> Form:
        """The form at scale·V."""
        return collected((_at_scaled(f, scale), scale ** degree(f) * c) for f, c in self.terms.items())


#: degrees in V of the factors that have one
_DEGREES = {"V": S.One, "N": S.One, "s": S.Half, "R": S.One}


def degree(factors: Factors) -> Expr:
    """The degree of a product in V, its Gaussian means left out."""
    return sympy.Add(*(_DEGREES.get(name[0], S.Zero) for name, _, _ in factors))


def _at_scaled(factors: Factors, scale: Expr) -> Factors:
    """A product with its Gaussian means at scale·V."""
    found = []
    for name, at, copy in factors:
        definition = definition_of(name)
        found.append((name if definition is None else mean_label(scaled(definition, scale, _DEGREES)), at, copy))
    return tuple(found)


def collected(terms: Iterable[tuple[Factors, Expr]]) -> Form:
    """A sum with equal products merged and coefficients that are zero dropped."""
    return _merged((f, c, sizes_of(c)) for f, c in terms)[0]


def _merged(terms: Iterable[tuple[Factors, Expr, Sizes]], least: float = 0.0) -> tuple[Form, Form]:
    """The same, given the sizes of what each coefficient is made of, and what of it is taken for rounding."""
    found: dict[Factors, list[tuple[Expr, Sizes]]] = {}
    for factors, coefficient, sizes in terms:
        found.setdefault(canonical(factors), []).append((coefficient, sizes))
    both = {
        f: settled(sympy.Add(*(c for c, _ in several)), largest(sizes for _, sizes in several), least)
        for f, several in sorted(found.items(), key=_reading_order)
    }
    kept, lost = ({f: pair[k] for f, pair in both.items() if pair[k] != 0} for k in (0, 1))
    return Form(kept), Form(lost)


def together(terms: Iterable[ProductTerm], change: Mapping[int, int]) -> Iterator[tuple[Factors, ProductTerm]]:
    """Terms that are equal with indices replaced as one, and their factors then; what cancels is gone."""
    found: dict[tuple[Factors, tuple[int, ...], int], list[ProductTerm]] = {}
    for t in terms:
        found.setdefault((canonical(renamed(t.factors, change)), t.powers, t.pert), []).append(t)
    for (factors, _, _), equal in found.items():
        coefficient = added([t.coeff for t in equal])
        if coefficient != 0:
            yield factors, equal[0]._replace(coeff=coefficient)


def unrolled(form: Form, known: Mapping[str, numpy.ndarray]) -> tuple[Form, dict[str, numpy.ndarray]]:
    """The form with its sums over other axes than the tokens written out, and the arrays it then has."""
    arrays, found = Arrays(dict(known)), []
    for factors, coefficient in form.terms.items():
        sizes = {
            i: n
            for label, at, _ in factors
            if label in known
            for i, n in zip(at, known[label].shape, strict=True)
            if i >= SPAN
        }
        for place in itertools.product(*map(range, sizes.values())):
            sliced = arrays.sliced(factors, dict(zip(sizes, place, strict=True)))
            scale, product = arrays.arranged(sliced, ())
            found.append((product, coefficient * sympy.Rational(scale.numerator, scale.denominator)))
    return collected(found), arrays.values


def _reading_order(item: tuple[Factors, Expr]) -> tuple:
    return len(item[0]), item[0]


def _sizes(terms: Iterable[Expr], times: Expr) -> Sizes:
    """What a coefficient times an expression is made of."""
    return largest(sizes_of(term * times) for term in terms)


class Resolved(NamedTuple):
    """A product of a contraction: number · coefficient · Π dimension^(power/2) · Π factors."""

    factors: Factors
    powers: tuple[int, ...]
    number: Expr
    coefficient: Any


@dataclass(frozen=True)
class Orders:
    """A mean by powers of ε = n^(−1/2): forms, and the products without a closed form with their orders.

    `lost` is what is taken for rounding of numbers, by the same powers.
    """

    forms: Mapping[int, Form]
    opaque: Mapping[Factors, int]
    lost: Mapping[int, Form] = field(default_factory=dict)

    def __getitem__(self, order: int) -> Form:
        return self.forms.get(order, Form({}))


class Resolver(Protocol):
    """What takes the mean of functions of scalars in products."""

    def resolved(self, found: Sum) -> list[Resolved]:
        """A contraction without such functions."""


def by_order(
    found: Sum, model: Model, ring: Ring, arrays: Arrays, resolver: Resolver | None = None, least: int | None = None
) -> Orders:
    """The result of a contraction: cumulants written out, dimensions put in, one form for each order up to ε².

    Below order `least` there is nothing, or 1: what is rounding beside that is none.
    """
    written, opaque = _moments(found, model, ring)
    plain = [Resolved(factors, powers, S.One, c) for (factors, powers, _, _), c in written.items()]
    sums: dict[Any, dict[tuple[Factors, tuple[int, ...], Expr], Any]] = {}
    for factors, powers, number, coefficient in plain if resolver is None else resolver.resolved(written):
        order = model.order_of(powers)
        # below 1/n: no part in drift or noise of a layer
        if order > MOST:
            continue
        target = sums.setdefault(order, {})
        # sums over heads and the like are done where arrays alone hold them; those over tokens stay, for any number of
        # them
        contracted = arrays.contracted(factors, lambda i: not model.is_token(i))
        scale, product = arrays.arranged(contracted, {i for f in contracted for i in f[1] if i >= 0})
        key, value = (canonical(product), powers, number), coefficient * ring.rational(scale)
        target[key] = target[key] + value if key in target else value

    forms, lost = {}, {}
    for order, terms in sums.items():
        found_here = []
        for (f, p, number), c in terms.items():
            beside = number * dimension_factor(model, p)
            found_here.append((over_tokens(f, model), ring.expr(c) * beside, _sizes(ring.sizes(c), beside)))
        forms[order], lost[order] = _merged(found_here, 0.0 if least is None or order >= least else 1.0)
    return Orders({o: f for o, f in sorted(forms.items()) if f}, opaque, {o: f for o, f in lost.items() if f})


def _moments(found: Sum, model: Model, ring: Ring) -> tuple[Sum, dict[Factors, int]]:
    """A contraction with its cumulants written out, and the products without a closed form with their orders."""
    written: Sum = {}
    opaque: dict[Factors, int] = {}
    for (factors, powers, _, joined), coefficient in found.items():
        order = model.order_of(powers)
        if order > MOST:
            continue
        for label, _, _ in factors:
            if label[0] == "Y" and order < MOST:
                raise model.weights[label].too_large()
        moments = written_out(factors)
        # no value, but its order is known: a verdict may be possible without it
        if moments is None:
            opaque[factors] = min(order, opaque.get(factors, order))
            continue
        for moment in moments:
            # sgn² of a token that is summed over is 1 for every one of them
            done = reduce(lambda p, i: times(p, i // SPAN, 2), indices(factors) - indices(moment.factors), powers)
            key = (canonical(moment.factors), done, 0, joined)
            value = coefficient * ring.root**moment.roots * ring.rational(moment.number)
            written[key] = written[key] + value if key in written else value
    # other sums over the neurons of the state, where they do not cancel
    for key in [k for k in written if any(f[0][0] == "Q" for f in k[0])]:
        factors, left = key[0], written.pop(key)
        value = settle(ring.expr(left), _sizes(ring.sizes(left), S.One))
        if value != 0:
            order = model.order_of(key[1])
            opaque[factors] = min(order, opaque.get(factors, order))
    return written, opaque


def over_tokens(factors: Factors, model: Model) -> Factors:
    """A product with its token indices in dimension 0, the same whatever other dimensions the block has.

    Of several sequences, with those of sequence k in dimension COPIES + k.
    """
    place = {d: COPIES + k for k, d in enumerate(model.sequences)} or {model.tokens: 0}
    held = {i for _, at, _ in factors for i in at if i >= 0 and i // SPAN in place}
    return renamed(factors, {i: place[i // SPAN] * SPAN + i % SPAN for i in held})


def dimension_factor(model: Model, powers: tuple[int, ...]) -> Expr:
    """What powers of the dimensions come to beside the power of ε."""
    found = S.One
    for power, dimension in zip(powers, model.dimensions, strict=True):
        if power and dimension.name != "n":
            size = ratio_symbol(dimension.name) if dimension.grows else dimension.size
            found *= size ** sympy.Rational(power, 2)
    return found


def written_out(factors: Factors) -> list[Moment] | None:
    """A product with its cumulants as sums of products, or None where one has no closed form."""
    terms = [Moment(S.One, 0, tuple(f for f in factors if f[0][0] != "C"))]
    for label, at, _ in factors:
        if label[0] == "C":
            assert isinstance(label, ColumnLabel)
            value = cumulant(tuple(zip(label.column, at, strict=True)))
            if value is None:
                return None
            terms = [a.times(b) for a in terms for b in value]
    return terms
