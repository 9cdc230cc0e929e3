"""The file of a recording: one compressed .npz archive of numbered arrays, and a header in JSON that explains them.

Names of users stand in the header alone.  Reading it runs nothing: the archive is opened without pickle, the header
and the program in it are read field by field, and every array has to have the shape that the program gives it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError, TplimitsError
from tplimits.pages.files import place_of, write_by
from tplimits.program.files.arrays import pack, unpack
from tplimits.program.files.fields import Fields, parse, refuse
from tplimits.program.files.serial import from_json, to_json
from tplimits.program.network.data import inputs_of
from tplimits.program.network.parameters import parameters
from tplimits.program.network.samples import dependent
from tplimits.program.network.schedules import scheduled
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector
from tplimits.watch.run import Run

if TYPE_CHECKING:
    from os import PathLike

    from tplimits.program.nodes.program import Program

FORMAT, VERSION = "tplimits recording", "1"
#: the most runs of a file
MAX_RUNS = 100_000
_HEADER = "header"


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file holds: the parts of a recording, and what unfinished runs need to go on, by (width, seed)."""

    program: Program
    steps: Array
    runs: tuple[Run, ...]
    probes: Mapping[str, Array]
    labels: Array | None
    settings: Mapping[str, Any]
    states: Mapping[tuple[float, int], Mapping[str, Array]]


def save(contents: Contents, path: str | PathLike[str]) -> None:
    """Write a file whole or not at all."""
    arrays: dict[str, Array] = {}

    def kept(array: Any) -> str:
        arrays[str(len(arrays))] = numpy.asarray(array)
        return str(len(arrays) - 1)

    def by_name(found: Mapping[str, Array]) -> dict[str, str]:
        return {name: kept(array) for name, array in found.items()}

    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "program": to_json(contents.program),
        "settings": dict(contents.settings),
        "steps": kept(contents.steps),
        "probes": by_name(contents.probes),
        "labels": None if contents.labels is None else kept(contents.labels),
        "runs": [],
    }
    for run in contents.runs:
        state = contents.states.get((run.width, run.seed))
        header["runs"].append(
            {
                "width": "inf" if run.is_limit else str(int(run.width)),
                "seed": str(run.seed),
                "parameters": by_name(run.parameters),
                "curves": by_name(run.curves),
                "values": by_name(run.values),
                "outputs": None if run.outputs is None else kept(run.outputs),
                "state": None if state is None else by_name(state),
            }
        )
    text = json.dumps(header, ensure_ascii=False, allow_nan=False)
    arrays[_HEADER] = numpy.frombuffer(text.encode("utf-8"), dtype=numpy.uint8)
    write_by(place_of("path", path), lambda file: pack(file, arrays, compressed=True))


def load(path: str | PathLike[str]) -> Contents:
    """Read what `save` wrote; nothing in the file is run.

    Raises EvaluationError for a file that is truncated, damaged, or no recording; OSError if it cannot be opened.
    """
    place = place_of("path", path)
    try:
        arrays = unpack(place)
        if _HEADER not in arrays or arrays[_HEADER].dtype != numpy.uint8:
            raise EvaluationError("it is no recording of tplimits")
        text = arrays.pop(_HEADER).tobytes().decode("utf-8")
        return _Reading(arrays).contents(parse(text, numbers=True))
    except UnicodeDecodeError:
        raise EvaluationError(f"{place}: its header is not UTF-8 text.") from None
    except TplimitsError as error:
        raise EvaluationError(f"{place}: {str(error).removesuffix('.')}.") from None


class _Reading:
    """One file: the arrays that are not read yet."""

    def __init__(self, arrays: dict[str, numpy.ndarray]) -> None:
        self.arrays = arrays

    def contents(self, header: Fields) -> Contents:
        """Everything, checked."""
        header.one_of("format", (FORMAT,))
        header.one_of("version", (VERSION,))
        program = from_json(header.long_text("program"))
        settings = settings_of(program, header.plain("settings"))
        steps, probes = self._array(header, "steps"), self._named(header, "probes")
        labels = self._optional(header, "labels")
        shapes = Shapes(program, settings, steps, probes, labels)
        runs: list[Run] = []
        states: dict[tuple[float, int], Mapping[str, Array]] = {}
        for fields in header.objects("runs", "run", MAX_RUNS):
            run, state = self._run(fields)
            shapes.check(run, fields.where)
            if any((run.width, run.seed) == (other.width, other.seed) for other in runs):
                refuse(fields.where, f"{run.title} stands twice", "keep one of the two")
            runs.append(run)
            if state is not None:
                states[run.width, run.seed] = state
        header.finish()
        if self.arrays:
            refuse(
                "the file", f"{len(self.arrays)} arrays that its header does not name", "it was put together wrongly"
            )
        return Contents(program, steps, tuple(runs), probes, labels, settings, states)

    def _run(self, fields: Fields) -> tuple[Run, dict[str, Array] | None]:
        width, seed = fields.plain("width"), fields.count("seed")
        if width != "inf" and not (isinstance(width, str) and re.fullmatch(r"[1-9][0-9]{0,8}", width)):
            refuse(fields.where, f"the width {width!r:.40}", 'it is a whole number in quotes, or "inf"')
        parameters, curves, values = (self._named(fields, key) for key in ("parameters", "curves", "values"))
        outputs = self._optional(fields, "outputs")
        state = None if fields.is_null("state") else self._named(fields, "state")
        fields.finish()
        return Run(math.inf if width == "inf" else int(width), seed, parameters, curves, values, outputs), state

    def _taken(self, key: str, where: str) -> numpy.ndarray:
        if key not in self.arrays:
            refuse(where, f"the array {key!r} is missing, or named twice", "it was put together wrongly")
        return self.arrays.pop(key)

    def _array(self, fields: Fields, key: str) -> numpy.ndarray:
        return self._taken(fields.text(key), f"{fields.where}, {key}")

    def _optional(self, fields: Fields, key: str) -> numpy.ndarray | None:
        return None if fields.is_null(key) else self._array(fields, key)

    def _named(self, fields: Fields, key: str) -> dict[str, numpy.ndarray]:
        return fields.mapping(key, lambda value, where: self._taken(str(value), where))


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
