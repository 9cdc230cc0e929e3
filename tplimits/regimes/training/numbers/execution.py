"""A network in training in the feature-learning limit, on one draw of particles (Yang & Littwin, Thms 2.5.2–2.9.25).

One step runs the total program, forward and backward, with every vector as M particles and every matrix as the operator
of `tplimits.numbers.matrices`, and then moves the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from sympy import Expr, Integer

from tplimits.errors import EvaluationError
from tplimits.law.unroll import Unroller
from tplimits.numbers.columns import Array, Population, State, rng_state, set_rng_state
from tplimits.numbers.particles import ParticleExecution, refuse_unseen
from tplimits.numbers.rare import FEW, hits
from tplimits.program.network.gradient_rows import flat_index, gradient_rows, network_outputs, returned_values
from tplimits.program.network.schedules import Schedule, at_step
from tplimits.program.network.total import late_vectors
from tplimits.program.nodes.drawing import drawn
from tplimits.program.nodes.entries import size_symbol, width_symbol
from tplimits.program.nodes.given import width_ratios
from tplimits.program.nodes.kinds import Initial, InitialMatrix, InitialScalar, InitialVector, Instruction, MatMul
from tplimits.regimes.training.numbers import gates, singular, steep
from tplimits.regimes.training.numbers.averages import shares
from tplimits.regimes.training.numbers.continued import continued
from tplimits.regimes.training.numbers.divisors import inverse
from tplimits.regimes.training.numbers.parameters import EntrywiseParameter, MatrixParameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.program.network.total import TotalProgram
    from tplimits.program.optimizers.recursion import Optimizer

#: what `share` and `rare` are called among what is seen
SHARE, RARE = "share", "rare"
#: the width in expressions such as 1/√n: ratios of widths stay exact, negative powers vanish
_INFINITE = 1e150


def limits_of_widths(ratios: Mapping[str, float]) -> dict[Expr, float]:
    """Numbers for the symbols of widths: ratios of them stay, and negative powers vanish."""
    return {width_symbol(width): _INFINITE * ratio for width, ratio in {"n": 1.0, **ratios}.items()}


def particles_by_width(widths: Mapping[str, float], particles: int, block: int) -> tuple[int, dict[str, int]]:
    """The number of blocks, and particles of every width, given ratios to n: rounded to whole blocks.

    >>> particles_by_width({"n": 1.0, "k": 0.5}, 1000, 256)
    (4, {'n': 1000, 'k': 500})
    """
    blocks = max(1, math.ceil(particles / block))
    # rounded up: never fewer particles than were asked for
    per_block = math.ceil(particles / blocks)
    return blocks, {width: blocks * max(1, round(per_block * ratio)) for width, ratio in widths.items()}


class TrainingExecution(ParticleExecution):
    """The total program of a network at the parameters of now; `step` moves them."""

    #: how fresh columns are drawn
    population: ClassVar[type[Population]] = Population

    def __init__(
        self,
        total: TotalProgram,
        optimizers: Mapping[str, Optimizer],
        X: Mapping[str, Array],
        particles: int,
        block: int,
        rng: numpy.random.Generator,
        white: bool = True,
        ratios: Mapping[str, float] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        program = continued(total.sized(X))
        draws, columns = rng.spawn(2)
        given = given or {}
        super().__init__(program, particles, draws, white, ratios, {**at_step(given, 0), **X})
        self.schedules = {name: value for name, value in given.items() if isinstance(value, Schedule)}
        self.total = total
        self.gates, self.singular, self.seen = gates.gates(program), singular.singular(total), dict[str, Array]()
        self.readers = steep.readers(total, program)
        self._held_at: steep.Held = {}
        #: one over the number of particles that make the error of a mean, of that with the fewest so far
        self.share = 0.0
        #: of the entries of f, how many particles make the one that fewest do, and how many entries none makes
        self.rare = 0, 0
        self._set_widths(particles, block, ratios)
        streams = columns.spawn(len(self.width))
        self.columns = {w: self.population(self.width[w], white, s) for w, s in zip(self.width, streams, strict=True)}
        self._whole = {name: self.given[name] for name in X}, dict(self.data)
        self._sized = {len(next(iter(X.values()))): program}
        late = late_vectors(total) & set(optimizers)
        self.parameters: dict[str, EntrywiseParameter | MatrixParameter] = {}
        # late vectors last: what they are drawn orthogonal to needs all others
        for name in sorted(optimizers, key=lambda n: (n in late, program.initial_names[n])):
            if name in late:
                self._see_gradient(name)
            self.parameters[name] = self._parameter(program[program.initial_names[name]], optimizers[name])

    def _set_widths(self, particles: int, block: int, ratios: Mapping[str, float] | None) -> None:
        """As many particles of each width as asked for, rounded to whole blocks."""
        program = self.program
        sizes = {"n": 1.0, **{w: float(r) for w, r in width_ratios(program, ratios, EvaluationError).items()}}
        self.blocks, self.width = particles_by_width(sizes, particles, block)
        self.leaves |= limits_of_widths(sizes)

    def _parameter(self, s: Instruction, optimizer: Optimizer) -> EntrywiseParameter | MatrixParameter:
        unit = self.width[self.total.readout_width]
        if isinstance(s, InitialMatrix):
            return MatrixParameter(self.columns[s.rows], self.columns[s.columns], self.blocks, optimizer, unit)
        assert isinstance(s, (InitialVector, InitialScalar))
        return EntrywiseParameter(self._start(s), optimizer, unit if isinstance(s, InitialVector) else 1)

    def _see_gradient(self, name: str) -> None:
        """Run what the gradient of a vector needs, so that the vector is drawn orthogonal to it.

        Outputs at the start then vanish exactly, as they do in the limit.
        """
        s = self.program[self.program.initial_names[name]]
        backward = self.total.backward
        needed = backward.program.behind(use.gradient.source for use in backward.gradients[name])
        self.arrays = [numpy.empty(0)] * len(self.program)
        with numpy.errstate(all="ignore"), singular.explained(self):
            for position in sorted(needed):
                self.arrays[position] = self.read(self.program[position])
            for found in gradient_rows(self.total, name, self):
                self.see(s.width or "n", found.left)
        self.arrays = []

    def see(self, width: str, x: Array) -> None:
        """Remember vectors, so that what is drawn later is orthogonal to them."""
        self.columns[width].see(x.reshape(-1, x.shape[-1]))

    def _start(self, s: InitialVector | InitialScalar) -> Array:
        """The value of a vector or a scalar before training."""
        shape = self.shape(s.axes)
        if isinstance(s, InitialScalar):
            if s.name not in self.given and s.value is None:
                raise EvaluationError(
                    f"the scalar parameter `{s.name}` has no initial value: the limit depends on it; give {s.name}=…."
                )
            return numpy.array(super()._initial(s)[0])
        population = self.columns[s.over]
        full = (*shape, population.size)
        return drawn(s.law, full, lambda: population.fresh(math.prod(shape)).reshape(full), self.leaves)

    def _initial(self, s: Initial) -> Array:
        if isinstance(s, InitialMatrix):
            return numpy.empty(0)
        found = self.parameters.get(s.name)
        if isinstance(found, EntrywiseParameter):
            value = found.value[None]
            return self._wide(s, value) if isinstance(s, InitialVector) else self._settled(value)
        return super()._initial(s)

    def matmul(self, s: MatMul) -> Array:
        x, parameter = self._vector(s), self.parameters[self.program[s.matrix].name]
        assert isinstance(parameter, MatrixParameter)
        if len(self.arrays) < len(self.total.network):  # on the way back tails are those of the readout
            # images have the mean of x² for their variance
            self._averaged_over(x * x)
        if all(isinstance(i, Integer) for i in s.matrix_indices):
            number = 0
            for index, size in zip(s.matrix_indices, self.shape(self.program[s.matrix].axes), strict=True):
                # row order, as flat_index has it
                number = number * size + int(index)
            flat = self.wider * parameter.member(number).apply(x.reshape(-1, x.shape[-1]), s.transposed)
            return flat.reshape((*x.shape[:-1], -1))
        full = self.shape(s.axes)
        members, _ = flat_index(self._grid(s.axes), s.matrix_indices, self.shape(self.program[s.matrix].axes), full)
        flat, out = x.reshape(-1, x.shape[-1]), numpy.empty((math.prod(full), self.width[s.over]))
        # one call for each matrix: conditioning sees all columns of a matrix in one go
        for number in numpy.unique(members):
            chosen = members == number
            out[chosen] = self.wider * parameter.member(int(number)).apply(flat[chosen], s.transposed)
        return out.reshape((1, *full, -1))

    def hold_at(self, held: steep.Held) -> None:
        """From now on scalars are these numbers at some times, whatever rounding makes of functions there."""
        self._held_at, self.rounding_at = held, 0

    def look_at(self, rows: NDArray[numpy.int64]) -> None:
        """From now on the inputs are those with these numbers alone; others take no columns of matrices."""
        (given, data), count = self._whole, len(rows)
        if count not in self._sized:
            self._sized[count] = continued(self.total.sized({name: x[rows] for name, x in given.items()}))
        self.program, self.arrays = self._sized[count], []
        self.leaves[size_symbol(self.total.axis)] = float(count)
        self.given.update({name: x[rows] for name, x in given.items()})
        self.data.update({position: x[rows] for position, x in data.items()})
        # data that are indices are read by the unroller, which holds on to those of before
        self._unroller = Unroller(self.program, self.data)

    def outputs(self, t: int) -> Array:
        """f at the parameters of now and the constants of step t, (inputs, *outputs): the forward instructions run."""
        self.arrays, self.held = [], self._held_at.get(t, {})
        for name, schedule in self.schedules.items():
            self.given[name] = numpy.array(schedule(t))
        self.run_some(len(self.total.network))
        self.seen = self._seen(len(self.total.network)) | steep.seen(self.readers, self, t)
        readout = returned_values(self.total, self)[0]
        if self.may_lie_far_out:
            refuse_unseen(readout, "f")
        self._averaged_over(readout)
        made = hits(readout)
        self.rare = int(made[made > 0].min(initial=FEW)), int((made == 0).sum())
        self.seen |= {SHARE: numpy.array(self.share), RARE: numpy.array(self.rare)}
        return network_outputs(self.total, self)

    def _averaged_over(self, z: Array) -> None:
        """Remember by how many particles the error of the mean of z is known."""
        self.share = max(self.share, float(shares(z).max(initial=0.0)))

    def _seen(self, count: int) -> dict[str, Array]:
        """What the hypotheses on scalars read, of the first `count` instructions."""
        found = gates.seen(self.gates, self, count) | singular.seen(self.singular, self, count)
        return found | {SHARE: numpy.array(self.share), RARE: numpy.array(self.rare)}

    def step(self, t: int, χ: Array, lr: Mapping[str, float], decay: Mapping[str, float]) -> None:
        """Backward from the error signals χ (inputs, *outputs), then one update of all parameters."""
        self.run_some(len(self.program))
        self.seen = self._seen(len(self.program)) | steep.seen(self.readers, self, t)
        signal = χ.reshape(len(χ), -1)
        clipped = self._shares(t, signal)
        for name, parameter in self.parameters.items():
            key = parameter.optimizer.clips_gradient
            # gradients are linear in χ: dividing signals divides them
            own = signal if key is None else clipped[key] * signal
            parameter.step(t, gradient_rows(self.total, name, self), own, lr[name], decay[name])

    def _shares(self, t: int, signal: Array) -> dict[Any, float]:
        """1/ν of the gradients that are clipped together."""
        members: dict[Any, list[str]] = {}
        for name, parameter in self.parameters.items():
            members.setdefault(parameter.optimizer.clips_gradient, []).append(name)
        members.pop(None, None)
        return {key: self._share(t, names, signal) for key, names in members.items()}

    def _share(self, t: int, names: Sequence[str], signal: Array) -> float:
        def square(of: Callable[[Array], Array] = numpy.asarray) -> float:
            return sum(self.parameters[n].square(gradient_rows(self.total, n, self), signal, of) for n in names)

        optimizer, found = self.parameters[names[0]].optimizer, square()
        singular.refuse_cancelled(optimizer, t, found, lambda: square(abs), whole=True)
        return inverse(optimizer, found)

    def state(self) -> State:
        """What a checkpoint holds."""
        return {
            "rng": rng_state(self.rng),
            "columns": {w: c.state() for w, c in self.columns.items()},
            "parameters": {name: p.state() for name, p in self.parameters.items()},
        }

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        set_rng_state(self.rng, state["rng"])
        for width, held in state["columns"].items():
            self.columns[width].restore(held)
        for name, held in state["parameters"].items():
            self.parameters[name].restore(held)
        self.arrays = []
