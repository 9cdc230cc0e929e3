"""Drifts and diffusions with what repeats in them named once: S₁, S₂, … for sums over tokens, 𝒜 for a sum of those.

A product of entries of V at free tokens times a sum over other tokens is one term of many; those with one product in
front belong together, and what stands behind it is often the same function of other free tokens.  It is found by its
canonical form, whatever the block that it came from.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy
from sympy import Dummy, Expr, S

from tplimits.regimes.depth.algebra.canonical import canonical
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import Factors, free_index, renamed
from tplimits.regimes.depth.algebra.writing import M

#: factors that may stand in front of a bracket
_ENTRIES = "VNsI"
#: denominators beyond this are those of floats
_LONG = 10**6
#: so many terms of one sum make it worth a name
_NAMED = 2
#: so many terms with one named sum make a sum of their own
_TOGETHER = 3


@dataclass(frozen=True)
class Piece:
    """A product in front, times a form, or times the named sum `sum` at free indices `at`."""

    front: Factors
    inner: Form
    sum: int = 0
    at: tuple[int, ...] = ()


@dataclass(frozen=True)
class Factored:
    """Σ number · (its pieces added up)."""

    groups: Sequence[tuple[Expr, Sequence[Piece]]]

    def of_one_sum(self, pieces: Sequence[Piece]) -> bool:
        """Whether so many pieces hold one and the same named sum that they deserve a name together."""
        return len(pieces) >= _TOGETHER and len({p.sum for p in pieces}) == 1 and pieces[0].sum > 0


class Sums:
    """The sums over tokens that have a name, by the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple, int] = {}
        self.definitions: dict[int, tuple[int, Form]] = {}

    def factored(self, form: Form) -> Factored:
        """A form, its brackets found; short ones as they are."""
        by_front: dict[Factors, dict[Factors, Expr]] = {}
        for factors, coefficient in form.terms.items():
            front, rest = _split(factors)
            by_front.setdefault(front if rest else factors, {})[rest] = coefficient
        groups: dict[Expr, list[Piece]] = {}
        for front, inner in by_front.items():
            plain = inner.pop((), None)
            if plain is not None:
                groups.setdefault(shortest(plain), []).append(Piece(front, Form({(): S.One})))
            if inner:
                number, shared = _common(inner)
                groups.setdefault(number, []).append(self._piece(front, shared))
        return Factored(tuple((number, tuple(pieces)) for number, pieces in groups.items()))

    def _piece(self, front: Factors, inner: Mapping[Factors, Expr]) -> Piece:
        if len(inner) < _NAMED:
            return Piece(front, Form(inner))
        free = sorted({i for factors in inner for _, at, _ in factors for i in at if i < 0})
        forms = []
        for order in itertools.permutations(free):
            change = {i: free_index(k) for k, i in enumerate(order)}
            terms = {canonical(renamed(factors, change)): c for factors, c in inner.items()}
            key = tuple(sorted((factors, str(c)) for factors, c in terms.items()))
            forms.append((key, order, terms))
        key, order, terms = min(forms, key=lambda f: f[:2])
        number = self._numbers.setdefault(key, len(self._numbers) + 1)
        self.definitions.setdefault(number, (len(order), Form(terms)))
        return Piece(front, Form(inner), number, order)


def _split(factors: Factors) -> tuple[Factors, Factors]:
    """What stands at free tokens alone, and the rest; nothing of a product under one mean is taken out."""
    if any(label[0] == "Y" for label, _, _ in factors):
        return (), factors
    front = tuple(f for f in factors if f[0] in _ENTRIES and all(i < 0 for i in f[1]))
    return front, tuple(f for f in factors if f not in front)


def _common(inner: Mapping[Factors, Expr]) -> tuple[Expr, dict[Factors, Expr]]:
    """The factor that coefficients share, powers of the number of tokens left out, and what is left of each."""
    marks = {factors: Dummy() for factors in inner}
    split = {factors: sympy.factor_terms(c).as_independent(M, as_Add=False) for factors, c in inner.items()}
    total = sympy.factor_terms(sympy.Add(*(split[f][0] * marks[f] for f in inner)))
    number = total.as_independent(*marks.values(), as_Add=False)[0]
    # what numbers from floats have in common tells nothing: 2^(−56) times whole numbers of 17 digits
    shared = number.as_coeff_Mul()[0]
    number = number / shared if shared.is_Rational and shared.q > _LONG else number
    left = {f: sympy.cancel(split[f][0] / number) * split[f][1] for f in inner}
    if next(iter(left.values())).could_extract_minus_sign():
        number, left = -number, {f: -c for f, c in left.items()}
    return shortest(number), left


def shortest(number: Expr) -> Expr:
    """A coefficient, factored where that is shorter: (c₊ − c₋)² for c₊² − 2 c₊ c₋ + c₋².

    >>> a, b = sympy.symbols("a b")
    >>> shortest(sympy.expand((a - b) ** 2) / 2)
    (a - b)**2/2
    """
    if not number.has(sympy.Add) or len(number.free_symbols) > 8:
        return number
    found = sympy.factor(number)
    return min((number, found), key=sympy.count_ops)
