"""A recursion without finite axes as one function of NumPy arrays, for calls whose work is less than compiling.

The formulas are those of compiled functions, of whole arrays: a call with a few inputs is a hundred array operations,
however many layers of bookkeeping stand behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.numbers.moments.writing import Code, Writer, function, number
from tplimits.regimes.kernels.numbers.passes.bodies import is_law, is_own_law, is_pointwise, text_of
from tplimits.regimes.kernels.numbers.passes.forms import NotNested
from tplimits.regimes.kernels.numbers.tables import laws
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled, bare
from tplimits.regimes.kernels.numbers.tables.places import batch

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.inputs import Inputs
    from tplimits.regimes.kernels.numbers.passes.blocks import Own
    from tplimits.regimes.kernels.numbers.tables.tape import TapeSchedule, TapeStep

#: rows and columns of some pairs
Places = tuple[NDArray[numpy.intp], ...]
_EPS = float(numpy.finfo(numpy.float64).eps)


@dataclass(eq=False)
class Statements:
    """The steps of a tape that act entry by entry; NotNested where others come after them, or where there are places.

    The first `kernels` of what the tape is asked for are results, the others flags.  Variances of laws of one variable
    are results as well, behind them.
    """

    schedule: TapeSchedule
    labels: Sequence[tuple[str, ...]]
    inputs: tuple[str, ...]
    kernels: int
    writer: Writer = field(default_factory=lambda: Writer(scalar=False))
    #: names of steps, of laws those of their parts by place
    known: dict[int, Any] = field(default_factory=dict)
    #: what is read: places among the quantities of each side, and other steps
    rows: tuple[list[int], ...] = field(init=False)
    others: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = tuple([] for _ in self.inputs[1:] for _ in self.inputs)
        self.asked: dict[int, list[int]] = {}
        self.before: list[tuple[int, TapeStep]] = []
        guards, names = [], self.schedule.names
        for _, step, _ in self.schedule.steps:
            if step is not None and step.function is bare(laws.part_of):
                self.asked.setdefault(step.values[0], []).append(step.fixed[0])  # type: ignore[arg-type]
        written = set()
        for n, step, _ in self.schedule.steps:
            if step is None:
                continue
            if is_pointwise(step) and set(self.labels[n]) <= set(self.inputs):
                self.known[n] = self._written(n, step)
                written.add(n)
                guards += [self._name(step.values[0])] if is_own_law(step) else []
            elif any(v in written for v in step.values if isinstance(v, int)):
                raise NotNested(step.function.__name__)
            else:
                self.before.append((n, step))
        wanted = [self._name(w) for w in self.schedule.wanted[: self.kernels]]
        # constants are exactly what they are
        flagged = [self._name(w) for w in self.schedule.wanted[self.kernels :] if isinstance(w, int)]
        read = {v for _, s in self.before for v in s.values if isinstance(v, int)} | {*self.others}
        self.leaves = [(n, leaf) for n, leaf in names.items() if n in read]
        flags = " | ".join(f"({w})" for w in flagged) or "False"
        self.made = self._function([*wanted, *dict.fromkeys(guards), flags])
        self.results = self.kernels + len(set(guards))

    def _name(self, value: int | Labelled) -> str:
        """A step, a number, or what is read."""
        if isinstance(value, Labelled):
            if value.labels:
                raise NotNested("a constant array")
            return number(float(value.array))
        if value not in self.known:
            if not set(self.labels[value]) <= set(self.inputs):
                raise NotNested("places")
            leaf = self.schedule.names.get(value, ())
            if leaf and leaf[0] == "row" and self.labels[value] == (batch(leaf[1]),):
                read, letter, what = self.rows[leaf[1] - 1], "ab"[leaf[1] - 1], leaf[2]
            else:
                read, letter, what = self.others, "c", value
            self.known[value] = f"{letter}{len(read)}"
            read.append(what)
        return self.known[value]

    def _written(self, n: int, step: TapeStep) -> Any:
        if step.function is bare(laws.part_of):
            return self.known[step.values[0]][step.fixed[0]]  # type: ignore[index]
        names = [self._name(v) for v in step.values]
        if not is_law(step):
            return text_of(self.writer, step, names, _EPS)
        law, places = step.fixed[0], self.asked.get(n, [])
        parts = [law.parts[k] for k in places]
        return dict(zip(places, laws.written(self.writer, parts, law.gapped, law.coincident, names), strict=True))

    def _function(self, results: Sequence[str]) -> Callable[..., Any]:
        """The text as a function of what is read of each side, and of the rest."""
        letters = [*"ab"[: len(self.rows)], "c"]
        unpacked = [
            ("".join(f"{x}{k}, " for k in range(len(read))), x)
            for x, read in zip(letters, (*self.rows, self.others), strict=True)
            if read
        ]
        code = self.writer.code(*results)
        whole = Code((*unpacked, *code.assignments), code.results)
        made: Callable[..., Any] = function(whole, "statements", letters, scalar=False)
        return made

    def run(self, sides: Sequence[Inputs], owns: Sequence[Own] = (), places: Places | None = None) -> tuple[Array, Any]:
        """Results (results, *inputs), or at some pairs (results, pairs), and where a law is flagged."""
        known = {n: self._leaf(n, leaf, sides, owns) for n, leaf in self.leaves}
        for n, step in self.before:
            known[n] = step.function([known[v] if isinstance(v, int) else v for v in step.values], *step.fixed)
        arrays: list[Any] = []
        for k, own in enumerate(owns):
            found = own.stacked(self.rows[k])
            arrays.append(found.take(places[k], axis=1) if places else found[:, None] if k else found[:, :, None])
        others = [known[n] for n in self.others]
        arrays.append([_listed(v, self.inputs, places) if places else v.at(self.inputs) for v in others])
        *found, flags = self.made(*arrays)
        values = numpy.empty((self.results, *(places[0].shape if places else (s.many for s in sides))))
        for k, value in enumerate(found):
            values[k] = value
        return values, flags

    def _leaf(self, n: int, leaf: Any, sides: Sequence[Inputs], owns: Sequence[Own]) -> Labelled:
        kind, *name = leaf
        if kind == "data":
            return Labelled(sides[name[1] - 1].arrays[name[0]], self.labels[n])
        return Labelled(owns[name[0] - 1].row(name[1]).array, self.labels[n])


def _listed(value: Labelled, inputs: Sequence[str], places: Places) -> NDArray[Any]:
    """The entries of an array at a list of pairs."""
    picked: NDArray[Any] = value.array[tuple(places[inputs.index(x)] for x in value.labels)]
    return picked
