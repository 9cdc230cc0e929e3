"""What was recorded of networks in training: a value that knows every named quantity at every frame and width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError, shown
from tplimits.numbers.number import standard_error
from tplimits.pages.curves import Curve, drawn
from tplimits.pages.report import Report, Reported, document
from tplimits.program.network.data import inputs_of
from tplimits.program.nodes.given import whole_number
from tplimits.report.written import program_graph
from tplimits.watch import file
from tplimits.watch import page as page_of
from tplimits.watch.forward import Forward, rows_of

if TYPE_CHECKING:
    from os import PathLike

    from tplimits.program.nodes.program import Program
    from tplimits.progress import Progress
    from tplimits.watch.page.views import View
    from tplimits.watch.run import Run


class Average(NamedTuple):
    """Means over seeds, their standard errors, and the standard deviations of single seeds."""

    mean: Array
    error: Array
    spread: Array


@dataclass(frozen=True, eq=False)
class Recording(Reported):
    """Networks of several widths and seeds in training, with their limit.

    program: the network, with the sizes of the data.
    steps: the steps after which frames were taken, (frames,).
    probes: the inputs on which values are looked at, {input: (probes, *axes)}; `labels`, one for each probe, or none.
    settings: how it was trained, as JSON has it: parametrization, a_out, optimizers, lr, versions, …
    """

    program: Program
    steps: Array
    runs: tuple[Run, ...]
    probes: Mapping[str, Array]
    labels: Array | None
    settings: Mapping[str, Any]

    @property
    def widths(self) -> tuple[float, ...]:
        """The widths, in order; `math.inf` is the limit."""
        return tuple(dict.fromkeys(run.width for run in self.runs))

    def run(self, width: Any = None, seed: Any = None) -> Run:
        """The run of a width and a seed; of the only width, and of its first seed, where they are left out."""
        widths = self.widths
        if width is None and len(widths) > 1:
            raise EvaluationError(f"width=…: say which one; the recording has {_listed(widths)}.")
        chosen = widths[0] if width is None and widths else _number(width)
        found = [run for run in self.runs if run.width == chosen]
        if not found:
            raise EvaluationError(f"width={shown(width, 60)}: the recording has {_listed(widths)}.")
        if seed is None:
            return found[0]
        number = whole_number(seed)
        for run in found:
            if run.seed == number:
                return run
        raise EvaluationError(
            f"seed={shown(seed, 60)}: at this width the recording has {', '.join(str(r.seed) for r in found)}."
        )

    def _frame(self, run: Run, frame: Any) -> int:
        number = whole_number(frame)
        if not run.frames:
            raise EvaluationError(f"frame={frame!r:.60}: {run.title} has no frame yet.")
        if number is None or not -run.frames <= number < run.frames:
            raise EvaluationError(
                f"frame={shown(frame, 60)}: {run.title} has the frames 0, …, {run.frames - 1}, or −1 for the last."
            )
        return number % run.frames

    @property
    def loss(self) -> dict[float, Array]:
        """The loss on the training inputs by width, (seeds, frames)."""
        return self.curves("loss")

    def curves(self, name: str) -> dict[float, Array]:
        """A curve by width, (seeds, frames), of the widths that have it; frames that some seeds lack are left out."""
        found: dict[float, list[Array]] = {}
        for run in self.runs if isinstance(name, str) else ():
            if name in run.curves:
                found.setdefault(run.width, []).append(run.curves[name])
        if not found:
            known = ", ".join(dict.fromkeys(c for run in self.runs for c in run.curves)) or "none"
            raise EvaluationError(f"{shown(name, 60)} is no curve of this recording; its curves are {known}.")
        return {width: numpy.array([c[: min(map(len, many))] for c in many]) for width, many in found.items()}

    @cached_property
    def _forward(self) -> Forward:
        return Forward(self.program, self.settings)

    def parameters(self, frame: int = -1, width: Any = None, seed: Any = None) -> dict[str, Array]:
        """The parameters of a run at a frame, as `start=` and `Program.run` take them."""
        run = self.run(width, seed)
        at = self._frame(run, frame)
        return {name: numpy.array(array[at], dtype=numpy.float64) for name, array in run.parameters.items()}

    def value(self, name: str, frame: int = -1, width: Any = None, seed: Any = None, X: Any = None) -> Array:
        """A named value of the program at a frame: (probes, *axes[, n]), without probes where it does not see data.

        `X` gives other inputs than the probes.  In a limit the last axis of a vector runs over samples of its ket.

        Raises EvaluationError for what is not recorded, ProgramError for a name that the program does not have.
        """
        run = self.run(width, seed)
        at = self._frame(run, frame)
        position = self.program.position(name)
        if not run.parameters:
            return self._recorded(run, position, at, X)
        return self._forward.value(position, self._held(run, at), self._inputs(X))

    def outputs(self, frame: int = -1, width: Any = None, seed: Any = None, X: Any = None) -> Array:
        """The outputs f at a frame, (probes, *outputs)."""
        run = self.run(width, seed)
        at = self._frame(run, frame)
        if run.outputs is not None and X is None:
            return numpy.array(run.outputs[at], dtype=numpy.float64)
        if not run.parameters:
            raise EvaluationError(f"X=…: {run.title} is known on the probes alone; give other probes= to tp.watch.")
        return self._forward.outputs(self._held(run, at), self._inputs(X))

    def average(self, frame: int = -1, width: Any = None, name: str | None = None, X: Any = None) -> Average:
        """The mean over seeds at a width, or of the limit: of the outputs, or of a named value without neurons.

        Networks of a seed start at the scalars of that seed, and so does the limit: its mean over seeds is that of the
        law of training over draws, of which finite networks of the same seeds are perturbations.

        Raises EvaluationError for fewer than two seeds, and for values with an entry for every neuron.
        """
        seeds = [run.seed for run in self.runs if run.width == self.run(width).width]
        if len(seeds) < 2:
            raise EvaluationError("average(…): a mean over seeds takes two of them, at least; give seeds= to tp.watch.")
        if name is not None and self.program[self.program.position(name)].width is not None:
            raise EvaluationError(
                f"average(name={name!r:.60}): it has an entry for every neuron, and neurons of different seeds are not "
                "the same."
            )
        found = numpy.array(
            [
                self.outputs(frame, width, seed, X) if name is None else self.value(name, frame, width, seed, X)
                for seed in seeds
            ]
        )
        scale = float(abs(found).max()) or 1.0  # squares of outputs of 1e200 are no numbers
        error = standard_error(found / scale) * scale
        return Average(found.mean(axis=0), error, error * math.sqrt(len(seeds)))

    def _held(self, run: Run, at: int) -> dict[str, Any]:
        moving = {name: values[at] for name, values in self.settings.get("schedules", {}).items()}
        return {**{name: array[at] for name, array in run.parameters.items()}, **moving}

    def _inputs(self, X: Any) -> dict[str, Array]:
        return dict(self.probes) if X is None else inputs_of(self.program, X, "X")

    def _recorded(self, run: Run, position: int, at: int, X: Any) -> Array:
        if X is not None:
            raise EvaluationError(f"X=…: {run.title} is known on the probes alone; give other probes= to tp.watch.")
        for name, values in run.values.items():  # a value may have other names
            if self.program.position(name) == position:
                return numpy.array(values[at], dtype=numpy.float64)
        known = ", ".join(run.values) or "none but its outputs"
        raise EvaluationError(
            f"`{self.program[position].name}` of {run.title} was not recorded; the values are {known}."
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write one compressed .npz file, whole or not at all; `tp.load_recording` reads it."""
        parts = (self.program, self.steps, self.runs, self.probes, self.labels, self.settings)
        file.save(file.Contents(*parts, states={}), path)

    def page(
        self,
        path: str | PathLike[str],
        views: Iterable[View] | None = None,
        seeds: int | Sequence[int] = 1,
        size: float = 2.6e6,
    ) -> None:
        """Write one HTML file that opens offline and computes every value again from the recorded parameters.

        views: the panels, of `tp.views`; those that follow from the shapes of the values where they are left out.
        seeds: the runs whose parameters the page holds, by seed or how many of each width; others are curves.  size:
        about the bytes of these parameters; where there are more, frames are left out.

        Raises EvaluationError for views that the values do not have.
        """
        page_of.document.write(self, path, views, seeds, size)

    def still(self, path: str | PathLike[str], frame: int = -1, **page: Any) -> None:
        """Write a picture of the panels at a frame, .svg or .png, as an installed Chromium draws them.

        Other arguments are those of `page`.  Raises EvaluationError where no browser is installed.
        """
        page_of.film.still(self, path, frame, **page)

    def film(
        self,
        path: str | PathLike[str],
        frames: Iterable[int] | None = None,
        rate: float = 20.0,
        progress: Progress = None,
        **page: Any,
    ) -> None:
        """Write a film of the panels over training, .mp4, .webm or .gif, `rate` frames a second.

        Other arguments are those of `page`.  Raises EvaluationError where no browser is installed, or no encoder:
        ffmpeg, or Pillow for .gif.
        """
        page_of.film.film(self, path, frames, rate, progress=progress, **page)

    def report(self) -> Report:
        """The losses at every width beside the limit's, and what was recorded; `page` plays it."""
        losses = {f"{'limit' if math.isinf(w) else f'n = {w:g}'}": curve for w, curve in self.loss.items()}
        means = {name: numpy.atleast_2d(curve).mean(axis=0) for name, curve in losses.items()}
        times = tuple(map(float, self.steps))
        curves = [Curve(name, times[: len(m)], tuple(map(float, m))) for name, m in means.items()]
        return Report(
            title=f"{self.program.name} in training",
            answer=repr(self).splitlines()[0],
            text=repr(self),
            numbers=tuple((f"loss, {name}", f"{float(m[0]):.6g} → {float(m[-1]):.6g}") for name, m in means.items()),
            picture=drawn(curves, "step"),
            graph=program_graph(self.program),
            program=str(self.program),
            document=document(
                "tplimits recording", program=self.program.name, loss={n: m.tolist() for n, m in means.items()}
            ),
        )

    def __repr__(self) -> str:
        probes = rows_of(self.probes)
        count = len(self.steps)
        frames = f"{count} frame{'s' if count > 1 else ''}"
        lines = [f"{self.program.name} in training: {frames} of {self.steps[-1]} steps, {probes} probes"]
        for width in self.widths:
            runs = [run for run in self.runs if run.width == width]
            what = "limit" if runs[0].is_limit else f"width {width:g}"
            least = min(run.frames for run in runs)
            unfinished = "" if least == count else f", so far {least} of {frames}"
            lines.append(f"  {what}: {len(runs)} seed{'s' if len(runs) > 1 else ''}{unfinished}{_last(runs)}")
        return "\n".join(lines)


def _number(width: Any) -> float | None:
    """A width that is asked for; None for what is no number."""
    if isinstance(width, (float, numpy.floating)) and (math.isinf(width) or width == numpy.floor(width)):
        return float(width)
    return whole_number(width)


def _last(runs: list[Run]) -> str:
    """The curves at the end, as means over seeds."""
    shown = [c for c in ("loss", "accuracy", "held-out loss", "held-out accuracy") if all(c in r.curves for r in runs)]
    ends = [f"{c} {numpy.mean([r.curves[c][-1] for r in runs]):.4g}" for c in shown if runs[0].frames]
    return "".join(f", {end}" for end in ends)


def _listed(widths: tuple[float, ...]) -> str:
    return ", ".join("tp.inf" if math.isinf(w) else f"{w:g}" for w in widths) or "none"


def load_recording(path: str | PathLike[str]) -> Recording:
    """Read a recording that `Recording.save` or `tp.watch(path=…)` wrote; nothing in the file is run.

    >>> load_recording("pyproject.toml")
    Traceback (most recent call last):
    tplimits.errors.EvaluationError: pyproject.toml: it is damaged or no file of arrays (File is not a zip file).

    Raises EvaluationError for a file that is truncated, damaged, or no recording; OSError if it cannot be opened.
    """
    found = file.load(path)
    return Recording(found.program, found.steps, found.runs, found.probes, found.labels, found.settings)
