"""The operator 𝒦_Q on particles: means over pairs of particles, an optimizer state for every pair that is used.

The kets of all inputs, forward and backward, are drawn once and do not move.  A matrix W between two populations has
the gradient G_αβ = Σ_rows χ_row left_α right_β; Q acts on it entry by entry, and

    ⟨dz| Q |x⟩ = mean over α, β of dz_α Q_αβ x_β.

Instead of all pairs, those in matching blocks of K particles are taken: memory and time M × K.  Particles of the left
factor are moved on by one block, so that no pair is one particle with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.particles import refuse_share
from tplimits.program.network.gradient_rows import Rows, gradient_rows
from tplimits.program.network.loss import error_signal
from tplimits.program.nodes.kinds import InitialMatrix
from tplimits.regimes.training.numbers import steep
from tplimits.regimes.training.numbers.averages import Terms
from tplimits.regimes.training.numbers.kets import drawn
from tplimits.regimes.training.numbers.moments import refuse_unknown
from tplimits.regimes.training.numbers.parameters import Entries
from tplimits.regimes.training.numbers.singular import refuse_cancelled, refuse_cancelled_pairs
from tplimits.regimes.training.numbers.updates import block_update

if TYPE_CHECKING:
    from tplimits.numbers.columns import State
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.numbers.execution import TrainingExecution
    from tplimits.regimes.training.numbers.operator_request import TangentRequest
    from tplimits.regimes.training.numbers.output_biases import OutputBiases
    from tplimits.regimes.training.numbers.tangent_clipping import Clipping


@dataclass(frozen=True)
class Member:
    """The rows of one parameter: `left` and `right` (times, inputs, rows, particles), `output` of each row.

    Gradients are by the weights as they are: divided by their multiples `scales` (times).
    """

    left: Array
    right: Array | None
    output: NDArray[numpy.int64]
    scales: Array

    def signal(self, χ: Array, t: int) -> Array:
        """What weighs each row of step t, (inputs, rows)."""
        return χ.reshape(len(χ), -1)[:, self.output] / self.scales[self.at(t)]

    def at(self, t: int) -> int:
        """Which of the times holds the kets of step t."""
        # kets that do not change are held once
        return min(t, len(self.left) - 1)

    def collected(self, values: Array, t: int, outputs: int) -> Array:
        """Values of all rows (inputs, rows) at step t as changes of outputs (inputs, outputs)."""
        found = numpy.zeros((len(values), outputs))
        # several rows belong to one output, which an indexed sum would take once
        numpy.add.at(found.T, self.output, (values / self.scales[self.at(t)]).T)
        return found

    def weigh(self, z: Array, t: int, size: float, terms: Terms) -> None:
        """Tell of the means Σ z/size of all rows, (inputs, rows, particles)."""
        terms.add(z, self.output, size * float(self.scales[self.at(t)]))


class PairSums:
    """One matrix: Q on pairs of particles in blocks."""

    def __init__(self, member: Member, blocks: int, unit: int, optimizer: Optimizer) -> None:
        assert member.right is not None
        rows, columns = member.left.shape[-1], member.right.shape[-1]
        self.member, self.factor, self._optimizer = member, rows / unit, optimizer
        self.update = block_update(rows, columns, blocks, optimizer, unit)
        per = rows // blocks
        self._left = numpy.roll(member.left, per, axis=-1).reshape(*member.left.shape[:-1], blocks, per)
        self._right = member.right.reshape(*member.right.shape[:-1], blocks, columns // blocks)

    def step(self, t: int, χ: Array, lr: float, decay: float) -> None:
        """Add the update of step t."""
        signal, at = self.member.signal(χ, t), self.member.at(t)
        # rows without an error signal add nothing to G
        chosen = signal != 0
        left = self._left[at][chosen] * signal[chosen][:, None, None]
        right, (blocks, rows, columns) = self._right[at][chosen], self.update.shape
        flat = left.reshape(len(left), blocks * rows), right.reshape(len(right), blocks * columns)
        refuse_cancelled_pairs(self._optimizer, t, *flat)
        self.update.step(t, *flat, lr, decay)

    def state(self) -> State:
        """What a checkpoint holds."""
        return self.update.state()

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.update.restore(state)

    def change(self, t: int, outputs: int, terms: Terms) -> Array:
        """What all updates so far change in the outputs at step t."""
        at = self.member.at(t)
        left, right = self._left[at], self._right[at]
        blocks, rows, columns = self.update.shape
        shape = left.shape[:2]
        flat = left.reshape(-1, blocks, rows), right.reshape(-1, blocks, columns)
        # what each particle of either side adds
        ours, theirs = numpy.empty_like(flat[0]), numpy.empty_like(flat[1])
        for block in range(blocks):
            # block by block: the pairs of all blocks at once would not stay in the cache
            sums = self.update.sum[block]
            numpy.multiply(flat[0][:, block] @ sums, flat[1][:, block], out=theirs[:, block])
            numpy.multiply(flat[1][:, block] @ sums.T, flat[0][:, block], out=ours[:, block])
        # a mean over the pairs that are used, for one over all; the factor is rows/n₀
        size = blocks * rows * columns / self.factor
        for one in (ours, theirs):
            self.member.weigh(one.reshape(*shape, -1), t, size, terms)
        return self.member.collected(theirs.sum(axis=(1, 2)).reshape(shape) / size, t, outputs)


class _Sums(Entries):
    """An optimizer on an array of entries, and the decayed sum of its updates."""

    _word: ClassVar[str] = "sum"


class EntrySums(_Sums):
    """One vector with all its axes: Q on its entries; n₀ has `unit` particles, `square` is |w|² at the start."""

    def __init__(self, members: list[Member], unit: int, square: float, optimizer: Optimizer) -> None:
        super().__init__(numpy.zeros((len(members), members[0].left.shape[-1])), optimizer)
        self.members, self._unit, self._weight = members, unit, square

    def step(self, t: int, χ: Array, lr: float, decay: float) -> None:
        """Add the update of step t."""
        gradient = self._gradient(t, χ)
        refuse_cancelled(self.optimizer, t, gradient, lambda: self._gradient(t, χ, abs))
        self.move(t, gradient, (lr, decay), self._unit, lambda: self._weight)
        # in the operator regime a weight moves by less than its size: |w|² changes by decay alone
        self._weight *= decay**2

    def _gradient(self, t: int, χ: Array, of: Callable[[Array], Array] = numpy.asarray) -> Array:
        return numpy.array([numpy.einsum("ir,irn->n", of(m.signal(χ, t)), of(m.left[m.at(t)])) for m in self.members])

    def state(self) -> State:
        """What a checkpoint holds."""
        return super().state() | {"weight": self._weight}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        super().restore(state)
        self._weight = float(state["weight"])

    def change(self, t: int, outputs: int, terms: Terms) -> Array:
        """What all updates so far change in the outputs at step t."""
        found: Any = 0.0
        for member, moved in zip(self.members, self.value, strict=True):
            z = member.left[member.at(t)] * moved
            member.weigh(z, t, self._unit, terms)
            found = found + member.collected(z.sum(axis=-1) / self._unit, t, outputs)
        return numpy.asarray(found)


class BiasSums(_Sums):
    """One scalar, or a family of them, that is added to the output."""

    def __init__(self, biases: OutputBiases, optimizer: Optimizer) -> None:
        # outputs at the start are given or drawn as a whole: of each bias the value is not known
        if optimizer.divides_by == "weight" and biases.drawn.any():
            name = biases.owners[0]
            raise EvaluationError(
                f"{optimizer} for `{name}` divides by its size: give its value at the start, {name}=…."
            )
        super().__init__(numpy.zeros(len(biases.slopes)), optimizer)
        self.slopes, self._start = biases.slopes, biases.start

    def step(self, t: int, χ: Array, lr: float, decay: float) -> None:
        """Add the update of step t."""
        now, gradient = self._start + self.value, self._gradient(χ)
        refuse_cancelled(self.optimizer, t, gradient, lambda: self._gradient(χ, abs))
        self.move(t, gradient, (lr, decay), 1, lambda: float(now @ now))
        self._start = decay * self._start

    def _gradient(self, χ: Array, of: Callable[[Array], Array] = numpy.asarray) -> Array:
        return of(self.slopes) @ of(χ.reshape(len(χ), -1)).sum(axis=0)

    def state(self) -> State:
        """What a checkpoint holds."""
        return super().state() | {"start": self._start}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        super().restore(state)
        self._start = numpy.array(state["start"])

    def change(self, t: int, outputs: int, terms: Terms) -> Array:
        """What all updates so far change in the outputs, the same for all inputs; nothing is averaged."""
        return (self.value @ self.slopes)[None]


@dataclass(frozen=True)
class Prepared:
    """What all replicates of a run share: f^dec, output biases, what clips gradients, and roots of Gram matrices.

    `unknown` are squares whose means have no error, by the words for it, and at which inputs' error signals; `far_out`
    says whether means may lie further out than particles look.
    """

    path: Array
    biases: OutputBiases
    clipped: Clipping
    roots: Mapping[int, Array]
    unknown: Mapping[str, NDArray[numpy.bool_]]
    far_out: bool


def operator_sums(asked: TangentRequest, run: TrainingExecution) -> list[tuple[str, PairSums | EntrySums]]:
    """The parts of the operator, for each trained matrix and vector by name, on the particles of one replicate."""
    return [(name, part) for name in asked.operator.trained for part in _parts(asked, run, name)]


def _parts(asked: TangentRequest, run: TrainingExecution, name: str) -> list[PairSums | EntrySums]:
    total = run.total
    s = total.network[total.network.initial_names[name]]
    rows = gradient_rows(total, name, run)
    unit, optimizer = run.width[total.readout_width], asked.operator.optimizers[name]
    families = sorted({int(k) for part in rows for k in part.family})
    own = [[part for part in rows if family in part.family] for family in families]
    members = [_member(asked, name, found, family) for found, family in zip(own, families, strict=True)]
    if isinstance(s, InitialMatrix):
        return [PairSums(member, run.blocks, unit, optimizer) for member in members]
    return [EntrySums(members, unit, asked.weight_square(name), optimizer)] if members else []


def _member(asked: TangentRequest, name: str, rows: list[Rows], family: int) -> Member:
    chosen = [part.family == family for part in rows]

    def joined(arrays: list[Array]) -> Array:
        wide = numpy.concatenate([a[:, c] for a, c in zip(arrays, chosen, strict=True)], axis=1)
        return wide.reshape(asked.times, asked.inputs, *wide.shape[1:])

    right = [part.right for part in rows if part.right is not None]
    output = numpy.concatenate([part.output[c] for part, c in zip(rows, chosen, strict=True)])
    return Member(joined([part.left for part in rows]), joined(right) if right else None, output, asked.scales(name))


def finite(f: Array, t: int) -> Array:
    """Outputs after t steps; EvaluationError where they are not finite."""
    if not numpy.isfinite(f).all():
        raise EvaluationError(f"step {t}: the outputs are not finite; training diverges. Give a smaller lr.")
    return f


class TangentReplicate:
    """f at all times on one draw of particles; the kets are drawn again when it is taken up from a checkpoint."""

    def __init__(
        self, asked: TangentRequest, prepared: Prepared, number: int, held: Mapping[int, Array] | None = None
    ) -> None:
        path, biases = prepared.path, prepared.biases
        self.asked, self.path, self.signal, self.clipped = asked, path, error_signal(asked.error), prepared.clipped
        self.unknown, self.far_out = prepared.unknown, prepared.far_out
        self.outputs = len(biases.constant)
        run = drawn(asked, prepared.roots, number, held)
        #: what functions of scalars read, at the one time of the kets
        self._seen = {name: x[None] for name, x in steep.seen(run.readers, run, 0).items()}
        self.sums: list[tuple[str, PairSums | EntrySums | BiasSums]] = [*operator_sums(asked, run)]
        for name in asked.operator.biases:
            self.sums.append((name, BiasSums(biases.of((name,)), asked.operator.optimizers[name])))
        self.f, self.shares = [path[0]], [0.0]

    def advance(self) -> None:
        """One step of training."""
        t, asked = len(self.f) - 1, self.asked
        χ = self.signal(self.f[-1], t)
        refuse_unknown(self.unknown, χ)
        at_all_times = numpy.zeros((asked.times, *χ.shape))
        # kernels of whole gradients are between all times; the gradient of now has signals at one of them
        at_all_times[min(t, asked.times - 1)] = χ
        shares = self.clipped.shares(t, at_all_times)
        change, terms = numpy.zeros((asked.inputs, self.outputs)), Terms(asked.inputs, self.outputs)
        for name, part in self.sums:
            part.step(t, shares.get(name, 1.0) * χ, asked.rates[name](t), asked.kept(name))
            change += part.change(t + 1, self.outputs, terms)
        if self.far_out:
            refuse_share(terms.of_one, asked.particles, "f")
        f = self.path[min(t + 1, len(self.path) - 1)] + change.reshape(asked.shape)
        self.f.append(finite(f, t + 1))
        self.shares.append(terms.share)

    def times(self) -> int:
        """How many steps are done."""
        return len(self.f) - 1

    def finished(self) -> bool:
        """Whether all are."""
        return self.times() >= self.asked.steps

    def state(self) -> State:
        """What a checkpoint holds."""
        return {"f": numpy.array(self.f), "shares": numpy.array(self.shares)} | {
            "sums": {str(i): part.state() for i, (_, part) in enumerate(self.sums)}
        }

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.f, self.shares = list(state["f"]), [float(share) for share in state["shares"]]
        for i, (_, part) in enumerate(self.sums):
            part.restore(state["sums"][str(i)])

    def result(self) -> State:
        """The outputs at all times, (steps + 1, inputs, *outputs), and by how few particles their errors are known."""
        return {"f": numpy.array(self.f), "shares": numpy.array(self.shares), "seen": self._seen}
