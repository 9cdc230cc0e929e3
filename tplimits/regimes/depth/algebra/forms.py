"""Sums of products of V, kernels and constant arrays over tokens: what drifts and diffusions are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy
import sympy
from sympy import Expr, S

from tplimits.numbers.in_digits import valued
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.parts import remembered
from tplimits.regimes.depth.algebra.activations import Moment, cumulant
from tplimits.regimes.depth.algebra.arrays import ARRAYS, Arrays
from tplimits.regimes.depth.algebra.canonical import canonical
from tplimits.regimes.depth.algebra.coefficients import Ring, ratio_symbol
from tplimits.regimes.depth.algebra.means import definition_of, mean_label, scaled
from tplimits.regimes.depth.algebra.model import ColumnLabel, Model
from tplimits.regimes.depth.algebra.products import COPIES, MOST, SPAN, Factors, Sum, indices, renamed, times
from tplimits.regimes.depth.algebra.tables import TOLERANCE, exactly

#: denominators above this come from numbers in arrays
_SIMPLE = 1 << 40


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
    return _merged((f, c, max(_size(c), float(any(label[0] in ARRAYS for label, _, _ in f)))) for f, c in terms)


def _merged(terms: Iterable[tuple[Factors, Expr, float]]) -> Form:
    """The same, given what the numbers in each coefficient are compared with."""
    found: dict[Factors, list[tuple[Expr, float]]] = {}
    for factors, coefficient, size in terms:
        found.setdefault(canonical(factors), []).append((coefficient, size))
    settled = {f: settle(sympy.Add(*(c for c, _ in cs)), max(size for _, size in cs)) for f, cs in found.items()}
    return Form({f: c for f, c in sorted(settled.items(), key=_reading_order) if c != 0})


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


@remembered(1 << 12)
def settle(expr: Expr, beside: float) -> Expr:
    """A coefficient in a form in which zero is seen to be zero, beside a number of the size of what it is made of."""
    expanded = _snapped(sympy.expand(expr), beside)
    if expanded.has(sympy.sin, sympy.cos):  # cos² + sin² = 1: residual branches on a circle
        expanded = sympy.expand(sympy.trigsimp(expanded))
    # an exact fraction that came through arithmetic of doubles
    if expanded.is_Float:
        return sympy.nsimplify(expanded)
    if not expanded.has(sympy.Pow) or (expanded.is_number and not expanded.is_Add):
        return expanded
    # a rational function has a normal form, in which zero is 0
    together = sympy.factor_terms(sympy.cancel(sympy.together(expanded))) if _is_rational(expanded) else expanded
    if _is_rational(expanded):
        return together
    # no normal form decides zero with roots in it: the shorter of two forms, which is 0 where either is
    simple = sympy.simplify(expanded)
    return min((expanded, simple), key=sympy.count_ops)


def _snapped(expr: Expr, beside: float) -> Expr:
    """A sum with numbers that come from arrays replaced by the simple fractions they are close to, or by zero."""
    groups = _groups(expr)
    rounded = {rest for rest, numbers in groups.items() if any(map(_is_rounded, numbers))}
    if not rounded:
        return expr
    # relative to the largest term: what cancels leaves digits of the data, not of the coefficient; a number cancels
    # with the function that it is a value of.  Arrays are 1 at most, and a term no larger than its number
    largest = max(beside, *(abs(valued(number, {})) for numbers in groups.values() for number in numbers))
    found = []
    for rest, numbers in groups.items():
        value = valued(sympy.Add(*numbers), {})
        if rest in rounded and not value.imag:
            simple = exactly(value.real)
            numbers = [sympy.Rational(simple.numerator, simple.denominator)]
        if abs(value) > TOLERANCE * largest:
            found.append(sympy.Add(*numbers) * rest)
    return sympy.Add(*found)


def _groups(expr: Expr) -> dict[Expr, list[Expr]]:
    """The numbers in a sum by what they multiply."""
    groups: dict[Expr, list[Expr]] = {}
    for term in sympy.Add.make_args(expr):
        # roots are of a number: √p/2⁵³ is small by its denominator alone
        number, rest = term.as_independent(*term.free_symbols) if term.free_symbols else (term, S.One)
        groups.setdefault(rest, []).append(number)
    return groups


@remembered(1 << 12)
def _size(expr: Expr) -> float:
    """The largest number in a sum, if one of them comes from arrays: of what is exact zero is 0."""
    numbers = list(itertools.chain(*_groups(sympy.expand(expr)).values()))
    return max(abs(valued(n, {})) for n in numbers) if any(map(_is_rounded, numbers)) else 0.0


def _is_rounded(number: Expr) -> bool:
    """Whether a number may come from arrays."""
    fraction = number.as_coeff_Mul()[0]
    return not fraction.is_Rational or fraction.q >= _SIMPLE


def _is_rational(expr: Expr) -> bool:
    return all(p.exp.is_Integer for p in expr.atoms(sympy.Pow) if p.free_symbols)


class Resolved(NamedTuple):
    """A product of a contraction: number · coefficient · Π dimension^(power/2) · Π factors."""

    factors: Factors
    powers: tuple[int, ...]
    number: Expr
    coefficient: Any


@dataclass(frozen=True)
class Orders:
    """A mean by powers of ε = n^(−1/2): forms, and the products without a closed form with their orders."""

    forms: Mapping[int, Form]
    opaque: Mapping[Factors, int]

    def __getitem__(self, order: int) -> Form:
        return self.forms.get(order, Form({}))


class Resolver(Protocol):
    """What takes the mean of functions of scalars in products."""

    def resolved(self, found: Sum) -> list[Resolved]:
        """A contraction without such functions."""


def by_order(
    found: Sum, model: Model, ring: Ring, arrays: Arrays, resolver: Resolver | None = None, least: int = MOST
) -> Orders:
    """The result of a contraction: cumulants written out, dimensions put in, one form for each order up to ε².

    Below order `least` there is nothing, or 1, and arrays are 1 at most: what is rounding beside that is none.  Numbers
    of a program alone are exact, and from that order on as small as they are.
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

    forms = {}
    for order, terms in sums.items():
        beside = 0.0 if order >= least and not arrays.read else 1.0
        written_terms = (
            (over_tokens(f, model), number * ring.expr(c) * dimension_factor(model, p))
            for (f, p, number), c in terms.items()
        )
        forms[order] = _merged((f, c, max(beside, _size(c))) for f, c in written_terms)
    return Orders({o: f for o, f in sorted(forms.items()) if f}, opaque)


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
        factors, value = key[0], settle(ring.expr(written.pop(key)), 1.0)
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
