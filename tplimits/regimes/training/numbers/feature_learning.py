"""Training runs on particles: replicates, their mean and standard error; progress, checkpoints, executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy

from tplimits.errors import EvaluationError
from tplimits.numbers.columns import Array, OverflowingError, State
from tplimits.numbers.rare import FEW, refuse_rare
from tplimits.numbers.steep.looking import Looking
from tplimits.program.files.serial import to_json
from tplimits.program.network.loss import error_signal
from tplimits.program.network.schedules import along, at_step
from tplimits.program.nodes.evaluate import stream
from tplimits.regimes.training.numbers import checkpoint, gates, moments, singular, steep
from tplimits.regimes.training.numbers.columns_needed import refuse_too_few
from tplimits.regimes.training.numbers.continued import continued
from tplimits.regimes.training.numbers.execution import RARE, TrainingExecution, limits_of_widths
from tplimits.regimes.training.numbers.replicates import ENOUGH, Seen, quietly, refuse_lost, replicated, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tplimits.numbers.steep.readers import Readers
    from tplimits.program.network.total import TotalProgram
    from tplimits.progress import Progress
    from tplimits.regimes.training.numbers.request import TrainingRequest


#: what is said of numbers that are none, after where they are
_DIVERGES = "are not finite. Training diverges at this learning rate, or a moment does not exist; give a smaller lr."


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One replicate: f (steps + 1, inputs, *outputs), Gram matrices and samples of the kets that were asked for."""

    f: Array
    grams: dict[str, Array]
    kets: dict[str, Array]
    gates: dict[str, Array]


class Replicate:
    """One training run on one draw of particles, which can be left and taken up again after every step."""

    def __init__(
        self, asked: TrainingRequest, number: int, total: TotalProgram | None = None, held: steep.Held | None = None
    ) -> None:
        self.asked, self.number = asked, number
        self.execution = TrainingExecution(
            asked.recursion.total if total is None else total,
            asked.recursion.optimizers,
            asked.X,
            asked.particles,
            asked.block,
            stream(asked.seed, number),
            asked.white,
            asked.ratios,
            asked.given,
        )
        if held:
            self.execution.hold_at(held)
        self.signal = error_signal(asked.error)
        self.f: list[Array] = []
        self.grams: dict[str, list[Array]] = {name: [] for name in asked.record}
        self.kets: dict[str, list[Array]] = {name: [] for name in asked.record}
        self.gates: dict[str, list[Array]] = {}

    def advance(self) -> None:
        """The outputs at the next time, and a step of training unless it was the last."""
        t = len(self.f)
        try:
            with numpy.errstate(all="ignore"), singular.explained(self.execution):  # what overflows is refused by name
                self._advance()
        except OverflowingError as error:
            raise EvaluationError(f"step {t}: vectors {_DIVERGES}") from error

    def _advance(self) -> None:
        t = len(self.f)
        rows = slice(None) if self.asked.rows is None else self.asked.rows(t)
        if not isinstance(rows, slice):
            self.execution.look_at(rows)
        f = self._among_all(rows, self.execution.outputs(t))
        if not numpy.isfinite(f).all():
            raise EvaluationError(f"step {t}: the outputs {_DIVERGES}")
        self.f.append(f)
        for name in self.asked.record:
            ket = self._ket(name)
            self.kets[name].append(ket)
            self.grams[name].append(ket @ numpy.swapaxes(ket, -1, -2) / ket.shape[-1])
        if t < self.asked.steps:
            signal = self.signal(f, t)
            unknown = self.asked.squares_without_error
            moments.refuse_unknown({why: at[rows] for why, at in unknown.items()}, signal[rows])
            self.execution.step(t, signal[rows], self.asked.rates_at(t), self.asked.kept)
        for name, value in self.execution.seen.items():
            self.gates.setdefault(name, []).append(value)

    def _among_all(self, rows: slice | NDArray[numpy.int64], f: Array) -> Array:
        """Outputs of some inputs among those of all; 0 on the others, which are not looked at."""
        # the error function is one of outputs of all inputs, and is asked for all of them
        found = numpy.zeros(self.asked.shape) if len(f) < self.asked.inputs else f
        found[rows] = f
        return found

    def _ket(self, name: str) -> Array:
        """A vector of the network at the parameters of now: (*axes, inputs, particles)."""
        position = self.asked.recursion.network.position(name)
        array = self.execution.arrays[position][0]
        if not self.asked.recursion.total.on_data[position]:
            # one shape for all recorded vectors: with inputs, also where a vector does not depend on them
            array = numpy.broadcast_to(array, (self.asked.inputs, *array.shape))
        return numpy.array(numpy.moveaxis(array, 0, -2))

    def times(self) -> int:
        """How many times are done."""
        return len(self.f)

    def finished(self) -> bool:
        """Whether all steps are done."""
        return len(self.f) > self.asked.steps

    def result(self) -> State:
        """What was found; samples of kets are those of the first replicate."""
        kets = {name: numpy.array(kets) for name, kets in self.kets.items()} if self.number == 0 else {}
        return {
            "f": numpy.array(self.f),
            "grams": {name: numpy.array(g) for name, g in self.grams.items()},
            "kets": kets,
            "gates": {name: numpy.array(values) for name, values in self.gates.items()},
        }

    def state(self) -> State:
        """What a checkpoint holds."""
        held: State = {"f": numpy.array(self.f), "execution": self.execution.state()}
        held["gates"] = {name: numpy.array(values) for name, values in self.gates.items()}
        held |= {f"gram {name}": numpy.array(g) for name, g in self.grams.items()}
        return held | {f"ket {name}": numpy.array(k) for name, k in self.kets.items()}

    def restore(self, state: State) -> None:
        """Back to what a checkpoint holds."""
        self.f = list(state["f"])
        self.gates = {name: list(values) for name, values in state["gates"].items()}
        for name in self.asked.record:
            self.grams[name], self.kets[name] = list(state[f"gram {name}"]), list(state[f"ket {name}"])
        self.execution.restore(state["execution"])


def _outputs(asked: TrainingRequest, total: TotalProgram) -> Array:
    """The outputs with another total program, of as many replicates as tell whether they differ."""
    begin = partial(Replicate, asked, total=total)
    return numpy.array([whole(begin, number)["f"] for number in range(max(asked.replicates, ENOUGH))])


def _signals(asked: TrainingRequest, outputs: Sequence[Array], t: int) -> Array:
    """The error signals of all replicates at a step."""
    signal, rows = error_signal(asked.error), slice(None) if asked.rows is None else asked.rows(t)
    return numpy.array([signal(f[t], t)[rows] for f in outputs])


def _gates(asked: TrainingRequest, number: int) -> Mapping[str, Array]:
    """The arguments of gates in one replicate."""
    return whole(partial(Replicate, asked), number)["gates"]


def _looking(asked: TrainingRequest, t: int, readers: Readers, vectors: Mapping[int, Array]) -> Looking:
    """What functions of the total program are looked at with at a step."""
    rows = slice(None) if asked.rows is None else asked.rows(t)
    X = {name: x[rows] for name, x in asked.X.items()}
    sized = asked.sized if asked.rows is None else asked.recursion.total.sized(X)
    program, given = continued(sized), {**at_step(asked.given, t), **X}
    return Looking(program, readers, vectors, limits_of_widths(asked.ratios), asked.ratios, given)


def _held(asked: TrainingRequest, held: steep.Held, which: Sequence[int]) -> Array:
    """The outputs of some replicates with scalars held."""
    return numpy.array([whole(partial(Replicate, asked, held=held), number)["f"] for number in which])


def judge(asked: TrainingRequest, runs: Sequence[State]) -> Array:
    """EvaluationError where training lands on a jump, a pole or the end of a root of a scalar, or is steep in one.

    Else what functions of scalars add to the errors of outputs, (steps + 1, inputs, *outputs).

    `runs` are the results of all replicates: `tplimits.regimes.training.numbers.gates` and `singular`.
    """
    total = asked.recursion.total
    seen = Seen([run["gates"] for run in runs], partial(_gates, asked))
    singular.judge(total, seen)
    rates = [asked.rates_at(t) for t in range(asked.steps)]
    outputs = [run["f"] for run in runs]
    signals = partial(_signals, asked, outputs)
    silent = partial(_signals, asked, [numpy.zeros_like(f) for f in outputs[:1]])
    singular.judge_signals(asked.recursion.optimizers, signals, silent, rates)
    refuse_lost(numpy.array(outputs), signals, asked.steps)
    # one draw without conditioning
    gates.judge(total, seen, partial(_outputs, asked), partial(_gates, replace(asked, white=False), 0))
    readers = steep.readers(total, asked.sized)
    own, all_outputs = [run["gates"] for run in runs], numpy.array(outputs)
    return steep.more_errors(readers, partial(_looking, asked), own, all_outputs, partial(_held, asked))


def trajectories(
    asked: TrainingRequest, executor: Executor | None, progress: Progress
) -> tuple[list[Trajectory], Array]:
    """All replicates, judged, and what their errors have besides; the same numbers whoever runs them."""
    with quietly():
        refuse_too_few(asked)
        if asked.steps:  # known before there are many that would each ask for it
            _ = asked.squares_without_error
        known = partial(_fingerprint, asked)
        runs = replicated(asked, partial(Replicate, asked), asked.steps + 1, known, executor, progress)
        _refuse_rare(asked, runs)
        more = judge(asked, runs)
    return [Trajectory(**run) for run in runs], more


def _refuse_rare(asked: TrainingRequest, runs: Sequence[State]) -> None:
    """EvaluationError where hardly any particle makes an output at the start: it would stay 0, or be of a few."""
    counts = numpy.array([run["gates"][RARE][0] for run in runs])
    missed = numpy.array([min(int(counts[:, 0].sum()), FEW)])
    wider = {}
    if counts[:, 1].any():  # those that are zeros on a wider law, too, as of inputs that are 0, are right
        # rounding may decide whether an output is 0, in one replicate and not in another
        place = int(counts[:, 1].argmax())
        plain, wide = (Replicate(asked, place).execution for _ in range(2))
        plain.outputs(0)
        wide.hold(plain)
        wide.outputs(0)
        missed = numpy.append(missed, 0)
        wider = {"f": numpy.append(missed[:1], int(wide.rare[1] < plain.rare[1]))}
    refuse_rare({"f": missed}, wider, asked.particles * len(runs))


def _fingerprint(asked: TrainingRequest) -> str:
    """What a run was asked for; the number of replicates may grow."""
    recursion = asked.recursion
    parts: list[object] = [to_json(recursion.network), recursion.optimizers, recursion.weight_decay, asked.record]
    parts += [asked.particles, asked.block, asked.white, asked.seed, asked.steps, sorted(asked.ratios.items())]
    # rates may be functions, of which only the values can be compared
    parts += [[asked.rates_at(t) for t in range(asked.steps)]]
    return checkpoint.fingerprint(
        parts, {**asked.X, **along(asked.given, asked.steps)}, asked.error, asked.shape, asked.steps
    )
