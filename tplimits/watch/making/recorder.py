"""Recording: runs one after the other, frame by frame, into a value and a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.watch import file
from tplimits.watch.making.curves import curves
from tplimits.watch.making.networks import Neurons
from tplimits.watch.run import Run

if TYPE_CHECKING:
    from tplimits.progress import Report
    from tplimits.watch.making.asked import Asked

Array = NDArray[Any]
#: of the time of a recording, writing takes one part in so many
_SHARE = 20


@dataclass(eq=False)
class Tape:
    """The frames of one run, and what it needs to go on."""

    width: float
    seed: int
    frames: list[Mapping[str, Mapping[str, Array]]] = field(default_factory=list)
    state: Mapping[str, Array] | None = None

    @property
    def run(self) -> Run:
        """The run so far."""
        parts = {
            part: {name: numpy.stack([f[part][name] for f in self.frames]) for name in self.frames[0][part]}
            for part in ("parameters", "curves", "values")
            if self.frames
        }
        outputs = parts.get("values", {}).pop("", None)
        return Run(self.width, self.seed, **parts, outputs=outputs)


def tape_of(run: Run, state: Mapping[str, Array] | None) -> Tape:
    """The tape of a run that was recorded before."""
    values = dict(run.values) | ({} if run.outputs is None else {"": run.outputs})
    parts = {"parameters": run.parameters, "curves": run.curves, "values": values}
    frames = [
        {part: {name: array[at] for name, array in named.items()} for part, named in parts.items()}
        for at in range(run.frames)
    ]
    return Tape(run.width, run.seed, frames, state)


def take_frames(asked: Asked, tape: Tape, report: Report, done: Any) -> None:
    """Go on with a run to its end; `done` is called after each frame."""
    engine = Neurons(asked, tape.width, tape.seed)
    if tape.state is not None:
        engine.restore(tape.state)
    while len(tape.frames) < len(asked.frames):
        at = asked.frames[len(tape.frames)]
        engine.advance(at - engine.step)
        tape.frames.append(frame(asked, engine))
        last = len(tape.frames) == len(asked.frames)
        tape.state = None if last else engine.state()
        report.advance(1)
        done()


def frame(asked: Asked, engine: Neurons) -> dict[str, dict[str, Array]]:
    """What is kept of one moment: parameters in single precision, curves in double."""
    kept = {}
    for name, array in engine.parameters().items():
        thinned = array[..., : asked.samples] if engine.limit and array.ndim else array
        with numpy.errstate(over="ignore"):
            kept[name] = thinned.astype(numpy.float32)
        if not numpy.isfinite(kept[name]).all():
            raise EvaluationError(f"the parameter `{name}` overflows at step {engine.step}; give a smaller lr.")
    return {"parameters": kept, "curves": curves(asked, engine), "values": {}}


class Writer:
    """The file of a recording, written again and again as it grows."""

    def __init__(self, path: Path | None, asked: Asked, tapes: list[Tape], settings: Mapping[str, Any]) -> None:
        self.path, self.asked, self.tapes, self.settings = path, asked, tapes, settings
        self._due = 0.0

    def contents(self) -> file.Contents:
        """All that is recorded."""
        asked = self.asked
        states = {(t.width, t.seed): t.state for t in self.tapes if t.state is not None}
        runs = tuple(t.run for t in self.tapes)
        steps = numpy.array(asked.frames, dtype=numpy.int64)
        return file.Contents(asked.net, steps, runs, asked.probes, asked.labels, self.settings, states)

    def told(self) -> None:
        """A frame was taken: the file is written if it is time."""
        if self.path is not None and time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Write all that there is."""
        if self.path is None:
            return
        begun = time.monotonic()
        file.save(self.contents(), self.path)
        ended = time.monotonic()
        self._due = ended + _SHARE * (ended - begun)
