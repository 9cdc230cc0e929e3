"""Constant arrays of a program (masks, positions): kept as factors with named values, in one normal form.

Arrays at the same indices are one array; an array of two or more indices has rows that sum to one, what it is multiplied
by being an array of the other indices; an array that is constant is a number.  So a mask divided by its row sums is the
same factor however it was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy

from tplimits.limit.depth.algebra import Factors, Term

#: numbers in arrays closer than this are equal
TOLERANCE = 1e-12


def exactly(number: float) -> Fraction:
    """The simple fraction a number of an array stands for, or its binary value.

    >>> exactly(1 / 3), exactly(0.1)
    (Fraction(1, 3), Fraction(1, 10))
    """
    simple = Fraction(number).limit_denominator(10**6)
    return simple if abs(float(simple) - number) <= TOLERANCE * max(1.0, abs(number)) else Fraction(number)


@dataclass
class Arrays:
    """The constant arrays of one derivation by their labels, which tell their contents."""

    values: dict[str, numpy.ndarray] = field(default_factory=dict)

    def factor(self, values: numpy.ndarray, at: tuple[int, ...]) -> tuple[Fraction, Factors]:
        """An array at indices as a number times factors in normal form."""
        if values.size == 0 or numpy.ptp(values) <= TOLERANCE * max(1.0, float(numpy.abs(values).max())):
            return exactly(float(values.mean())), ()
        if values.ndim == 1:
            return Fraction(1), ((self._label(values), at, 0),)
        rows = values.sum(axis=-1)
        if (numpy.abs(rows) <= TOLERANCE).any():
            return Fraction(1), ((self._label(values), at, 0),)
        number, rest = self.factor(rows, at[:-1])
        return number, (*rest, (self._label(values / rows[..., None]), at, 0))

    def _label(self, values: numpy.ndarray) -> str:
        rounded = numpy.round(values, 11) + 0.0
        label = f"P|{hashlib.sha256(rounded.tobytes() + str(rounded.shape).encode()).hexdigest()[:12]}"
        self.values.setdefault(label, values)
        return label

    def arranged(self, factors: Factors, summed: Iterable[int]) -> tuple[Fraction, Factors]:
        """A product with its arrays in normal form; sums over indices that only an array has are done."""
        if not any(f[0][0] == "P" for f in factors):
            return Fraction(1), factors
        number, summed = Fraction(1), set(summed)
        while True:
            others = [f for f in factors if f[0][0] != "P"]
            arrays: dict[tuple[int, ...], list[str]] = {}
            for label, at, _ in factors:
                if label[0] == "P":
                    arrays.setdefault(at, []).append(label)
            again = False
            for at, labels in arrays.items():
                values = self.values[labels[0]]
                for label in labels[1:]:
                    values = values * self.values[label]
                alone = [i for i in at if i in summed and sum(i in f[1] for f in factors) == len(labels)]
                if alone and at.count(alone[0]) == 1:
                    place = at.index(alone[0])
                    values, at = values.sum(axis=place), (*at[:place], *at[place + 1 :])
                    summed.discard(alone[0])
                    again = True
                scale, normal = self.factor(values, at)
                again = again or (len(labels) > 1 and bool(normal))
                number *= scale
                others += normal
            factors = tuple(others)
            if not again:
                return number, factors

    def tabulated(self, terms: Iterable[Term], numbers: Iterable[float], at: tuple[int, ...]) -> numpy.ndarray:
        """The values of a sum of products of arrays at all values of some indices; other indices are summed."""
        total = numpy.zeros(())
        for term, number in zip(terms, numbers, strict=True):
            place: dict[int, int] = {i: k for k, i in enumerate(at)}
            for _, held, _ in term.factors:
                for i in held:
                    place.setdefault(i, len(place))
            operands: list = [numpy.float64(number), []]
            for label, held, _ in term.factors:
                operands += [self.values[label], [place[i] for i in held]]
            present = [place[i] for i in at if any(i in f[1] for f in term.factors)]
            value = numpy.einsum(*operands, present)
            shape = iter(value.shape)
            total = total + value.reshape([next(shape) if place[i] in present else 1 for i in at])
        return total


def merged(*registries: Mapping[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
    """Several registries as one."""
    return {label: values for registry in registries for label, values in registry.items()}
