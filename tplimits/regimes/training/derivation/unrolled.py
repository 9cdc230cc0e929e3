"""A few steps of training as one program: forward, backward and update, step after step.

The matrix of step t is never formed.  With (1 − λ)^t W_0 kept apart, a product with it is

    W_t x = (1 − λ)^t W_0 x − Σ_{s<t} η_s (1 − λ)^(t−1−s) ⟨Q_s(G_0(α, β), …, G_s(α, β)) x_β⟩_β,

an outer nonlinearity of order 2 in scalars χ and in vectors of earlier steps.  The program is what a network of width n
does in the maximal update parametrization, and its width limit is the feature-learning limit (Thm 2.7.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Integer

from tplimits.errors import ProgramError
from tplimits.program.network.data import with_sizes
from tplimits.program.network.gradient_rows import pinned
from tplimits.program.network.growing import Growing
from tplimits.program.network.samples import at_sample
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    ArrayEntry,
    Entry,
    axis_symbol,
    relocated,
    slot_symbol,
    width_symbol,
)
from tplimits.program.nodes.kinds import (
    Avg,
    Initial,
    InitialMatrix,
    InitialScalar,
    Instruction,
    MatMul,
    Nonlin,
    OuterNonlin,
)
from tplimits.program.nodes.stated import IndexTable
from tplimits.regimes.training.derivation.unrolled_asked import Rates, bound
from tplimits.regimes.training.derivation.unrolled_indices import Indices

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use
    from tplimits.program.network.schedules import Schedule
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.derivation.feature_learning import MaximalRecursion

#: χ of all inputs and outputs from f of the same, as arrays of expressions
Signal = Callable[[numpy.ndarray, int], numpy.ndarray]


def unrolled(
    recursion: MaximalRecursion,
    X: Mapping[str, numpy.ndarray],
    signal: Signal,
    lr: Rates,
    steps: int,
    given: Mapping[str, Any],
) -> Program:
    """The program that trains a network for some steps; it returns f_0, …, f_steps, one entry an input.

    `given` are its constants by name, numbers or functions of the step; those that are left out stay symbols.

    Raises ProgramError for families of matrices, and for optimizers that look at all entries of a parameter at once.
    """
    recursion, schedules = bound(recursion, given)
    with_sizes(recursion.network, X, {})  # refused here if an axis has none
    for name, optimizer in recursion.optimizers.items():
        if not optimizer.is_entrywise:
            raise ProgramError(
                f"{optimizer} for `{name}` looks at all entries of a parameter at once: steps are unrolled for updates "
                "that act entry by entry, such as tp.Adam(). `.evaluate` has numbers."
            )
    return _Unrolling(recursion, X, signal, lr, schedules).run(steps)


class _Unrolling:
    """One program under construction."""

    def __init__(
        self,
        recursion: MaximalRecursion,
        X: Mapping[str, numpy.ndarray],
        signal: Signal,
        lr: Rates,
        schedules: Mapping[str, Schedule],
    ) -> None:
        self.recursion, self.total, self.signal, self.lr = recursion, recursion.total, signal, lr
        self.schedules = schedules
        self.source = source = self.total.program
        self.inputs = len(next(iter(X.values())))
        sizes = dict(source.sizes) | {source.root_axis(self.total.axis): Integer(self.inputs)}
        for name, array in X.items():
            for axis, size in zip(source[source.initial_names[name]].axes, array.shape, strict=True):
                sizes[source.root_axis(axis)] = Integer(size)
        trained = [source.initial_names[name] for name in recursion.optimizers]
        shown = next((i for i, p in enumerate(trained) if not isinstance(source[p], InitialMatrix)), 0)
        base = source.replace(
            name=f"{recursion.network.name} trained",
            instructions=tuple(source[p] for p in trained),
            names={source[p].name: i for i, p in enumerate(trained)},
            sizes=sizes,
            returns=(shown,),  # until there are outputs; no program returns a matrix
            arguments=tuple(range(len(trained))),
            inputs=(),
        )
        self.growing = Growing(base)
        self.start = {p: i for i, p in enumerate(trained)}
        self.now = dict(self.start)
        self.indices = Indices(source, self.growing)
        for name, array in X.items():
            self._data(source.initial_names[name], array)
        #: of every parameter and step the rows (left, right) of its gradient, χ in the left ones
        self.rows: dict[str, list[list[tuple[Expr, Expr | None]]]] = {name: [] for name in recursion.optimizers}
        self.vectors: dict[str, list[Entry]] = {name: [] for name in recursion.optimizers}
        self.rates: dict[str, list[Expr]] = {name: [] for name in recursion.optimizers}

    def run(self, steps: int) -> Program:
        """All steps."""
        found = []
        for t in range(steps + 1):
            self._move_constants(t)
            at = dict(self.now)
            self._copy(range(len(self.total.network)), at, t)
            f = self._output(at, t)
            found.append(f)
            if t < steps:
                self._copy(range(len(self.total.network), len(self.source)), at, t)
                χ = self._errors(f, t)
                for name in self.recursion.optimizers:
                    self._update(name, at, χ, t)
        return self.growing.finished().replace(returns=tuple(f.source for f in found), returns_tuple=steps > 0)

    def _move_constants(self, t: int) -> None:
        """What moves with the step to its number at step t."""
        for name, schedule in self.schedules.items():
            position = self.source.initial_names[name]
            line = self.source[position].line
            self.now[position] = self.growing.body(schedule.exact(t), (), None, line, f"{name}_{t}").source

    def _data(self, position: int, array: numpy.ndarray) -> None:
        s = self.source[position]
        if isinstance(s, InitialScalar) and s.of is not None:
            self.indices.add(position, array)
            return
        table = self.growing.array(IndexTable(numpy.array(array, dtype=float), s.axes))
        body = ArrayEntry(table, *map(axis_symbol, s.axes))
        self.now[position] = self.growing.body(body, s.axes, None, s.line, s.name).source

    def _copy(self, positions: range, at: dict[int, int], t: int) -> None:
        """Instructions of the network, or of its gradients, at step t; `at` maps old positions to new ones."""
        for position in positions:
            s = self.source[position]
            if not isinstance(s, Initial):
                at[position] = self._copied(s, at, t).source

    def _copied(self, s: Instruction, at: Mapping[int, int], t: int) -> Entry:
        hint, fresh = f"{s.name}_{t}", replace(s, name="")
        if isinstance(fresh, Nonlin):
            return self.growing.emit(replace(fresh, body=self._moved(fresh.body, at)), hint)
        assert isinstance(fresh, (MatMul, Avg))
        fresh = replace(fresh, operand=self._moved(fresh.operand, at))
        if isinstance(fresh, Avg):
            return self.growing.emit(fresh, hint)
        return self._product(fresh, hint, t)

    def _product(self, s: MatMul, hint: str, t: int) -> Entry:
        """A product with the matrix of step t."""
        matrix = self.source[s.matrix]
        if matrix.axes:
            raise ProgramError(
                f"`{matrix.name}` is a family of matrices: training is unrolled for single ones; evaluate() does both."
            )
        # the one matrix that is drawn; all that training adds to it is written out as sums over neurons
        image = self.growing.emit(replace(s, matrix=self.start[s.matrix]), f"{matrix.name}₀·{hint}" if t else hint)
        λ = self.recursion.weight_decay[matrix.name]
        moved = self._moved_by(matrix.name, λ, t)
        if not moved and (λ == 0 or t == 0):
            return image
        assert isinstance(matrix, InitialMatrix)
        β = slot_symbol(1)
        left, right = (β, OWN) if s.transposed else (OWN, β)
        # the operand is read at the neuron that is averaged over, not at the one of the result
        operand = s.operand.xreplace({OWN: β})
        kernel = sympy.Add(*(weight * self._change(matrix.name, step, left, right) for step, weight in moved))
        # updates carry 1/columns whichever way the matrix is read; the average over rows divides by rows
        if s.transposed and matrix.rows != matrix.columns:
            kernel *= width_symbol(matrix.rows) / width_symbol(matrix.columns)
        widths = (matrix.rows if s.transposed else matrix.columns,)
        # a linear kernel falls into products f(α) g(β), which averages read as scalars; inside a nonlinear Q it does
        # not
        body = sympy.expand(kernel * operand) if self.recursion.optimizers[matrix.name].is_linear else kernel * operand
        sum_of_updates = OuterNonlin(
            "", s.axes, s.line, body=body, slots=(β,), slot_names=("β",), slot_widths=widths, over=s.over
        )
        update = self.growing.emit(sum_of_updates, f"Δ{matrix.name}·{hint}")
        return self.growing.body((1 - λ) ** t * image + update, s.axes, s.over, s.line, hint)

    def _moved_by(self, name: str, λ: Expr, t: int) -> list[tuple[int, Expr]]:
        """The steps whose updates are in the matrix of step t, and how much of each."""
        # a step at rate 0 moves nothing, though its gradient is still in the state of the optimizer
        return [(s, -self.rates[name][s] * (1 - λ) ** (t - 1 - s)) for s in range(t) if self.rates[name][s] != 0]

    def _change(self, name: str, step: int, left: Expr, right: Expr) -> Expr:
        """Q_step(G_0, …, G_step) at the neurons `left` and `right`."""
        gradients = [
            sympy.Add(*(a.xreplace({OWN: left}) * _right(b).xreplace({OWN: right}) for a, b in rows))
            for rows in self.rows[name][: step + 1]
        ]
        return self.recursion.optimizers[name].update(gradients)

    def _output(self, at: Mapping[int, int], t: int) -> Entry:
        """f_t = Avg(readout) + shift."""
        network, axes = self.total.network, (self.total.axis, *self.total.output_axes)
        first = self.growing.instructions[at[network.returns[0]]]
        readout = self.growing.entry(at[network.returns[0]])
        assert first.width is not None
        f: Expr = self.growing.emit(Avg("", first.axes, first.line, operand=readout, over=first.width), f"mean_{t}")
        if len(network.returns) > 1:
            f = f + self.growing.entry(at[network.returns[1]])
        entry = self.growing.body(f, axes, None, first.line, f"f_{t}") if len(network.returns) > 1 else f
        self.growing.call(entry, f"f_{t}")
        return entry

    def _errors(self, f: Entry, t: int) -> dict[tuple[int, ...], Expr]:
        """χ of every input and output, as scalars of the program; those that are 0 are left out."""
        shape = (self.inputs, *(self._size(a) for a in self.total.output_axes))
        symbols = numpy.empty(shape, dtype=object)
        entries = {}
        axes = self.growing.instructions[f.source].axes
        places = (self.total.axis, *self.total.output_axes)
        for index in numpy.ndindex(*shape):
            at = dict(zip(places, map(Integer, index), strict=True))
            symbols[index] = sympy.Symbol("f" + "_".join(map(str, index)), real=True)
            entries[symbols[index]] = Entry(Integer(f.source), NO_NEURON, *(at[a] for a in axes))
        found = {}
        for index, value in numpy.ndenumerate(self.signal(symbols, t)):
            body = sympy.sympify(value).xreplace(entries)
            # an input that is held out has no part in any gradient, and its rows need not be written
            if body != 0:
                found[index] = self.growing.body(
                    body, (), None, self.source[0].line, f"χ_{t}({', '.join(map(str, index))})"
                )
        return found

    def _size(self, axis: str) -> int:
        return int(self.growing.size(axis))

    def _update(self, name: str, at: Mapping[int, int], χ: Mapping[tuple[int, ...], Expr], t: int) -> None:
        """What a parameter is at step t + 1."""
        position = self.source.initial_names[name]
        s, λ = self.source[position], self.recursion.weight_decay[name]
        rows: list[tuple[Expr, Expr | None]] = []
        for use, outputs in self.total.backward.uses(name):
            rows += self._rows(s, use, outputs, at, χ)
        lr = self.lr(t)[name]
        self.rates[name].append(lr)
        self.rows[name].append(rows)
        # a matrix is never formed: its rows and rates are all that later products need
        if isinstance(s, InitialMatrix):
            return
        # all uses stand inside one update: Q of a sum is no sum of Q
        gradient = sympy.Add(*(a for a, _ in rows))
        held = self.growing.body(gradient, s.axes, s.width, s.line, f"g {name}_{t}")
        self.vectors[name].append(held)
        moved = self.recursion.optimizers[name].update(self.vectors[name])
        body = (1 - λ) * self.growing.entry(self.now[position]) - lr * moved
        self.now[position] = self.growing.body(body, s.axes, s.width, s.line, f"{name}_{t + 1}").source

    def _rows(
        self,
        s: Instruction,
        use: Use,
        outputs: Mapping[str, str],
        at: Mapping[int, int],
        χ: Mapping[tuple[int, ...], Expr],
    ) -> Iterator[tuple[Expr, Expr | None]]:
        """χ_row left_row and right_row of one use, for every index that has an error signal."""
        place = pinned(use, s.axes, outputs)
        own = {index: axis_symbol(a) for index, a in place.running.items()}
        new = {old: fresh for fresh, old in outputs.items()}
        for index, error in χ.items():
            along = zip(self.total.output_axes, index[1:], strict=True)
            output = {axis_symbol(new[a]): Integer(i) for a, i in along if a in new}
            for chosen in product(*(range(self._size(a)) for a in place.summed)):
                swap = {**own, **output, **dict(zip(map(axis_symbol, place.summed), map(Integer, chosen), strict=True))}
                δ = sympy.Mul(*(self.indices.kronecker(a, i.xreplace(swap)) for a, i in place.fixed))
                # another member of the family: this use does not read the one that moves here
                if δ == 0:
                    continue
                left = self._at(use.gradient, swap, index[0], at)
                right = None if use.operand is None else self._at(use.operand, swap, index[0], at)
                if use.transposed:
                    # a use of Wᵀ has the gradient on the side of the columns
                    left, right = _right(right), left
                yield δ * error * left, right

    def _moved(self, expr: Any, at: Mapping[int, int]) -> Any:
        """An expression with its entries read from new positions, and data that are indices from tables."""
        return relocated(self.indices.written(expr), at.__getitem__)

    def _at(self, entry: Entry, swap: Mapping[Expr, Expr], sample: int, at: Mapping[int, int]) -> Expr:
        """An entry of the program for one input, at step and sample, with some axes fixed."""
        placed = at_sample(entry.xreplace(dict(swap)), Integer(sample), self.total.on_data)
        return self._moved(placed, at)


def _right(right: Expr | None) -> Expr:
    assert right is not None
    return right
