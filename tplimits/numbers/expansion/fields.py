"""Fields: functions of the base variables of one neuron, held at nodes.

A field is an array with a dimension for each variable that it depends on, and no others, so that what depends on few
variables stays small whatever the program holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Callable

#: entries of the largest field
MOST_ENTRIES = 2_500_000
#: the number of a first dimension along which fields of the same variables are stacked
STACKED = -2


class TooLarge(Exception):
    """A field would have more than `MOST_ENTRIES` entries."""


@dataclass(frozen=True)
class Field:
    """Values at nodes: `dims` are variables by number, increasing, and `values` has a dimension for each."""

    dims: tuple[int, ...]
    values: Array

    @property
    def size(self) -> float:
        """The largest absolute value."""
        return float(numpy.max(numpy.abs(self.values))) if self.values.size else 0.0


def constant(value: float) -> Field:
    """A field that depends on nothing."""
    return Field((), numpy.asarray(value, dtype=numpy.float64))


def aligned(one: Field, dims: tuple[int, ...]) -> Array:
    """The values with a dimension of length 1 for each of `dims` that the field does not depend on."""
    if one.dims == dims:
        return one.values
    own = iter(one.values.shape)
    return one.values.reshape([next(own) if d in one.dims else 1 for d in dims])


def union(*fields: Field) -> tuple[int, ...]:
    """All variables that some fields depend on."""
    if len(fields) == 2 and fields[0].dims == fields[1].dims:
        return fields[0].dims
    return tuple(sorted(set().union(*(f.dims for f in fields))))


def mapped(function: Callable[..., Any], *fields: Field) -> Field:
    """A function of fields, node by node."""
    first = fields[0].dims
    if all(f.dims == first for f in fields):
        return Field(first, numpy.asarray(function(*(f.values for f in fields)), dtype=numpy.float64))
    dims = union(*fields)
    _refuse_large(*fields)
    return Field(dims, numpy.asarray(function(*(aligned(f, dims) for f in fields)), dtype=numpy.float64))


def _refuse_large(*fields: Field) -> None:
    """TooLarge where a function of all variables of some fields has no room."""
    sizes: dict[int, int] = {}
    for f in fields:
        sizes.update(zip(f.dims, f.values.shape, strict=True))
    sizes.pop(STACKED, None)
    if math.prod(sizes.values()) > MOST_ENTRIES:
        raise TooLarge


def contracted(a: Field, b: Field) -> Field:
    """Σ_k a_k b_k of stacked fields."""
    _refuse_large(a, b)
    first, second = a.dims[1:], b.dims[1:]
    if not first or not second or first[-1] < second[0]:  # of nothing in common: a product of matrices
        return Field(first + second, along_first(a.values, b.values))
    both = union(a, b)
    letters = ["".join(chr(ord("a") + both.index(d)) for d in dims) for dims in (a.dims, b.dims, both[1:])]
    return Field(both[1:], numpy.asarray(numpy.einsum("{},{}->{}".format(*letters), a.values, b.values)))


def along_first(a: Array, b: Array) -> Array:
    """Σ_k a_k ⊗ b_k: what numpy.tensordot does in ten times as long, where arrays are small."""
    found = a.reshape(len(a), -1).T @ b.reshape(len(b), -1)
    return found.reshape(a.shape[1:] + b.shape[1:])


def plus(a: Field | None, b: Field | None) -> Field | None:
    """A sum; None is zero."""
    if a is None or b is None:
        return b if a is None else a
    return mapped(numpy.add, a, b)


def times(a: Field, b: Field) -> Field:
    """A product."""
    return mapped(numpy.multiply, a, b)
