"""Recording: runs frame by frame, here or in other processes, into a file that grows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError
from tplimits.regimes.training.feature_learning import MaximalLimit
from tplimits.watch.making.kets import Kets
from tplimits.watch.making.neurons import Neurons
from tplimits.watch.making.outputs import Outputs
from tplimits.watch.run import Run

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked
    from tplimits.watch.making.engine import Engine

#: what is kept of one moment: "parameters", "curves", "values" by name, and "outputs" on the probes under ""
Frame = Mapping[str, Mapping[str, Array]]
_PARTS = ("parameters", "curves", "values", "outputs")
#: seconds that another process works before it hands over what it has
_HANDED_OVER = 3.0


@dataclass(eq=False)
class Tape:
    """The frames of one run, and what it needs to go on."""

    width: float
    seed: int
    frames: list[Frame] = field(default_factory=list)
    state: Mapping[str, Array] | None = None

    @classmethod
    def of(cls, run: Run, state: Mapping[str, Array] | None) -> Tape:
        """The tape of a run that was recorded before; without a state it goes on from its start."""
        outputs = {} if run.outputs is None else {"": run.outputs}
        parts = dict(zip(_PARTS, (run.parameters, run.curves, run.values, outputs), strict=True))
        frames: list[Frame] = [
            {part: {name: array[at] for name, array in named.items()} for part, named in parts.items()}
            for at in range(run.frames)
        ]
        return cls(run.width, run.seed, frames, state)

    @property
    def run(self) -> Run:
        """The run so far."""
        parts: dict[str, dict[str, Array]] = {part: {} for part in _PARTS}
        for part, found in parts.items():
            for name in self.frames[0][part] if self.frames else ():
                found[name] = numpy.stack([frame[part][name] for frame in self.frames])
        return Run(
            self.width, self.seed, parts["parameters"], parts["curves"], parts["values"], parts["outputs"].get("")
        )


def engine_of(asked: Asked, width: float) -> type[Engine]:
    """The engine of a width, made from (asked, width, seed); `math.inf` is the limit of the parametrization."""
    if not math.isinf(width) or asked.limit.is_neuronwise:
        return Neurons
    derived = asked.limit.derived
    for name, decay in asked.recipe.decays.items():
        if callable(decay.value):
            raise EvaluationError(
                f"weight_decay=…, `{name}`: networks and limits without matrices decay by a function of the step; "
                "the other limits are derived with one number for all steps. Give a number, or leave tp.inf out."
            )
    return Kets if isinstance(derived, MaximalLimit) else Outputs


def record(
    asked: Asked, tapes: list[Tape], executor: Executor | None, told: Callable[[int], None], resumable: bool = True
) -> None:
    """Take all frames that are missing; `told` hears how many there are more, after each addition.

    Bit for bit the same frames, whoever takes them and however often this is interrupted.  What is needed to go on
    from each of them is as large as a run itself: where nothing is `resumable`, it is not taken.
    """
    missing = [tape for tape in tapes if len(tape.frames) < len(asked.frames)]
    if executor is not None:
        _elsewhere(asked, missing, executor, told)
        return
    for tape in missing:
        for frame, state in _frames(asked, tape.width, tape.seed, len(tape.frames), tape.state, resumable):
            tape.frames.append(frame)
            tape.state = state
            told(1)


def _frames(
    asked: Asked, width: float, seed: int, done: int, state: Mapping[str, Array] | None, resumable: bool = True
) -> Iterator[tuple[Frame, dict[str, Array] | None]]:
    """The frames after the first `done`, each with what is needed to go on from it; None after the last."""
    try:
        run = engine_of(asked, width)(asked, width, seed)
        if state is not None:
            _restore(run, state)
        for step in asked.frames[done:]:
            run.advance(step)
            taken = _frame(run, step)
            last = step == asked.frames[-1]
            if last:
                run.finish()
            yield taken, run.state() if resumable and not last else None
    except EvaluationError as error:
        raise EvaluationError(f"{Run(width, seed).title}: {error}") from None
    except MemoryError:
        of = Run(width, seed)
        fewer = "fewer particles" if of.is_limit else "smaller widths"
        raise EvaluationError(f"{of.title}: it does not fit into memory; give {fewer}.") from None


def _restore(run: Engine, state: Mapping[str, Array]) -> None:
    try:
        run.restore(state)
    except (EvaluationError, KeyError, ValueError, TypeError, IndexError, AttributeError):
        raise EvaluationError("the file does not hold what is needed to go on; give another path=.") from None


def _frame(run: Engine, step: int) -> Frame:
    """What is kept of one moment: curves in double precision, everything else in single precision."""
    probes = run.on_probes()
    return {
        "parameters": _single(run.parameters(), step),
        "curves": run.curves(step),
        "values": _single(run.values(), step),
        "outputs": {} if probes is None else _single({"": probes}, step),
    }


def _single(arrays: Mapping[str, Array], step: int) -> dict[str, Array]:
    with numpy.errstate(over="ignore"):
        found = {name: numpy.asarray(array).astype(numpy.float32) for name, array in arrays.items()}
    for name in found:
        if not numpy.isfinite(found[name]).all():
            what = f"`{name}`" if name else "the output on the probes"
            raise EvaluationError(f"{what} is not finite, or beyond 1e38, at step {step}; give a smaller lr.")
    return found


def _elsewhere(asked: Asked, tapes: list[Tape], executor: Executor, told: Callable[[int], None]) -> None:
    """All runs at once, each handing over its frames every few seconds."""

    def sent(tape: Tape) -> Future[list[tuple[Frame, dict[str, Array] | None]]]:
        return executor.submit(_part, asked, tape.width, tape.seed, len(tape.frames), tape.state)

    running = {sent(tape): tape for tape in tapes}
    try:
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                tape = running.pop(future)
                taken = future.result()
                tape.frames.extend(frame for frame, _ in taken)
                tape.state = taken[-1][1]
                told(len(taken))
                if tape.state is not None:
                    running[sent(tape)] = tape
    finally:
        for future in running:
            future.cancel()


def _part(
    asked: Asked, width: float, seed: int, done: int, state: Mapping[str, Array] | None
) -> list[tuple[Frame, dict[str, Array] | None]]:
    """Some frames of a run; what is needed to go on stands beside the last alone."""
    found: list[tuple[Frame, dict[str, Array] | None]] = []
    until = time.monotonic() + _HANDED_OVER
    for taken in _frames(asked, width, seed, done, state):
        found = [(frame, None) for frame, _ in found]
        found.append(taken)
        if time.monotonic() > until and not engine_of(asked, width).in_one_go:
            break
    return found
