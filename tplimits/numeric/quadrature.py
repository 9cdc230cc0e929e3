"""Integrals of an Integrand against its Gaussian law, with kinks respected.

Coordinates are standard normals u with forms = L u (rank-revealing Cholesky of the covariance of the
forms).  Along a smooth coordinate the trapezoidal rule is used (its error is exponentially small for
analytic integrands); a coordinate along which a kink moves is cut at the kink and each piece gets
Gauss-Legendre nodes.  Cuts of a later coordinate depend on the earlier ones, so kinks oblique to the
axes are met exactly; where two such cuts cross, the earlier coordinate is cut as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError
from tplimits.numeric.forms import Integrand
from tplimits.program.evaluate import evaluate

Array = NDArray[numpy.float64]

#: nodes per smooth coordinate and per piece of a cut one, by resolution level and dimension
_SMOOTH = {1: (97, 193, 385, 769, 1537), 2: (65, 97, 161, 321, 641), 3: (41, 57, 81), 4: (25, 33, 41), 5: (15, 19, 23)}
_PIECE = {1: (80, 128, 200, 320, 480), 2: (28, 40, 56, 80, 112), 3: (18, 26, 36), 4: (12, 16, 20), 5: (8, 10, 12)}
_RADIUS = {1: 12.0, 2: 11.0, 3: 9.0, 4: 8.0, 5: 7.0}
#: more nodes than this are refused: the particles are cheaper
MAX_NODES = 8_000_000
MAX_DIMENSION = 5
#: evaluations of bodies and kinks that one mean may cost, nested ones included (about two seconds)
MOST_EVALUATIONS = 30_000_000
#: directions of relative variance below this are taken as dependent
RANK_TOLERANCE = 1e-10
_CHUNK = 400_000
#: points scanned for the sign changes of a curved kink, and halvings of each bracket
_SCAN, _BISECTIONS = 161, 46


class TooManyNodes(EvaluationError):
    """The integral has too many dimensions or pieces for tensor quadrature."""


@dataclass(frozen=True)
class Frame:
    """Independent coordinates for correlated forms: values = constant + factor · u."""

    factor: Array  # (forms, rank)

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])


def independent_frame(covariance: Array) -> Frame:
    """A rank-revealing Cholesky factor, first forms first (kinked ones are put first by the caller)."""
    size = covariance.shape[0]
    rest, columns = covariance.copy(), []
    scale = max(float(numpy.max(numpy.diag(covariance), initial=0.0)), 1e-300)
    for j in range(size):
        if rest[j, j] > RANK_TOLERANCE * max(covariance[j, j], 1e-6 * scale):
            column = rest[:, j] / math.sqrt(rest[j, j])
            rest = rest - numpy.outer(column, column)
            columns.append(column)
        elif rest[j, j] < -1e-6 * scale:
            raise EvaluationError(
                f"a covariance of variance {rest[j, j]:.3g} < 0 met in a quadrature: not a Gram matrix."
            )
    return Frame(numpy.array(columns).T.reshape(size, len(columns)))


@lru_cache(maxsize=64)
def _legendre(count: int) -> tuple[Array, Array]:
    return numpy.polynomial.legendre.leggauss(count)


@lru_cache(maxsize=16)
def _graded(count: int) -> tuple[Array, Array]:
    """Legendre nodes crowded towards both ends, where a root or a logarithm may stand at a kink.

    x = φ(s) on [0, 1] with φ' = 30 s²(1 − s)²: an integrand like |x|^(1/2) becomes smooth in s.
    """
    x, w = _legendre(count)
    s = (1 + x) / 2
    return 2 * s**3 * (10 - 15 * s + 6 * s**2) - 1, w * 30 * s**2 * (1 - s) ** 2


@dataclass(frozen=True)
class Planes:
    """Kinks as hyperplanes slope·u + offset = 0; offsets are arrays over the outer nodes."""

    slopes: tuple[tuple[float, ...], ...]
    offsets: tuple[Any, ...]


def _levels(planes: Planes, rank: int) -> list[list[tuple[Array, Any]]]:
    """For each coordinate the planes that cut it, those of later coordinates projected down."""
    current = [(numpy.array(s), o) for s, o in zip(planes.slopes, planes.offsets, strict=True)]
    result: list[list[tuple[Array, Any]]] = [[] for _ in range(rank)]
    for k in reversed(range(rank)):
        here = [(s / s[k], o / s[k]) for s, o in current if abs(s[k]) > 1e-9 * max(numpy.max(abs(s)), 1e-300)]
        rest = [(s, o) for s, o in current if abs(s[k]) <= 1e-9 * max(numpy.max(abs(s)), 1e-300)]
        unique: list[tuple[Array, Any]] = []
        for s, o in here:
            if not any(numpy.allclose(s, t, atol=1e-10) and numpy.allclose(o, p, atol=1e-10) for t, p in unique):
                unique.append((s, o))
        result[k] = unique
        crossings = [(a[0] - b[0], a[1] - b[1]) for i, a in enumerate(unique) for b in unique[i + 1 :]]
        current = rest + [(s, o) for s, o in crossings if numpy.max(abs(s[:k]), initial=0.0) > 1e-9]
    return result


#: for one coordinate, where kinks cut it: (outer, count, cuts) as a function of the earlier coordinates
Cuts = Callable[[Array], Array]


def grid(
    planes: Planes,
    rank: int,
    level: int,
    outer: int = 1,
    dimension: int | None = None,
    curved: Mapping[int, Sequence[Cuts]] | None = None,
) -> tuple[Array, Array]:
    """Nodes (outer, count, rank) and weights (outer, count) for standard normal u, cut at the kinks.

    Straight kinks are `planes`; `curved` gives, for a coordinate, functions that find their cuts.
    """
    dimension = max(1, min(dimension or rank, MAX_DIMENSION))
    smooth, piece, radius = _SMOOTH[dimension][level], _PIECE[dimension][level], _RADIUS[dimension]
    levels = _levels(planes, rank)
    nodes, weights = numpy.zeros((outer, 1, 0)), numpy.ones((outer, 1))
    for k in range(rank):
        bent = [cut(nodes) for cut in (curved or {}).get(k, ())]
        if k == 0 and outer == 1:  # where a curved kink of the next coordinate begins or ends, this one is cut
            bent += [_turning_points(cut, radius) for cut in (curved or {}).get(1, ())]
        pieces = len(levels[k]) + sum(b.shape[-1] for b in bent)
        _affordable(weights.size * ((pieces + 1) * piece if pieces else smooth), rank)
        if pieces:
            rule = _graded if bent or dimension == 1 else _legendre
            u, w = _cut_nodes(nodes, levels[k], bent, k, rule(piece), radius)
        else:
            line = numpy.linspace(-radius, radius, smooth)
            u = numpy.broadcast_to(line, (*nodes.shape[:2], smooth))
            w = numpy.full(smooth, line[1] - line[0])
        w = w * numpy.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
        wide = numpy.broadcast_to(nodes[:, :, None, :], (*u.shape, k))
        nodes = numpy.concatenate([wide, u[..., None]], axis=-1).reshape(outer, -1, k + 1)
        weights = (weights[:, :, None] * w).reshape(outer, -1)
        if outer == 1 and rank > 1:
            keep = weights[0] > 1e-19
            nodes, weights = nodes[:, keep], weights[:, keep]
    return nodes, weights


def _affordable(count: int, rank: int) -> None:
    if count > MAX_NODES:
        raise TooManyNodes(f"{count} quadrature nodes in {rank} dimensions are too many; use method='particles'.")


def _cut_nodes(
    nodes: Array,
    cuts: list[tuple[Array, Any]],
    bent: Sequence[Array],
    k: int,
    rule: tuple[Array, Array],
    radius: float,
) -> tuple[Array, Array]:
    """Gauss-Legendre nodes on the pieces between the cuts of coordinate k, given the earlier ones."""
    places = [b[..., j] for b in bent for j in range(b.shape[-1])]
    for slope, offset in cuts:
        offset = numpy.asarray(offset, dtype=float).reshape(-1, 1)
        places.append(numpy.broadcast_to(-(nodes @ slope[:k]) - offset, nodes.shape[:2]))
    edges = numpy.sort(numpy.clip(numpy.stack(places, axis=-1), -radius, radius), axis=-1)
    ends = numpy.full((*edges.shape[:2], 1), radius)
    edges = numpy.concatenate([-ends, edges, ends], axis=-1)
    x, w = rule
    half = (edges[..., 1:] - edges[..., :-1])[..., None] / 2
    middle = (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    u = (middle + half * x).reshape(*edges.shape[:2], -1)
    return u, (half * w).reshape(*edges.shape[:2], -1)


def _turning_points(cut: Cuts, radius: float) -> Array:
    """Values of the first coordinate at which the number of cuts of the second changes, (1, 1, count)."""

    def count(line: Array) -> NDArray[numpy.int64]:
        counted: NDArray[numpy.int64] = (cut(line.reshape(1, -1, 1))[0] < radius).sum(axis=-1)
        return counted

    line = numpy.linspace(-radius, radius, _SCAN)
    counts = count(line)
    at = numpy.flatnonzero(counts[1:] != counts[:-1])
    low, high, before = line[at], line[at + 1], counts[at]
    for _ in range(_BISECTIONS if len(at) else 0):
        middle = (low + high) / 2
        same = count(middle) == before
        low, high = numpy.where(same, middle, low), numpy.where(same, high, middle)
    return ((low + high) / 2).reshape(1, 1, -1)


def roots(function: Callable[[Array], Array], radius: float, most: int = 64) -> Array:
    """Sign changes on [−radius, radius] of functions evaluated at (..., points); padded with `radius`."""
    line = numpy.linspace(-radius, radius, _SCAN)
    values = function(line)
    change = (values[..., :-1] > 0) != (values[..., 1:] > 0)
    count = min(int(change.sum(axis=-1).max(initial=0)), most)
    found = numpy.full((*values.shape[:-1], count), radius)
    for j in range(count):
        first = numpy.argmax(change, axis=-1)
        present = numpy.take_along_axis(change, first[..., None], axis=-1)[..., 0]
        low, high = line[first], line[first + 1]
        sign = numpy.take_along_axis(values, first[..., None], axis=-1)[..., 0] > 0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            same = (function(middle[..., None])[..., 0] > 0) == sign
            low, high = numpy.where(same, middle, low), numpy.where(same, high, middle)
        found[..., j] = numpy.where(present, (low + high) / 2, radius)
        numpy.put_along_axis(change, first[..., None], False, axis=-1)
    return found


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
        if dimension > MAX_DIMENSION or len(_SMOOTH[max(dimension, 1)]) <= self.level:
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

            return roots(along, _RADIUS[max(1, min(dimension, MAX_DIMENSION))])

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
