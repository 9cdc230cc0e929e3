"""Parameters of a network in training, on one draw of particles: their values now, and how a step moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from tplimits.numbers.matrices import InitialOperator, TrainedMatrix, Update
from tplimits.regimes.training.numbers.divisors import share
from tplimits.regimes.training.numbers.singular import refuse_cancelled, refuse_cancelled_pairs
from tplimits.regimes.training.numbers.updates import update_of

if TYPE_CHECKING:
    from tplimits.numbers.columns import Array, Population, State
    from tplimits.program.network.gradient_rows import Rows
    from tplimits.program.optimizers.recursion import Optimizer


class Entries:
    """An array with one optimizer state an entry, moved by updates that are divided by a norm or not."""

    #: what a checkpoint calls the array
    _word: ClassVar[str] = "value"

    def __init__(self, value: Array, optimizer: Optimizer) -> None:
        self.value, self.optimizer = value, optimizer
        entrywise = optimizer.entry_by_entry("vector")  # that of vectors and scalars, which every optimizer has
        assert entrywise is not None
        self._stepper: Any = entrywise.stepper()
        self.states: tuple[Array, ...] = self._stepper.start(value.shape)

    def move(self, t: int, gradient: Array, rates: tuple[float, float], unit: int, weight: Callable[[], float]) -> None:
        """w ← decay w − lr Q_t(g)/ν_t, `rates` lr and decay, ν_t = 1 for updates that are not divided by a norm.

        Squares of norms are sums over entries divided by `unit`; `weight` gives that of what Q may be divided by.
        """
        self.states, moved = self._stepper.step(t, self.states, gradient)
        by_norm = share(self.optimizer, lambda: float((moved * moved).sum()) / unit, weight)
        lr, decay = rates
        self.value = decay * self.value - lr * by_norm * moved

    def state(self) -> State:
        """What a checkpoint holds."""
        return {self._word: self.value, **{f"state{i}": s for i, s in enumerate(self.states)}}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.value = numpy.array(state[self._word])
        self.states = tuple(numpy.array(state[f"state{i}"]) for i in range(len(self.states)))


class EntrywiseParameter(Entries):
    """A vector (*axes, particles), or a scalar (*axes), with one optimizer state an entry.

    `unit` is the number of particles of the readout's width for vectors, 1 for scalars: norms are roots of sums over
    entries, divided by it.
    """

    def __init__(self, value: Array, optimizer: Optimizer, unit: int) -> None:
        super().__init__(value, optimizer)
        self._unit = unit

    def step(self, t: int, rows: list[Rows], χ: Array, lr: float, decay: float) -> None:
        """The update of step t from the rows of its gradient."""
        gradient = self._gradient(rows, χ)
        refuse_cancelled(self.optimizer, t, gradient, lambda: self._gradient(rows, χ, abs))
        self.move(t, gradient, (lr, decay), self._unit, lambda: self._square(self.value))

    def square(self, rows: list[Rows], χ: Array, of: Callable[[Array], Array] = numpy.asarray) -> float:
        """The part of this parameter in the square of the norm of the whole gradient; with `of` its factors."""
        return self._square(self._gradient(rows, χ, of))

    def _square(self, values: Array) -> float:
        return float((values * values).sum()) / self._unit

    def _gradient(self, rows: list[Rows], χ: Array, of: Callable[[Array], Array] = numpy.asarray) -> Array:
        """Σ χ_row left_row, member by member, with a function of both in their place."""
        # a scalar has no particles: its rows have one entry, and the last axis of its value is a family
        entries = self.value.shape[-1] if rows and rows[0].left.shape[-1] > 1 else 1
        total = numpy.zeros((self.value.size // entries, entries))
        for part in rows:
            weighted = numpy.einsum("ir,irn->rn", of(χ[:, part.output]), of(part.left), optimize=True)
            numpy.add.at(total, part.family, weighted)
        return total.reshape(self.value.shape)


class MatrixParameter:
    """A matrix, or a family of them: W_0 by conditioning, its updates as operators; made as they are used."""

    def __init__(self, rows: Population, columns: Population, blocks: int, optimizer: Optimizer, unit: int) -> None:
        self._rows, self._columns, self._blocks = rows, columns, blocks
        self.optimizer, self._unit = optimizer, unit
        self.members: dict[int, TrainedMatrix] = {}

    def member(self, number: int) -> TrainedMatrix:
        """One matrix of the family."""
        if number not in self.members:
            self.members[number] = TrainedMatrix(InitialOperator(self._rows, self._columns), self._update())
        return self.members[number]

    def _update(self) -> Update:
        return update_of(self._rows.size, self._columns.size, self._blocks, self.optimizer, self._unit)

    def step(self, t: int, rows: list[Rows], χ: Array, lr: float, decay: float) -> None:
        """W ← decay W − lr Q_t(G)/columns for every member; G sums over all uses before Q is applied."""
        for number, (left, right) in self._factors(rows, χ).items():
            matrix = self.member(number)
            refuse_cancelled_pairs(self.optimizer, t, left, right)
            # W_0 is kept apart from its updates, which decay inside `update`
            matrix.decay *= decay
            matrix.update.step(t, left, right, lr, decay)

    def square(self, rows: list[Rows], χ: Array, of: Callable[[Array], Array] = numpy.asarray) -> float:
        """The part of all members in the square of the norm of the whole gradient: over all pairs of particles."""
        pairs = [(of(a), of(b)) for a, b in self._factors(rows, χ).values()]
        # the Frobenius norm of Σ a_i b_iᵀ by its factors: exact, also where updates are on blocks
        return sum(float(((a @ a.T) * (b @ b.T)).sum()) for a, b in pairs) / self._unit**2

    def _factors(self, rows: list[Rows], χ: Array) -> dict[int, tuple[Array, Array]]:
        """The rows of the gradient of every member, χ in the left ones."""
        # members without a gradient in this step still take one: momentum goes on, weights decay
        factors: dict[int, list[tuple[Array, Array]]] = {number: [] for number in self.members}
        for part in rows:
            signal = χ[:, part.output]
            for number in numpy.unique(part.family):
                # an input without an error signal adds no rows, of which low-rank updates hold all
                chosen = (signal != 0) & (part.family == number)
                assert part.right is not None
                left = part.left[chosen] * signal[chosen][:, None]
                factors.setdefault(int(number), []).append((left, part.right[chosen]))
        none = (numpy.empty((0, self._rows.size)), numpy.empty((0, self._columns.size)))
        sides = {number: tuple(zip(*found, strict=True)) for number, found in factors.items()}
        return {
            number: (numpy.concatenate([none[0], *left]), numpy.concatenate([none[1], *right]))
            for number, (left, right) in ((number, found or ((), ())) for number, found in sides.items())
        }

    def state(self) -> State:
        """What a checkpoint holds."""
        return {str(number): matrix.state() for number, matrix in self.members.items()}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.members = {}
        for number, held in state.items():
            self.member(int(number)).restore(held)
