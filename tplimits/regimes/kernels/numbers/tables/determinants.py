"""Determinants K11 K22 − K12² of the expressions of a recursion without finite axes.

A law (K11, K12, K22) keeps an accurate determinant where K12 is a Gram matrix of data, a table that has one, aK + b, a
sum of such, a K times a function of each input, or the mean of a piecewise linear function.  All of these are kernels:
the covariance of two vectors, as of h and its norm in h − h/|h|, is none, and parts of it are no determinants.  Unlike
gaps they tell inputs of different lengths on one line from others; where places are summed over they have no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.numbers.moments.determinants import Kernel, residual_determinant, shifted, summed
from tplimits.numbers.moments.writing import Writer, function
from tplimits.program.nodes.entries import AxisSum
from tplimits.regimes.kernels.derivation.leaves import Data, Moment, TableEntry, on_side
from tplimits.regimes.kernels.numbers.tables.entrywise import added
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, mapped, step
from tplimits.regimes.kernels.numbers.tables.own import of_pair, one_sided
from tplimits.regimes.kernels.numbers.tables.slopes import slopes
from tplimits.regimes.kernels.numbers.tables.sums import nest

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.tables.frames import Frame

#: determinants below this share of the squared lengths are computed again from residuals
_NEAR = 0.25
#: numbers of a block of residuals
_TOGETHER = 1 << 18


class NotDetermined(Exception):
    """A mean between two inputs has no closed form in its covariances: gaps are for its recursion."""


@dataclass(frozen=True)
class Rule:
    """A rule for the determinant of K + b, or of K + L: of arrays, four for each kernel, and as text."""

    write: Callable[..., str]
    numbers: tuple[float, ...] = ()

    def text(self, writer: Writer, *names: str) -> str:
        """The determinant by the names of (K11, K12, K22, its determinant), and of those of L."""
        return self.write(writer, *(Kernel(*names[k : k + 4]) for k in range(0, len(names), 4)), *self.numbers)

    @cached_property
    def _on_arrays(self) -> Callable[..., Any]:
        writer, names = Writer(scalar=False), [f"k{i}" for i in range(8 if self.write is summed else 4)]
        return function(writer.code(self.text(writer, *names)), "determinant", names, scalar=False)

    def __call__(self, *arrays: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = self._on_arrays(*arrays)
        return found


def scaled(factor: Any, det: Any) -> Any:
    """(f f′)² (K11 K22 − K12²): factors of one input each come out of a determinant."""
    # one after the other: the square of a factor may leave the doubles where the determinant brings it back
    return mapped(numpy.multiply, [factor, mapped(numpy.multiply, [factor, det])])


def determinant(frame: Frame, cross: Expr) -> Any:
    """The determinant of an expression of a pair as an array, or None without a rule."""
    key = cross, 0
    if key not in frame.gaps:
        frame.gaps[key] = _rule(frame, cross)
    return frame.gaps[key]


def _rule(frame: Frame, cross: Expr) -> Any:
    if isinstance(cross, TableEntry):
        table = frame.tables.derivation.recursion.tables[cross.table]
        same = cross.sides[0] == cross.sides[1] or len(set(table.nodes)) > 1
        return None if same else frame.gap_of_entry(cross, 1)
    if isinstance(cross, AxisSum):
        found = gram(frame, cross)
        return None if found is None else found.determinants
    if isinstance(cross, Moment):
        linear = slopes(cross)
        return None if linear is None else frame.of_law(cross, linear)
    if isinstance(cross, sympy.Mul):
        return _scaled(frame, cross)
    return _added(frame, cross) if isinstance(cross, sympy.Add) else None


def _scaled(frame: Frame, cross: sympy.Mul) -> Any:
    """A product of one kernel with functions of one input each, or with numbers."""
    pairs = [a for a in cross.args if of_pair(a)]
    others = [a for a in cross.args if a not in pairs]
    beside = one_sided(others) if len(pairs) == 1 else None
    inner = None if beside is None else determinant(frame, pairs[0])
    if beside is None or inner is None:
        return None
    number = frame.value(beside[0])
    # −K is no kernel
    if not isinstance(number, Labelled) or number.labels or number.array < 0:
        return None
    return scaled(frame.value(sympy.Mul(*others)), inner)


def _added(frame: Frame, cross: sympy.Add) -> Any:
    parts = [a for a in cross.args if of_pair(a)]
    constant = sympy.Add(*(a for a in cross.args if a not in parts))
    found = [determinant(frame, a) for a in parts]
    if constant.has(TableEntry, Data, Moment) or not found or any(f is None for f in found):
        return None
    kernels = [(*_entries(frame, a), det) for a, det in zip(parts, found, strict=True)]
    first, second, both, det = reduce(_sum, kernels)
    number = frame.value(constant)
    if not isinstance(number, Labelled) or number.labels or number.array < 0:
        return None
    return mapped(Rule(shifted, (float(number.array),)), [first, both, second, det]) if number.array else det


def _entries(frame: Frame, cross: Expr) -> tuple[Any, Any, Any]:
    return frame.value(on_side(cross, 1)), frame.value(on_side(cross, 2)), frame.value(cross)


def _sum(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    first, second, both = (mapped(added, [a, b]) for a, b in zip(one[:3], other[:3], strict=True))
    k, m = ([entries[0], entries[2], entries[1], entries[3]] for entries in (one, other))
    return first, second, both, mapped(Rule(summed), [*k, *m])


@dataclass(frozen=True)
class Gram:
    """factor · Σ_d x_d x′_d of a data instruction: its arrays for both sides, and the sums."""

    data: list[Any]
    sums: Any
    factor: Any

    @property
    def value(self) -> Any:
        """The sums with their factor."""
        return mapped(numpy.multiply, [self.factor, self.sums])

    @property
    def determinants(self) -> Any:
        """Those of the value."""
        return scaled(self.factor, residuals([*self.data, self.sums]))


def gram(frame: Frame, expr: AxisSum) -> Gram | None:
    """A sum over the data of two inputs as a Gram matrix, where it is one."""
    bounds, body = nest(expr)
    powers = [f.as_base_exp() for f in sympy.Mul.make_args(body)]  # ‖x‖² is Σ x·x as one power
    data = [base for base, many in powers if isinstance(base, Data) for _ in range(int(many) if many.is_Integer else 3)]
    rest = sympy.Mul(*(base**many for base, many in powers if not isinstance(base, Data)))
    if len(data) != 2 or data[0].args[0] != data[1].args[0] or data[0].indices != data[1].indices:
        return None
    if set(data[0].indices) != set(bounds) or rest.free_symbols & set(bounds) or rest.has(Data, TableEntry, Moment):
        return None
    if len({d.side for d in data}) < len(set(frame.input.values())):  # a sum of one input, between two
        return None
    # all entries are summed: what their axes are called here does not matter
    sides = [frame.tables.data(d.source, frame.input[d.side]) for d in sorted(data, key=lambda d: d.side)]
    key = ("sums", *(side.number for side in sides))
    if key not in frame.tables.laws:
        frame.tables.laws[key] = inner_products(sides)
    return Gram(sides, frame.tables.laws[key], frame.value(rest))


@step(lambda values: tuple(dict.fromkeys(v.labels[0] for v in values)))
def inner_products(values: Sequence[Labelled]) -> Labelled:
    """Σ x x′ of all pairs of inputs, or of all inputs with themselves."""
    one, other = (v.array.reshape(len(v.array), -1) for v in values)
    (first, *_), (second, *_) = (v.labels for v in values)
    if first == second:
        return Labelled(numpy.einsum("id,id->i", one, other), (first,))
    return Labelled(one @ other.T, (first, second))


@step(lambda values: values[2].labels)
def residuals(values: Sequence[Labelled]) -> Labelled:
    """Σ x² Σ x′² − (Σ x x′)², given the inner products; from residuals where much of it cancels."""
    one, other = (v.array.reshape(len(v.array), -1) for v in values[:2])
    mine, theirs = (numpy.einsum("id,id->i", x, x) for x in (one, other))
    sizes = numpy.multiply.outer(mine, theirs)
    found = sizes - values[2].array ** 2
    near = found < _NEAR * sizes
    if values[0].array is values[1].array:  # an input with itself
        numpy.fill_diagonal(found, 0.0)
        numpy.fill_diagonal(near, False)
    i, j = near.nonzero()
    many = max(1, _TOGETHER // one.shape[1])
    for k in range(0, len(i), many):
        here, there = i[k : k + many], j[k : k + many]
        found[here, there] = residual_determinant(one[here], other[there])
    return Labelled(found, values[2].labels)
