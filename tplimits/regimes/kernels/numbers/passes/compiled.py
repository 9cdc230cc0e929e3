"""Plans with their pointwise parts compiled: one loop over all entries of a tile for each stage of a recursion.

Steps that act entry by entry (laws, sums, products, factors of one input) are joined into loops; what moves or sums
entries (taps, averages, products of matrices) stays a step between two loops.  All quantities of a stage that can be
computed together stand in one loop, which reads each table once.  The text is generated, compiled in parallel over the
first index (its arrays are known not to overlap, so that it runs in vector registers) and kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy

from tplimits.numbers.generated import functions, is_compiled
from tplimits.numbers.moments.writing import Writer, number
from tplimits.regimes.kernels.numbers.passes import buffers
from tplimits.regimes.kernels.numbers.passes.bodies import EPS, TEXTS
from tplimits.regimes.kernels.numbers.passes.taps import summed_by_loops
from tplimits.regimes.kernels.numbers.tables import laws
from tplimits.regimes.kernels.numbers.tables.labelled import (
    Labelled,
    bare,
    contracted,
    pointwise_step,
    renamed,
    repeated,
)
from tplimits.regimes.kernels.numbers.tables.shifts import summed_entries
from tplimits.regimes.kernels.numbers.tables.tape import TapeSchedule, TapeStep

#: steps on top of each other in one loop
_DEEPEST = 40
_EPS = float(numpy.finfo(numpy.float64).eps)
#: a step and, for each of its labels, the index of the loop
Place = tuple[int, tuple[int, ...]]

_HEADING = '''"""Generated: a stage of a kernel recursion, entry by entry."""


import math

import numba

from tplimits.numbers.jit import njit
from tplimits.numbers.moments.angles import arc, atan2

angle = numba.njit(forceinline=True, error_model="numpy")(atan2)
acute = numba.njit(forceinline=True, error_model="numpy")(arc)


'''


@dataclass(frozen=True, eq=False)
class Loop:
    """A stage: what it reads and gives (steps with the indices of their dimensions), and its text."""

    #: step, order of its dimensions, indices of the loop
    arrays: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    gives: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]
    dimensions: int
    text: str
    single: bool = False

    def run(self, known: Mapping[int, Labelled], sizes: tuple[int, ...]) -> list[Labelled]:
        """The arrays it gives."""
        arrays = [numpy.ascontiguousarray(known[n].array.transpose(order)) for n, order, _ in self.arrays]
        kind = numpy.float32 if all(a.dtype == numpy.float32 for a in arrays if a.ndim) else numpy.float64
        arrays = [a.astype(kind, copy=False) for a in arrays]
        found = [buffers.empty(sizes, kind) for _ in self.gives]
        _loaded(self.text)["loop"](*sizes, *arrays, *found)
        return [Labelled(f, labels) for f, labels in zip(found, self.labels, strict=True)]


@lru_cache(maxsize=256)
def _loaded(text: str) -> Mapping[str, Any]:
    return functions(text, "stage")


@dataclass(eq=False)
class _Stage:
    """The statements of one loop, under construction."""

    steps: Mapping[int, TapeStep | None]
    materialised: set[int]
    labels: Sequence[tuple[str, ...]]
    dimensions: int
    writer: Writer = field(default_factory=lambda: Writer(scalar=True, prefix="t", series=False))
    reads: dict[Place, str] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)

    def value(self, step: int | Labelled, dims: tuple[int, ...], top: bool = False) -> str:
        """The name of a step at the indices of the loop."""
        if isinstance(step, Labelled):
            return number(float(step.array)) if not step.labels else ""
        place = (step, dims)
        if step in self.materialised and not top:
            return self.reads.setdefault(place, f"a{len(self.reads)}")
        if place not in self.known:
            self.known[place] = self._written(step, dims)
        return self.known[place]

    def _written(self, number_: int, dims: tuple[int, ...]) -> str:
        step = self.steps[number_]
        assert step is not None
        mine = dict(zip(self.labels[number_], dims, strict=True))
        if step.function is bare(laws.part_of):
            (law,) = step.values
            assert isinstance(law, int)
            return self._law(law, tuple(mine[x] for x in self.labels[law]))[step.fixed[0]]
        if step.function is bare(renamed):
            return self._inner(step.values[0], dims)
        texts = [self._inner(v, tuple(mine[x] for x in self._labels(v))) for v in step.values]
        if step.function is bare(repeated):
            return texts[0]
        if step.function is bare(contracted):
            return self.writer.let("*".join(texts))
        return self.writer.let(TEXTS[step.fixed[0]](*texts).replace(EPS, repr(_EPS)))

    def _labels(self, value: int | Labelled) -> tuple[str, ...]:
        return value.labels if isinstance(value, Labelled) else self.labels[value]

    def _inner(self, value: int | Labelled, dims: tuple[int, ...]) -> str:
        return self.value(value, dims)

    def _law(self, number_: int, dims: tuple[int, ...]) -> list[str]:
        if (number_, dims) not in self.known:
            step = self.steps[number_]
            assert step is not None
            law, mine = step.fixed[0], dict(zip(self.labels[number_], dims, strict=True))
            names = [self._inner(v, tuple(mine[x] for x in self._labels(v))) for v in step.values]
            self.known[number_, dims] = laws.written(self.writer, law.parts, law.gapped, law.coincident, names)
        return self.known[number_, dims]


def _is_pointwise(step: TapeStep | None) -> bool:
    """Whether a step acts entry by entry and has a text."""
    if step is None:
        return False
    if any(isinstance(v, Labelled) and v.labels for v in step.values):
        return False
    if step.function in (bare(laws.part_of), bare(renamed), bare(repeated)):
        return True
    if step.function is bare(laws.evaluated):
        return not step.fixed[0].coincident
    if step.function is bare(contracted):
        return not step.fixed[0]
    return step.function is pointwise_step and step.fixed[0] in TEXTS


@dataclass(frozen=True, eq=False)
class CompiledSchedule:
    """Loops and the steps between them, in order, with what is let go after each."""

    parts: list[tuple[Loop | tuple[int, TapeStep | None], tuple[int, ...]]]
    names: Mapping[int, Any]
    wanted: list[int | Labelled]
    sizes: Mapping[str, int]

    @cached_property
    def are_kept(self) -> bool:
        """Whether all loops have been compiled before on this machine."""
        return all(is_compiled(part.text, "stage") for part, _ in self.parts if isinstance(part, Loop))

    def run(self, given: Callable[[Any], Labelled]) -> list[Labelled]:
        """The results; `given` finds the leaves."""
        known: dict[int, Labelled] = {}
        many: dict[str, int] = {}
        for part, gone in self.parts:
            if isinstance(part, Loop):
                sizes = tuple(many.get(x, self.sizes.get(x, 1)) for x in part.labels[0])
                for n, found in zip(part.gives, part.run(known, sizes), strict=True):
                    known[n] = found
            else:
                n, step = part
                if step is None:
                    known[n] = given(self.names[n])
                    for label, size in zip(known[n].labels, known[n].array.shape, strict=True):
                        if label.startswith("input "):
                            many[label] = size
                else:
                    values = [known[v] if isinstance(v, int) else v for v in step.values]
                    known[n] = step.function(values, *step.fixed)
            for n in gone:
                value = known.pop(n, None)
                if value is not None:
                    buffers.let_go(value)
        return [known[w] if isinstance(w, int) else w for w in self.wanted]


def compiled(schedule: TapeSchedule, labels: Sequence[tuple[str, ...]], sizes: Mapping[str, int]) -> CompiledSchedule:
    """A schedule with its pointwise steps in loops."""
    steps = {n: s for n, s, _ in schedule.steps}
    sized = {n for n in steps if labels[n] and all(x in sizes or x.startswith("input ") for x in labels[n])}
    pointwise = {n for n, s in steps.items() if n in sized and _is_pointwise(s)}
    wanted = [w for w in schedule.wanted if isinstance(w, int)]
    targets = {w for w in wanted if w in pointwise}
    for n, step in steps.items():
        if step is not None and n not in pointwise:
            targets |= {v for v in step.values if isinstance(v, int) and v in pointwise}
    targets |= _resting(steps, pointwise, targets)
    level, order = _levels(steps, pointwise, targets)
    parts: list[Any] = []
    for stage in range(max(level.values(), default=0) + 1):
        groups: dict[tuple[Any, ...], list[int]] = {}
        for n in sorted(t for t in targets if level[t] == stage):
            key = tuple(x if x.startswith("input ") else sizes.get(x, 0) for x in labels[n])
            groups.setdefault(key, []).append(n)
        for members in groups.values():
            parts.append(_loop(members, steps, (set(steps) - pointwise) | targets, labels))
        parts += [(n, _between(steps[n])) for n in order if n not in pointwise and level[n] == stage]
    return CompiledSchedule(_with_ends(parts, set(wanted)), schedule.names, schedule.wanted, sizes)


def _resting(steps: Mapping[int, TapeStep | None], pointwise: set[int], targets: set[int]) -> set[int]:
    """Steps whose arrays are kept so that no loop gets too long."""
    depth: dict[int, int] = {}
    found: set[int] = set()
    for n in sorted(pointwise):
        step = steps[n]
        values = [v for v in step.values if isinstance(v, int) and v not in targets | found] if step is not None else []
        depth[n] = 1 + max((depth.get(v, 0) for v in values), default=0)
        if depth[n] > _DEEPEST and step is not None and step.function is not bare(laws.evaluated):
            found.add(n)
    return found


def _between(step: TapeStep | None) -> TapeStep | None:
    """A step between loops, by a compiled function where there is one."""
    if step is not None and step.function is bare(summed_entries):
        return TapeStep(summed_by_loops, step.values, step.fixed)
    return step


def _levels(
    steps: Mapping[int, TapeStep | None], pointwise: set[int], targets: set[int]
) -> tuple[dict[int, int], list[int]]:
    """The stage of each step: loops of a stage come before the steps between, which read them."""
    level: dict[int, int] = {}
    for n, step in steps.items():
        values = [v for v in step.values if isinstance(v, int)] if step is not None else []
        if n in pointwise:
            # after everything between loops that it reads
            level[n] = max(
                [level[v] if v in pointwise and v not in targets else level[v] + (v not in pointwise) for v in values],
                default=0,
            )
            level[n] = max([level[n], *(level[v] + 1 for v in values if v in targets)])
        else:
            level[n] = max([level[v] for v in values], default=0)
    return level, list(steps)


def _loop(members: list[int], steps: Mapping[int, TapeStep | None], materialised: set[int], labels: Any) -> Loop:
    dimensions = len(labels[members[0]])
    stage = _Stage(steps, materialised, labels, dimensions)
    everything = tuple(range(dimensions))
    results = [stage.value(n, everything, top=True) for n in members]
    indices = ["i", *(f"j{k}" for k in range(1, dimensions))]
    arrays = [f"A{k}" for k in range(len(stage.reads))]
    reads, places = [], []
    for (n, given), name, array in zip(stage.reads, stage.reads.values(), arrays, strict=True):
        order = tuple(numpy.argsort(given).tolist())  # the index that runs fastest is the last
        dims = tuple(given[k] for k in order)
        places.append((n, order, dims))
        reads.append(f"{name} = {array}[{', '.join(indices[d] for d in dims)}]" if dims else f"{name} = {array}[()]")
    outputs = [f"O{k}" for k in range(len(members))]
    stores = [f"{o}[{', '.join(indices)}] = {text}" for o, text in zip(outputs, results, strict=True)]
    body = [*reads, *(f"{a} = {t}" for a, t in stage.writer.assignments), *stores]
    body = [_named(line) for line in body]
    sizes = [f"n{k}" for k in range(dimensions)]
    arguments = ", ".join([*sizes, *arrays, *outputs])
    text = [f"def row({arguments}, i):"]
    for k in range(1, dimensions):
        text.append(f"{'    ' * k}for j{k} in range(n{k}):")
    text += [f"{'    ' * dimensions}{line}" for line in body]
    text += ["", "", 'row_of = numba.njit(forceinline=True, error_model="numpy")(row)', "", ""]
    text += ['@njit(parallel=True, error_model="numpy")', f"def loop({arguments}):"]
    text += ["    for i in numba.prange(n0):", f"        row_of({arguments}, i)", ""]
    return Loop(
        tuple(places), tuple(members), tuple(labels[n] for n in members), dimensions, _HEADING + "\n".join(text)
    )


def _named(line: str) -> str:
    """A line with the names of functions that Numba compiles well."""
    for name, ours in (("atan2", "angle"), ("arc", "acute"), ("fmin", "min"), ("fmax", "max")):
        line = line.replace(f"math.{name}(", f"{ours}(")
    return line


def _with_ends(parts: list[Any], kept: set[int]) -> list[tuple[Any, tuple[int, ...]]]:
    """Each part with the steps that nothing reads after it."""
    last: dict[int, int] = {}
    for k, part in enumerate(parts):
        if isinstance(part, Loop):
            read = [*(n for n, _, _ in part.arrays), *part.gives]
        else:
            read = [part[0], *([v for v in part[1].values if isinstance(v, int)] if part[1] is not None else [])]
        for n in read:
            last[n] = k
    gone: dict[int, list[int]] = {}
    for n, k in last.items():
        if n not in kept:
            gone.setdefault(k, []).append(n)
    return [(part, tuple(gone.get(k, ()))) for k, part in enumerate(parts)]
