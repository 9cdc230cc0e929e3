"""watch(): networks in training, beside their limit, as a value that remembers every frame."""

from __future__ import annotations

import importlib.metadata
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import EvaluationError
from tplimits.pages.files import check_writable, place_of
from tplimits.program.files.locks import alone
from tplimits.program.nodes.given import named_once, sent_to, working_executor
from tplimits.program.nodes.keywords import constants_apart
from tplimits.progress import Progress, Report, reporting
from tplimits.version import VERSION
from tplimits.watch import file, making
from tplimits.watch.recording import Recording

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.table import Parametrization
    from tplimits.watch.making.asked import Asked
    from tplimits.watch.making.recorder import Tape

#: the width of the limit
inf = math.inf
#: of the time of a recording, writing takes one part in so many; where waits are of more than seconds, one in fewer
_SHARE, _MOST_SHARE, _LONGEST = 20, 10, 2.0
#: so many seconds of writing are free: a run that is killed again and again soon after its start gets on
_FREE, _APART = 2.0, 1.0


@constants_apart
def watch(
    net: Program,
    X: Any,
    *,
    error: Any,
    optimizer: Any,
    lr: Any,
    steps: int,
    widths: float | Sequence[float] = (32, 128, inf),
    seeds: int | Sequence[int] = 1,
    batches: Any = None,
    probes: Any = None,
    labels: Any = None,
    every: int | Sequence[int] | None = None,
    parametrization: Parametrization | None = None,
    weight_decay: Any = 0.0,
    only: Iterable[str] | None = None,
    start: Any = None,
    gradients: bool = True,
    sharpness: bool = False,
    particles: int = 4096,
    replicates: int = 4,
    block: int = 256,
    samples: int | None = None,
    record: str | Iterable[str] | None = None,
    path: str | PathLike[str] | None = None,
    ratios: Mapping[str, float] | None = None,
    constants: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    progress: Progress = None,
    **named: Any,
) -> Recording:
    """Train a network at several widths, with its limit beside them, and remember every frame.

    X: data (N, *axes), or a dictionary of arrays; error: a loss such as `tp.cross_entropy(labels, train=…)`, whose
        other inputs are held out, or χ = error(f) or error(f, t).
    optimizer, lr, weight_decay: one for all parameters or by name, rates and decays as functions of the step, too;
        only: names of parameters that are trained.
    widths, seeds: every width with every seed (seeds: their numbers, or how many); scalar parameters that are drawn are
        the same at all widths, `tp.inf` is the limit of wide networks.
    batches: `tp.batches(size)`, the same inputs at every width; None takes all of them at every step.
    probes, labels: inputs on which values are looked at, 64 inputs of X if left out, and a number or text for each.
    every: steps between frames, or the steps themselves; about 1000 frames if left out.  Between frames limits with
        matrices follow the inputs of a step alone, and need fewer particles.
    parametrization: `tp.MUP` adjusted to the optimizer if left out.  The limit is that of feature learning in it, in
        `tp.NTP` that of the operator regime, whose outputs alone move; others have none here.
    start: parameters by name, a recording, or (recording, frame): its runs go on from there, with fresh optimizers.
    gradients: record norms of gradients, which takes a pass over all inputs at every frame.
    sharpness: record λ, the largest eigenvalue of the Hessian, of networks and of limits without matrices; plain
        gradient descent is stable for lr λ < 2.
    particles, replicates, block: as in `MaximalLimit.evaluate`; limits without matrices take `particles` Sobol points,
        other ones for each seed, half of them with the readouts of the others turned round.
    samples, record: how many samples of kets are kept, and of which values in limits with matrices.
    path: a file that is written as it goes; the same call goes on from there, bit for bit as without interruption, and
        one of more steps goes on from its end, optimizers and batches as they were there.
    Constants, sizes and initial values of parameters go by name, or in `constants`.  A constant may be a function c(t)
    of the step, asked for t = 0, …, steps: outputs, gradients and the frame of step t are those at c(t), initial laws
    those at c(0).  It is a value of the recording, under its name.

    Curves are "loss" and, where targets are classes (see `tp.squared_error`), "accuracy" on the training inputs,
    "held-out loss" and "held-out accuracy"; "gradient W" for
    every parameter, √p ‖∂loss/∂W‖ where plain gradient descent moves W by lr p ∂loss/∂W (p = n for vectors and 1 for
    matrices and scalars in μP, 1/n for matrices and 1 for vectors in NTP), so that widths can be compared; "sharpness";
    in limits with matrices "error of f", the standard error of the outputs.

    >>> import tplimits as tp
    >>> @tp.network
    ... def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.tanh(tp.sum(U * ξ, over="d"))
    >>> rec = watch(
    ...     shallow, [[1.0], [-1.0]], error=tp.squared_error([1.0, -1.0]), optimizer=tp.SGD(), lr=0.5, steps=4,
    ...     widths=(8, tp.inf), particles=64,
    ... )
    >>> rec.value("U", frame=-1, width=8).shape, rec.outputs(width=tp.inf).shape
    ((1, 8), (2,))

    Raises ProgramError and EvaluationError for what makes no sense and for training that diverges, which leaves in the
    file what was recorded before; NoLimitError where `tp.inf` has no limit.
    """
    place = None if path is None else place_of("path", path)
    given = named_once(constants, named, "watch()", EvaluationError)
    how = making.checking.Training(error, optimizer, lr, steps, weight_decay, parametrization, batches, only, start)
    looked = making.checking.Looked(
        probes, labels, every, record, samples, gradients, sharpness, particles, replicates, block
    )
    asked = making.checking.asked(net, X, how, looked, given, ratios)
    working_executor(executor, EvaluationError)
    sent_to(
        executor, {"error": error, "lr": lr, "weight_decay": weight_decay, **asked.recipe.schedules}, EvaluationError
    )
    tape = _File(place, asked)
    with alone("path", place):
        tapes = tape.tapes(making.checking.runs_of(asked, widths, seeds))
        with reporting(progress) as report:
            tape.fill(tapes, executor, report)
    found = tape.contents(tapes)
    return Recording(found.program, found.steps, found.runs, found.probes, found.labels, found.settings)


@dataclass
class _Pace:
    """How long a file that grows is not written: about what a run that is killed loses."""

    spent: float = 0.0

    def after(self, took: float) -> float:
        """Seconds to the next file from those that the last one took."""
        self.spent += took
        longest = max(_APART, took) if self.spent <= _FREE else max(_LONGEST, _MOST_SHARE * took)
        return min(_SHARE * took, longest)


class _File:
    """The file of a recording, if there is one, written again and again as it grows."""

    def __init__(self, path: Path | None, asked: Asked) -> None:
        self.path, self.asked = path, asked
        self.settings = _settings(asked)
        self._due, self._pace, self._unwritten = 0.0, _Pace(), False
        if path is not None:
            try:
                check_writable(path)
            except OSError as error:
                why = {IsADirectoryError: "it is a folder", FileNotFoundError: "its folder is missing"}.get(type(error))
                raise EvaluationError(
                    f"path={str(path)!r}: {why or error.strerror or error}. Give the name of a file, such as "
                    "'run.npz', in a folder that is there and can be written to."
                ) from None

    def tapes(self, pairs: list[tuple[float, int]]) -> list[Tape]:
        """The runs, with what was recorded of them before; what is there and not asked for stays."""
        if self.path is None or not self.path.exists():
            return [making.recorder.Tape(*pair) for pair in pairs]
        held = file.load(self.path)
        if held.settings.get("fingerprint") not in (self.asked.fingerprint, self._until(held.steps)):
            raise EvaluationError(
                f"path={str(self.path)!r}: the file holds another recording (another network, data, loss, optimizer, "
                "rate, schedule, frames, probes or version); give another path, or delete it. More steps= go on from "
                "its end where its frames are the first of the new ones: give every=."
            )
        limits = [run for run in held.runs if run.is_limit and run.frames]
        kept = [making.checking.samples_kept(held.program, run, self.asked.ratios) for run in limits]
        self.asked = replace(self.asked, kept=max(filter(None, kept), default=None))
        known = {
            (run.width, run.seed): making.recorder.Tape.of(run, held.states.get((run.width, run.seed)))
            for run in held.runs
        }
        return [known.get(pair) or making.recorder.Tape(*pair) for pair in dict.fromkeys((*pairs, *known))]

    def _until(self, steps: numpy.ndarray) -> str | None:
        """The fingerprint of the same recording up to the frames of a file; None where the file has others."""
        frames = tuple(map(int, steps))
        asked = self.asked
        return replace(asked, frames=frames).fingerprint if asked.frames[: len(frames)] == frames else None

    def contents(self, tapes: list[Tape]) -> file.Contents:
        """All that is recorded."""
        asked = self.asked
        return file.Contents(
            asked.net,
            numpy.array(asked.frames, dtype=numpy.int64),
            tuple(tape.run for tape in tapes),
            asked.probes,
            asked.labels,
            self.settings,
            {(tape.width, tape.seed): tape.state for tape in tapes if tape.state is not None},
        )

    def fill(self, tapes: list[Tape], executor: Executor | None, report: Report) -> None:
        """Take the frames that are missing."""
        missing = sum(len(self.asked.frames) - len(tape.frames) for tape in tapes)
        report.plan(missing, f"training {self.asked.net.name}, frames of {self.asked.steps} steps a run")

        def told(frames: int) -> None:
            self._unwritten = True
            report.advance(frames)
            if time.monotonic() >= self._due:
                self._write(tapes)

        self._unwritten = self.path is not None and not self.path.exists()
        try:
            making.recorder.record(self.asked, tapes, executor, told, resumable=self.path is not None)
        finally:
            self._write(tapes)

    def _write(self, tapes: list[Tape]) -> None:
        if self.path is None or not self._unwritten or not any(tape.frames for tape in tapes):
            return  # a file without frames would stand in the way of a call that is put right
        begun = time.monotonic()
        file.save(self.contents(tapes), self.path)
        ended = time.monotonic()
        self._due, self._unwritten = ended + self._pace.after(ended - begun), False


def _settings(asked: Asked) -> dict[str, Any]:
    """How it was trained, as JSON has it; rates are those of the steps after each frame."""
    recipe, detail = asked.recipe, asked.detail
    return {
        "parametrization": recipe.parametrization.name,
        "exponents": {name: [str(x) for x in e] for name, e in recipe.exponents.items()},
        "a_out": recipe.a_out,
        "optimizers": {name: str(o) for name, o in recipe.optimizers.items()},
        "lr": {name: [rate(t) for t in asked.frames[:-1]] for name, rate in recipe.rates.items()},
        "weight_decay": {name: [λ(t) for t in asked.frames[:-1]] for name, λ in recipe.decays.items() if not λ.is_zero},
        "schedules": {name: [schedule(t) for t in asked.frames] for name, schedule in recipe.schedules.items()},
        "steps": asked.steps,
        "inputs": asked.count,
        "error": type(asked.error).__name__,
        "batches": None if asked.batches is None else str(asked.batches),
        "ratios": dict(asked.ratios),
        "particles": detail.particles,
        "versions": {"tplimits": VERSION, **{name: importlib.metadata.version(name) for name in ("numpy", "numba")}},
        "fingerprint": asked.fingerprint,
    }
