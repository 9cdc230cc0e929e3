"""Influence functions on real networks: what averages over drawn neurons are off, with a mean of exactly zero.

The normal variables behind a network are recovered from its matrices,

    g = z − (n_in/n_out) Σ_j p_j Avg(y_j q) + Σ_j p_j ξ_j/√n_out,   z = W q,  ξ_j fresh and normal,

and are independent across neurons.  With averages held at their limits a, Σ_j λ_j (Avg f_j(g; a) − a_j) has mean 0 and
is θ_n − L up to terms of order 1/n: what is left of n (θ_n − L) without it does not grow with n.  Held at numbers a
that are not the limits it has the mean Σ_j λ_j (E f_j(g; a) − a_j), which is what the numbers are off: taken off as it
is, it would move θ_n by as much.  Who judges limits takes that mean over the law of neurons off again (`centre`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.numbers.expansion.averages import Averages
from tplimits.numbers.expansion.fields import Field, mapped
from tplimits.numbers.expansion.jets import Jet, number
from tplimits.numbers.expansion.matrices import Algebra, Matrix
from tplimits.numbers.expansion.nodes import Frame, Variable
from tplimits.numbers.expansion.programs import Pass
from tplimits.numbers.expansion.samples import Spread
from tplimits.numbers.number import standard_error

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.law.observables import Observable
    from tplimits.numbers.expansion.tables import Table
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.kinds import InitialMatrix, InitialVector

#: the number of the variable that draws are
_DRAWS = -1
#: sets of points spread over the law of neurons, how many there are in one, and what their seeds start from
REPLICATES, _POINTS = 16, 1 << 12
_CENTRE = 1 << 20


def _entry(execution: Execution, key: Key) -> Array:
    """One entry of a family in every draw."""
    everywhere: tuple[Any, ...] = (slice(None), *key[1])
    return execution.arrays[key[0]][everywhere]


class Networks(Frame):
    """Draws of networks: a dimension of draws, which no mean goes over, and one of neurons for each axis."""

    of_law = False

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__(1.0, divides=False)
        self.of: dict[str, int] = {}
        for axis, size in sizes.items():
            self.of[axis] = i = len(self.variables)
            self.variables[i] = Variable(i, axis, (), numpy.arange(float(size)), numpy.full(size, 1 / size))
        #: recovered normal variables, in the order of their directions
        self.columns: list[Field] = []
        self.read = 0

    def vectors(self, axis: str, values: Array) -> Field:
        """Values of shape (draws, neurons)."""
        return Field((_DRAWS, self.of[axis]), values)

    def normal(self, axis: str) -> Field:
        self.read += 1
        return self.columns[self.read - 1]


class _Measured(Averages):
    """Averages of drawn networks, one number a draw."""

    def average(self, x: Jet, axis: str, label: str) -> Jet:
        frame = self.frame
        return Jet(frame.mean(x.value, [d for d in x.value.dims if d != _DRAWS]))


class _Frozen(Averages):
    """Averages held at their limits; `off` is how far those over drawn neurons are from them."""

    def __init__(self, frame: Frame, ratios: Mapping[str, float], calls: Sequence[tuple[float, int | None]]) -> None:
        super().__init__(frame, ratios, values_only=True)
        self.calls = list(calls)
        self.off: dict[int, Field] = {}
        self._read = 0

    def average(self, x: Jet, axis: str, label: str) -> Jet:
        value, j = self.calls[self._read]
        self._read += 1
        if j is not None:
            mean = self.frame.mean(x.value, [d for d in x.value.dims if d != _DRAWS])
            self.off[j] = mapped(lambda m: m - value, mean)
        return number(value)

    def total(self, held: Pass, observables: Sequence[Observable], influence: Array) -> Array:
        """Σ_j λ_j (Avg f_j − a_j) of each observable in each draw, after a run of the program."""
        held.run()
        for o in observables:
            held.observed(o)
        parts = [numpy.reshape(off.values, (-1, 1)) * influence[:, j] for j, off in self.off.items()]
        return sum(parts, numpy.zeros((1, len(influence))))


class _RealMatrix(Matrix[Jet]):
    """A matrix of each draw, of shape (draws, rows, columns); images are its own, normal variables are recovered."""

    def __init__(self, s: InitialMatrix, entries: Array, rng: numpy.random.Generator) -> None:
        super().__init__(s.name, s.rows, s.columns)
        self.entries, self.rng = entries, rng

    def _image(self, averages: Algebra[Jet], q: Jet, transposed: bool, axes: tuple[str, str], name: str) -> Jet:
        assert isinstance(averages, Averages)
        source, target = axes
        frame, other = averages.frame, self.sides[not transposed]
        assert isinstance(frame, Networks)
        ratio, std = averages.ratios[source] / averages.ratios[target], 1.0
        if transposed:
            # entries of Wᵀ have variance 1/columns while it sums over rows
            std = (averages.ratios[self.rows] / averages.ratios[self.columns]) ** 0.5
        shape = (len(self.entries), len(frame.variables[frame.of[source]].nodes))
        values = numpy.broadcast_to(q.value.values, shape)
        form = "dij,di->dj" if transposed else "dij,dj->di"
        z = frame.vectors(target, numpy.einsum(form, self.entries, values, optimize=True))
        g, size = Jet(z), len(frame.variables[frame.of[target]].nodes)
        for p, y in zip(other.inputs, other.images, strict=True):
            back = averages.average(averages.product(y, q), source, "")
            # the part of g along p_j that conditioning took out of z: drawn anew, so that entries are independent again
            fresh = Field((_DRAWS,), self.rng.standard_normal(len(self.entries)) * std / size**0.5)
            mixed = averages.sum(averages.scaled(back, -ratio), Jet(fresh))
            g = averages.sum(g, averages.product(p, mixed))
        frame.columns.append(mapped(lambda v: v / std, g.value))
        return Jet(z)


class _Recovering(Pass):
    """Reads a run of networks, and recovers the normal variables behind it."""

    execution: Execution

    def initial_matrix(self, s: InitialMatrix, key: Key) -> None:
        self._matrices[key] = _RealMatrix(s, _entry(self.execution, key), self.execution.rng)

    def initial_vector(self, s: InitialVector, key: Key) -> None:
        _of_run(self, s, key, self.execution)


class _Held(Pass):
    """The functions of a program at recovered variables."""

    execution: Execution

    def initial_vector(self, s: InitialVector, key: Key) -> None:
        _of_run(self, s, key, self.execution)


def _of_run(run: Pass, s: InitialVector, key: Key, execution: Execution) -> None:
    frame = run.frame
    assert isinstance(frame, Networks)
    run.jets[key] = Jet(frame.vectors(s.over, _entry(execution, key)))


def off_limits(execution: Execution, table: Table, observables: Sequence[Observable], places: Sequence[int]) -> Array:
    """The part of θ_n − L of first order, of shape (draws, observables), for networks that have been run.

    `places` are those of the observables among all of the table.
    """
    numbers, seen = table.numbers, table.seen
    frame = Networks(execution.width)
    with numpy.errstate(all="ignore"):
        measured = _Measured(frame, numbers.ratios, values_only=True)
        # first with averages of these very networks, which conditioning is exact for; then with those of the limit
        recovering = _Recovering(table.program, numbers, measured, seen.exist, execution.width["n"])
        recovering.execution = execution
        recovering.run()
        # frozen at the limits, so that the mean over the law of a neuron is 0 at every width
        averages = _Frozen(frame, numbers.ratios, table.value.calls)
        held = _Held(table.program, numbers, averages, seen.exist)
        held.execution = execution
        off = averages.total(held, observables, table.value.total[list(places)])
    return numpy.broadcast_to(off, (execution.draws, len(places)))


def centre(table: Table, observables: Sequence[Observable], places: Sequence[int], seed: int) -> tuple[Array, Array]:
    """The mean of the part of first order over the law of neurons, and its standard error, one for each observable.

    It is 0 where averages are held at their limits.  Held at other numbers it is not, and the difference from it has
    mean 0 all the same: it knows of no limit.  `REPLICATES` sets of points that are spread over the law.
    """
    found = []
    # a key of its own: points must not be those that any draw of networks was seeded with
    for one in numpy.random.SeedSequence(seed, spawn_key=(_CENTRE,)).generate_state(REPLICATES):
        frame = Spread(table.seen.variables, _POINTS, int(one))
        averages = _Frozen(frame, table.numbers.ratios, table.value.calls)
        held = Pass(table.program, table.numbers, averages, table.seen.exist)
        with numpy.errstate(all="ignore"):
            found.append(averages.total(held, observables, table.value.total[list(places)])[0])
    return numpy.mean(found, axis=0), standard_error(numpy.array(found))
