"""Means over Gaussian scalars of order 1: the drift of a block whose weights F(S) are random at order 1.

b holds E[F_αν F_βκ] V_νκ with S Gaussian given V.  All entries of S are drawn together, S = Z·root(Cov), with Z from
scrambled Sobol points through the normal quantile: independent scramblings tell the error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Dummy, Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.number import standard_error
from tplimits.numbers.roots import composed, spectrum
from tplimits.numbers.sobol import normal_points
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry, size_symbol
from tplimits.program.nodes.evaluate import evaluate, with_differences
from tplimits.regimes.depth.algebra.arrays import at_indices
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import free_index
from tplimits.regimes.depth.numbers import covariance
from tplimits.regimes.depth.numbers.paths import Estimate

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.derivation.scalars.order_one import Weight

#: independent scramblings, and points of each
_REPLICATES, _POINTS = 8, 512
#: dimensions of a Sobol sequence
_MOST = 21201


@dataclass(frozen=True)
class Drift:
    """The drift of a limit with weights of order 1, at given numbers."""

    limit: BlockLimit
    values: Mapping[Symbol, float]
    m: int
    points: int = _POINTS

    def at(self, V: Array) -> Estimate:
        """b at one covariance matrix, with its standard error."""
        means = numpy.array([self._replicate(V, r) for r in range(_REPLICATES)])
        return Estimate(means.mean(axis=0) + self._known(V), standard_error(means))

    def finite_at(self, V: Array) -> Estimate:
        """The same; EvaluationError where functions of the draws are too large for numbers."""
        with numpy.errstate(over="ignore", invalid="ignore"):
            found = self.at(V)
        if not numpy.isfinite(found.value).all():
            raise EvaluationError("functions of logits of order 1 overflow at this V: scale V or the logits down.")
        return found

    def _known(self, V: Array) -> Array:
        return numpy.asarray(covariance.contracted(self._split[0], V, self.values, self.limit.arrays, 2))

    @cached_property
    def _split(self) -> tuple[Form, Form]:
        """The terms without weights, and those with."""
        terms = self.limit.drift.terms
        random = {f: c for f, c in terms.items() if any(label[0] == "Y" for label, _, _ in f)}
        return Form({f: c for f, c in terms.items() if f not in random}), Form(random)

    def _replicate(self, V: Array, replicate: int) -> Array:
        fields: dict[str, Array] = {}
        # one draw for all weights of a program: factors of one term are random together
        for program in {w.program.name: w.program for w in self.limit.weights.values()}.values():
            scalars = self._scalars(program, V, replicate)
            for label, weight in self.limit.weights.items():
                if weight.program is program:
                    fields[label] = self._field(weight, scalars)
        return covariance.means(self._split[1], V, self.values, {**self.limit.arrays, **fields})

    def _size(self, program: Program, axis: str) -> int:
        size = program.size(axis)
        if size is not None:
            return int(size)
        assert program.state is not None
        root = program.root_axis(axis)
        if root == program.root_axis(program[program.state].axes[0]):
            return self.m
        if size_symbol(root) not in self.values:
            raise EvaluationError(f"the axis `{root}` has no size: give {root}=….")
        return int(self.values[size_symbol(root)])

    def _scalars(self, program: Program, V: Array, replicate: int) -> dict[int, Array]:
        """Draws of √n times the averages, (points, *axes) each."""
        law = self.limit.laws[program.name]
        positions = sorted({a for a, _ in law})
        shapes = [tuple(self._size(program, a) for a in program[p].axes) for p in positions]
        counts = [math.prod(shape) for shape in shapes]
        blocks = [
            [
                self._covariance(law[p, q], V, (*a, *b)).reshape(math.prod(a), -1)
                for q, b in zip(positions, shapes, strict=True)
            ]
            for p, a in zip(positions, shapes, strict=True)
        ]
        values, vectors = spectrum(numpy.block(blocks))
        # the symmetric root, which moves smoothly with V where eigenvalues meet
        drawn = self._normals(sum(counts), replicate) @ composed(numpy.sqrt(values.clip(0.0)), vectors)
        parts = numpy.split(drawn, numpy.cumsum(counts)[:-1], axis=1)
        return {p: x.reshape(-1, *shape) for p, x, shape in zip(positions, parts, shapes, strict=True)}

    def _covariance(self, form: Form, V: Array, shape: tuple[int, ...]) -> Array:
        total, free = numpy.zeros(shape), tuple(map(free_index, range(len(shape))))
        known = {"V": V, **self.limit.arrays}
        for factors, number in zip(form.terms, covariance.numbers(form, self.values), strict=True):
            # what is 1 where two indices are the same has the size of these: tokens, heads
            sized = [(f"I{shape[free.index(at[0])]}" if n == "I" else n, at, copy) for n, at, copy in factors]
            known |= {n: numpy.eye(int(n[1:])) for n, _, _ in sized if n[0] == "I"}
            if any(n not in known for n, _, _ in sized):
                raise EvaluationError("the law of the scalars of order 1 has a kernel that is not evaluated here.")
            total += at_indices(tuple(sized), known.__getitem__, free, number)
        return total

    def _normals(self, dimension: int, replicate: int) -> Array:
        if dimension > _MOST:
            raise EvaluationError(f"{dimension} scalars of order 1 are more than {_MOST}: take fewer tokens or heads.")
        return _drawn(dimension, replicate, self.points)

    def _field(self, weight: Weight, scalars: Mapping[int, Array]) -> Array:
        """F at all indices of its axes, (points, *axes)."""
        array, axes = _Field(self, weight.program, scalars).of(with_differences(weight.function))
        missing = [a for a in weight.axes if a not in axes]
        assert not missing
        return array.transpose(0, *(1 + axes.index(a) for a in weight.axes))


@lru_cache(maxsize=2 * _REPLICATES)
def _drawn(dimension: int, replicate: int, points: int) -> Array:
    return normal_points(dimension, points, (dimension, replicate))


@dataclass(frozen=True)
class _Field:
    """Expressions of scalars at all indices: arrays (points, …) with the indices they stand at."""

    drift: Drift
    program: Program
    scalars: Mapping[int, Array]

    def of(self, expr: Expr) -> tuple[Array, tuple[Symbol, ...]]:
        leaves = _outermost(expr)
        parts = {leaf: self._leaf(leaf) for leaf in leaves}
        axes = tuple(dict.fromkeys(a for _, at in parts.values() for a in at))
        known: dict[Expr, Any] = {**self.drift.values, **self._sizes()}
        change = {}
        for leaf, (array, at) in parts.items():
            symbol = Dummy(real=True)
            change[leaf], known[symbol] = symbol, _aligned(array, at, axes)
        # a difference of logits to a masked one may overflow: its weight is 1/∞ = 0
        with numpy.errstate(over="ignore"):
            value = numpy.asarray(evaluate(expr.xreplace(change), known))
        points = next(iter(self.scalars.values())).shape[0]
        shape = [max((known[s].shape[1 + k] for s in change.values()), default=1) for k in range(len(axes))]
        return numpy.broadcast_to(value, (points, *shape)), axes

    def _sizes(self) -> dict[Expr, float]:
        known = (a for a in self.program.all_axes if self.program.size(a) is None)
        return {size_symbol(a): float(self.drift._size(self.program, a)) for a in known}

    def _leaf(self, leaf: Expr) -> tuple[Array, tuple[Symbol, ...]]:
        if isinstance(leaf, AxisSum):
            array, axes = self.of(leaf.summand)
            if leaf.bound not in axes:
                # a summand without the index is added once for every member
                return array * self.drift._size(self.program, leaf.axis), axes
            place = axes.index(leaf.bound)
            return array.sum(axis=1 + place), (*axes[:place], *axes[place + 1 :])
        if isinstance(leaf, Entry):
            array, at = self.scalars[leaf.source], leaf.indices
        else:
            array, at = self.program.arrays[leaf.array].values[None], leaf.indices
        different = tuple(dict.fromkeys(at))
        # an index that stands twice, as in S[i, i], takes the diagonal
        places: Any = [0, *(1 + different.index(i) for i in at)]
        kept: Any = [0, *range(1, 1 + len(different))]
        values: Any = array
        return numpy.einsum(values, places, kept), different


def _outermost(expr: Expr) -> list[Expr]:
    """Entries, array entries and sums that stand in no sum."""
    if isinstance(expr, (Entry, ArrayEntry, AxisSum)):
        return [expr]
    return list(dict.fromkeys(leaf for a in expr.args for leaf in _outermost(a)))


def _aligned(array: Array, at: tuple[Symbol, ...], axes: tuple[Symbol, ...]) -> Array:
    ordered = array.transpose(0, *(1 + at.index(a) for a in axes if a in at))
    sizes = iter(ordered.shape[1:])
    return ordered.reshape(ordered.shape[0], *(next(sizes) if a in at else 1 for a in axes))
