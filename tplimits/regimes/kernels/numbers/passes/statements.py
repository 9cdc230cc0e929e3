"""A recursion without finite axes as one function of NumPy arrays, for calls whose work is less than compiling.

The same formulas as the compiled function's, of whole arrays: a call with a few inputs is a hundred array operations,
however many layers of bookkeeping stand behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.numbers.moments.writing import Code, function
from tplimits.regimes.kernels.numbers.passes.blocks import plain
from tplimits.regimes.kernels.numbers.passes.forms import NotNested
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.inputs import Inputs
    from tplimits.regimes.kernels.numbers.passes.blocks import Own
    from tplimits.regimes.kernels.numbers.passes.passes import Passes

#: rows and columns of some pairs
Places = tuple[NDArray[Any], ...]
#: pairs that are done together
_TOGETHER = 1 << 13


@dataclass(eq=False)
class Statements:
    """The one pass of a tape; NotNested where there are several, or sums inside of it."""

    passes: Passes

    def __post_init__(self) -> None:
        passes = self.passes
        if len(passes.passes) != 1 or passes.passes[0].sizes:
            raise NotNested("places")
        (one,) = passes.passes
        if one.gathers or one.reductions or any(n in passes.inside for n, _ in one.reads):
            raise NotNested("sums inside")
        self.results = [n for n, _ in one.results]
        code = Code(one.assignments, (*(text for _, text in one.results), " | ".join(map("({})".format, one.flags))))
        results = code if one.flags else Code(code.assignments, (*code.results[:-1], "False"))
        results = results.needed()
        self.lines = len(results.assignments)
        self.made: Callable[..., Any] = function(results, "statements", list(one.reads.values()), scalar=False)
        self.wanted = passes.schedule.wanted[: passes.kernels]
        self.steps = [(n, step) for n in passes.before if (step := passes.steps[n]) is not None]
        names, labels, inputs = passes.schedule.names, passes.labels, passes.inputs
        self.data = [(n, labels[n], *name[1:]) for n, name in names.items() if name[0] == "data"]
        self.rows = [(n, labels[n], *name[1:3]) for n, name in names.items() if name[0] == "row"]
        self.reads = [(n, tuple(inputs.index(x) for x in labels[n])) for n, _ in one.reads]

    def run(
        self, sides: Mapping[int, Inputs], owns: Mapping[int, Own], many: tuple[int, ...], places: Places | None = None
    ) -> tuple[list[Labelled], NDArray[numpy.bool_]]:
        """The results, and where a law is flagged; of pairs all, or those at some places: others are zero."""
        known: dict[int, Labelled] = {**self.passes.constants}
        for n, labels, source, side in self.data:
            known[n] = Labelled(sides[side].arrays[source], labels)
        for n, labels, side, place in self.rows:
            row = plain(owns[side].rows[place])
            known[n] = row if row.labels == labels else Labelled(row.array, labels)
        for n, step in self.steps:
            known[n] = step.function([known[v] if isinstance(v, int) else v for v in step.values], *step.fixed)
        if places is None and len(many) == 2 and many[0] * many[1] > _TOGETHER:
            places = tuple(numpy.indices(many).reshape(2, -1))
        found, flagged = self._found([known[n].array for n, _ in self.reads], many, places)
        for n, array in zip(self.results, found, strict=True):
            known[n] = Labelled(array, self.passes.inputs)
        return [known[w] if isinstance(w, int) else w for w in self.wanted], flagged

    def _found(
        self, reads: Sequence[NDArray[Any]], many: tuple[int, ...], places: Places | None
    ) -> tuple[list[NDArray[Any]], NDArray[numpy.bool_]]:
        """Results and flags by what is read; listed pairs so many at a time that their arrays stay in the cache."""
        if places is None:
            *found, flags = self.made(*(_read(a, dims, many) for a, (_, dims) in zip(reads, self.reads, strict=True)))
            whole = [f if getattr(f, "shape", ()) == many else numpy.broadcast_to(f, many) for f in found]
            return whole, numpy.zeros(many, bool) if flags is False else numpy.broadcast_to(flags, many)
        arrays, flagged = [numpy.zeros(many) for _ in self.results], numpy.zeros(many, bool)
        for start in range(0, len(places[0]), _TOGETHER):
            some = tuple([p[start : start + _TOGETHER] for p in places])
            listed = (a[tuple([some[d] for d in dims])] for a, (_, dims) in zip(reads, self.reads, strict=True))
            *values, flagged[some] = self.made(*listed)
            for array, value in zip(arrays, values, strict=True):
                array[some] = value
        return arrays, flagged


def _read(array: NDArray[Any], dims: tuple[int, ...], many: tuple[int, ...]) -> NDArray[Any]:
    """An array as it goes with others, its dimensions those of the inputs."""
    if dims == (0,) and len(many) > 1:
        return array[:, None]
    return array.T if dims == (1, 0) else array
