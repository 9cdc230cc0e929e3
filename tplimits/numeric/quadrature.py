"""Integrals of an Integrand against its Gaussian law, with kinks respected.

Coordinates are standard normals u with forms = L u (rank-revealing Cholesky of the covariance of the
forms); `cut_grid` lays the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.numeric.cut_grid import (
    MAX_DIMENSION,
    RADIUS,
    SMOOTH,
    Array,
    Cuts,
    Planes,
    TooManyNodes,
    grid,
    independent_frame,
    roots,
)
from tplimits.numeric.forms import Integrand
from tplimits.program.evaluate import evaluate

#: evaluations of bodies and kinks that one mean may cost, nested ones included (about two seconds)
MOST_EVALUATIONS = 30_000_000
_CHUNK = 400_000


class Quadrature:
    """Means of integrands under Gaussian laws whose covariances are numbers."""

    def __init__(
        self, covariance: Mapping[tuple[Symbol, Symbol], float], constants: Mapping[Symbol, float], level: int
    ) -> None:
        self.covariance, self.constants, self.level = covariance, constants, level
        self._left = MOST_EVALUATIONS

    def number(self, expr: Expr) -> float:
        return float(evaluate(expr, self.constants))

    def _spend(self, evaluations: int) -> None:
        self._left -= evaluations
        if self._left < 0:
            raise TooManyNodes("the nested integrals cost too many evaluations: use method='particles'.")

    def mean(self, integrand: Integrand) -> float:
        """E of the integrand; raises TooManyNodes when tensor quadrature cannot do it."""
        return float(self._mean(integrand, {}, 1)[0])

    def _mean(self, integrand: Integrand, given: Mapping[Symbol, Array], outer: int, used: int = 0) -> Array:
        """E over the integrand's own variables for every outer node; `given` holds outer forms, (outer, 1)."""
        slopes = self._slopes(integrand)
        order = self._kinked_first(integrand)
        covariance = self._matrix(integrand.variables)
        forms = slopes[order]
        frame = independent_frame(forms @ covariance @ forms.T)
        factor = numpy.zeros_like(frame.factor)
        factor[order] = frame.factor
        dimension = used + frame.rank
        if dimension > MAX_DIMENSION or len(SMOOTH[max(dimension, 1)]) <= self.level:
            raise TooManyNodes(f"{dimension} dimensions at resolution {self.level}: use method='particles'.")
        constants = [self._offset(form.constant, given) for _, form in integrand.forms]
        planes = self._planes(integrand, factor, constants, given)
        curved = self._curved(integrand, factor, constants, given, dimension)
        nodes, weights = grid(planes, frame.rank, self.level, outer, dimension, curved)
        self._spend(weights.size)
        total = numpy.zeros(outer)
        step = max(1, _CHUNK // max(outer, 1))
        for start in range(0, nodes.shape[1], step):
            u, w = nodes[:, start : start + step], weights[:, start : start + step]
            values = {symbol: u @ factor[i] + constants[i] for i, (symbol, _) in enumerate(integrand.forms)}
            f = self._body(integrand, values, given, factor, u.shape[:2])
            f = f * self._polynomial(integrand, covariance, slopes, factor, u)
            total += numpy.sum(f * w, axis=1)
        return total

    # -- pieces -------------------------------------------------------------------------------

    def _slopes(self, integrand: Integrand) -> Array:
        place = {v: i for i, v in enumerate(integrand.variables)}
        slopes = numpy.zeros((len(integrand.forms), len(place)))
        for i, (_, form) in enumerate(integrand.forms):
            for variable, c in form.slope:
                slopes[i, place[variable]] += self.number(c)
        return slopes

    def _matrix(self, variables: Sequence[Symbol]) -> Array:
        return numpy.array([[self.covariance[a, b] for b in variables] for a in variables]).reshape(
            len(variables), len(variables)
        )

    def _kinked_first(self, integrand: Integrand) -> list[int]:
        symbols = [s for s, _ in integrand.forms]
        kinked = {s for k in integrand.kinks if len(k.free_symbols) == 1 for s in k.free_symbols}
        bent = {s for k in integrand.kinks if not self._is_straight(k, symbols) for s in k.free_symbols}
        # kinked forms come late, where cuts cost least, and those of curved kinks last
        return sorted(range(len(symbols)), key=lambda i: (symbols[i] in bent, symbols[i] in kinked))

    def _offset(self, constant: Expr, given: Mapping[Symbol, Array]) -> Any:
        return evaluate(constant, {**self.constants, **given})

    def _planes(
        self, integrand: Integrand, factor: Array, constants: list[Any], given: Mapping[Symbol, Array]
    ) -> Planes:
        slopes, offsets = [], []
        symbols = [s for s, _ in integrand.forms]
        locals_ = {(entry[0] if isinstance(entry, tuple) else entry.symbol) for entry in integrand.locals}
        for kink in integrand.kinks:
            if not self._is_straight(kink, symbols) or kink.free_symbols & locals_:
                continue
            coefficients = [sympy.diff(kink, s) for s in symbols]
            remainder = kink.xreplace(dict.fromkeys(symbols, sympy.S.Zero))
            numbers = [self._offset(c, given) for c in coefficients]
            if any(numpy.ndim(x) for x in numbers):
                continue
            slope = sum((float(c) * factor[i] for i, c in enumerate(numbers)), numpy.zeros(factor.shape[1]))
            offset = self._offset(remainder, given) + sum(c * constants[i] for i, c in enumerate(numbers))
            if numpy.max(abs(slope), initial=0.0) > 1e-12:
                slopes.append(tuple(slope))
                offsets.append(numpy.asarray(offset, dtype=float).reshape(-1) if numpy.ndim(offset) else float(offset))
        return Planes(tuple(slopes), tuple(offsets))

    def _curved(
        self, integrand: Integrand, factor: Array, constants: list[Any], given: Mapping[Symbol, Array], dimension: int
    ) -> dict[int, list[Cuts]]:
        """Kinks that are not straight, by the last coordinate they depend on, as finders of their cuts."""
        symbols = [s for s, _ in integrand.forms]
        locals_ = {(entry[0] if isinstance(entry, tuple) else entry.symbol) for entry in integrand.locals}
        found: dict[int, list[Cuts]] = {}
        for kink in integrand.kinks:
            hidden = kink.free_symbols & locals_
            if not hidden and self._is_straight(kink, symbols):
                continue
            moving = self._coordinates(integrand, kink.free_symbols, factor)
            if not moving or (hidden and (factor.shape[1] > 2 or given)):
                continue  # too costly to follow: the error estimate has to cover it
            found.setdefault(moving[-1], []).append(
                self._finder(integrand, kink, moving[-1], factor, constants, given, dimension)
            )
        return found

    def _coordinates(self, integrand: Integrand, symbols: Iterable[Symbol], factor: Array) -> list[int]:
        """The coordinates along which some of these symbols (forms or local values) move."""
        rows = {s: i for i, (s, _) in enumerate(integrand.forms)}
        leaning = {
            (entry[0] if isinstance(entry, tuple) else entry.symbol): (
                entry[1].free_symbols if isinstance(entry, tuple) else entry.leans_on
            )
            for entry in integrand.locals
        }
        stack, seen = list(symbols), set()
        while stack:
            s = stack.pop()
            if s not in seen:
                seen.add(s)
                stack.extend(leaning.get(s, ()))
        used = [rows[s] for s in seen if s in rows]
        return [k for k in range(factor.shape[1]) if any(abs(factor[i, k]) > 1e-12 for i in used)]

    def _finder(
        self,
        integrand: Integrand,
        kink: Expr,
        k: int,
        factor: Array,
        constants: list[Any],
        given: Mapping[Symbol, Array],
        dimension: int,
    ) -> Cuts:
        def cuts(nodes: Array) -> Array:
            def along(line: Array) -> Array:
                shape = (*nodes.shape[:2], line.shape[-1])
                flat = (shape[0], shape[1] * shape[2])
                self._spend(math.prod(flat))
                values = {}
                for i, (symbol, _) in enumerate(integrand.forms):
                    moved = (nodes @ factor[i, :k])[..., None] + factor[i, k] * line
                    values[symbol] = numpy.broadcast_to(moved, shape).reshape(flat) + constants[i]
                known = self._known(integrand, values, given, factor, flat)
                with numpy.errstate(all="ignore"):
                    return numpy.broadcast_to(evaluate(kink, known), flat).reshape(shape)

            return roots(along, RADIUS[max(1, min(dimension, MAX_DIMENSION))])

        return cuts

    def _is_straight(self, kink: Expr, symbols: Sequence[Symbol]) -> bool:
        mine = set(symbols)
        return all(not (sympy.diff(kink, s).free_symbols & mine) for s in symbols if s in kink.free_symbols)

    def _known(
        self,
        integrand: Integrand,
        values: dict[Symbol, Array],
        given: Mapping[Symbol, Array],
        factor: Array,
        shape: tuple[int, int],
    ) -> dict[Expr, Any]:
        """Everything the body reads: constants, outer forms, forms, then local values in their order."""
        known: dict[Expr, Any] = {**self.constants, **given, **values}
        for entry in integrand.locals:
            if isinstance(entry, tuple):
                known[entry[0]] = evaluate(entry[1], known)
                continue
            needed = {
                s: numpy.broadcast_to(known[s], shape).reshape(-1, 1)
                for s in entry.leans_on
                if s in known and s not in self.constants
            }
            used = len(self._coordinates(integrand, entry.leans_on, factor)) + bool(given)
            known[entry.symbol] = self._once_each(entry.integrand, needed, math.prod(shape), used).reshape(shape)
        return known

    def _once_each(self, integrand: Integrand, given: dict[Symbol, Array], outer: int, used: int) -> Array:
        """The inner mean for every outer node, computed once for equal values of what it leans on."""
        if not given:
            return numpy.broadcast_to(self._mean(integrand, {}, 1, used), (outer,))
        table = numpy.concatenate(list(given.values()), axis=1)
        distinct, place = numpy.unique(table, axis=0, return_inverse=True)
        columns = {s: distinct[:, i : i + 1] for i, s in enumerate(given)}
        return self._chunked(integrand, columns, len(distinct), used)[place.reshape(-1)]

    def _body(
        self,
        integrand: Integrand,
        values: dict[Symbol, Array],
        given: Mapping[Symbol, Array],
        factor: Array,
        shape: tuple[int, int],
    ) -> Array:
        with numpy.errstate(all="ignore"):
            known = self._known(integrand, values, given, factor, shape)
            return numpy.broadcast_to(numpy.asarray(evaluate(integrand.body, known), dtype=float), shape)

    def _chunked(self, integrand: Integrand, given: dict[Symbol, Array], outer: int, dimension: int) -> Array:
        step = 512
        parts = []
        for start in range(0, outer, step):
            piece = {s: a[start : start + step] for s, a in given.items()}
            parts.append(self._mean(integrand, piece, min(step, outer - start), dimension))
        return numpy.concatenate(parts)

    def _polynomial(self, integrand: Integrand, covariance: Array, slopes: Array, factor: Array, u: Array) -> Any:
        """E[Π variable^power | u]: the variables given the coordinates are Gaussian."""
        if not integrand.polynomial:
            return 1.0
        place = {v: i for i, v in enumerate(integrand.variables)}
        chosen = [place[v] for v, _ in integrand.polynomial]
        if factor.shape[1]:
            # u = pinv(factor) · (forms − constants), so Cov(variable, u) follows from the forms
            cross = covariance[chosen] @ slopes.T @ numpy.linalg.pinv(factor).T
        else:
            cross = numpy.zeros((len(chosen), 0))
        residual = covariance[numpy.ix_(chosen, chosen)] - cross @ cross.T
        means = [u @ cross[i] for i in range(len(chosen))]
        return _monomial_mean(means, residual, [p for _, p in integrand.polynomial])


def _monomial_mean(means: list[Array], covariance: Array, powers: list[int]) -> Any:
    """E Π (m_i + r_i)^p_i with r ~ N(0, covariance), by Stein's recursion on arrays."""
    first = next((i for i, p in enumerate(powers) if p), None)
    if first is None:
        return 1.0
    rest = powers.copy()
    rest[first] -= 1
    total = means[first] * _monomial_mean(means, covariance, rest)
    for j, p in enumerate(rest):
        if p and abs(covariance[first, j]) > 0:
            lower = rest.copy()
            lower[j] -= 1
            total = total + covariance[first, j] * p * _monomial_mean(means, covariance, lower)
    return total
