"""A recursion without finite axes as one function of NumPy arrays, for calls whose work is less than compiling.

The same formulas as the compiled function's, of whole arrays: a call with a few inputs is a hundred array operations,
however many layers of bookkeeping stand behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.numbers.moments.writing import Code, function
from tplimits.regimes.kernels.numbers.passes.forms import NotNested
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.passes.passes import Passes

#: rows and columns of some pairs
Places = tuple[NDArray[Any], ...]


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
        self.reads = [n for n, _ in one.reads]
        self.results = [n for n, _ in one.results]
        code = Code(one.assignments, (*(text for _, text in one.results), " | ".join(map("({})".format, one.flags))))
        results = code if one.flags else Code(code.assignments, (*code.results[:-1], "False"))
        self.made: Callable[..., Any] = function(results, "statements", list(one.reads.values()), scalar=False)

    def run(
        self, given: Callable[[Any], Labelled], many: Sequence[int], places: Places | None = None
    ) -> tuple[list[Labelled], NDArray[numpy.bool_]]:
        """The results, and where a law is flagged; of pairs all, or those at some places: others are zero."""
        passes, inputs = self.passes, self.passes.inputs
        known = {**passes.constants, **{n: given(passes.schedule.names[n]) for n, s in passes.steps.items() if not s}}
        for n in passes.before:
            step = passes.steps[n]
            assert step is not None
            values = [known[v] if isinstance(v, int) else v for v in step.values]
            known[n] = step.function(values, *step.fixed)
        arrays = [known[n].at(inputs) if places is None else _listed(known[n], inputs, places) for n in self.reads]
        with numpy.errstate(all="ignore"):
            *found, flags = (_spread(f, many, places) for f in self.made(*arrays))
        known |= {n: Labelled(f, inputs) for n, f in zip(self.results, found, strict=True)}
        wanted = passes.schedule.wanted[: passes.kernels]
        return [known[w] if isinstance(w, int) else w for w in wanted], flags != 0


def _spread(value: Any, many: Sequence[int], places: Places | None) -> NDArray[Any]:
    """A result at all pairs, zero where they are not listed."""
    if places is None:
        return numpy.broadcast_to(value, many)
    array = numpy.zeros(many, numpy.asarray(value).dtype)
    array[places] = value
    return array


def _listed(value: Labelled, inputs: Sequence[str], places: Places) -> NDArray[Any]:
    """The entries of an array at a list of pairs."""
    picked: NDArray[Any] = value.array[tuple(places[inputs.index(x)] for x in value.labels)]
    return picked
