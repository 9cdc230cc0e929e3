"""A tape as passes over entries: which steps are kept as arrays, and the formula of each in what is kept before it.

Steps that act entry by entry are written into the pass that needs them.  What a pass reads otherwise are *gathers*, the
sum of entries that index arrays pick, and *sums* over whole axes of products.  A pass goes over all entries of its
results; its first dimensions are the inputs, its others finite axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.numbers.moments.writing import Writer, number
from tplimits.regimes.kernels.numbers import frames, gaps, laws, singular, tables
from tplimits.regimes.kernels.numbers.labelled import Labelled, bare, contracted, pointwise_step, renamed
from tplimits.regimes.kernels.numbers.moment import SMALLEST
from tplimits.regimes.kernels.numbers.shifts import summed_entries

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.tape import Schedule, Step

#: what a function of arrays is as text
TEXTS: dict[Any, Callable[..., str]] = {
    tables.from_gap: lambda a, b, g: f"0.5*({a} + {b}) - {g}",
    frames.added: lambda *terms: " + ".join(terms),
    gaps.total: lambda *terms: " + ".join(terms),
    gaps.factors: lambda n, inner, f, g, c, d: f"{n}*({f}*{g}*{inner} + 0.5*({f} - {g})*({f}*{c} - {g}*{d}))",
    gaps.half_distance: lambda *v: (
        f"0.5*({' + '.join(f'({x} - {y})*({x} - {y})' for x, y in zip(v[::2], v[1::2], strict=True))})"
    ),
    gaps.without_spread: lambda inner, a, b: f"math.fmax({inner} - 0.5*{a} - 0.5*{b}, 0.0)",
    gaps.complement: lambda same: f"1.0 - {same}",
    singular.nearly_singular: lambda a, c, b: f"{a}*{b} - {c}*{c} < {singular.NEARLY}*{a}*{b}",
    frames.reciprocal: lambda a: f"1.0/{a}",
    frames.reciprocal_root: lambda a: f"1.0/math.sqrt({a})",
    numpy.multiply: lambda a, b: f"{a}*{b}",
    numpy.square: lambda a: f"{a}*{a}",
    numpy.sqrt: lambda a: f"math.sqrt({a})",
    numpy.exp: lambda a: f"math.exp({a})",
}

#: loop dimensions of an array's dimensions
Dims = tuple[int, ...]


class NotNested(Exception):
    """The tape has steps between its passes that are done on whole arrays."""


@dataclass(frozen=True, eq=False)
class Picks:
    """Places along one dimension of an array: (taps, entries) over some dimensions of the loop, −1 for none."""

    places: NDArray[numpy.int64]
    dims: Dims


@dataclass(frozen=True, eq=False)
class Gather:
    """Σ over taps of the entries of an array: each of its dimensions is one of the loop, or picked."""

    operand: int
    at: tuple[int | Picks, ...]
    taps: int


@dataclass(frozen=True, eq=False)
class Reduction:
    """Σ over further dimensions of a product of arrays."""

    factors: tuple[tuple[int, Dims], ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pass:
    """What is computed together: names of what is read, formulas, results (step, text)."""

    sizes: tuple[int, ...]
    reads: Mapping[tuple[int, Dims], str]
    gathers: Mapping[str, Gather]
    reductions: Mapping[str, Reduction]
    assignments: tuple[tuple[str, str], ...]
    results: tuple[tuple[int, str], ...]
    flags: tuple[tuple[int, str], ...]


@dataclass(eq=False)
class Passes:
    """All passes of a tape.  `inputs` are the labels of inputs that every pass has, in order.

    Leaves and steps that are done beforehand (`before`) are given; `kept` stay from pass to pass, `copied` are given
    and gathered from.
    """

    schedule: Schedule
    labels: Sequence[tuple[str, ...]]
    sizes: Mapping[str, int]
    inputs: tuple[str, ...]
    kernels: int
    #: whether variances that leave the range of products are flagged
    guarded: bool = False
    eps: float = float(numpy.finfo(numpy.float64).eps)
    steps: dict[int, Step | None] = field(init=False)
    before: list[int] = field(init=False)
    kept: set[int] = field(init=False)
    copied: set[int] = field(init=False)
    constants: dict[int, Labelled] = field(default_factory=dict)
    passes: list[Pass] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = {n: s for n, s, _ in self.schedule.steps}
        self.labels = list(self.labels)
        self.inside = self._inside()
        self.before = [n for n, s in self.steps.items() if s is not None and n not in self.inside]
        wanted = self.schedule.wanted[: self.kernels]
        self.flags = [w for w in self.schedule.wanted[self.kernels :] if isinstance(w, int) and w in self.inside]
        if self.guarded:
            self.flags += [n for n in sorted(self.inside) if _is_own_law(self.steps[n])]
        self.kept = {w for w in wanted if isinstance(w, int) and w in self.inside}
        self.copied = set()
        self.results = set(self.kept)
        for n in self.inside:
            for operand in self._operands(n):
                if operand in self.inside:
                    self.kept.add(operand)
                elif self.is_gather(n):
                    self.copied.add(operand)
        self._arrange()

    # -- which steps --------------------------------------------------------------------------

    def _inside(self) -> set[int]:
        """The steps that passes do."""
        found: set[int] = set()
        for n, step in self.steps.items():
            if step is None or not set(self.inputs) <= set(self.labels[n]):
                continue
            if self._has_form(n, step):
                found.add(n)
            elif any(isinstance(v, int) and v in found for v in step.values):
                raise NotNested(step.function.__name__)
        return found

    def _has_form(self, n: int, step: Step) -> bool:
        inner = [x for x in self.labels[n] if x not in self.inputs]
        if any(x not in self.sizes for x in inner):
            return False
        if any(isinstance(v, Labelled) and v.labels and step.function is not bare(contracted) for v in step.values):
            return False
        if is_pointwise(step):
            return True
        if step.function is bare(contracted):
            arrays = [v for v in step.values if not isinstance(v, Labelled) or v.labels]
            names = {x for v in arrays for x in self.labels_of(v)}
            return (
                len(arrays) <= 2
                and not names & set(self.inputs) & set(step.fixed[0])
                and names
                <= {
                    *self.inputs,
                    *self.sizes,
                }
            )
        return self.is_gather(n)

    def is_gather(self, n: int) -> bool:
        """Whether a step reads entries at other places than its own."""
        step = self.steps[n]
        return step is not None and step.function in (bare(summed_entries), bare(frames.indexed))

    def labels_of(self, value: int | Labelled) -> tuple[str, ...]:
        """The names of the dimensions of a value."""
        return value.labels if isinstance(value, Labelled) else self.labels[value]

    def _operands(self, n: int) -> list[int]:
        """The arrays whose entries a step needs at other places than its own."""
        step = self.steps[n]
        assert step is not None
        if is_pointwise(step):
            return []
        return [self.root(v) for v in step.values if isinstance(v, int)]

    def root(self, n: int) -> int:
        """The step behind names."""
        step = self.steps[n]
        while step is not None and step.function is bare(renamed) and isinstance(step.values[0], int):
            n = step.values[0]
            step = self.steps[n]
        return n

    # -- passes -------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Passes in order; what several of them gather is kept."""
        while True:
            level = self._levels()
            groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
            for n in sorted({*self.kept, *self.flags}):
                groups.setdefault((level[n], self.sizes_of(n)), []).append(n)
            bodies = [self._body(members, sizes) for (_, sizes), members in sorted(groups.items())]
            often: dict[int, int] = {}
            for body in bodies:
                for n in body.gathered:
                    often[n] = often.get(n, 0) + 1
            again = {n for n, many in often.items() if many > 1} - self.kept
            if not again:
                break
            self.kept |= again
        self.passes = [*self._copies(), *(b.finished() for b in bodies)]

    def sizes_of(self, n: int) -> tuple[int, ...]:
        """Sizes of the finite axes of a step."""
        return tuple(self.sizes[x] for x in self.labels[n] if x not in self.inputs)

    def _levels(self) -> dict[int, int]:
        depth: dict[int, int] = {}
        for n in self.steps:  # in the order of the tape
            if n in self.inside:
                step = self.steps[n]
                assert step is not None
                below = [v for v in step.values if isinstance(v, int) and v in self.inside]
                if is_pointwise(step):
                    depth[n] = max(
                        (depth[v] + (v in self.kept and not self._is_beside(v, n)) for v in below), default=0
                    )
                else:
                    depth[n] = max((depth.get(self.root(v), -1) + 1 for v in below), default=0)
        return depth

    def _is_beside(self, value: int, n: int) -> bool:
        """Whether a step reads entries of a value where it stands itself: one pass does both."""
        step = self.steps[n]
        assert step is not None
        return self.labels[value] == self.labels[n] or (
            step.function is bare(renamed) and len(self.labels[value]) == len(self.labels[n])
        )

    def _body(self, members: Sequence[int], sizes: tuple[int, ...]) -> Body:
        everything = tuple(range(len(self.inputs) + len(sizes)))
        body = Body(self, sizes, {(n, self.front(n, everything)) for n in members})
        for n in members:
            text = body.value(n, self.front(n, everything)) if not _is_own_law(self.steps[n]) else body.guard(n)
            (body.flags if n not in self.kept else body.results).append((n, text))
            if n in self.kept and n in self.flags:
                body.flags.append((n, text))
        return body

    def front(self, n: int, everything: Dims) -> Dims:
        """Dimensions of a step in the loop: inputs by their order, axes as they come."""
        axes = iter(everything[len(self.inputs) :])
        return tuple(self.inputs.index(x) if x in self.inputs else next(axes) for x in self.labels[n])

    def _copies(self) -> list[Pass]:
        found = []
        for n in sorted(self.copied):
            sizes = self.sizes_of(n)
            dims = self.front(n, tuple(range(len(self.inputs) + len(sizes))))
            found.append(Pass(sizes, {(n, dims): "a0"}, {}, {}, (), ((n, "a0"),), ()))
        return found

    def constant(self, value: Labelled) -> int:
        """A number for an array that is part of a step."""
        for n, known in self.constants.items():
            if known is value:
                return n
        self.labels = [*self.labels, value.labels]
        self.constants[len(self.labels) - 1] = value
        return len(self.labels) - 1


@dataclass(eq=False)
class Body:
    """The formulas of a pass, under construction."""

    passes: Passes
    sizes: tuple[int, ...]
    #: steps that are computed here
    members: set[tuple[int, Dims]]
    writer: Writer = field(default_factory=lambda: Writer(scalar=True, prefix="t", series=False))
    reads: dict[tuple[int, Dims], str] = field(default_factory=dict)
    gathers: dict[str, Gather] = field(default_factory=dict)
    reductions: dict[str, Reduction] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    gathered: set[int] = field(default_factory=set)
    results: list[tuple[int, str]] = field(default_factory=list)
    flags: list[tuple[int, str]] = field(default_factory=list)

    def finished(self) -> Pass:
        """The pass."""
        parts = tuple(self.writer.assignments), tuple(self.results), tuple(self.flags)
        return Pass(self.sizes, self.reads, self.gathers, self.reductions, *parts)

    def value(self, step: int | Labelled, dims: Dims) -> str:
        """The name of a step at the indices of the loop."""
        if isinstance(step, Labelled):
            if not step.labels:
                return number(float(step.array))
            return self._read(self.passes.constant(step), dims)
        given = step not in self.passes.inside or step in self.passes.kept
        if given and (step, dims) not in self.members:
            return self._read(step, dims)
        if (step, dims) not in self.known:
            self.known[step, dims] = self._written(step, dims)
        found: str = self.known[step, dims]
        return found

    def _read(self, step: int, dims: Dims) -> str:
        return self.reads.setdefault((step, dims), f"a{len(self.reads)}")

    def _written(self, n: int, dims: Dims) -> str:
        step = self.passes.steps[n]
        assert step is not None
        mine = dict(zip(self.passes.labels[n], dims, strict=True))
        if step.function is bare(laws.part_of):
            (law,) = step.values
            assert isinstance(law, int)
            return self._law(law, tuple(mine[x] for x in self.passes.labels[law]))[step.fixed[0]]
        if step.function is bare(renamed):
            return self.value(step.values[0], dims)
        if step.function is bare(gaps.diagonal):
            ours, theirs = step.fixed
            front = len(ours) - len(theirs)
            places = dict(mine) | {b: mine[a] for a, b in zip(ours[front:], theirs, strict=True)}
            (inner,) = step.values
            return self.value(inner, tuple(places[x] for x in self.passes.labels_of(inner)))
        if self.passes.is_gather(n):
            return self._gather(n, step, mine)
        if step.function is bare(contracted) and step.fixed[0]:
            return self._reduction(step, mine)
        texts = [self.value(v, tuple(mine[x] for x in self.passes.labels_of(v))) for v in step.values]
        if step.function is bare(tables.spread):
            return texts[0]
        if step.function is bare(contracted):
            return self.writer.let("*".join(texts))
        return self.writer.let(TEXTS[step.fixed[0]](*texts))

    def guard(self, n: int) -> str:
        """Whether the variance of a law is out of range."""
        step = self.passes.steps[n]
        assert step is not None
        dims = self.passes.front(n, tuple(range(len(self.passes.inputs) + len(self.sizes))))
        size = self.writer.let(f"math.fabs({self.value(step.values[0], dims)})")
        outside = f"1.0 if {size} > {1 / SMALLEST} else (1.0 if {size} < {SMALLEST} else 0.0)"
        return f"(({outside}) if {size} != 0.0 else 0.0) > 0.5"

    def _law(self, n: int, dims: Dims) -> list[str]:
        if (n, dims) not in self.known:
            step = self.passes.steps[n]
            assert step is not None
            law, mine = step.fixed[0], dict(zip(self.passes.labels[n], dims, strict=True))
            names = [self.value(v, tuple(mine[x] for x in self.passes.labels_of(v))) for v in step.values]
            parts = laws.written(self.writer, law.parts, law.gapped, law.coincident, names, self.passes.eps)
            self.known[n, dims] = parts
        found: list[str] = self.known[n, dims]
        return found

    def _gather(self, n: int, step: Step, mine: Mapping[str, int]) -> str:
        (value,) = step.values
        assert isinstance(value, int)
        operand, inner = self.passes.root(value), self.passes.labels_of(value)
        picks: dict[str, Picks] = {}
        if step.function is bare(summed_entries):
            for read in step.fixed[0]:
                picks[read.label] = Picks(numpy.asarray(read.flat, numpy.int64), tuple(mine[x] for x in read.labels))
        else:
            places, labels, sizes = step.fixed
            front = len(labels) - len(sizes)
            for label, place in zip(inner[front:], places, strict=True):
                array = numpy.asarray(place, numpy.int64)
                array = array.reshape((1,) * (len(sizes) - array.ndim) + array.shape)
                run = [x for x, size in zip(labels[front:], array.shape, strict=True) if size > 1]
                picks[label] = Picks(array.reshape(1, -1), tuple(mine[x] for x in run))
        self.gathered.add(n)
        name = f"g{len(self.gathers)}"
        at = tuple(picks.get(x) or mine[x] for x in inner)
        self.gathers[name] = Gather(operand, at, next(iter(picks.values())).places.shape[0])
        return name

    def _reduction(self, step: Step, mine: Mapping[str, int]) -> str:
        over = sorted(step.fixed[0])
        places = dict(mine) | {x: len(self.passes.inputs) + len(self.sizes) + k for k, x in enumerate(over)}
        factors, scale = [], []
        for v in step.values:
            if isinstance(v, Labelled) and not v.labels:
                scale.append(number(float(v.array)))
                continue
            dims = tuple(places[x] for x in self.passes.labels_of(v))
            n = self.passes.constant(v) if isinstance(v, Labelled) else self.passes.root(v)
            factors.append((n, dims))
        name = f"s{len(self.reductions)}"
        self.reductions[name] = Reduction(tuple(factors), tuple(self.passes.sizes[x] for x in over))
        return self.writer.let("*".join([name, *scale]))


def _is_own_law(step: Step | None) -> bool:
    return step is not None and step.function is bare(laws.evaluated) and step.fixed[0].coincident


def is_pointwise(step: Step) -> bool:
    """Whether a step acts entry by entry and has a text."""
    if step.function in (bare(laws.part_of), bare(renamed), bare(tables.spread), bare(gaps.diagonal)):
        return True
    if step.function is bare(laws.evaluated):
        return True
    if step.function is bare(contracted):
        return not step.fixed[0]
    return step.function is pointwise_step and step.fixed[0] in TEXTS
