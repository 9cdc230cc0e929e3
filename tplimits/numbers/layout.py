"""How an integrand lies on independent coordinates: its forms, and where its kinks cut them.

Coordinates are standard normals u with forms = L u (rank-revealing Cholesky of the covariance of the forms).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError
from tplimits.numbers.budget import HiddenIsland
from tplimits.numbers.cut_grid import MAX_DIMENSION, RADIUS
from tplimits.numbers.cuts import Cuts, Cutting, Planes, roots, straight_root, turning_points
from tplimits.numbers.frame import Array, independent_frame
from tplimits.numbers.islands import POINTS, islands, places
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.properties import WAVES
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.numbers.forms import Integrand

#: a form with a smaller coefficient does not move along a coordinate
_STILL = 1e-12
#: a covariance that is left over and smaller than this, relative to the deviations, is rounding
_LEFT = 1e-13

#: a function whose argument changes by more than this over a standard deviation turns between nodes
_STEEP = 60.0
#: forms that are moved in one evaluation: a sum of hundreds of sines has a form for each
_AT_ONCE = 64

#: a kink as an array function of the values of the forms
KinkValues = Callable[[Expr, dict[Symbol, Array], tuple[int, int]], Array]


@dataclass(frozen=True)
class Basis:
    """What the forms of one integrand are made of, whatever its enclosing integrands hold fixed."""

    integrand: Integrand
    covariance: Mapping[tuple[Symbol, Symbol], float]
    constants: Mapping[Symbol, float]

    @cached_property
    def slopes(self) -> Array:
        """Forms by variables."""
        place = {v: i for i, v in enumerate(self.integrand.variables)}
        slopes = numpy.zeros((len(self.integrand.forms), len(place)))
        for i, (_, form) in enumerate(self.integrand.forms):
            for variable, c in form.slope:
                with numpy.errstate(all="ignore"):
                    slope = float(evaluate(c, self.constants))
                if not math.isfinite(slope):  # a scalar that it is divided by is 0 in disguise
                    raise EvaluationError(f"moment not established: a vector in it is multiplied by {slope} = `{c}`.")
                slopes[i, place[variable]] += slope
        return slopes

    @cached_property
    def gram(self) -> Array:
        """Covariances of the variables."""
        variables = self.integrand.variables
        rows = [[self.covariance[a, b] for b in variables] for a in variables]
        return numpy.array(rows).reshape(len(variables), len(variables))

    @cached_property
    def kinks(self) -> tuple[Expr, ...]:
        """Where quadrature is cut: at kinks, and where a smooth function turns between two nodes."""
        steep = (place for argument, place in self.integrand.turns if self._is_steep(argument))
        return tuple(dict.fromkeys((*self.integrand.kinks, *steep)))

    def _is_steep(self, argument: Expr) -> bool:
        """Whether an argument changes by much while one form moves by its standard deviation."""
        known = {s: self.constants.get(s, 0.0) for s in argument.free_symbols}
        deviations = numpy.sqrt(numpy.clip(numpy.diag(self.slopes @ self.gram @ self.slopes.T), 0, None))
        seen = []
        for (symbol, form), deviation in zip(self.integrand.forms, deviations, strict=True):
            if symbol in known:
                # what encloses this integrand moves its argument, but makes it no steeper
                inside = {s: self.constants.get(s, 0.0) for s in form.constant.free_symbols}
                known[symbol] = float(evaluate(form.constant, inside))
                seen.append((symbol, float(deviation)))
        parts = (seen[k : k + _AT_ONCE] for k in range(0, len(seen), _AT_ONCE))
        with numpy.errstate(all="ignore"):
            return any((numpy.ptp(_moved(argument, known, part), axis=1) > _STEEP).any() for part in parts)

    @cached_property
    def factor(self) -> Array:
        """Forms by coordinates."""
        order = self._kinked_first()
        forms = self.slopes[order]
        deviations = numpy.sqrt(numpy.clip(numpy.diag(self.gram), 0, None))
        # rank on the scale of what the forms are made of: x − y of nearly equal x and y is rounding, not a direction
        frame = independent_frame(forms @ self.gram @ forms.T, (abs(forms) @ deviations) ** 2)
        factor = numpy.zeros_like(frame.factor)
        factor[order] = frame.factor
        return factor

    @cached_property
    def regression(self) -> tuple[Array, list[list[float]]]:
        """The variables that stand as powers: their slopes on the coordinates, and the covariance of what is left."""
        place = {v: i for i, v in enumerate(self.integrand.variables)}
        chosen = [place[v] for v, _ in self.integrand.polynomial]
        cross = numpy.zeros((len(chosen), 0))
        if self.factor.shape[1]:
            # u = pinv(factor) · (forms − constants), so Cov(variable, u) follows from the forms
            # regression of the variable on the coordinates; what is left is independent of the nonlinear part
            cross = self.gram[chosen] @ self.slopes.T @ numpy.linalg.pinv(self.factor).T
        own = self.gram[numpy.ix_(chosen, chosen)]
        residual = own - cross @ cross.T
        deviations = numpy.sqrt(numpy.clip(numpy.diag(own), 0, None))
        seen = abs(residual) <= _LEFT * numpy.outer(deviations, deviations)
        residual = numpy.where(seen, 0.0, residual)  # beside a pole rounding would count
        return cross, residual.tolist()

    def _kinked_first(self) -> list[int]:
        symbols, kinks = tuple(s for s, _ in self.integrand.forms), self.kinks
        kinked = {s for k in kinks if len(k.free_symbols) == 1 for s in k.free_symbols}
        bent = {s for k in kinks if gradient(k, symbols) is None for s in k.free_symbols}
        # kinked forms come late, where cuts cost least, and those of curved kinks last
        return sorted(range(len(symbols)), key=lambda i: (symbols[i] in bent, symbols[i] in kinked))


@dataclass(frozen=True)
class Layout:
    """The coordinates of one integrand; `given` holds forms of enclosing integrands, (outer, 1) each."""

    basis: Basis
    given: Mapping[Symbol, Array] = field(default_factory=dict)
    used: int = 0

    @property
    def integrand(self) -> Integrand:
        return self.basis.integrand

    @property
    def constants(self) -> Mapping[Symbol, float]:
        return self.basis.constants

    @property
    def factor(self) -> Array:
        """Forms by coordinates."""
        return self.basis.factor

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])

    @property
    def dimension(self) -> int:
        """The rank, and the coordinates of the enclosing integrands."""
        return self.used + self.rank

    @cached_property
    def offsets(self) -> list[Any]:
        """The constant parts of the forms."""
        return [self._number(form.constant) for _, form in self.integrand.forms]

    def values(self, u: Array) -> dict[Symbol, Array]:
        """The forms at nodes (outer, count, rank)."""
        return {s: u @ self.factor[i] + self.offsets[i] for i, (s, _) in enumerate(self.integrand.forms)}

    def cutting(self, kink_values: KinkValues) -> Cutting:
        """Where the kinks cut the coordinates."""
        radius = RADIUS[max(1, min(self.dimension, MAX_DIMENSION))]
        curved, through = self._curved(radius, kink_values)
        return Cutting(self._planes(), self.rank, radius, curved, through)

    def coordinates(self, symbols: Iterable[Symbol]) -> list[int]:
        """The coordinates along which some of these symbols (forms or local values) move."""
        rows = {s: i for i, s in enumerate(self._symbols)}
        leaning = {
            (entry[0] if isinstance(entry, tuple) else entry.symbol): (
                entry[1].free_symbols if isinstance(entry, tuple) else entry.leans_on
            )
            for entry in self.integrand.locals
        }
        stack, seen = list(symbols), set()
        while stack:
            s = stack.pop()
            if s not in seen:
                seen.add(s)
                stack.extend(leaning.get(s, ()))
        used = [rows[s] for s in seen if s in rows]
        return [k for k in range(self.rank) if any(abs(self.factor[i, k]) > _STILL for i in used)]

    @property
    def _symbols(self) -> tuple[Symbol, ...]:
        return tuple(s for s, _ in self.integrand.forms)

    @property
    def _locals(self) -> set[Symbol]:
        return {(entry[0] if isinstance(entry, tuple) else entry.symbol) for entry in self.integrand.locals}

    def _number(self, expr: Expr) -> Any:
        return evaluate(expr, {**self.constants, **self.given})

    def _planes(self) -> Planes:
        slopes, offsets = [], []
        symbols = self._symbols
        for kink in self.basis.kinks:
            slope_of = gradient(kink, symbols)
            if slope_of is None or kink.free_symbols & self._locals:
                continue
            remainder = at_zero(kink, symbols)
            numbers = [self._number(c) for c in slope_of]
            # a slope that differs between outer nodes is no plane
            if any(numpy.ndim(x) for x in numbers):
                continue
            slope = sum((float(c) * self.factor[i] for i, c in enumerate(numbers)), numpy.zeros(self.rank))
            offset = self._number(remainder) + sum(c * self.offsets[i] for i, c in enumerate(numbers))
            if numpy.max(abs(slope), initial=0.0) > 1e-12:
                slopes.append(tuple(slope))
                offsets.append(numpy.asarray(offset, dtype=float).reshape(-1) if numpy.ndim(offset) else float(offset))
        return Planes(tuple(slopes), tuple(offsets))

    def _curved(self, radius: float, kink_values: KinkValues) -> tuple[dict[int, list[Cuts]], tuple[float, ...]]:
        """Kinks that are not straight, by the last coordinate they depend on, as finders of their cuts.

        Beside them places on the first of two coordinates through which their islands are seen.
        """
        found: dict[int, list[Cuts]] = {}
        through: list[float] = []
        for kink in self.basis.kinks:
            hidden = kink.free_symbols & self._locals
            if not hidden and gradient(kink, self._symbols) is not None:
                continue
            moving = self.coordinates(kink.free_symbols)
            if not moving or (hidden and (self.rank > 2 or self.given)):
                continue  # too costly to follow: the error estimate has to cover it
            finder = self._finder(kink, moving[-1], radius, kink_values)
            found.setdefault(moving[-1], []).append(finder)
            if hidden or self.given or len(moving) < 2:
                continue  # as above
            if len(moving) > 2:
                own = self._own_directions(kink)
                if len(own) in POINTS and len(islands(partial(self._at, kink, own, kink_values), radius, len(own))):
                    raise HiddenIsland(f"what `{kink!s:.200}` surrounds lies between all nodes: make it wider.")
                continue
            lines = places(partial(self._at, kink, numpy.eye(self.rank)[moving], kink_values), radius).tolist()
            if self.rank == 2:
                through += lines
            elif lines:
                ends = turning_points(partial(self._beside, finder, moving), radius, lines)
                found.setdefault(moving[0], []).append(partial(_everywhere, ends))
        return found, tuple(through)

    def _own_directions(self, kink: Expr) -> Array:
        """Orthonormal directions that the forms of a kink span, (count, rank): two of a pair, whatever else moves."""
        rows = self.factor[[i for i, symbol in enumerate(self._symbols) if symbol in kink.free_symbols]]
        _, sizes, directions = numpy.linalg.svd(rows, full_matrices=False)
        return numpy.asarray(directions[sizes > _STILL * sizes[0]])

    def _at(self, kink: Expr, directions: Array, kink_values: KinkValues, points: Array) -> Array:
        """A kink at points (count, directions)."""
        u = (points @ directions)[None]
        return kink_values(kink, self.values(u), u.shape[:2])[0]

    def _beside(self, finder: Cuts, moving: Sequence[int], line: Array) -> Array:
        """The cuts along the second of two coordinates at places of the first one, (1, count, 1)."""
        u = numpy.zeros((1, line.shape[1], moving[1]))
        u[..., moving[0]] = line[..., 0]
        return finder(u)

    def _finder(self, kink: Expr, k: int, radius: float, kink_values: KinkValues) -> Cuts:
        straight = self._is_affine(kink, k)
        # beyond the first coordinate there is one line for every node: the error estimate has to cover what they miss
        waves = sorted({w.args[0] for w in kink.atoms(*WAVES)}, key=str) if k == 0 else []

        def cuts(nodes: Array) -> Array:
            def along(line: Array, kink: Expr = kink) -> Array:
                shape = (*nodes.shape[:2], line.shape[-1])
                flat = (shape[0], shape[1] * shape[2])
                values = {}
                for i, symbol in enumerate(self._symbols):
                    moved = (nodes @ self.factor[i, :k])[..., None] + self.factor[i, k] * line
                    # earlier coordinates at their nodes, this one along the line, later ones do not matter to the kink
                    values[symbol] = numpy.broadcast_to(moved, shape).reshape(flat) + self.offsets[i]
                return kink_values(kink, values, flat).reshape(shape)

            turning = [partial(along, kink=argument) for argument in waves]
            return straight_root(along, radius) if straight else roots(along, radius, turning)

        return cuts

    def _is_affine(self, kink: Expr, k: int) -> bool:
        """Whether a kink is an affine function of the coordinate k, the others fixed: its cut needs no search."""
        moving = tuple(s for i, s in enumerate(self._symbols) if abs(self.factor[i, k]) > _STILL)
        hidden = kink.free_symbols & self._locals
        return gradient(kink, moving) is not None and k not in self.coordinates(hidden)


def _moved(argument: Expr, known: Mapping[Symbol, float], deviations: list[tuple[Symbol, float]]) -> Array:
    """An argument where one form after the other stands a deviation below, at and above its known value: (forms, 3)."""
    rows: dict[Symbol, Any] = {s: numpy.full((len(deviations), 3), known[s]) for s, _ in deviations}
    for row, (symbol, deviation) in enumerate(deviations):
        rows[symbol][row] += deviation * numpy.array([-1.0, 0.0, 1.0])
    return numpy.asarray(evaluate(argument, {**known, **rows}), dtype=float)


def _everywhere(ends: Array, nodes: Array) -> Array:
    """The same cuts at all nodes."""
    return numpy.broadcast_to(ends, (*nodes.shape[:2], ends.shape[-1]))


@remembered(4096)
def gradient(kink: Expr, symbols: tuple[Symbol, ...]) -> tuple[Expr, ...] | None:
    """The coefficients of a kink that is affine in these symbols, None for one that is not.

    Remembered: every mean inside a mean is laid out for thousands of outer nodes, and asks again each time.
    """
    slopes = tuple(sympy.diff(kink, s) if s in kink.free_symbols else sympy.S.Zero for s in symbols)
    return None if any(c.free_symbols & set(symbols) for c in slopes) else slopes


@remembered(4096)
def at_zero(kink: Expr, symbols: tuple[Symbol, ...]) -> Expr:
    """A kink with these symbols at zero."""
    return kink.xreplace(dict.fromkeys(symbols, sympy.S.Zero))
