"""Means over Gaussian scalars of order 1: the drift of a block whose weights F(S) are random at order 1.

b holds E[F_αν F_βκ] V_νκ with S Gaussian given V.  Functions of one entry of S have means by quadrature (`single`).
For others all entries are drawn together, S = Z·root(Cov), with Z from scrambled Sobol points through the normal
quantile: independent scramblings tell the error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from sympy import Dummy, Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.roots import composed, spectrum
from tplimits.numbers.sobol import normal_points
from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Entry, constant_symbol, size_symbol
from tplimits.program.nodes.evaluate import evaluate, with_differences
from tplimits.regimes.depth.algebra.arrays import at_indices
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import free_index
from tplimits.regimes.depth.derivation.scalars.written import read_axes
from tplimits.regimes.depth.numbers import covariance
from tplimits.regimes.depth.numbers.paths import REPLICATES, Estimate, estimate
from tplimits.regimes.depth.numbers.single import Single, mean, singles

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.algebra.products import Factors
    from tplimits.regimes.depth.derivation.block import BlockLimit
    from tplimits.regimes.depth.derivation.scalars.order_one import Weight

#: points of each scrambling: so many numbers at a single V, the fewest points in every step of paths
_POINTS, _NUMBERS, _MOST_POINTS = 512, 1 << 18, 1 << 13
#: what of covariances is rounding
_ROUNDING = 1e-12
#: dimensions of a Sobol sequence
_MOST = 21201


@dataclass(frozen=True)
class Drift:
    """The drift of a limit with weights of order 1, at given numbers."""

    limit: BlockLimit
    values: Mapping[Symbol, float]
    m: int
    #: for many V: few points at each
    quick: bool = False

    def __post_init__(self) -> None:
        for weight in self.limit.weights.values():
            constants = set(map(constant_symbol, weight.program.constants))
            covariance.insist_on_values(constants & weight.function.free_symbols, self.values)

    def at(self, V: Array) -> Estimate:
        """b at one covariance matrix, with its standard error."""
        known, drawn = self._known(V)
        if not drawn:
            return Estimate(known, numpy.zeros_like(known))
        return estimate(numpy.array([known + self._drawn(drawn, V, r) for r in range(REPLICATES)]))

    def of_replicate(self, V: Array, replicate: int) -> Array:
        """b by the points of one scrambling."""
        known, drawn = self._known(V)
        return known + self._drawn(drawn, V, replicate) if drawn else known

    def finite_at(self, V: Array) -> Estimate:
        """The same; EvaluationError where functions of the draws are too large for numbers."""
        with numpy.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = self.at(V)
        if not numpy.isfinite(found.value).all():
            raise EvaluationError(
                "functions of logits of order 1 overflow at this V, or divide by a token that is zero: scale V or the "
                "logits down."
            )
        return found

    @cached_property
    def singles(self) -> dict[str, tuple[Single, ...] | None]:
        """The weights that are sums of functions of one scalar each, as these."""
        return {label: singles(weight) for label, weight in self.limit.weights.items()}

    @property
    def is_drawn(self) -> bool:
        """Whether terms are left to draws, as far as their form tells."""
        weights = ([f[0] for f in factors if f[0][0] == "Y"] for factors in self.limit.drift.terms)
        return any(not self._is_single(labels) for labels in weights)

    def _is_single(self, labels: Sequence[str]) -> bool:
        return len(labels) <= 2 and all(self.singles[label] is not None for label in labels)

    def _known(self, V: Array) -> tuple[Array, Form]:
        """The terms of which all is known without draws, at V, and those that are left."""
        plain: dict[Factors, Expr] = {}
        left: dict[Factors, Expr] = {}
        found: dict[str, Array] = {}
        for factors, c in self.limit.drift.terms.items():
            weights = [f for f in factors if f[0][0] == "Y"]
            if not weights:
                plain[factors] = c
                continue
            label = "E|" + "".join(f[0] for f in weights)
            mean = found[label] if label in found else self._mean([f[0] for f in weights], V)
            if mean is None:
                left[factors] = c
                continue
            found[label] = mean
            rest = tuple(f for f in factors if f not in weights)
            plain[(*rest, (label, tuple(i for f in weights for i in f[1]), 0))] = c
        known = covariance.contracted(Form(plain), V, self.values, self.limit.arrays, 2, found)
        return numpy.asarray(known), Form(left)

    def _mean(self, labels: Sequence[str], V: Array) -> Array | None:
        if not self._is_single(labels):
            return None
        program = self.limit.weights[labels[0]].program
        law = self.limit.laws[program.name]

        def at(first: int, second: int) -> Array:
            axes = (*read_axes(program, first), *read_axes(program, second))
            return self._covariance(law[first, second], V, tuple(self._size(program, a) for a in axes))

        total, values = numpy.zeros(()), {**self.values, **self._sizes(program)}
        for parts in itertools.product(*(w for w in map(self.singles.get, labels) if w is not None)):
            found = mean(parts, at, values)
            if found is None:
                return None
            total = total + found
        return total

    def _drawn(self, form: Form, V: Array, replicate: int) -> Array:
        labels = {f[0] for factors in form.terms for f in factors}
        weights = {label: weight for label, weight in self.limit.weights.items() if label in labels}
        fields: dict[str, Array] = {}
        # one draw for all weights of a program: factors of one term are random together
        for program in {w.program.name: w.program for w in weights.values()}.values():
            scalars = self._scalars(program, V, replicate)
            for label, weight in weights.items():
                if weight.program is program:
                    fields[label] = self._field(weight, scalars, V)
        return covariance.means(form, V, self.values, {**self.limit.arrays, **fields})

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

    def _sizes(self, program: Program) -> dict[Expr, float]:
        known = (a for a in program.all_axes if program.size(a) is None)
        return {size_symbol(a): float(self._size(program, a)) for a in known}

    def _scalars(self, program: Program, V: Array, replicate: int) -> dict[int, Array]:
        """Draws of √n times the averages, (points, *axes) each."""
        law = self.limit.laws[program.name]
        positions = sorted({a for a, _ in law})
        if not positions:  # functions of V alone
            return {}
        shapes = [tuple(self._size(program, a) for a in read_axes(program, p)) for p in positions]
        counts = [math.prod(shape) for shape in shapes]
        blocks = [
            [
                self._covariance(law[p, q], V, (*a, *b)).reshape(math.prod(a), -1)
                for q, b in zip(positions, shapes, strict=True)
            ]
            for p, a in zip(positions, shapes, strict=True)
        ]
        law_of_all = numpy.block(blocks)
        leaders, place, ratio = _parallel(law_of_all)
        values, vectors = spectrum(law_of_all[numpy.ix_(leaders, leaders)])
        # the symmetric root, which moves smoothly with V where eigenvalues meet
        root = composed(numpy.sqrt(values.clip(0.0)), vectors)
        drawn = (self._normals(len(leaders), replicate) @ root)[:, place] * ratio
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
        return _drawn(dimension, replicate, self._points(dimension))

    def _points(self, dimension: int) -> int:
        if self.quick:
            return _POINTS
        return max(_POINTS, min(_MOST_POINTS, 1 << (_NUMBERS // dimension).bit_length() >> 1))

    def _field(self, weight: Weight, scalars: Mapping[int, Array], V: Array) -> Array:
        """F at all indices of its axes, (points, *axes)."""
        array, axes = _Field(self, weight.program, scalars, V).of(with_differences(weight.function))
        missing = [a for a in weight.axes if a not in axes]
        assert not missing
        return array.transpose(0, *(1 + axes.index(a) for a in weight.axes))


def _parallel(law: Array) -> tuple[NDArray[numpy.intp], NDArray[numpy.intp], Array]:
    """Scalars of which no two are multiples of each other, and for each of all which one it is a multiple of, and how.

    Those of equal tokens are equal in networks, where a jump of their difference is not met: rounding would pass it.
    """
    size = numpy.sqrt(numpy.diag(law))
    # what is 0 is no multiple of anything but as 0 times it
    together = (numpy.abs(law) >= (1 - _ROUNDING) * numpy.outer(size, size)) & (size > 0)
    first = together.argmax(axis=1)
    leaders, place = numpy.unique(first, return_inverse=True)
    variances = numpy.diag(law)[first]
    ratio = law[numpy.arange(len(law)), first] / numpy.where(variances > 0, variances, 1.0)
    near = numpy.abs(numpy.abs(ratio) - 1) < _ROUNDING
    return leaders, place, numpy.where(near, numpy.sign(ratio), ratio)


@lru_cache(maxsize=2 * REPLICATES)
def _drawn(dimension: int, replicate: int, points: int) -> Array:
    return normal_points(dimension, points, (dimension, replicate))


@dataclass(frozen=True)
class _Field:
    """Expressions of scalars at all indices: arrays (points, …) with the indices they stand at."""

    drift: Drift
    program: Program
    scalars: Mapping[int, Array]
    V: Array

    def of(self, expr: Expr) -> tuple[Array, tuple[Symbol, ...]]:
        leaves = _outermost(expr)
        parts = {leaf: self._leaf(leaf) for leaf in leaves}
        axes = tuple(dict.fromkeys(a for _, at in parts.values() for a in at))
        known: dict[Expr, Any] = {**self.drift.values, **self.drift._sizes(self.program)}
        change = {}
        for leaf, (array, at) in parts.items():
            symbol = Dummy(real=True)
            change[leaf], known[symbol] = symbol, _aligned(array, at, axes)
        # a difference of logits to a masked one may overflow: its weight is 1/∞ = 0
        with numpy.errstate(over="ignore"):
            value = numpy.asarray(evaluate(expr.xreplace(change), known))
        points = max((x.shape[0] for x in self.scalars.values()), default=1)
        shape = [max((known[s].shape[1 + k] for s in change.values()), default=1) for k in range(len(axes))]
        return numpy.broadcast_to(value, (points, *shape)), axes

    def _leaf(self, leaf: Expr) -> tuple[Array, tuple[Symbol, ...]]:
        if isinstance(leaf, AxisSum):
            array, axes = self.of(leaf.summand)
            if leaf.bound not in axes:
                # a summand without the index is added once for every member
                return array * self.drift._size(self.program, leaf.axis), axes
            place = axes.index(leaf.bound)
            return array.sum(axis=1 + place), (*axes[:place], *axes[place + 1 :])
        if isinstance(leaf, Entry):
            array, at = self.V[None] if leaf.source == self.program.state else self.scalars[leaf.source], leaf.indices
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
