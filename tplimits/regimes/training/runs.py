"""Outputs of a network along training, as a user sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.pages.curves import Curve, drawn
from tplimits.pages.matrices import coloured
from tplimits.pages.report import Report, Reported, document, with_error
from tplimits.pictures.plots import plot_training
from tplimits.program.nodes.given import whole_number
from tplimits.regimes.protocol import Shown
from tplimits.regimes.training.derivation.labels import output_labels
from tplimits.regimes.training.numbers.averages import mean_and_error


@dataclass(frozen=True, eq=False)
class TrainingRun(Reported):
    """Outputs at every step: means over replicates with their standard errors.

    `f` and `stderr` have shape (steps + 1, inputs, *outputs); `replicates` holds one run of each, before the mean.
    `grams` and `kets` hold what was recorded: ⟨x|x′⟩ (steps + 1, *axes, inputs, inputs), and samples of |x⟩
    (steps + 1, *axes, inputs, particles) from the first replicate.  Where scalar parameters are `drawn`, replicates are
    draws of them, each with the limit that belongs to it, and `stderr` is that of the mean over draws.
    """

    title: str
    f: Array
    stderr: Array
    replicates: Array
    grams: Mapping[str, Array] = field(default_factory=dict)
    kets: Mapping[str, Array] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()
    seed: int | None = None

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.f) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """What the entries of `f` are called in a check, in row order: f[t,i], or f[t,i;a] of several outputs."""
        return tuple(output_labels(self.f.shape))

    def gram(self, name: str, t: int = -1) -> Array:
        """The feature kernel ⟨x|x′⟩ of a recorded vector after step t, between all inputs."""
        return self._recorded(self.grams, name)[self._time(t)]

    def ket(self, name: str, t: int = -1) -> Array:
        """Samples of a recorded vector after step t, (*axes, inputs, particles)."""
        return self._recorded(self.kets, name)[self._time(t)]

    def _recorded(self, what: Mapping[str, Array], name: str) -> Array:
        if not isinstance(name, str) or name not in what:
            known = ", ".join(what) or "none"
            raise EvaluationError(
                f"{shown(name)} was not recorded; ask for it by evaluate(record=…). Recorded: {known}."
            )
        return what[name]

    def _time(self, t: Any) -> int:
        number = whole_number(t)
        if number is None or not -len(self.f) <= number <= self.steps:
            raise EvaluationError(f"t={shown(t)}: there are the steps 0, …, {self.steps}, or −1 for the last one.")
        return number

    def __repr__(self) -> str:
        shown = [0, 1, self.steps // 2, self.steps]
        times = sorted({t for t in shown if t <= self.steps})
        what = self._draws if self.drawn else f"{len(self.replicates)} replicates"
        lines = [f"{self.title}: {self.steps} steps, {self.f[0].size} outputs, {what}"]
        for t in times:
            size, error = float(numpy.sqrt((self.f[t] ** 2).mean())), float(numpy.sqrt((self.stderr[t] ** 2).mean()))
            first = ", ".join(f"{x:.4g}" for x in self.f[t].ravel()[:4])
            lines.append(f"  t = {t:<4} rms f {size:.4g}, rms standard error {error:.2g}; f = {first}…")
        return "\n".join(lines)

    @property
    def shown(self) -> Shown:
        """A table of all outputs with their errors, for a terminal."""
        errors = [f"± {e:.1e}" if e else "" for e in self.stderr.ravel()]
        rows = zip(self.labels, (f"{x:.6g}" for x in self.f.ravel()), errors, strict=True)
        texts = (f"means over {self._draws}, each with the limit that belongs to it",) if self.drawn else ()
        return Shown(texts, ("output", "value", "error"), tuple(rows))

    def report(self) -> Report:
        """The outputs at every step, drawn with two standard errors."""
        f, stderr = (a.reshape(len(self.f), -1) for a in (self.f, self.stderr))
        times = tuple(map(float, range(len(f))))
        curves = [
            Curve(f"f[{i}]", times, tuple(f[:, i].tolist()), tuple((2 * stderr[:, i]).tolist()))
            for i in range(f.shape[1])
        ]
        last = len(self.labels) - f.shape[1]
        ends = zip(self.labels[last:], f[-1].tolist(), stderr[-1].tolist(), strict=True)
        return Report(
            title=self.title,
            answer=repr(self).splitlines()[0],
            text=repr(self),
            numbers=tuple((name, with_error(value, error)) for name, value, error in list(ends)[:30]),
            picture=drawn(curves, "step")
            # of vectors without axes
            + coloured({f"⟨{n}|{n}′⟩ at the end": g[-1] for n, g in self.grams.items() if g.ndim == 3}),
            seed=self.seed,
            document=document(
                "tplimits training run",
                title=self.title,
                seed=self.seed,
                f=self.f.tolist(),
                stderr=self.stderr.tolist(),
            ),
        )

    @property
    def _draws(self) -> str:
        return f"{len(self.replicates)} draws of {', '.join(self.drawn)}"

    def plot(self, path: str | Path | None = None) -> Any:
        """Outputs against time with bands of twice the standard error; needs Matplotlib, returns the Figure."""
        return plot_training(self.f, self.stderr, self.title, path)


def mean_of_draws(runs: Sequence[TrainingRun], drawn: tuple[str, ...]) -> TrainingRun:
    """The mean of limits that belong to different draws, with its standard error; kets are those of the first."""
    f = numpy.array([run.f for run in runs])
    grams = {name: numpy.mean([run.grams[name] for run in runs], axis=0) for name in runs[0].grams}
    return TrainingRun(runs[0].title, *mean_and_error(f), f, grams, runs[0].kets, drawn, runs[0].seed)
