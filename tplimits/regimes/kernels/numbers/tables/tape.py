"""Steps on labelled arrays, written down once and run again on other inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, Traced

#: what a tape is given when it runs
Leaf = Any


@dataclass(frozen=True, eq=False)
class TapeStep:
    """A function of earlier steps (numbers) and constants, with fixed arguments after them."""

    function: Callable[..., Labelled]
    values: tuple[int | Labelled, ...]
    fixed: tuple[Any, ...]


@dataclass(eq=False)
class Tape:
    """Steps in order; those without a function are leaves, given by name."""

    steps: list[TapeStep | None] = field(default_factory=list)
    leaves: dict[Leaf, Traced] = field(default_factory=dict)
    labels: list[tuple[str, ...]] = field(default_factory=list)
    #: where laws are nearly singular, one flag an entry, with what tells pairs of the same data apart
    watched: list[tuple[Traced, Mapping[int, int]]] = field(default_factory=list)

    def leaf(self, name: Leaf, labels: tuple[str, ...]) -> Traced:
        """What will be given under a name."""
        if name not in self.leaves:
            self.leaves[name] = Traced(labels, len(self.steps), self)
            self.steps.append(None)
            self.labels.append(labels)
        return self.leaves[name]

    def recorded(
        self,
        function: Callable[..., Labelled],
        values: tuple[Any, ...],
        fixed: tuple[Any, ...],
        labels: tuple[str, ...],
    ) -> Traced:
        """A new step."""
        places = tuple(v.number if isinstance(v, Traced) else v for v in values)
        self.steps.append(TapeStep(function, places, fixed))
        self.labels.append(labels)
        return Traced(labels, len(self.steps) - 1, self)

    def schedule(self, wanted: Sequence[Traced | Labelled]) -> TapeSchedule:
        """The steps behind some results, and after which of them an array is let go."""
        needed, waiting = set(), [w.number for w in wanted if isinstance(w, Traced)]
        while waiting:
            number = waiting.pop()
            if number not in needed:
                needed.add(number)
                step = self.steps[number]
                waiting += [v for v in step.values if isinstance(v, int)] if step else []
        order = sorted(needed)
        last = {n: n for n in order}
        for n in order:
            step = self.steps[n]
            for v in step.values if step else ():
                if isinstance(v, int):
                    last[v] = n
        kept = {w.number for w in wanted if isinstance(w, Traced)}
        gone: dict[int, list[int]] = {}
        for n, end in last.items():
            if n not in kept:
                gone.setdefault(end, []).append(n)
        steps = [(n, self.steps[n], tuple(gone.get(n, ()))) for n in order]
        names = {t.number: name for name, t in self.leaves.items() if t.number in needed}
        return TapeSchedule(steps, names, [w.number if isinstance(w, Traced) else w for w in wanted])


@dataclass(frozen=True, eq=False)
class TapeSchedule:
    """What is left of a tape for some results."""

    steps: list[tuple[int, TapeStep | None, tuple[int, ...]]]
    names: Mapping[int, Leaf]
    wanted: list[int | Labelled]

    def run(self, given: Callable[[Leaf], Labelled]) -> list[Labelled]:
        """The results; `given` finds the leaves."""
        known: dict[int, Labelled] = {}
        for number, step, gone in self.steps:
            if step is None:
                known[number] = given(self.names[number])
            else:
                values = [known[v] if isinstance(v, int) else v for v in step.values]
                known[number] = step.function(values, *step.fixed)
            for n in gone:
                del known[n]
        return [known[w] if isinstance(w, int) else w for w in self.wanted]
