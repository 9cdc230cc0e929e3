"""Whether the arrays of a file are those of a recording: shapes that follow from the program, and plain numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.files.fields import refuse
from tplimits.program.network.data import inputs_of
from tplimits.program.network.parameters import parameters
from tplimits.program.network.samples import dependent
from tplimits.program.network.schedules import scheduled
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.watch.run import Run

Array = NDArray[Any]
#: powers of a width that are none
_LARGEST = 16


def settings_of(program: Program, settings: Any) -> dict[str, Any]:
    """The settings of a file: an object that says at least what the output is, and the ratios of widths."""
    where = "the file, settings"
    if not program.is_network:
        refuse("the file, program", f"`{program.name}` is no network", "recordings are of networks")
    if not isinstance(settings, dict):
        refuse(where, "they are no object", "give names and values")
    if not _is_number(settings.get("a_out")):
        refuse(where, "a_out is missing or no number", "it is the power of the output")
    if abs(settings["a_out"]) > _LARGEST:
        refuse(where, f"a_out is {settings['a_out']:g}", "it is the power of the output")
    if not isinstance(settings.get("parametrization", ""), str):
        refuse(where, "parametrization is no text", "it is the name of a table")
    if "particles" in settings and not _is_number(settings["particles"]):
        refuse(where, "particles is no number", "so many samples the limit is trained on")
    ratios = settings.get("ratios", {})
    if not isinstance(ratios, dict) or not all(_is_number(r) and r > 0 for r in ratios.values()):
        refuse(where, "ratios are no positive numbers by name", "give the widths relative to n")
    unknown = set(ratios) - set(program.widths)
    if unknown:
        refuse(where, f"a ratio of {min(unknown)!r:.60}", f"the widths are {', '.join(program.widths)}")
    return settings


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


class Shapes:
    """The shapes that arrays of a recording have; `steps`, `probes` and `labels` are checked when it is made."""

    def __init__(
        self,
        program: Program,
        settings: Mapping[str, Any],
        steps: Array,
        probes: Mapping[str, Array],
        labels: Array | None,
    ) -> None:
        self.program, self.settings = program, settings
        if steps.ndim != 1 or steps.dtype.kind not in "iu" or not len(steps) or steps[0] < 0:
            refuse("the file, steps", "they are no whole numbers", "one for each frame")
        if (numpy.diff(steps) <= 0).any():
            refuse("the file, steps", "they do not grow", "one for each frame")
        self.frames = len(steps)
        self._check_schedules()
        try:
            self.probes = len(next(iter(inputs_of(program, probes, "probes").values())))
        except EvaluationError as error:
            refuse("the file, probes", str(error).removesuffix("."), "they are inputs of the network")
        if labels is not None and (labels.ndim < 1 or len(labels) != self.probes):
            refuse("the file, labels", f"shape {labels.shape} for {self.probes} probes", "give one for each")

    def check(self, run: Run, where: str) -> None:
        """Refuse a run with other shapes."""
        outputs = {} if run.outputs is None else {"outputs": run.outputs}
        for name, array in {**run.parameters, **run.curves, **run.values, **outputs}.items():
            if array.dtype.kind != "f" or not numpy.isfinite(array).all():
                refuse(where, f"{name!r:.60} has the type {array.dtype}, or is not finite", "give real numbers")
        if run.frames > self.frames:
            refuse(where, f"{run.frames} frames", f"the recording has {self.frames}")
        for name, array in run.curves.items():
            self._fits(where, name, array, (run.frames,))
        self._check_parameters(where, run)
        for name, array in run.values.items():
            self._check_value(where, name, array, run.frames)
        if run.outputs is not None:
            axes = tuple(dict.fromkeys(a for p in self.program.returns for a in self.program[p].axes))
            self._fits(where, "outputs", run.outputs, (run.frames, self.probes, *self._sizes(axes)))

    def _check_schedules(self) -> None:
        """The constants that move have a number at every frame."""
        found, known = self.settings.get("schedules", {}), scheduled(self.program)
        where = "the file, settings, schedules"
        if not isinstance(found, dict) or set(found) != set(known):
            refuse(where, "they are not those of the program", f"it has {', '.join(known) or 'none'}")
        for name, values in found.items():
            numbers = isinstance(values, list) and len(values) == self.frames and all(map(_is_number, values))
            if not numbers:
                refuse(where, f"{name!r:.60} is no list of {self.frames} numbers", "one for each frame")

    def _check_parameters(self, where: str, run: Run) -> None:
        known = parameters(self.program)
        if run.parameters and set(run.parameters) != set(known):
            refuse(where, f"the parameters {', '.join(run.parameters):.80}", f"the network has {', '.join(known)}")
        lengths: dict[str, int] = {} if run.is_limit else {"n": int(run.width)}
        for name, array in run.parameters.items():
            s = self.program[self.program.initial_names[name]]
            over: tuple[str, ...] = ()
            if isinstance(s, InitialMatrix):
                over = s.rows, s.columns
            elif isinstance(s, InitialVector):
                over = (s.over,)
            sizes = self._sizes(s.axes)
            found = array.shape[1 + len(sizes) :]
            if len(found) == len(over):
                for width, length in zip(over, found, strict=True):
                    lengths.setdefault(width, max(length, 1))
            expected = (run.frames, *sizes, *(lengths.get(width, 1) for width in over))
            self._fits(where, name, array, expected)

    def _check_value(self, where: str, name: str, array: Array, frames: int) -> None:
        position = self.program.position(name)
        s = self.program[position]
        probes = (self.probes,) if dependent(self.program)[position] else ()
        samples = () if s.width is None else (max(array.shape[-1:], default=1),)
        self._fits(where, name, array, (frames, *probes, *self._sizes(s.axes), *samples))

    def _sizes(self, axes: tuple[str, ...]) -> tuple[int, ...]:
        sizes = [self.program.size(a) for a in axes]
        if not all(size is not None and size.is_Integer for size in sizes):
            refuse("the file, program", f"its axes {', '.join(axes)} have no size", "recordings know all sizes")
        return tuple(int(size) for size in sizes if size is not None)

    def _fits(self, where: str, name: str, array: Array, shape: tuple[int, ...]) -> None:
        if array.shape != shape:
            refuse(where, f"{name!r:.60} has shape {array.shape}", f"it needs {shape}")
