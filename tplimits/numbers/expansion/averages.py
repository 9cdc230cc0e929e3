"""Averages of a program as parameters: θ_n = T(P_n) for a smooth functional T of the empirical measure of neurons.

    A_j = Avg f_j(g; A_1 … A_{j−1}),   a_j = E f_j,   D_ji = E ∂_i f_j
    ψ_j = f_j − a_j + Σ_i D_ji ψ_i                         (influence function)
    C_jk = Σ_ℓ E ψ_j^ℓ ψ_k^ℓ / ρ_ℓ                         (n Cov(A_j, A_k) → C_jk; axes ℓ of width ρ_ℓ n)
    m_j = E μ_j + (1/ρ) Σ_i E[(∂_i f_j) ψ_i]               (E A_j = a_j + m_j/n + O(1/n²))

(von Mises' expansion to second order).  A vector is carried as a `Jet`: its value at a neuron, its derivatives by the
averages it depends on, and the coefficient of 1/n of its mean at a neuron that is held fixed, which follows Ito's rule

    μ of F(u, w) = F_u μ^u + F_w μ^w + ½ Σ F_uw ⟨d^u, d^w⟩,   ⟨d, d'⟩ = Σ_ik d_i C_ik d'_k .
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import STACKED, Field, along_first, constant, contracted, mapped, plus, times
from tplimits.numbers.expansion.influences import Influences
from tplimits.numbers.expansion.jets import Given, Jet, Slopes, all_slopes, number, power_of, summed
from tplimits.numbers.expansion.nodes import OTHER, Frame, moved
from tplimits.numbers.rare import Counts, hits_of_all

#: n^(−1/2), as an average that is 0 and does not fluctuate
ROOT = -1
#: derivatives below this, beside 1, are rounding
_NOTHING = 1e-14
#: functions of two neurons are separated up to parts of this size
_NO_PART = 1e-11


@dataclass
class _Average:
    """One average: where it is taken, what it is of, and its derivatives."""

    label: str
    axis: str
    own: Field
    slopes: dict[int, float]
    shift: float
    #: the coefficient of n^(−1/2) in its mean
    root: float


@dataclass
class Averages:
    """All averages so far, on the nodes of one frame; `ratios` are widths relative to n.

    With `values_only` nothing is differentiated: averages are numbers.
    """

    frame: Frame
    ratios: Mapping[str, float]
    values_only: bool = False
    known: list[_Average] = field(default_factory=list)
    #: ψ of all averages, by axis and variables
    influences: dict[tuple[str, tuple[int, ...]], Influences] = field(default_factory=dict)
    #: every average that was asked for, in order: its value, and its number where it fluctuates
    calls: list[tuple[float, int | None]] = field(default_factory=list)
    #: on points that are drawn or spread, how many of them make each of these
    hits: list[tuple[str, Counts]] = field(default_factory=list)
    _covariance: Array = field(default_factory=lambda: numpy.zeros((1, 1)))
    _roots: Array = field(default_factory=lambda: numpy.ones(1))

    @property
    def covariance(self) -> Array:
        """C."""
        count = len(self.known)
        return self._covariance[:count, :count]

    @property
    def slopes(self) -> Array:
        """D."""
        found = numpy.zeros((len(self.known), len(self.known)))
        for j, a in enumerate(self.known):
            for i, slope in a.slopes.items():
                if i != ROOT:
                    found[j, i] = slope
        return found

    def derivatives(self, x: Jet) -> Array:
        """Those of a scalar by all averages so far."""
        found = numpy.zeros(len(self.known))
        for i, d in x.slopes.items():
            if i != ROOT:
                found[i] = float(d.values)
        return found

    def by_root(self, x: Jet) -> float:
        """The coefficient of n^(−1/2) in the mean of a scalar."""
        return sum((float(d.values) * self.root(i) for i, d in x.slopes.items()), 0.0)

    def law(self, jets: Sequence[Jet]) -> tuple[Given, Array, Array]:
        """That of scalars, their derivatives by averages, and those by what each average adds by itself."""
        rows = numpy.array(list(map(self.derivatives, jets))).reshape(len(jets), len(self.known))
        # (I − D)⁻¹ sums all paths by which an average moves others: D is nilpotent, averages read earlier ones
        total = numpy.linalg.solve(numpy.eye(len(self.known)) - self.slopes.T, rows.T).T
        value = numpy.array([float(x.value.values) for x in jets])
        shift = numpy.array([0.0 if x.shift is None else float(x.shift.values) for x in jets])
        root = numpy.array(list(map(self.by_root, jets)))
        return Given(value, root, shift, rows @ self.covariance @ rows.T), rows, total

    def average(self, x: Jet, axis: str, label: str) -> Jet:
        """Avg x over an axis, as a scalar."""
        value = self.frame.expectation(x.value)
        if not self.frame.divides:
            self.hits.append((label, hits_of_all(x.value.values)))
        fixed = self.values_only or (not x.value.dims and x.is_fixed)
        # in the order of the program: frozen runs on drawn networks read the limits off this list
        self.calls.append((value, None if fixed else len(self.known)))
        if fixed:
            return number(value)
        means = x.slopes.through(lambda stack: self.frame.mean(stack, stack.dims[1:]))
        slopes = {i: float(d.values) for i, d in means.items()}
        own = mapped(lambda v: v - value, x.value)
        cross = self.cross(x, axis)
        shift = (0.0 if x.shift is None else self.frame.expectation(x.shift)) + self.frame.expectation(cross)
        return self.registered(label, axis, own, slopes, value, shift)

    def cross(self, x: Jet, axis: str, of: Callable[[Field], Field] = lambda piece: piece) -> Field:
        """(1/ρ) Σ_i E[d_i ψ_i] over the variables of an axis, given what else x depends on.

        `of` takes influences to the neuron that is averaged over.
        """
        total: Field | None = None
        for (place, _), influence in self.influences.items():
            for rows, stack in x.slopes.stacks if place == axis else ():
                both = [(k, influence.rows[i]) for k, i in enumerate(rows) if i in influence.rows]
                if both:
                    mine, theirs = map(list, zip(*both, strict=True))
                    pieces = of(influence.of(theirs))
                    total = plus(total, self._given(Field(stack.dims, stack.values[mine]), pieces))
        return constant(0.0) if total is None else Field(total.dims, total.values / self.ratios[axis])

    def _given(self, d: Field, pieces: Field) -> Field:
        """Σ E d ψ over the variables of ψ, and over those of its neuron that d alone depends on; both are stacked."""
        dims = set(pieces.dims) - {STACKED}
        neuron = {v for v in d.dims if v // OTHER == max(dims) // OTHER and v != STACKED} if dims else set()
        # what ψ does not depend on is integrated out of d first: the product then lives on ψ's variables only
        alone = neuron - self.frame.closed(dims & set(d.dims))
        return self.frame.mean(contracted(self.frame.mean(d, alone), pieces), {*neuron, *dims})

    def over_other(self, x: Jet, axis: str, label: str) -> Jet:
        """Avg over a second neuron of a function of two: a vector, a function of averages and of the measure itself.

        What it answers to more mass at a neuron s is ψ(α, s) − Avg_β ψ(α, β), written as Σ_k f_k(α) g_k(s): each g_k is
        an average of its own, and f_k a derivative by it.
        """
        own, others = (tuple(d for d in x.value.dims if (d < OTHER) == here) for here in (True, False))
        over = lambda f: self.frame.mean(f, [d for d in f.dims if d >= OTHER])  # noqa: E731 - applied three times
        value = over(x.value)
        if self.values_only:
            return Jet(value)
        slopes: dict[int, Field] = {}
        shift = None if x.shift is None else over(x.shift)
        shift = plus(shift, self.cross(x, axis, self.frame.other))
        centred = mapped(numpy.subtract, x.value, value)
        for f, g in self._separated(centred, own, others):
            # g_k as an average over the neurons themselves: a second neuron has their law
            made = self.registered(label, axis, moved(g, -OTHER), {}, 0.0, 0.0)
            (j,) = made.slopes
            slopes[j] = f
        return Jet(value, all_slopes([x.slopes.through(over), Slopes.of(slopes)]), shift)

    def _separated(self, both: Field, own: tuple[int, ...], others: tuple[int, ...]) -> Iterator[tuple[Field, Field]]:
        """A function of two neurons as Σ_k f_k g_k, by singular values for the weights of the nodes."""
        if not others:
            return
        here, there = self.frame.weight(own), self.frame.weight(others)
        table = both.values.reshape(here.values.size, there.values.size)
        w, v = here.values.ravel(), there.values.ravel()
        _, sizes, right = numpy.linalg.svd(numpy.sqrt(w)[:, None] * table * numpy.sqrt(v), full_matrices=False)
        # singular vectors for the weights of the nodes: as few terms f_k g_k as the accuracy allows
        for size, row in zip(sizes, right, strict=True):
            if size <= _NO_PART * max(1.0, sizes[0]):
                return
            f = table @ (numpy.sqrt(v) * row)
            g = (w * f) @ table / size**2
            yield Field(own, f.reshape(here.values.shape)), Field(others, g.reshape(there.values.shape))

    def given(self, labels: Sequence[str], law: Given) -> list[Jet]:
        """Scalars from outside that are random by 1/√n, as averages that no neuron of this program is behind."""
        if self.values_only:
            return [number(float(v)) for v in law.value]
        first, found = len(self.known), []
        for k, (label, value, shift, root) in enumerate(zip(labels, law.value, law.shift, law.root, strict=True)):
            before = {first + i: float(c) for i, c in enumerate(law.covariance[k, :k])}
            x = self.beside(label, float(root), before, float(law.covariance[k, k]), float(shift))
            found.append(Jet(constant(float(value)), x.slopes, constant(float(shift)) if shift else None))
        return found

    def beside(
        self, label: str, root: float, covariances: Mapping[int, float], variance: float, shift: float = 0.0
    ) -> Jet:
        """A scalar that no neuron is behind, less its limit; `covariances` are those with earlier ones of its kind."""
        j = len(self.known)
        self.known.append(_Average(label, "", constant(0.0), {}, shift, root))
        self._grow(j + 1)
        row = numpy.zeros(j + 1)
        for k, a in enumerate(self.known[:j]):
            # no neuron is behind it: it is correlated with others only through slopes by scalars of its own kind
            row[k] = covariances.get(k, 0.0) + sum(d * row[i] for i, d in a.slopes.items() if i != ROOT)
        row[j] = variance
        self._covariance[j, : j + 1] = self._covariance[: j + 1, j] = row
        return Jet(constant(0.0), Slopes.of({j: constant(1.0)}))

    def registered(
        self, label: str, axis: str, own: Field, slopes: Mapping[int, float], value: float, shift: float
    ) -> Jet:
        """A new average of a centred field, as a scalar."""
        # slopes that are rounding would link averages that have nothing to do with one another
        scale = max(1.0, abs(value))
        kept = {i: d for i, d in slopes.items() if abs(d) > _NOTHING * scale}
        j = len(self.known)
        root = sum(d * self.root(i) for i, d in kept.items())
        self.known.append(_Average(label, axis, own, kept, shift, root))
        self.influences.setdefault((axis, own.dims), Influences(own.dims, own.values.shape))
        for place, influence in self.influences.items():
            influence.follow(j, kept, own.values if place == (axis, own.dims) else None)
        self._grow(j + 1)
        row = self._row(j, kept, own, axis)
        self._covariance[j, : j + 1] = row
        self._covariance[: j + 1, j] = row
        return Jet(constant(value), Slopes.of({j: constant(1.0)}), constant(shift) if shift else None)

    def _row(self, j: int, slopes: Mapping[int, float], own: Field, axis: str) -> Array:
        """C_jk for k ≤ j: that of its slopes with earlier ones, and its own part with their influence."""
        row = numpy.zeros(j + 1)
        before = [i for i in slopes if i != ROOT]
        by = numpy.array([slopes[i] for i in before])
        row[:j] = by @ self._covariance[before, :j]
        rho = self.ratios[axis]
        for (place, dims), influence in self.influences.items():
            if place == axis:
                # influences on other axes are made of other neurons: independent, no part of the covariance
                row[list(influence.rows)] += self._products(own, dims, influence) / rho
        row[j] += by @ row[before]
        return row

    def _products(self, own: Field, dims: tuple[int, ...], influence: Influences) -> Array:
        """E f ψ_k for one f and all influences of the same variables."""
        given = times(self.frame.onto(own, set(own.dims) & set(dims)), self.frame.weight(dims))
        return influence.table @ given.values.ravel()

    def _grow(self, count: int) -> None:
        before = len(self._roots) - 1
        if count > before:  # the last row and column are those of n^(−1/2)
            larger, roots = numpy.zeros((2 * count + 1, 2 * count + 1)), numpy.zeros(2 * count + 1)
            larger[:before, :before] = self._covariance[:before, :before]
            roots[:before], roots[ROOT] = self._roots[:before], 1.0
            self._covariance, self._roots = larger, roots
        self._roots[count - 1] = self.known[count - 1].root

    def root(self, i: int) -> float:
        """The coefficient of n^(−1/2) in the mean of an average, or of n^(−1/2) itself."""
        return 1.0 if i == ROOT else self.known[i].root

    def inner(self, a: Slopes, b: Slopes) -> Field | None:
        """⟨d, d'⟩ = Σ_ik d_i (C_ik + r_i r_k) d'_k with r the means of order n^(−1/2)."""
        total: Field | None = None
        for rows, left in a.stacks:
            for columns, right in b.stacks:
                c = self._seconds(rows, columns)
                if c.any():
                    seen = Field(left.dims, along_first(c, left.values))
                    total = plus(total, contracted(seen, right))
        return total

    def _seconds(self, rows: Sequence[int], columns: Sequence[int]) -> Array:
        """C_ik + r_i r_k; n^(−1/2) stands last, at ROOT."""
        left, right = numpy.array(rows), numpy.array(columns)
        # E of a product of two that are off by n^(−1/2): means count like fluctuations at order 1/n
        found: Array = self._covariance[left[:, None], right] + numpy.outer(self._roots[left], self._roots[right])
        return found

    def product(self, u: Jet, w: Jet) -> Jet:
        """u w."""
        left = u.through(lambda f: times(f, w.value))
        slopes, shift = left.slopes, left.shift
        if w.slopes:
            slopes = all_slopes([slopes, w.slopes.times(u.value)])
        if w.shift is not None:
            shift = plus(shift, times(w.shift, u.value))
        # E uw = E u E w + Cov(u, w): the covariance is of order 1/n, a shift
        if u.slopes and w.slopes:
            shift = plus(shift, self.inner(u.slopes, w.slopes))
        return Jet(left.value, slopes, shift)

    def sum(self, *jets: Jet) -> Jet:
        """A sum."""
        value, shift = jets[0].value, jets[0].shift
        for x in jets[1:]:
            value = summed(value, x.value)
            shift = plus(shift, x.shift)
        return Jet(value, all_slopes(x.slopes for x in jets), shift)

    def scaled(self, x: Jet, factor: float) -> Jet:
        """A number times x."""
        return x.through(lambda f: Field(f.dims, f.values * factor))

    def normal(self, axis: str, variance: float) -> Jet:
        """A vector that is new."""
        g = self.frame.normal(axis)
        return Jet(g if variance == 1 else mapped(lambda v: v * math.sqrt(variance), g))

    def power(self, x: Jet, power: float) -> Jet:
        """A power of a positive scalar; 0 at 0, for a drawn network whose neurons all happen to be silent."""
        v = x.value
        return self.function(
            x,
            mapped(lambda a: power_of(a, power), v),
            mapped(lambda a: power * power_of(a, power - 1), v),
            mapped(lambda a: power * (power - 1) * power_of(a, power - 2), v),
        )

    def function(self, x: Jet, value: Field, first: Field, second: Field | None) -> Jet:
        """F(x), from F, F' and F'' at its value; None where F'' is zero."""
        shift = None if x.shift is None else times(first, x.shift)
        if second is not None and x.slopes:
            # Ito: E F(x) moves by ½ F″ Var x
            inner = self.inner(x.slopes, x.slopes)
            if inner is not None:
                shift = plus(shift, mapped(lambda s, q: s * q / 2, second, inner))
        return Jet(value, x.slopes.times(first), shift)
