"""Integrals of an Integrand against its Gaussian law, with kinks respected.

`layout` finds the coordinates and the cuts, `cut_grid` lays product rules on them; where two resolutions of these
disagree in one or two dimensions, `cells` adapts to the integrand.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Expr, Symbol

from tplimits.arrays import distinct_rows
from tplimits.errors import EvaluationError
from tplimits.numbers.budget import Budget, TooManyAtOnce, TooManyNodes, operations
from tplimits.numbers.cells import FAR, adaptive
from tplimits.numbers.cut_grid import MAX_DIMENSION, SMOOTH, grid
from tplimits.numbers.forms import Inner, Integrand
from tplimits.numbers.layout import Basis, Layout
from tplimits.numbers.monomials import monomial_mean
from tplimits.numbers.rare import beyond
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.running_errors import may_be_lost, mean_of_errors, samples

if TYPE_CHECKING:
    from tplimits.numbers.cuts import Cutting
    from tplimits.numbers.frame import Array

_CHUNK = 400_000
#: outer nodes for which inner means are taken together
_OUTER = 512
#: dimensions in which two resolutions are compared and the cells adapted
_ADAPTED = 2
#: agreement of two resolutions, relative to the mean of the absolute value, that needs no adapting; less is asked
#: where every evaluation has to find the cuts first
_AGREED, _AGREED_CURVED = 1e-13, 1e-9
#: and of the means of the absolute value: a pole can cancel in the other
_STEADY = 1e-2
#: an integral with more than this part of it at the outermost nodes is not seen as a whole; of a product rule in more
#: dimensions than one these are the nodes of least weight (lighter ones are left out)
_OUTSIDE, _LEAST = 1e-6, 1e-18
#: coordinates whose doubling moves a mean by this share of what the worst one moves it are doubled with it
_AS_MUCH = 0.3
#: relative rounding of a sum over nodes
_ROUNDING = 2e-15
#: points at which rounding is bounded, fewer where each of them is an integral
_SEEN, _SEEN_INSIDE = 256, 16


@dataclass(frozen=True)
class Integral:
    """A mean with the part of its error that is known without a second resolution, and the mean of |f|."""

    value: float
    error: float
    size: float


@dataclass(frozen=True)
class _Inner:
    """Means inside a mean, one an outer node: E f, E|f|, E|f| over the outermost nodes, and how far these are."""

    value: Array
    size: Array
    far: Array
    radius: float


class Quadrature:
    """Means of integrands under Gaussian laws whose covariances are numbers."""

    def __init__(
        self,
        covariance: Mapping[tuple[Symbol, Symbol], float],
        constants: Mapping[Symbol, float],
        level: int,
        budget: Budget,
    ) -> None:
        self.covariance, self.constants, self.level, self.budget = covariance, constants, level, budget
        self._bases: dict[int, Basis] = {}

    def mean(self, integrand: Integrand) -> Integral:
        """E of the integrand; raises TooManyNodes when quadrature cannot do it."""
        layout = Layout(self._basis(integrand))
        found = self._integral(integrand, layout)
        lost = self._lost(layout, found.size)
        self.budget.rounded |= lost > 0
        return Integral(found.value, found.error + lost, found.size) if lost else found

    def cut(self, integrand: Integrand) -> Cutting:
        """Where kinks cut the coordinates."""
        return self._cutting(Layout(self._basis(integrand)))

    def _lost(self, layout: Layout, size: float) -> float:
        """What rounding of the integrand at nodes makes of a mean, where it cancels."""
        body, inside = layout.integrand.body, any(isinstance(e, Inner) for e in layout.integrand.locals)
        named = (e[1] for e in layout.integrand.locals if isinstance(e, tuple))
        if not layout.rank or not any(map(may_be_lost, (body, *named))):
            return 0.0
        u, weights = samples(layout.rank, _SEEN_INSIDE if inside else _SEEN)
        known = self._known(layout, layout.values(u), u.shape[:2], {body})
        return mean_of_errors(body, known, weights * abs(self._polynomial(layout, u)), size, evaluate)

    def _integral(self, integrand: Integrand, layout: Layout) -> Integral:
        cutting = self._cutting(layout)
        # means inside a mean and many dimensions: cells would multiply what is dear already
        if not 0 < layout.rank <= _ADAPTED or any(isinstance(entry, Inner) for entry in integrand.locals):
            value, size, far = self._product(layout, cutting, 1, self.level)
            _refuse_unseen(integrand, cutting.radius, size, far)
            error = _ROUNDING * float(size[0]) + float(far[0])
            if cutting.curved and layout.rank > _ADAPTED:
                # no cell adapts to what a bent kink leaves of earlier coordinates, and two resolutions agree by chance
                error += abs(float(value[0] - self._product(layout, cutting, 1, self.level, shifted=True)[0][0]))
            return Integral(float(value[0]), error, float(size[0]))
        with numpy.errstate(invalid="ignore"):  # a node may meet a singular point: the cells do not
            # two resolutions of the product rule first: where they agree, that costs a fraction of the cells
            (coarse, coarse_size, _), (fine, size, far) = (
                self._product(layout, cutting, 1, self.level + i, shifted=i == 0) for i in (0, 1)
            )
            steady = not integrand.may_have_poles or abs(size[0] - coarse_size[0]) <= _STEADY * size[0]
            agreed = _AGREED_CURVED if cutting.curved else _AGREED
            if steady and abs(coarse[0] - fine[0]) <= agreed * size[0]:
                _refuse_unseen(integrand, cutting.radius, size, far)
                unseen = float(far[0]) or self._beyond(layout, cutting)
                return Integral(float(fine[0]), _ROUNDING * float(size[0]) + unseen, float(size[0]))
            spend = functools.partial(self._spend, integrand)
            adapted, error, magnitude, unseen = adaptive(
                cutting, functools.partial(self._integrated, layout), self.level, spend
            )
        _refuse_unseen(integrand, cutting.radius, numpy.array([magnitude]), numpy.array([unseen]))
        unseen = unseen or self._beyond(layout, cutting)
        return Integral(adapted, error + _ROUNDING * magnitude + unseen, magnitude)

    def _beyond(self, layout: Layout, cutting: Cutting) -> float:
        return beyond(functools.partial(self._integrated, layout), cutting.radius, layout.rank)

    def refined(self, integrand: Integrand, wanted: float) -> Integral:
        """E of an integrand over many coordinates, each as fine as it needs to be.

        A coordinate whose doubling moves the mean is doubled, until what all doublings move together is `wanted` as a
        share of E|f| or nothing is left to spend; they are the error.  Two resolutions of all coordinates together
        are no measure: behind a wave that neither of them follows they agree by chance, and coordinates of nearly
        equal inputs, of which half are narrow, would all pay for the widest.
        """
        layout = Layout(self._basis(integrand))
        cutting = self._cutting(layout)
        known: dict[tuple[int, ...], Integral] = {}

        def at(doubled: tuple[int, ...]) -> Integral:
            if doubled not in known:
                value, size, far = self._product(layout, cutting, 1, 0, doubled)
                _refuse_unseen(integrand, cutting.radius, size, far)
                known[doubled] = Integral(float(value[0]), float(far[0]) + _ROUNDING * float(size[0]), float(size[0]))
            return known[doubled]

        doubled, open_ = (0,) * layout.rank, list(range(layout.rank))
        found, error, moved = at(doubled), math.inf, [math.inf] * layout.rank
        try:
            while error > wanted * found.size:
                # coordinates along which doubling changed little are not asked again
                for k in open_:  # what the others move a mean stays little
                    moved[k] = abs(at(_one_more(doubled, k)).value - at(doubled).value)
                found = at(_one_more(doubled, max(open_, key=moved.__getitem__)))
                error, least = sum(moved), _AS_MUCH * max(moved)
                open_ = [k for k in range(layout.rank) if moved[k] >= least]
                for k in open_:
                    doubled = _one_more(doubled, k)
        except TooManyNodes:
            # an error is known once every coordinate was doubled; before that there is no number
            if not math.isfinite(error):
                raise
        return Integral(found.value, error + found.error, found.size)

    def _mean(self, integrand: Integrand, given: Mapping[Symbol, Array], outer: int, used: int) -> _Inner:
        """E over the integrand's own variables for every outer node; `given` holds outer forms, (outer, 1)."""
        layout = Layout(self._basis(integrand), given, used)
        cutting = self._cutting(layout)
        return _Inner(*self._product(layout, cutting, outer, self.level), cutting.radius)

    def _product(
        self,
        layout: Layout,
        cutting: Cutting,
        outer: int,
        level: int,
        doubled: tuple[int, ...] = (),
        shifted: bool = False,
    ) -> tuple[Array, Array, Array]:
        """(E f, E|f|, E|f| over the outermost nodes) by product rules, for every outer node."""
        dimension = layout.dimension
        if dimension > MAX_DIMENSION or len(SMOOTH[max(dimension, 1)]) <= level:
            raise TooManyNodes(f"{dimension} dimensions at resolution {level}: use method='particles'.")
        nodes, weights = grid(cutting, level, outer, dimension, doubled, shifted=shifted)
        self._spend(layout.integrand, weights.size)
        total, size, far = numpy.zeros(outer), numpy.zeros(outer), numpy.zeros(outer)
        # piece by piece: the nodes may be millions, the values of all forms at once would not fit
        step = max(1, _CHUNK // max(outer, 1))
        for start in range(0, nodes.shape[1], step):
            u = nodes[:, start : start + step]
            f = self._integrated(layout, u) * weights[:, start : start + step]
            total += f.sum(axis=1)
            f = abs(f)
            size += f.sum(axis=1)
            far += numpy.where(self._outermost(cutting, u, weights[:, start : start + step]), f, 0.0).sum(axis=1)
        return total, size, far

    def _outermost(self, cutting: Cutting, u: Array, weights: Array) -> Any:
        """The nodes beside those that are left out: what they bring is as much as what is missing."""
        return weights < _LEAST if cutting.rank > 1 else (abs(u) > FAR * cutting.radius).any(axis=2)

    def _basis(self, integrand: Integrand) -> Basis:
        """The coordinates of an integrand, made once: inner means ask for it at every block of outer nodes."""
        if id(integrand) not in self._bases:
            self._bases[id(integrand)] = Basis(integrand, self.covariance, self.constants)
        return self._bases[id(integrand)]

    def _spend(self, integrand: Integrand, nodes: int) -> None:
        named = sum(operations(entry[1]) for entry in integrand.locals if isinstance(entry, tuple))
        self.budget.spend(nodes, operations(integrand.body) + named + len(integrand.forms))

    def _cutting(self, layout: Layout) -> Cutting:
        def kink_values(kink: Expr, values: dict[Symbol, Array], shape: tuple[int, int]) -> Array:
            self.budget.spend(math.prod(shape), operations(kink))  # may be the larger part
            with numpy.errstate(all="ignore"):
                return numpy.broadcast_to(evaluate(kink, self._known(layout, values, shape, {kink})), shape)

        return layout.cutting(kink_values)

    def _integrated(self, layout: Layout, u: Array) -> Array:
        """What stands under the mean, at nodes (outer, count, rank)."""
        shape = u.shape[:2]
        with numpy.errstate(all="ignore"):
            known = self._known(layout, layout.values(u), shape, {layout.integrand.body})
            f = numpy.broadcast_to(numpy.asarray(evaluate(layout.integrand.body, known), dtype=float), shape)
            return numpy.asarray(f * self._polynomial(layout, u))

    def _known(
        self, layout: Layout, values: dict[Symbol, Array], shape: tuple[int, int], read: set[Expr]
    ) -> dict[Expr, Any]:
        """Everything that some expressions read: constants, outer forms, forms, then local values in their order."""
        known: dict[Expr, Any] = {**self.constants, **layout.given, **values}
        for entry in _read(layout.integrand, read):
            if isinstance(entry, tuple):
                known[entry[0]] = evaluate(entry[1], known)
                continue
            needed = {
                s: numpy.broadcast_to(known[s], shape).reshape(-1, 1)
                for s in entry.leans_on
                if s in known and s not in self.constants
            }
            used = len(layout.coordinates(entry.leans_on)) + bool(layout.given)
            known[entry.symbol] = self._once_each(entry.integrand, needed, math.prod(shape), used).reshape(shape)
        return known

    def _once_each(self, integrand: Integrand, given: dict[Symbol, Array], outer: int, used: int) -> Array:
        """The inner mean for every outer node, computed once for equal values of what it leans on."""
        if not given:
            found = self._mean(integrand, {}, 1, used)
            _refuse_unseen(integrand, found.radius, found.size, found.far)
            return numpy.broadcast_to(found.value, (outer,))
        table = numpy.concatenate(list(given.values()), axis=1)
        # product grids repeat the values of outer forms along all other coordinates
        distinct, place = distinct_rows(table)
        columns = {s: distinct[:, i : i + 1] for i, s in enumerate(given)}
        return self._chunked(integrand, columns, len(distinct), used)[place]

    def _chunked(self, integrand: Integrand, given: dict[Symbol, Array], outer: int, used: int) -> Array:
        """The inner means block by block; blocks are halved while the nodes of one are too many at a time."""
        step, start, parts = _OUTER, 0, []
        while start < outer:
            piece = {s: a[start : start + step] for s, a in given.items()}
            try:
                parts.append(self._mean(integrand, piece, min(step, outer - start), used))
            # too many at a time is no reason to give up, unless a single outer node has too many
            except TooManyAtOnce:
                if step == 1:
                    raise
                step = min(step, outer - start) // 2 or 1
                continue
            start += step
        value, size, far = (numpy.concatenate([getattr(p, name) for p in parts]) for name in ("value", "size", "far"))
        _refuse_unseen(integrand, parts[0].radius, size, far)
        return value

    def _polynomial(self, layout: Layout, u: Array) -> Any:
        """E[Π variable^power | u]: the variables given the coordinates are Gaussian."""
        integrand = layout.integrand
        if not integrand.polynomial:
            return 1.0
        cross, residual = layout.basis.regression
        means = [u @ row for row in cross]
        return monomial_mean(means, residual, tuple(p for _, p in integrand.polynomial), {})


def _one_more(doubled: tuple[int, ...], k: int) -> tuple[int, ...]:
    return (*doubled[:k], doubled[k] + 1, *doubled[k + 1 :])


def _refuse_unseen(integrand: Integrand, radius: float, size: Array, far: Array) -> None:
    """EvaluationError where a mean lies at the outermost nodes; of means inside a mean one of ordinary size.

    E relu(y + x) over x for y at eleven standard deviations below zero lies that far out, and is nothing.
    """
    beyond = far > _OUTSIDE * size
    if beyond.any() and (far[beyond] > _OUTSIDE * numpy.median(size)).any():
        raise EvaluationError(
            f"moment not established: the mean of {integrand.body!s:.200} lies further out than quadrature "
            f"looks, at {radius:.0f} standard deviations. Narrow the argument of the exponential, or give "
            "it a form whose mean is closed."
        )


def _read(integrand: Integrand, expressions: set[Expr]) -> list[Inner | tuple[Symbol, Expr]]:
    """The local values that some expressions read, in their order."""
    wanted = set().union(*(e.free_symbols for e in expressions))
    found: list[Inner | tuple[Symbol, Expr]] = []
    for entry in reversed(integrand.locals):
        if (entry[0] if isinstance(entry, tuple) else entry.symbol) in wanted:
            wanted |= entry[1].free_symbols if isinstance(entry, tuple) else set(entry.leans_on)
            found.insert(0, entry)
    return found
