"""Constant arrays of a program (masks, biases): kept as factors with named values, in one normal form.

Arrays at the same indices are one array, and a constant one is a number.  An array of two indices is written as
D(i) Q(i, j) E(j), where log|Q| has no part that depends on i or on j alone (on the support of Q), in one of its two
orientations; what stands at one index is one array.  A mask divided by its row sums is thus the same product however it
was written, transposed or as an additive bias.  A diagonal array identifies its two indices.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy
from sympy import Rational

from tplimits.program.parts import linked
from tplimits.regimes.depth.algebra.canonical import canonical
from tplimits.regimes.depth.algebra.products import Factor, Factors, ProductTerm, renamed
from tplimits.regimes.depth.algebra.tables import CANCELLED, balanced, constant, exactly, same, scale_of, sum_over

#: entries below this size are told apart by their own digits
_SMALL = 1e-6
#: entries of two arrays that differ by more than this part of them are not the same
_APART = 1e-11
#: arrays that are left of a sum over other axes than the tokens have at most this number of indices
_MOST_OUTER = 2
#: free indices stand below this while terms are compared
_HELD = -300
#: factors that are arrays, by the first letter of their label: general ones, and symmetric ones of two indices
ARRAYS = frozenset("PS")


@dataclass
class Arrays:
    """The constant arrays of one derivation by their labels, which tell their contents."""

    values: dict[str, numpy.ndarray] = field(default_factory=dict)
    _numbers: dict[float, Fraction] = field(default_factory=dict)

    def factor(self, values: numpy.ndarray, at: tuple[int, ...]) -> tuple[Fraction, Factors]:
        """An array at indices as a number times factors in normal form."""
        if values.size == 0 or constant(values):
            return self._number(float(values.mean())), ()
        # told apart by contents and one scale alone: of three indices no scaling by rows is taken out
        if values.ndim != 2:
            scale = scale_of(values)
            return self._number(scale), ((self.label(values / scale), at, 0),)
        if values.shape[0] == values.shape[1] and not (values - numpy.diag(values.diagonal())).any():
            # a δ times what stands at one index: the δ equates the indices, and a sum over one of them is gone
            number, rest = self.factor(values.diagonal().copy(), at[:1])
            return number, (*rest, ("I", at, 0))
        # what depends on one index alone is split off, so that a scaling by rows meets its inverse wherever that stands
        rows, middle, columns = balanced(values)
        scales = [scale_of(rows), scale_of(middle), scale_of(columns)]
        factors: Factors = ()
        rows, middle, columns = rows / scales[0], middle / scales[1], columns / scales[2]
        number = self._number(math.prod(scales))  # each alone may be irrational where the product is not
        for part, place in ((rows, at[:1]), (columns, at[1:])):
            if not constant(part):
                factors = (*factors, (self.label(part), place, 0))
        if constant(middle):
            return number, factors
        # a program may hold the array or its transpose: one of the two is chosen by contents
        flipped = numpy.round(middle, 9).tobytes() > numpy.round(middle.T, 9).tobytes()
        label = self.label(middle.T.copy() if flipped else middle)
        return number, (*factors, (label, at[::-1] if flipped else at, 0))

    def _number(self, number: float) -> Fraction:
        """A fraction, the same one for numbers that differ by rounding and sign: they cancel as equal arrays do."""
        if number < 0:
            return -self._number(-number)
        near = (x for known, x in self._numbers.items() if same(known, number))
        return next(near, None) or self._numbers.setdefault(number, exactly(number))

    def label(self, values: numpy.ndarray) -> str:
        """The label of an array; equal ones have the same."""
        # arrays that differ by rounding are one array; + 0.0 takes −0.0, which has other bytes
        rounded = numpy.round(values, 9) + 0.0
        symmetric = values.ndim == 2 and values.shape[0] == values.shape[1] and bool((rounded == rounded.T).all())
        contents = rounded.tobytes() + str(rounded.shape).encode() + _digits(values[numpy.abs(values) < _SMALL], 6)
        label = f"{'S' if symmetric else 'P'}|{hashlib.sha256(contents).hexdigest()[:12]}"
        # two that are nearly the same are told apart by more digits: the second of them has others in its label
        if (numpy.abs(self.values.setdefault(label, values) - values) > _APART * numpy.abs(values)).any():
            label += hashlib.sha256(_digits(values, 12)).hexdigest()[:12]
            self.values.setdefault(label, values)
        return label

    def arranged(self, factors: Factors, summed: Iterable[int]) -> tuple[Fraction, Factors]:
        """A product with its arrays in normal form; sums over indices that only arrays have had are done."""
        number, summed = Fraction(1), set(summed)
        factors = _without_squares(factors)
        sizes = self._sizes(factors)
        # an array that is merged or summed may be constant, diagonal or alone at an index: again until nothing moves
        while any(f[0][0] in ARRAYS for f in factors):
            others = [f for f in factors if f[0][0] not in ARRAYS]
            arrays: dict[tuple[int, ...], list[numpy.ndarray]] = {}
            for label, at, _ in factors:
                if label[0] in ARRAYS:
                    values = self.values[label]
                    if at[::-1] in arrays and len(at) == 2:
                        at, values = at[::-1], values.T
                    arrays.setdefault(at, []).append(values)
            again = _absorbed(arrays)
            for at, several in arrays.items():
                values = several[0]
                for more in several[1:]:
                    values = values * more
                elsewhere = {i for f in others for i in f[1]}.union(*(a for a in arrays if a != at))
                alone = summed.intersection(at) - elsewhere
                kept = tuple(i for i in dict.fromkeys(at) if i not in alone)
                again = again or len(several) > 1 or kept != at
                summed -= alone
                scale, normal = self.factor(
                    sum_over(values, [at.index(i) for i in at], [at.index(i) for i in kept]), kept
                )
                number *= scale
                others += normal
            factors = tuple(others)
            if not again:
                break
        left = {i for f in factors for i in f[1]}  # an array that became constant has no index: its sum is a number
        return number * math.prod(n for i, n in sizes.items() if i in summed and i not in left), factors

    def _sizes(self, factors: Factors) -> dict[int, int]:
        """How many values each index of an array has."""
        own = ((at, self.values[label].shape) for label, at, _ in factors if label[0] in ARRAYS)
        return {i: n for at, shape in own for i, n in zip(at, shape, strict=True)}

    def contracted(self, factors: Factors, inner: Callable[[int], bool]) -> Factors:
        """A product with sums over `inner` indices done, where arrays alone hold them and two others at most."""
        factors = _without_diagonals(factors, inner)
        while True:
            groups = _connected(factors, inner)
            # a table over more indices than two would be larger than the arrays that it replaces
            done = next((g for g in groups if len(_outer(g, inner)) <= _MOST_OUTER), None)
            if done is None:
                return factors
            at = _outer(done, inner)
            rest = [f for f in factors if f not in done]
            table = self.tabulated([ProductTerm(1, (), 0, tuple(done))], [1.0], at)
            factors = (*rest, (self.label(table), at, 0))

    def sliced(self, factors: Factors, at: Mapping[int, int]) -> Factors:
        """A product with some indices of its arrays at numbers."""
        found: list[Factor] = []
        for label, held, copy in factors:
            if label[0] in ARRAYS and not at.keys().isdisjoint(held):
                values = self.values[label][tuple(at.get(i, slice(None)) for i in held)]
                found.append((self.label(numpy.asarray(values)), tuple(i for i in held if i not in at), copy))
            else:
                found.append((label, held, copy))
        return tuple(found)

    def gathered(self, terms: Iterable[ProductTerm], at: tuple[int, ...]) -> list[ProductTerm]:
        """The same sum, with arrays at some indices in terms that are equal but for them added up to one."""
        groups: dict[tuple, list[tuple[float, ProductTerm]]] = {}
        left = []
        held = {i: _HELD - k for k, i in enumerate(at)}
        for t in terms:
            own = tuple(f for f in t.factors if f[0][0] in ARRAYS)
            number, symbols = t.coeff.as_coeff_Mul()
            if {i for f in own for i in f[1]} <= set(at):
                rest = canonical(renamed((f for f in t.factors if f not in own), held))
                groups.setdefault((rest, t.powers, t.pert, symbols), []).append((float(number), t))
            else:
                left.append(t)
        for (*_, symbols), group in groups.items():
            if len(group) == 1:
                left.append(group[0][1])
                continue
            rest = tuple(f for f in group[0][1].factors if f[0][0] not in ARRAYS)
            alone = [t._replace(factors=tuple(f for f in t.factors if f[0][0] in ARRAYS)) for _, t in group]
            present = tuple(i for i in at if any(i in f[1] for t in alone for f in t.factors))
            number, factors = self.factor(self.total(alone, [x for x, _ in group], present), present)
            if number:
                coefficient = symbols * Rational(number.numerator, number.denominator)
                left.append(group[0][1]._replace(coeff=coefficient, factors=(*rest, *factors)))
        return left

    def total(self, terms: Sequence[ProductTerm], numbers: Sequence[float], at: tuple[int, ...]) -> numpy.ndarray:
        """The same values, 0 where nothing but rounding is left of the sum."""
        parts = [self.tabulated([t], [x], at) for t, x in zip(terms, numbers, strict=True)]
        found, sizes = sum(parts, numpy.zeros(())), sum(map(numpy.abs, parts), numpy.zeros(()))
        return numpy.where(numpy.abs(found) > CANCELLED * sizes, found, 0.0)

    def tabulated(self, terms: Iterable[ProductTerm], numbers: Iterable[float], at: tuple[int, ...]) -> numpy.ndarray:
        """The values of a sum of products of arrays at all values of some indices; other indices are summed."""
        total = numpy.zeros(())
        for term, number in zip(terms, numbers, strict=True):
            total = total + at_indices(term.factors, self.values.__getitem__, at, number)
        return total


def at_indices(
    factors: Factors, value: Callable[[str], Any], at: Sequence[int], number: float = 1.0, optimize: bool = False
) -> numpy.ndarray:
    """A number times a product of tensors at all values of the indices `at`, summed over all others.

    Dimensions of a tensor before those of its indices (several covariances, draws) come first.  An index of `at` that
    no tensor has is a dimension of size 1.
    """
    place = {i: k for k, i in enumerate(at)}
    operands: list[Any] = [] if factors and number == 1 else [numpy.float64(number), []]
    for label, held, _ in factors:
        operands += [value(label), [Ellipsis, *(place.setdefault(i, len(place)) for i in held)]]
    present = sorted({place[i] for _, held, _ in factors for i in held if place[i] < len(at)})
    found = numpy.einsum(*operands, [Ellipsis, *present], optimize=optimize)
    sizes = iter(found.shape[found.ndim - len(present) :])
    lead = found.shape[: found.ndim - len(present)]
    return found.reshape((*lead, *(next(sizes) if k in present else 1 for k in range(len(at)))))


def _absorbed(arrays: dict[tuple[int, ...], list[numpy.ndarray]]) -> bool:
    """Arrays at indices that one of three or more has too, put into that one; whether there were any."""
    found = False
    for large in sorted((at for at in arrays if len(set(at)) == len(at) > 2), key=len, reverse=True):
        for small in [at for at in arrays if at != large and set(at) <= set(large) and len(set(at)) == len(at)]:
            if large not in arrays:
                break
            order = sorted(range(len(small)), key=lambda k: large.index(small[k]))
            for values in arrays.pop(small):
                shape = [values.shape[small.index(i)] if i in small else 1 for i in large]
                arrays[large].append(values.transpose(order).reshape(shape))
            found = True
    return found


def _without_squares(factors: Factors) -> Factors:
    """A product with δ² = δ."""
    deltas = [f for f in factors if f[0] == "I"]
    if len(deltas) < 2:
        return factors
    return (*(f for f in factors if f[0] != "I"), *{frozenset(f[1]): f for f in deltas}.values())


def _without_diagonals(factors: Factors, inner: Callable[[int], bool]) -> Factors:
    """A product with summed indices that are `inner` and equal by a diagonal array made one."""
    for factor in factors:
        label, at, _ = factor
        if label == "I" and min(at) >= 0 and inner(at[0]):
            return _without_diagonals(renamed((f for f in factors if f is not factor), {at[0]: at[1]}), inner)
    return factors


def _connected(factors: Factors, inner: Callable[[int], bool]) -> list[list[Factor]]:
    """The groups of arrays that hang together by summed indices that are `inner` and stand in arrays alone."""
    others = {i for f in factors if f[0][0] not in ARRAYS for i in f[1]}
    free = {i for f in factors for i in f[1] if i >= 0 and inner(i)} - others
    return [group for group, _ in linked((f, free.intersection(f[1])) for f in factors if not free.isdisjoint(f[1]))]


def _outer(group: list[Factor], inner: Callable[[int], bool]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(i for f in group for i in f[1] if i < 0 or not inner(i)))


def _digits(values: numpy.ndarray, count: int) -> bytes:
    """The leading digits of every entry: other factors may make small ones large again."""
    # the binary exponent changes at 1.357 · 2^k: at 2^k rounding would decide it for 1 and 1/4
    mantissa, exponent = numpy.frexp(0.737 * values + 0.0)
    return (numpy.round(mantissa, count) + 0.0).tobytes() + exponent.tobytes()


def merged(*registries: Mapping[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
    """Several registries as one."""
    return {label: values for registry in registries for label, values in registry.items()}
