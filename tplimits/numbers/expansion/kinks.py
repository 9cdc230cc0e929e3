"""Kinks that neurons cross: where they lie, and Dirac's delta there.

    E δ(h) ⟨d, d⟩ = E_{given the rest} φ(g₀)/|∂h/∂g| ⟨d, d⟩ at g₀,   h(g₀) = 0

for one normal variable g, the last that h depends on.  The variable is divided at g₀, a function of the others, and
the delta is a number on the node that stands there.  At a kink that scalars alone decide, means are off by multiples
of n^(−1/2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.numbers.expansion.crossings import NOWHERE, crossing
from tplimits.numbers.expansion.fields import Field, aligned, mapped, plus, times
from tplimits.numbers.expansion.hidden import hides_island
from tplimits.numbers.expansion.newton import NEAR, differences, polynomial, zero_of
from tplimits.numbers.expansion.nodes import APART, OTHER, SLIGHT, Frame, Moved, Split
from tplimits.numbers.expansion.passing import divide_bands
from tplimits.numbers.expansion.plateaus import Mask, flat_nodes, plateaus
from tplimits.numbers.expansion.touching import touches

if TYPE_CHECKING:
    from collections.abc import Set

    from tplimits.numbers.expansion.jets import Jet

#: an argument this small, beside 1, is at its kink
AT_KINK = 1e-9
#: places between two nodes that are looked at where a parabola falls below a share of the least value, in few rows
_LOOKED, _SHALLOW, _FEW = 33, 0.5, 100
#: a mark this near to a zero was meant for it
_MEANT = 0.3
#: nodes this near to one another are one
_TOGETHER = 1e-9
#: a share of nodes that lies at a kink, and the share of neurons, in tolerances, that nodes at a crossing stay below
_FLAT, _WEIGHS = 0.2, 10


class NoDefinitePlace(EvaluationError):
    """A kink lies at no definite value of the last variable: points that are spread need none, if nothing moves."""


class HiddenIsland(NoDefinitePlace):
    """A kink surrounds what lies between all nodes; points that are spread may see it, or not."""


@dataclass(frozen=True)
class Kinks:
    """The kinks of one function in one pass; `told` is the function and its line, for refusals."""

    frame: Frame
    told: str

    def delta(self, x: Jet) -> Field | None:
        """δ(x); None where x does not cross 0."""
        u = x.value
        self.frame.enters(u)
        if not u.dims:
            if x.is_near_zero(self.frame.tolerance) and not x.is_fixed:
                raise self._singular("the limit of its argument, a scalar that moves")
            return None
        self._refuse_flat(x)
        if touches(self.frame, u, x.slopes.values()):
            raise NoLimitError(
                f"{self.told} has a kink that its argument comes to without crossing it, and moves there: at finite "
                "width a share of neurons crosses it, and its mean is off by more than a multiple of 1/n (hypothesis: "
                "kinks are crossed where arguments move). Keep the argument away from the kink."
            )
        if self.frame.divides:
            if hides_island(self.frame, u):
                raise HiddenIsland(
                    f"{self.told} has a kink about an island that lies between all nodes: nothing is seen of what is "
                    "on it. Make it wider than a tenth of a standard deviation, or smooth the kink."
                )
            divide_bands(self.frame, u)
            return self._divided(u)
        if _level(u.values) == 0:
            self._refuse_delta(x)
        return None

    def _singular(self, where: str) -> NoLimitError:
        return NoLimitError(
            f"{self.told} has a kink at {where}: its mean is off by a multiple of 1/√n, not of 1/n (hypothesis: "
            "scalars enter by functions with two continuous derivatives at their limits). Keep the argument away from "
            "the kink."
        )

    def _refuse_flat(self, x: Jet) -> None:
        """A vector whose argument is 0 for a share of neurons, and moves there."""
        tolerance = self.frame.tolerance
        flat = mapped(lambda v: numpy.abs(v) < tolerance, x.value)
        # many nodes of no weight are those between two places that fall together
        if flat.values.mean() < _FLAT or self.frame.expectation(flat) < _WEIGHS * tolerance:
            return
        for d in (*x.slopes.values(), *(() if x.shift is None else (x.shift,))):
            # nodes on crossings weigh nothing: what moves there is no share of neurons
            moving = mapped(lambda v, s: (numpy.abs(v) < tolerance) & (numpy.abs(s) > 1e3 * tolerance), x.value, d)
            if self.frame.expectation(moving) > _WEIGHS * tolerance:
                raise self._singular("the limit of its argument, which tends to 0 for many neurons and moves")

    def _refuse_delta(self, x: Jet) -> None:
        """On spread points a delta is no number: nothing is left of it for a scalar times a vector."""
        u = x.value
        for d in x.slopes.values():
            if d.dims in ((), u.dims):
                # δ(u)·(c u) = 0: a slope that is a multiple of the argument needs no delta
                ratio = float((d.values * u.values).sum() / (u.values**2).sum())
                if numpy.abs(d.values - ratio * u.values).max() <= AT_KINK * max(1.0, d.size):
                    continue
            raise EvaluationError(
                f"{self.told} has a kink at a place that moves with averages, and the program has functions of more "
                "variables than a grid has room for. Smooth the kink, or look at a shorter program."
            )

    def _divided(self, u: Field) -> Field | None:
        """The delta, by what u crosses 0 in: its last variable, or an earlier one where it does not depend on that."""
        if not u.dims:
            return None
        if self.frame.variables[u.dims[-1]].is_sign:
            return self._of_signs(u)
        flat, found = flat_nodes(self.frame, u), None
        for inside, where in plateaus(u, flat):
            delta = self._divided(inside)
            found = found if delta is None else plus(found, times(delta, where))
        return plus(found, self._across(u, flat))

    def _of_signs(self, u: Field) -> Field | None:
        """The delta where the last variable is ±1, value by value of it."""
        found: Field | None = None
        for i, here in enumerate(numpy.eye(2)):
            delta = self._divided(Field(u.dims[:-1], u.values[..., i]))
            found = found if delta is None else plus(found, times(delta, Field(u.dims[-1:], here)))
        return found

    def _across(self, u: Field, flat: Mask) -> Field | None:
        """The delta on the marks of the last variable; Split or Moved where they are not there yet."""
        # where it is 0 all along, the others are at a mark: where two deltas meet nothing is left of one of them
        along: Mask = numpy.any(flat & (numpy.abs(u.values) < AT_KINK), axis=-1)
        last = self.frame.variables[u.dims[-1]]
        nodes = numpy.broadcast_to(aligned(Field(last.dims, last.nodes), u.dims), u.values.shape)
        found, first = numpy.zeros_like(u.values), u.values.shape[-1] - last.marks
        if _hides(nodes[~along], u.values[~along], last.marks):
            if self.frame.by_cells:
                raise self._unknown()
            self.frame.bends = self.told
        zeros = self._zeros(u.values, nodes, last.marks, along)
        taken, others = set[int](), self.frame.taken[last.number]
        for zero in zeros:
            root, slope = zero.root, zero.slope
            self._refuse_grazing(root, slope, u)
            mark = self._mark(nodes[..., first:], u.values[..., first:], zero, taken, others)
            # no node stands there yet: the pass begins again with the variable divided at this place
            if mark is None:
                raise self._split(u, Field(u.dims[:-1], root))
            there = root < NOWHERE
            off = numpy.where(there, u.values[..., first + mark], 0.0)
            # what stands on the mark is one more value of the function near to its zero
            root, slope = zero.beside(nodes[..., first + mark], off, there)
            if numpy.abs(off).max() > AT_KINK * max(1.0, float(numpy.abs(slope).max())):
                raise self._split(u, Field(u.dims[:-1], root), mark, off)
            taken.add(mark)
            safe = numpy.where(there, numpy.abs(slope), 1.0)
            # weight SLIGHT·φ(g₀) times this is φ(g₀)/|∂h/∂g|
            found[..., first + mark] = numpy.where(there, 1 / (SLIGHT * safe), 0.0)
        if taken - others:
            others |= taken
            self._divide_crossings(last.number, others)
        return Field(u.dims, found) if zeros else None

    def _divide_crossings(self, number: int, marks: Set[int]) -> None:
        """Divide an earlier variable where places of kinks cross, as soon as these are exact."""
        places = self.frame.splits.get(number, [])
        found = crossing([places[m] for m in sorted(marks) if m < len(places)], self.frame.variables)
        if found:
            raise Split(*found)

    def _zeros(self, u: Array, nodes: Array, marks: int, along: Mask | None = None) -> list[_Zero]:
        """Zeros in the last variable for all values of the others; beyond all where there is none, or `along`."""
        counts = numpy.ones(u.shape[:-1], dtype=bool) if along is None else ~along
        order = numpy.argsort(nodes[..., : nodes.shape[-1] - marks], axis=-1)
        g, v = (numpy.take_along_axis(a, order, axis=-1) for a in (nodes, u))
        positive = v > _level(u)
        changes = (positive[..., :-1] != positive[..., 1:]) & counts[..., None]
        count = changes.sum(axis=-1)[counts]
        most = int(count.max(initial=0))
        # a zero that appears or ends as others move is at no definite place: the delta has no smooth density there
        if most > 1 and count.size > 1 and (count != most).any():
            raise self._unknown()
        zeros = []
        for i in range(most):
            here = changes & (numpy.cumsum(changes, axis=-1) == i + 1)
            first = here.argmax(axis=-1)
            start = numpy.clip(first + 1 - NEAR // 2, 0, g.shape[-1] - NEAR)
            window = start[..., None] + numpy.arange(NEAR)
            near = tuple(numpy.take_along_axis(a, window, axis=-1) for a in (g, v))
            root, slope = _between(
                *zero_of(*near),
                *(numpy.take_along_axis(a, first[..., None] + numpy.arange(2), axis=-1) for a in (g, v)),
            )
            crosses = here.any(axis=-1)
            crowded = (numpy.diff(near[0], axis=-1) < _TOGETHER).any(axis=-1) | ~numpy.isfinite(root * slope)
            for row in map(tuple, numpy.argwhere(crosses & crowded)):
                root[row], slope[row] = _apart(g[row], v[row], int(here[row].argmax()))
            root, slope = numpy.where(crosses, root, NOWHERE), numpy.where(crosses, slope, 1.0)
            zeros.append(_Zero(root, slope, *near))
        return zeros

    def _refuse_grazing(self, root: Array, slope: Array, u: Field) -> None:
        """A slope that vanishes or turns for some values of other variables makes the delta no function of these."""
        near = numpy.abs(root) < 8
        signs = numpy.sign(slope[near])
        turns = near.any() and bool((signs != signs.flat[0]).any())
        if turns or not numpy.isfinite(root).all() or (numpy.abs(slope[near]) < AT_KINK).any():
            raise self._unknown()

    def _unknown(self) -> NoDefinitePlace:
        return NoDefinitePlace(
            f"{self.told} has a kink that lies at no definite value of the last normal variable it depends on: its "
            "second derivative is not implemented. Smooth it, or write it as a function of one image W x."
        )

    def _mark(self, marks: Array, values: Array, zero: _Zero, taken: Set[int], others: Set[int]) -> int | None:
        """Which mark was meant for a zero: one on it, or the nearest; None where there is none yet.

        Zeros may lie nearer to one another than a place is read off: none has that of another zero of its function,
        which is `taken`, nor moves that of `others`.
        """
        there = zero.root < NOWHERE
        away, off = numpy.abs(marks - zero.root[..., None])[there], numpy.abs(values)[there].max(axis=0, initial=0.0)
        on = off <= AT_KINK * max(1.0, float(numpy.abs(zero.slope).max()))
        near = (away < _MEANT).all(axis=0) & (away.mean(axis=0) < _MEANT / 10)
        meant = [i for i in numpy.flatnonzero(near).tolist() if i not in taken and (on[i] or i not in others)]
        return min(meant, key=lambda i: (not on[i], away[:, i].max()), default=None)

    def _split(self, u: Field, place: Field, mark: int | None = None, off: Array | None = None) -> Split | Moved:
        """Divide the variable, that of the first neuron where both are the same; or move a mark, with u = `off`."""
        # both neurons have the same variables: divided once, at the first one
        by = OTHER if all(OTHER <= d < APART for d in u.dims) else 0
        if not by and any(d >= OTHER for d in u.dims) and u.dims[-1] < APART:
            raise EvaluationError(
                f"{self.told} has a kink that two neurons decide together: its second derivative is not implemented."
            )
        own = Field(tuple(d - by for d in place.dims), place.values)
        if mark is None or off is None:
            return Split(u.dims[-1] - by, own)
        return Moved(u.dims[-1] - by, own, mark, Field(own.dims, off))


@dataclass(frozen=True)
class _Zero:
    """A zero for all values of other variables, with the slope there, and the nodes and values it was read off."""

    root: Array
    slope: Array
    nodes: Array
    values: Array

    def beside(self, place: Array, value: Array, there: Any) -> tuple[Array, Array]:
        """The zero and the slope once more, where there is one, with the value at a place near to it."""
        far = numpy.abs(self.nodes - place[..., None]).argmax(axis=-1)[..., None]
        g, v = self.nodes.copy(), self.values.copy()
        numpy.put_along_axis(g, far, place[..., None], axis=-1)
        numpy.put_along_axis(v, far, value[..., None], axis=-1)
        root, slope = zero_of(g, v, place)
        # what runs through eight values of a steep function may be anything: then it is where it was found first
        inside = there & (root >= self.nodes[..., 0]) & (root <= self.nodes[..., -1])
        return numpy.where(inside, root, self.root), numpy.where(inside, slope, self.slope)


def _between(root: Array, slope: Array, g: Array, v: Array) -> tuple[Array, Array]:
    """The same where it lies between two nodes; on their chord where it does not, as where a kink is nearby."""
    rate = numpy.diff(v)[..., 0] / numpy.where(g[..., 1] == g[..., 0], 1.0, numpy.diff(g)[..., 0])
    inside = (g[..., 0] <= root) & (root <= g[..., 1]) | ~numpy.isfinite(root)
    chord = g[..., 0] - v[..., 0] / numpy.where(rate == 0, 1.0, rate)
    return numpy.where(inside, root, chord), numpy.where(inside, slope, rate)


def _apart(g: Array, v: Array, change: int) -> tuple[float, float]:
    """The same among nodes that differ, where two places, at which a variable is divided, fall together."""
    first = numpy.flatnonzero(numpy.append(True, numpy.diff(g) > _TOGETHER))
    start = int(numpy.clip(numpy.searchsorted(first, change, "right") - NEAR // 2, 0, len(first) - NEAR))
    window = first[start : start + NEAR]
    root, slope = zero_of(g[window], v[window])
    return float(root), float(slope)


def _level(values: Array) -> float:
    """What counts as 0: where values are on one side of it alone, rounding aside, as those of x², none crosses it."""
    return -AT_KINK if (values >= -AT_KINK).all() else AT_KINK if (values <= AT_KINK).all() else 0.0


def _hides(g: Array, v: Array, marks: int) -> bool:
    """Whether values cross 0 and come back between two nodes, as those of 1 − (20 u)² may: marks come last."""
    order = numpy.argsort(g, axis=-1)
    at_mark = (stands := order >= g.shape[-1] - marks)[..., 1:-1]
    g, v = (numpy.take_along_axis(a, order, axis=-1) for a in (g, v))
    size, side = numpy.abs(v), numpy.sign(v)
    alike = side[..., :-2] * side[..., 2:] > 0
    if (at_mark & alike & (side[..., 1:-1] != side[..., 2:]) & (size[..., 1:-1] > AT_KINK)).any():
        return True
    with numpy.errstate(all="ignore"):  # places that fall together hide nothing
        rates = numpy.diff(v) / numpy.diff(g)
        bent = numpy.diff(rates) / (g[..., 2:] - g[..., :-2])
        # what a parabola through three nodes has at its vertex, to see which are worth a look
        vertex = (g[..., :-2] + g[..., 1:-1] - rates[..., :-1] / bent) / 2
        least = v[..., :-2] + (vertex - g[..., :-2]) * (rates[..., :-1] + bent * (vertex - g[..., 1:-1]))
        dips = alike & (size[..., 1:-1] <= size[..., :-2]) & (size[..., 1:-1] <= size[..., 2:])
        # at a place that is known to be a kink it has turned already
        dips &= (least * side[..., :-2] < _SHALLOW * size[..., 1:-1]) & ~at_mark
        for row in map(tuple, numpy.argwhere(dips)[:_FEW]):
            known = numpy.flatnonzero(stands[row[:-1]])
            low, high = max(known[known <= row[-1]], default=-1), min(known[known > row[-1]], default=g.shape[-1])
            if high - low <= NEAR:
                continue
            first = int(numpy.clip(row[-1] + 1 - NEAR // 2, low + 1, high - NEAR))
            near, values = (a[row[:-1]][first : first + NEAR] for a in (g, v))
            start, end = g[row[:-1]][row[-1]], g[row[:-1]][row[-1] + 2]
            places = numpy.append(start + (end - start) * numpy.linspace(0, 1, _LOOKED), vertex[row])
            turned = polynomial(differences(near, values), near, places)[0] * side[row]
            if turned.min() < -AT_KINK * numpy.abs(values).max():
                return True
    return False
