"""Formulas of a pass, written out of the steps of a tape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.numbers.moments.writing import Writer, number
from tplimits.regimes.kernels.numbers.passes.forms import Dims, Gather, Pass, Picks, Reduction
from tplimits.regimes.kernels.numbers.tables import determinants, entrywise, gaps, laws, singular
from tplimits.regimes.kernels.numbers.tables.labelled import (
    Labelled,
    bare,
    contracted,
    diagonal,
    pointwise_step,
    renamed,
    repeated,
)
from tplimits.regimes.kernels.numbers.tables.moment import SMALLEST
from tplimits.regimes.kernels.numbers.tables.shifts import summed_entries, summed_gaps

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.passes import Passes
    from tplimits.regimes.kernels.numbers.tables.tape import TapeStep

#: stands in texts for the relative size of rounding
EPS = "EPS"
#: what a function of arrays is as text
TEXTS: dict[Any, Callable[..., str]] = {
    gaps.from_gap: lambda a, b, g: f"0.5*({a} + {b}) - {g}",
    entrywise.added: lambda *terms: " + ".join(terms),
    gaps.total: lambda *terms: " + ".join(terms),
    gaps.factors: lambda n, inner, f, g, c, d: f"{n}*({f}*{g}*{inner} + 0.5*({f} - {g})*({f}*{c} - {g}*{d}))",
    gaps.half_distance: lambda *v: (
        f"0.5*({' + '.join(f'({x} - {y})*({x} - {y})' for x, y in zip(v[::2], v[1::2], strict=True))})"
    ),
    gaps.half_distance_to_opposite: lambda *v: (
        f"0.5*({' + '.join(f'({x} + {y})*({x} + {y})' for x, y in zip(v[::2], v[1::2], strict=True))})"
    ),
    gaps.without_spread: lambda inner, a, b: (
        f"(({inner} - 0.5*{a} - 0.5*{b}) if {inner} - 0.5*{a} - 0.5*{b} > {EPS}*({a} + {b}) else (0.0))"
    ),
    gaps.complement: lambda same: f"1.0 - {same}",
    singular.nearly_singular: lambda a, c, b, same="0.0": (
        f"{a}*{b} - {c}*{c} + {same}*({a}*{b}) < {singular.NEARLY}*{a}*{b}"
    ),
    entrywise.reciprocal: lambda a: f"1.0/{a}",
    entrywise.reciprocal_root: lambda a: f"1.0/math.sqrt({a})",
    numpy.multiply: lambda a, b: f"{a}*{b}",
    numpy.square: lambda a: f"{a}*{a}",
    numpy.sqrt: lambda a: f"math.sqrt({a})",
    numpy.exp: lambda a: f"math.exp({a})",
}


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
    flags: list[str] = field(default_factory=list)

    def finished(self) -> Pass:
        """The pass."""
        parts = tuple(self.writer.assignments), tuple(self.results), tuple(self.flags)
        return Pass(self.sizes, self.reads, self.gathers, self.reductions, *parts)

    def value(self, step: int | Labelled, dims: Dims) -> str:
        """The name of a step at the indices of the loop."""
        if isinstance(step, Labelled):
            if not step.labels:
                return number(float(step.array))
            return self.reads.setdefault((self.passes.constant(step), dims), f"a{len(self.reads)}")
        if self._is_read(step, dims):
            return self.reads.setdefault((step, dims), f"a{len(self.reads)}")
        self._write(step, dims)
        return self.known[step, dims]

    def _is_read(self, step: int, dims: Dims) -> bool:
        """Whether a step has its values from an array."""
        given = step not in self.passes.inside or step in self.passes.kept
        if self.passes.banded and step in self.passes.inside and len(set(dims)) < len(dims):
            given = False  # equal places of a table over pairs of places, of which pools are at hand
        return given and (step, dims) not in self.members

    def _write(self, step: int, dims: Dims) -> None:
        """Write what a step is made of, and then the step: deep networks need no deep recursion."""
        waiting = [(step, dims)]
        while waiting:
            n, here = waiting[-1]
            before = [
                (v, d)
                for v, d in self._operands(n, here)
                if isinstance(v, int) and (v, d) not in self.known and not self._is_read(v, d)
            ]
            # stays on the stack until its operands are written
            if before and (n, here) not in self.known:
                waiting += reversed(before)
                continue
            waiting.pop()
            if is_law(self.passes.steps[n]):
                self._law(n, here)
            elif (n, here) not in self.known:
                self.known[n, here] = self._written(n, here)

    def _operands(self, n: int, dims: Dims) -> list[tuple[int | Labelled, Dims]]:
        """What the text of a step is made of, and at which indices; of sums nothing, which read arrays."""
        step = self.passes.steps[n]
        assert step is not None
        places = dict(zip(self.passes.labels[n], dims, strict=True))
        if not is_pointwise(step):
            return []
        if step.function is bare(renamed):
            return [(step.values[0], dims)]
        if step.function is bare(diagonal):
            ours, theirs = step.fixed
            places |= {b: places[a] for a, b in zip(ours[len(ours) - len(theirs) :], theirs, strict=True)}
        return [(v, tuple(places[x] for x in self.passes.labels_of(v))) for v in step.values]

    def _written(self, n: int, dims: Dims) -> str:
        step = self.passes.steps[n]
        assert step is not None
        mine, operands = dict(zip(self.passes.labels[n], dims, strict=True)), self._operands(n, dims)
        if step.function is bare(laws.part_of):
            ((law, here),) = operands
            assert isinstance(law, int)
            return self._law(law, here)[step.fixed[0]]
        if self.passes.is_gather(n):
            return self._gather(n, step, mine)
        if step.function is bare(contracted) and step.fixed[0]:
            return self._reduction(step, mine)
        return text_of(self.writer, step, [self.value(v, here) for v, here in operands], self.passes.eps)

    def guard(self, n: int) -> str:
        """Whether the variance of a law is out of range."""
        step = self.passes.steps[n]
        assert step is not None
        dims = self.passes.front(n, tuple(range(len(self.passes.inputs) + len(self.sizes))))
        size = self.writer.let(f"math.fabs({self.value(step.values[0], dims)})")
        # products of two of them leave the doubles: a kernel would be zero without a word
        outside = f"1.0 if {size} > {1 / SMALLEST} else (1.0 if {size} < {SMALLEST} else 0.0)"
        return f"(({outside}) if {size} != 0.0 else 0.0) > 0.5"

    def _law(self, n: int, dims: Dims) -> list[str]:
        if (n, dims) not in self.known:
            step = self.passes.steps[n]
            assert step is not None
            law, names = step.fixed[0], [self.value(v, here) for v, here in self._operands(n, dims)]
            parts = laws.written(self.writer, law.parts, law.gapped, law.coincident, names, self.passes.eps)
            self.known[n, dims] = parts
        return self.known[n, dims]

    def _gather(self, n: int, step: TapeStep, mine: Mapping[str, int]) -> str:
        value, *variances = step.values
        assert isinstance(value, int)
        operand, inner = self.passes.root(value), self.passes.labels_of(value)
        picks: dict[str, Picks] = {}
        if step.function in (bare(summed_entries), bare(summed_gaps)):
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
        outside = tuple(self.passes.root(v) for v in variances if isinstance(v, int))
        self.gathers[name] = Gather(operand, at, next(iter(picks.values())).places.shape[0], outside)
        return name

    def _reduction(self, step: TapeStep, mine: Mapping[str, int]) -> str:
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


def text_of(writer: Writer, step: TapeStep, texts: Sequence[str], eps: float) -> str:
    """The name of a step that acts entry by entry, laws and their parts apart, by the names of its values."""
    if step.function in (bare(renamed), bare(diagonal), bare(repeated)):
        return texts[0]
    if step.function is bare(contracted):
        return writer.let("*".join(texts))
    function = step.fixed[0]
    if isinstance(function, determinants.Rule):
        return function.text(writer, *texts)
    text = TEXTS[function](*texts).replace(EPS, repr(eps))
    return writer.let(text if writer.scalar else text.replace("math.", "numpy."))


def is_law(step: TapeStep | None) -> bool:
    """Whether a step is a law with all its parts."""
    return step is not None and step.function is bare(laws.evaluated)


def is_own_law(step: TapeStep | None) -> bool:
    """Whether a step is the law of one variable with itself."""
    return is_law(step) and step is not None and step.fixed[0].coincident


def is_pointwise(step: TapeStep) -> bool:
    """Whether a step acts entry by entry and has a text."""
    if step.function in (bare(laws.part_of), bare(renamed), bare(repeated), bare(diagonal)):
        return True
    if step.function is bare(laws.evaluated):
        return True
    if step.function is bare(contracted):
        return not step.fixed[0]
    if step.function is not pointwise_step:
        return False
    return isinstance(step.fixed[0], determinants.Rule) or step.fixed[0] in TEXTS
