"""A tape as passes over entries: which steps are kept as arrays, and the formula of each in what is kept before it.

Steps that act entry by entry are written into the pass that needs them.  What a pass reads otherwise are *gathers*, the
sum of entries that index arrays pick, and *sums* over whole axes of products.  A pass goes over all entries of its
results; its first dimensions are the inputs, its others finite axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy

from tplimits.regimes.kernels.derivation.leaves import SECOND
from tplimits.regimes.kernels.numbers.passes.bodies import Body, is_law, is_own_law, is_pointwise
from tplimits.regimes.kernels.numbers.passes.forms import Dims, NotNested, Pass
from tplimits.regimes.kernels.numbers.tables import entrywise
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, bare, contracted, renamed
from tplimits.regimes.kernels.numbers.tables.shifts import summed_entries, summed_gaps

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.tables.tape import TapeSchedule, TapeStep


_GATHERS = bare(summed_entries), bare(summed_gaps), bare(entrywise.indexed)


@dataclass(eq=False)
class Passes:
    """All passes of a tape.  `inputs` are the labels of inputs that every pass has, in order.

    Leaves and steps that are done beforehand (`before`) are given; `kept` stay from pass to pass, `copied` are given
    and gathered from.
    """

    schedule: TapeSchedule
    labels: Sequence[tuple[str, ...]]
    sizes: Mapping[str, int]
    inputs: tuple[str, ...]
    kernels: int
    #: whether variances that leave the range of products are flagged
    guarded: bool = False
    eps: float = float(numpy.finfo(numpy.float64).eps)
    #: whether sums over pools are at hand everywhere
    banded: bool = False
    steps: dict[int, TapeStep | None] = field(init=False)
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
            self.flags += [n for n in sorted(self.inside) if is_own_law(self.steps[n])]
        self.kept = {w for w in wanted if isinstance(w, int) and w in self.inside}
        self.copied = set()
        self.results = set(self.kept)
        for n in self.inside:
            for operand in self._operands(n):
                if operand in self.inside:
                    self.kept.add(operand)
                elif self.is_gather(n) and (operand == self._gathered(n) or len(self.inputs) == 1):
                    self.copied.add(operand)
        self._arrange()

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

    def _has_form(self, n: int, step: TapeStep) -> bool:
        inner = [x for x in self.labels[n] if x not in self.inputs]
        if any(x not in self.sizes for x in inner):
            return False
        if is_pointwise(step):
            return True
        if step.function is bare(contracted):
            names = {x for v in step.values for x in self.labels_of(v)}
            return not names & set(self.inputs) & set(step.fixed[0]) and names <= {*self.inputs, *self.sizes}
        return self.is_gather(n) and not any(isinstance(v, Labelled) and v.labels for v in step.values)

    def is_gather(self, n: int) -> bool:
        """Whether a step reads entries at other places than its own."""
        step = self.steps[n]
        return step is not None and step.function in _GATHERS

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

    def _gathered(self, n: int) -> int:
        """The array whose entries a step sums."""
        value = self.steps[n].values[0]  # type: ignore[union-attr]
        return self.root(value)  # type: ignore[arg-type]

    def root(self, n: int) -> int:
        """The step behind names."""
        step = self.steps[n]
        while step is not None and step.function is bare(renamed) and isinstance(step.values[0], int):
            n = step.values[0]
            step = self.steps[n]
        return n

    def _arrange(self) -> None:
        """Passes in order; what several of them gather is kept."""
        while True:
            level = self._levels()
            groups: dict[tuple[int, tuple[int, ...], tuple[bool, ...]], list[int]] = {}
            for n in sorted({*self.kept, *self.flags}):
                groups.setdefault((level[n], self.sizes_of(n), self._sides_of(n)), []).append(n)
            bodies = [self._body(members, sizes) for (_, sizes, _), members in sorted(groups.items())]
            often: dict[int, int] = {}
            for body in bodies:
                for n in body.gathered:
                    often[n] = often.get(n, 0) + 1
            again = {n for n, many in often.items() if many > 1 and not self._is_pool(n)}
            if not self.banded:  # what is read after a pool may not be kept before it
                again |= self._shared(bodies)
            again -= self.kept
            if not again:
                break
            self.kept |= again
        self.passes = [*self._copies(), *(b.finished() for b in bodies)]

    def _is_pool(self, n: int) -> bool:
        """Whether a step pools one side after the other, of what is added up while it is made."""
        step = self.steps[self._gathered(n)]
        return self.banded and step is not None and step.function is bare(summed_entries)

    def _shared(self, bodies: Sequence[Body]) -> set[int]:
        """What several passes compute of sums or laws at one place, where what is made of it differs: to be kept."""
        made: dict[int, list[Body]] = {}
        for body in bodies:
            everything = tuple(range(len(self.inputs) + len(body.sizes)))
            for n in {
                n for n, dims in body.known if self.sizes_of(n) == body.sizes and dims == self.front(n, everything)
            }:
                made.setdefault(n, []).append(body)
        often = {n for n, several in made.items() if len(several) > 1 and self._is_dear(n, made)}
        ends = {n for n in often if any(n in {r for r, _ in body.results} for body in made[n])}
        for body in bodies:
            for n in {n for n, _ in body.known} - often:
                ends |= often & {v for v in self._values(n) if body in made.get(v, [])}
        return {n for n in ends if not is_law(self.steps[n])}

    def _is_dear(self, n: int, among: Mapping[int, object]) -> bool:
        """Whether a sum or a law is computed for it."""
        if is_law(self.steps[n]) or self._operands(n):
            return True
        return any(self._is_dear(v, among) for v in self._values(n) if v in among)

    def _values(self, n: int) -> list[int]:
        step = self.steps[n]
        return [v for v in step.values if isinstance(v, int)] if step is not None else []

    def _sides_of(self, n: int) -> tuple[bool, ...]:
        """The sides that axes stand on, where passes over pairs of places go another way than others of their size."""
        return tuple(SECOND in x for x in self.labels[n] if x not in self.inputs) if self.banded else ()

    def sizes_of(self, n: int) -> tuple[int, ...]:
        """Sizes of the finite axes of a step."""
        return tuple(self.sizes[x] for x in self.labels[n] if x not in self.inputs)

    def _levels(self) -> dict[int, int]:
        """The first pass in which each step can be computed at the place of the loop."""
        depth: dict[int, int] = {}
        elsewhere: dict[int, int] = {}  # at any place: what is kept below has to be there whole
        for n in self.steps:  # in the order of the tape
            if n in self.inside:
                step = self.steps[n]
                assert step is not None
                below = [v for v in step.values if isinstance(v, int) and v in self.inside]
                if is_pointwise(step):
                    whole = {v: depth[v] + 1 if v in self.kept else elsewhere[v] for v in below}
                    depth[n] = max((depth[v] if self._is_beside(v, n) else whole[v] for v in below), default=0)
                    elsewhere[n] = max(whole.values(), default=0)
                else:
                    depth[n] = max((depth.get(self.root(v), -1) + 1 for v in below), default=0)
                    elsewhere[n] = depth[n]
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
            text = body.value(n, self.front(n, everything)) if not is_own_law(self.steps[n]) else body.guard(n)
            if n in self.kept:
                body.results.append((n, text))
            if n not in self.kept or n in self.flags:
                body.flags.append(text)
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
