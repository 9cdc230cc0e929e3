"""Where kinks cut the coordinates of a quadrature.

Cuts of a later coordinate depend on the earlier ones, so kinks oblique to the axes are met exactly; where two
such cuts cross, the earlier coordinate is cut as well.  Curved kinks are searched for along lines, also through the
islands that evenly spaced lines pass by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.numbers.budget import TooManyNodes
from tplimits.numbers.frame import Array
from tplimits.program.nodes.crossings import between_waves, crossings

#: points scanned for the sign changes of a curved kink, and halvings of where their number changes
_SCAN, _BISECTIONS = 161, 46
#: a plane that rises by more than this over a standard deviation is steep
_STEEP = 60.0
#: sign changes of one curved kink along a line
_MOST = 64

#: for one coordinate, where kinks cut it: (outer, count, cuts) as a function of the earlier coordinates
Cuts = Callable[[Array], Array]


@dataclass(frozen=True)
class Planes:
    """Kinks as hyperplanes slope·u + offset = 0; offsets are arrays over the outer nodes."""

    slopes: tuple[tuple[float, ...], ...]
    offsets: tuple[Any, ...]


def _before(slope: Array, k: int) -> Array:
    """The slopes along coordinates before k."""
    return numpy.where(numpy.arange(len(slope)) < k, slope, 0.0)


def _levels(planes: Planes, rank: int, radius: float) -> list[list[tuple[Array, Any]]]:
    """For each coordinate the planes that cut it; of later ones where they cross, and where steep ones are in reach."""
    current = [(numpy.array(s), o) for s, o in zip(planes.slopes, planes.offsets, strict=True)]
    result: list[list[tuple[Array, Any]]] = [[] for _ in range(rank)]
    for k in reversed(range(rank)):
        # normed by the slope along k: differences of two are then where they cross, as planes of earlier coordinates
        here = [(s / s[k], o / s[k]) for s, o in current if abs(s[k]) > 1e-9 * max(numpy.max(abs(s)), 1e-300)]
        rest = [(s, o) for s, o in current if abs(s[k]) <= 1e-9 * max(numpy.max(abs(s)), 1e-300)]
        unique: list[tuple[Array, Any]] = []
        for s, o in here:
            # equal planes would leave pieces of length 0
            if not any(numpy.allclose(s, t, atol=1e-10) and numpy.allclose(o, p, atol=1e-10) for t, p in unique):
                unique.append((s, o))
        result[k] = unique
        # a steep plane is within reach for so short a stretch of earlier coordinates that their nodes pass it by
        steep = [(s, o) for s, o in unique if numpy.max(abs(s[:k]), initial=0.0) > _STEEP]
        walls = [(_before(s, k), o + side * radius) for s, o in steep for side in (-1, 1)]
        crossings = [(a[0] - b[0], a[1] - b[1]) for i, a in enumerate(unique) for b in unique[i + 1 :]]
        current = rest + [(s, o) for s, o in crossings if numpy.max(abs(s[:k]), initial=0.0) > 1e-9] + walls
    return result


@dataclass(frozen=True)
class Cutting:
    """The edges of the pieces of every coordinate, as functions of the earlier coordinates.

    Straight kinks are `planes`; `curved` gives, for a coordinate, functions that find their cuts.  Curved kinks of the
    second coordinate are looked for along evenly spaced lines, and along those at `through` on the first one.
    """

    planes: Planes
    rank: int
    radius: float
    curved: Mapping[int, Sequence[Cuts]] = field(default_factory=dict)
    through: tuple[float, ...] = ()

    @cached_property
    def _straight(self) -> list[list[tuple[Array, Any]]]:
        return _levels(self.planes, self.rank, self.radius)

    def bent(self, k: int, outer: int = 1) -> bool:
        """Whether a curved kink cuts coordinate k, or begins or ends along it."""
        return bool(self.curved.get(k)) or (k == 0 and outer == 1 and bool(self.curved.get(1)))

    def edges(self, k: int, nodes: Array) -> Array:
        """Ends of the pieces of coordinate k, (outer, count, pieces + 1), at nodes of the earlier ones."""
        shape = nodes.shape[:2]
        places = [numpy.broadcast_to(b[..., j], shape) for b in self._bends(k, nodes) for j in range(b.shape[-1])]
        for slope, offset in self._straight[k]:
            offset = numpy.asarray(offset, dtype=float).reshape(-1, 1)
            places.append(numpy.broadcast_to(-(nodes @ slope[:k]) - offset, shape))
        ends = numpy.full((*shape, 1), self.radius)
        if not places:
            return numpy.concatenate([-ends, ends], axis=-1)
        cuts = numpy.sort(numpy.clip(numpy.stack(places, axis=-1), -self.radius, self.radius), axis=-1)
        return numpy.concatenate([-ends, cuts, ends], axis=-1)

    def scale(self, k: int, nodes: Array) -> Array:
        """How large the terms are whose sums are the straight cuts of coordinate k, (outer, count), cuts at 0 too."""
        sums = numpy.zeros(nodes.shape[:2])
        for slope, offset in self._straight[k]:
            here = abs(nodes) @ abs(slope[:k]) + abs(numpy.asarray(offset, dtype=float).reshape(-1, 1))
            sums = numpy.maximum(sums, here)
        return sums

    def _bends(self, k: int, nodes: Array) -> list[Array]:
        return self._first if k == 0 and len(nodes) == 1 else [cut(nodes) for cut in self.curved.get(k, ())]

    @cached_property
    def _first(self) -> list[Array]:
        """Cuts of the first coordinate: its own, and where curved kinks of the next one begin or end."""
        own = [cut(numpy.zeros((1, 1, 0))) for cut in self.curved.get(0, ())]
        return own + [turning_points(cut, self.radius, self.through) for cut in self.curved.get(1, ())]


def turning_points(cut: Cuts, radius: float, through: Sequence[float] = ()) -> Array:
    """Values of one coordinate at which the number of cuts of a later one changes, (1, 1, count)."""

    def count(line: Array) -> NDArray[numpy.int64]:
        return (cut(line.reshape(1, -1, 1))[0] < radius).sum(axis=-1)

    line = numpy.sort(numpy.append(numpy.linspace(-radius, radius, _SCAN), through))
    counts = count(line)
    # a circle has two cuts inside its extent and none outside: in between the inner integral has a root
    at = numpy.flatnonzero(counts[1:] != counts[:-1])
    low, high, before = line[at], line[at + 1], counts[at]
    for _ in range(_BISECTIONS if len(at) else 0):
        middle = (low + high) / 2
        same = count(middle) == before
        low, high = numpy.where(same, middle, low), numpy.where(same, high, middle)
    return ((low + high) / 2).reshape(1, 1, -1)


def roots(function: Callable[[Array], Array], radius: float, waves: Sequence[Callable[[Array], Array]] = ()) -> Array:
    """Sign changes on [−radius, radius] of functions evaluated at (..., points); padded with `radius`.

    `waves` are the arguments of what is periodic in one function: it is looked at as often as these turn, and may have
    as many sign changes; else there are at most _MOST.  Raises TooManyNodes where these are too many.
    """
    try:
        line = between_waves(waves, numpy.linspace(-radius, radius, _SCAN))
    except EvaluationError as error:  # particles need no cuts
        raise TooManyNodes(str(error)) from None
    return crossings(function, line, radius, line.size if waves else _MOST)


def straight_root(function: Callable[[Array], Array], radius: float) -> Array:
    """The same for affine functions: the one root from the values at both ends, `radius` where it is beyond them."""
    low, high = numpy.moveaxis(function(numpy.array([-radius, radius])), -1, 0)
    with numpy.errstate(all="ignore"):
        place = radius * (low + high) / (low - high)
    return numpy.where((low > 0) != (high > 0), place, radius)[..., None]
