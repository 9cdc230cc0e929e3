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

from tplimits.numbers.moments.determinants import Kernel, affine, inner, residual_determinant, summed
from tplimits.numbers.moments.writing import Writer, function
from tplimits.program.nodes.entries import AxisSum
from tplimits.regimes.kernels.derivation.leaves import Data, Datum, Given, Moment, TableEntry, on_side
from tplimits.regimes.kernels.numbers.tables.entrywise import added
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, mapped, step
from tplimits.regimes.kernels.numbers.tables.own import of_pair, one_sided
from tplimits.regimes.kernels.numbers.tables.slopes import slopes
from tplimits.regimes.kernels.numbers.tables.sums import nest

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.tables.frames import Frame

#: determinants below this share of the squared lengths are computed again from residuals
_NEAR = 0.25
#: numbers of a block of residuals, and so few that all pairs of inputs are done by residuals
_TOGETHER, _FEW = 1 << 18, 1 << 13


@dataclass(frozen=True)
class Rule:
    """A rule for the determinant of aK + b, or of K + L: of arrays, four for each kernel, and as text."""

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


def scaled(factor: NDArray[Any], det: NDArray[Any]) -> NDArray[Any]:
    """(f f′)² (K11 K22 − K12²): factors of one input each come out of a determinant."""
    return factor * factor * det


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
        return (
            None if found is None else mapped(scaled, [found.factor, residuals([*found.data, found.sums], found.over)])
        )
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
    return mapped(scaled, [frame.value(sympy.Mul(*others)), inner])


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
    return mapped(Rule(affine, (1.0, float(number.array))), [first, both, second, det]) if number.array else det


def _entries(frame: Frame, cross: Expr) -> tuple[Any, Any, Any]:
    return frame.value(on_side(cross, 1)), frame.value(on_side(cross, 2)), frame.value(cross)


def _sum(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    first, second, both = (mapped(added, [a, b]) for a, b in zip(one[:3], other[:3], strict=True))
    k, m = ([entries[0], entries[2], entries[1], entries[3]] for entries in (one, other))
    return first, second, both, mapped(Rule(summed), [*k, *m])


@dataclass(frozen=True)
class Gram:
    """factor · Σ_d x_d x′_d of a data instruction: the data of both sides, what the sums go over, they."""

    data: list[Any]
    over: tuple[str, ...]
    factor: Any
    sums: Any

    @property
    def determinants(self) -> Any:
        """Those of the sums."""
        return residuals([*self.data, self.sums], self.over)


def inner_product(expr: AxisSum) -> tuple[list[Data], Expr] | None:
    """The two data of a sum over all entries of one source, Σ_d x_d x′_d, and its factor; None for other sums.

    A mask, places apart, and products of three are no inner products.
    """
    bounds, body = nest(expr)
    data, others = [], []
    for factor in sympy.Mul.make_args(body):
        base, many = factor.as_base_exp()  # ‖x‖² is Σ x·x as one power
        if isinstance(base, Data) and base.indices and not isinstance(base, Given):
            data += [base] * (int(many) if many.is_Integer and many > 0 else 3)
        else:
            others.append(factor)
    rest = sympy.Mul(*others)
    if len(data) != 2 or len({(d.source, d.indices) for d in data}) > 1 or rest.free_symbols & set(bounds):
        return None
    indices = data[0].indices
    return (data, rest) if len(indices) == len(bounds) and set(indices) == set(bounds) else None


def gram(frame: Frame, expr: AxisSum) -> Gram | None:
    """A sum over the data of two inputs as a Gram matrix, where it is one."""
    found = inner_product(expr)
    if found is None or found[1].has(Data, Datum, TableEntry, Moment):
        return None
    data, rest = found
    if len({d.side for d in data}) < len(set(frame.input.values())):  # a sum of one input, between two
        return None
    # all entries are summed: what their axes are called here does not matter
    sides = [frame.tables.data(d.source, frame.input[d.side]) for d in sorted(data, key=lambda d: d.side)]
    over, key = sides[0].labels[1:], (data[0].source, 1)
    if key not in frame.gaps:
        frame.gaps[key] = inner_products(sides, over)
    return Gram(sides, over, frame.value(rest), frame.gaps[key])


@step(lambda values, over: tuple(dict.fromkeys(v.labels[0] for v in values)))
def inner_products(values: Sequence[Labelled], over: tuple[str, ...]) -> Labelled:
    """Σ x x′ of all pairs of inputs, or of all inputs with themselves."""
    (one, other), labels = (_flat(v, over) for v in values), tuple(dict.fromkeys(v.labels[0] for v in values))
    return Labelled(one @ other.T if len(labels) > 1 else inner(one, other), labels)


def _flat(value: Labelled, over: tuple[str, ...]) -> NDArray[Any]:
    """Data of inputs, which stand first, as vectors."""
    array = value.at((value.labels[0], *over))
    return array if array.ndim == 2 else array.reshape(len(array), -1)


@step(lambda values, over: values[2].labels)
def residuals(values: Sequence[Labelled], over: tuple[str, ...]) -> Labelled:
    """Σ x² Σ x′² − (Σ x x′)², given the inner products; from residuals where much of it cancels."""
    (one, other), sums = (_flat(v, over) for v in values[:2]), values[2].array
    if sums.size * one.shape[1] <= _FEW:
        return Labelled(residual_determinant(one[:, None], other[None]), values[2].labels)
    found, mine, theirs = numpy.empty_like(sums), inner(one, one), inner(other, other)
    rows, many = max(1, _TOGETHER // len(other)), max(1, _TOGETHER // one.shape[1])
    for start in range(0, len(one), rows):
        part = slice(start, start + rows)
        sizes = mine[part, None] * theirs
        numpy.subtract(sizes, numpy.square(sums[part]), out=found[part])
        i, j = numpy.nonzero(found[part] < _NEAR * sizes)
        for k in range(0, len(i), many):
            here, there = i[k : k + many] + start, j[k : k + many]
            found[here, there] = residual_determinant(one[here], other[there])
    return Labelled(found, values[2].labels)
